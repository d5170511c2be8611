//! The real cudarc and nvml-wrapper on our two libraries. Each case runs in a process of its
//! own with its own virtual machine.

#[path = "../common/mod.rs"]
mod common;

mod failures;
mod node;
mod nvml;
mod raw;
mod work;

use std::process::ExitCode;

use fakecuda::case;
use fakecuda::harness::{self, Case};

const ONE: &str = "dev=cc:7.0,mem:1G";
const TWO: &str = "dev=name:GTX 1080 Ti,cc:6.1,mem:11G,speed:2.2;dev=name:Tesla K40,cc:3.5,mem:3G,speed:1";
/// The order of NVML (by PCI) is not that of the driver (by speed).
const MIXED: &str = "dev=speed:1,pci:0000:01:00.0,cc:8.0,mem:8G;dev=speed:3,pci:0000:03:00.0,mem:2G;\
                     dev=speed:2,pci:0000:02:00.0,mem:3G";

fn cases() -> Vec<Case> {
    vec![
        case!(work::a_stencil_on_two_cards, TWO),
        case!(work::launches_are_asynchronous, "pace=20;dev=cc:7.0,mem:1G"),
        case!(work::speeds_are_kept, "pace=40;dev=speed:4,mem:1G;dev=speed:1,mem:1G"),
        case!(work::events_have_generations, "pace=20;dev=cc:7.0,mem:1G"),
        case!(work::memory_is_counted, "dev=mem:64M,ctx:8M"),
        case!(work::fresh_memory_is_poisoned_and_no_host_memory, ONE),
        case!(work::modules_are_checked, "driver=11040;dev=cc:3.5,mem:1G;dev=cc:3.0,mem:1G"),
        case!(work::launch_limits, ONE),
        case!(work::sixteen_threads, TWO),
        case!(work::nothing_is_left_and_the_unused_card_untouched, TWO),
        case!(work::a_child_of_a_fork_gets_nothing, ONE),
        case!(work::no_cards, ""),
        case!(failures::codes_come_back_as_they_are, ONE, "FAKECUDA_FAULTS" = failures::CODES),
        case!(failures::a_poisoned_card_poisons_no_other, TWO, "FAKECUDA_FAULTS" = "0:launch:2:719"),
        case!(
            failures::every_sticky_code_stays,
            "dev=mem:1G",
            "FAKECUDA_FAULTS" = "0:sync:1:214;0:sync:2:715"
        ),
        case!(failures::out_of_bounds_is_illegal_address, TWO, "FAKECUDA_QUIET" = "1"),
        case!(failures::kernels_that_go_wrong, "fuel=1e6;dev=mem:1G", "FAKECUDA_QUIET" = "1"),
        case!(failures::a_hang_ends_with_a_reset, TWO, "FAKECUDA_FAULTS" = "0:launch:1:hang"),
        case!(failures::a_card_falls_out, TWO, "FAKECUDA_FAULTS" = "0:launch:2:lost"),
        case!(failures::memory_taken_by_another, ONE, "FAKECUDA_FAULTS" = "0:alloc:2:take=900e6"),
        case!(
            failures::cards_that_may_not_be_used,
            "dev=mode:prohibited;dev=mode:exclusive,other:1M;dev=mode:exclusive"
        ),
        case!(node::memory_is_of_all, "dev=mem:64M,ctx:8M;dev=mem:64M,ctx:8M"),
        case!(node::a_card_of_one_process, "dev=mode:exclusive,mem:64M"),
        case!(nvml::orders_disagree_and_names_agree, MIXED),
        case!(
            nvml::masks_hide_from_the_driver_only,
            MIXED,
            "CUDA_VISIBLE_DEVICES" = "1",
            "CUDA_DEVICE_ORDER" = "PCI_BUS_ID"
        ),
        case!(nvml::what_a_card_tells, MIXED),
        case!(nvml::mig, "dev=cc:9.0,mem:80G,mig:2,name:H100"),
        case!(nvml::profile_470, "driver=11040;dev=cc:3.5,mem:3G", "CASE_NVML" = "470"),
        case!(nvml::no_library, ONE, "CASE_NVML" = "none"),
        case!(nvml::driver_not_loaded, "nvml=notloaded;dev=mem:1G"),
        case!(nvml::events, ONE, "FAKECUDA_FAULTS" = "0:launch:1:700"),
    ]
}

fn main() -> ExitCode {
    harness::main(&cases(), env!("CARGO_TARGET_TMPDIR"))
}
