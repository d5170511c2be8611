//! The virtual driver. Each case runs in a process of its own with its own virtual machine.

mod node;
mod raw;
mod work;

use std::process::ExitCode;

use testkit::case;
use testkit::virtual_gpus::{self, Case};

const ONE: &str = "dev=cc:7.0,mem:1G";
const TWO: &str = "dev=name:GTX 1080 Ti,cc:6.1,mem:11G,speed:2.2;dev=name:Tesla K40,cc:3.5,mem:3G,speed:1";

fn cases() -> Vec<Case> {
    vec![
        case!(work::launches_are_asynchronous_and_take_their_time, "pace=20;dev=cc:7.0,mem:1G"),
        case!(work::memory_is_counted, "dev=mem:64M,ctx:8M"),
        case!(work::fresh_memory_is_poisoned_and_no_host_memory, ONE),
        case!(work::modules_are_checked, "driver=11040;dev=cc:3.5,mem:1G;dev=cc:3.0,mem:1G"),
        case!(work::launch_limits, ONE),
        case!(work::report_counts_what_is_left, TWO),
        case!(work::child_of_a_fork_gets_nothing, ONE),
        case!(work::poisoned_gpu_poisons_no_other, TWO, "FAKECUDA_FAULTS" = "0:launch:2:719"),
        case!(work::out_of_bounds_is_illegal_address, TWO, "FAKECUDA_QUIET" = "1"),
        case!(work::kernels_that_go_wrong, "fuel=1e6;dev=mem:1G", "FAKECUDA_QUIET" = "1"),
        case!(node::memory_is_of_all, "dev=mem:64M,ctx:8M;dev=mem:64M,ctx:8M"),
    ]
}

fn main() -> ExitCode {
    virtual_gpus::main(&cases())
}
