//! The CUDA backend on virtual cards (`ctests/fakecuda`), through the real nvml-wrapper: discovery, queues, failures.

mod cards;
mod discovery;
mod failures;
mod work;

use std::process::ExitCode;

use fakecuda::case;
use fakecuda::harness::{self, Case};

/// A card of the size of a test.
const ONE: &str = "dev=mem:1G";
const TWO: &str = "dev=name:GTX 1080 Ti,cc:6.1,mem:2G,speed:2.2;dev=name:Tesla K40,cc:3.5,mem:1G,speed:1";
/// NVML orders by place on the bus, the driver by speed: no number of the one is that of the other.
const MIXED: &str = "dev=name:A,speed:1,pci:0000:01:00.0,mem:1G,uuid:aa000000-0000-0000-0000-000000000001;\
                     dev=name:B,speed:3,pci:0000:03:00.0,mem:2G,uuid:aa100000-0000-0000-0000-000000000002;\
                     dev=name:C,speed:2,pci:0000:02:00.0,mem:3G,uuid:bb000000-0000-0000-0000-000000000003";

fn cases() -> Vec<Case> {
    vec![
        case!(discovery::orders_that_differ, MIXED),
        case!(discovery::pci_order, MIXED, "CUDA_DEVICE_ORDER" = "PCI_BUS_ID"),
        case!(discovery::visible_numbers, MIXED, "CUDA_VISIBLE_DEVICES" = "2,0"),
        case!(discovery::visible_names, MIXED, "CUDA_VISIBLE_DEVICES" = "GPU-bb,GPU-aa1"),
        case!(discovery::visible_until_the_mistake, MIXED, "CUDA_VISIBLE_DEVICES" = "1,9,0"),
        case!(discovery::visible_none, MIXED, "CUDA_VISIBLE_DEVICES" = ""),
        case!(discovery::mig, "dev=name:H100,cc:9.0,mem:80G,mig:2,uuid:cc000000-0000-0000-0000-000000000001"),
        case!(
            discovery::mig_by_the_driver_alone,
            "dev=name:H100,cc:9.0,mem:80G,mig:2,uuid:cc000000-0000-0000-0000-000000000001",
            "CASE_NVML" = "none"
        ),
        case!(discovery::closed_cards, "dev=name:A,speed:2,mode:prohibited,mem:1G;dev=name:B,mem:1G"),
        case!(
            discovery::closed_cards_by_the_driver_alone,
            "dev=name:A,speed:2,mode:prohibited,mem:1G;dev=name:B,mem:1G",
            "CASE_NVML" = "none"
        ),
        case!(discovery::nothing_but_closed_cards, "dev=mode:prohibited,mem:1G"),
        case!(discovery::driver_alone, MIXED, "CASE_NVML" = "none"),
        case!(discovery::nvml_not_loaded, "nvml=notloaded;dev=name:A,mem:1G"),
        case!(discovery::nvml_of_another_driver, "nvml=mismatch;dev=name:A,mem:1G"),
        case!(
            discovery::nvml_of_470,
            "driver=11040;dev=name:K40,cc:3.5,mem:3G,other:1G",
            "CASE_NVML" = "470"
        ),
        case!(discovery::a_card_that_nvml_cant_ask, TWO, "FAKECUDA_FAULTS" = "0:nvml:*:999"),
        case!(discovery::lost_card, "dev=name:A,speed:2,mem:1G,lost:1;dev=name:B,mem:1G"),
        case!(discovery::no_driver, "", "CASE_NVML" = "nothing"),
        case!(discovery::no_cards, ""),
        case!(discovery::old_driver, "driver=8000;dev=mem:1G"),
        case!(discovery::old_card, "dev=name:K10,cc:3.0,mem:1G"),
        case!(discovery::who_names_no_card_loads_no_driver, ONE),
        case!(work::the_used_card_alone_has_a_context, TWO),
        case!(work::memory_is_used_again, ONE),
    ]
}

fn main() -> ExitCode {
    harness::main(&cases(), env!("CARGO_TARGET_TMPDIR"))
}
