//! NVML by nvml-wrapper, beside the driver.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;

use crate::raw::*;
use crate::work::filler;

/// The UUID of a device as the driver has it, in NVML's words.
fn uuid(ordinal: i32, prefix: &str) -> String {
    let mut uuid = [0u8; 16];
    assert_eq!(cu!(cuDeviceGetUuid_v2(&mut uuid => &mut [u8; 16], ordinal => i32)), 0);
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn total(ordinal: i32) -> u64 {
    let mut bytes = 0usize;
    assert_eq!(cu!(cuDeviceTotalMem_v2(&mut bytes => &mut usize, ordinal => i32)), 0);
    bytes as u64
}

pub fn orders_disagree_and_names_agree() {
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    let nvml = Nvml::init().expect("NVML");
    assert_eq!(nvml.device_count().expect("a count"), 3);
    let mut places = Vec::new();
    for ordinal in 0..3 {
        let device = nvml.device_by_uuid(uuid(ordinal, "GPU")).expect("the same card");
        assert_eq!(device.memory_info().expect("memory").total, total(ordinal));
        let mut bus = [0u8; 32];
        assert_eq!(cu!(cuDeviceGetPCIBusId(bus.as_mut_ptr() => *mut u8, 32 => i32, ordinal => i32)), 0);
        let bus =
            std::ffi::CStr::from_bytes_until_nul(&bus).expect("text").to_str().expect("text").to_string();
        let by_bus = nvml.device_by_pci_bus_id(bus.as_str()).expect("by its place");
        assert_eq!(by_bus.uuid().expect("uuid"), device.uuid().expect("uuid"));
        assert_eq!(device.pci_info().expect("pci").bus_id, format!("0000{bus}"));
        places.push(device.index().expect("an index"));
    }
    assert_eq!(places, [2, 1, 0]);
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
    assert!(matches!(nvml.device_by_index(3), Err(NvmlError::InvalidArg)));
}

pub fn masks_hide_from_the_driver_only() {
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    let mut count = 0i32;
    assert_eq!(cu!(cuDeviceGetCount(&mut count => &mut i32)), 0);
    assert_eq!((count, total(0)), (1, 3 << 30));
    assert_eq!(retain(1), Err(101));
    let nvml = Nvml::init().expect("NVML");
    assert_eq!(nvml.device_count().expect("a count"), 3);
    assert_eq!(nvml.device_by_uuid(uuid(0, "GPU")).expect("it").index().expect("an index"), 1);
}

pub fn what_a_card_tells() {
    let nvml = Nvml::init().expect("NVML");
    assert_eq!(nvml.sys_cuda_driver_version().expect("a version"), 12090);
    let device = nvml.device_by_index(0).expect("a card");
    assert_eq!(device.name().expect("a name"), "Virtual Card 0");
    assert_eq!(device.compute_mode().expect("a mode"), ComputeMode::Default);
    assert_eq!(device.cuda_compute_capability().expect("cc").major, 8);
    assert_eq!(device.mig_mode().expect("MIG").current, 0);
    assert!(matches!(nvml.device_by_index(1).expect("a card").mig_mode(), Err(NvmlError::NotSupported)));
    assert!(device.running_compute_processes().expect("processes").is_empty());
    assert_eq!(device.memory_info().expect("memory").used, 0);
    // The same numbers as the driver's, once there is a context.
    assert_eq!(retain(2).map(|_| ()), Ok(()));
    alloc(50 << 20).expect("memory");
    let memory = device.memory_info().expect("memory");
    assert_eq!((memory.free as usize, memory.total as usize), info());
    let processes = device.running_compute_processes().expect("processes");
    assert_eq!(processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [std::process::id()]);
}

pub fn mig() {
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    let nvml = Nvml::init().expect("NVML");
    let card = nvml.device_by_index(0).expect("the card");
    assert_eq!(card.mig_mode().expect("MIG").current, 1);
    let instance = card.mig_device_by_index(0).expect("an instance");
    assert!(card.mig_device_by_index(2).is_err());
    assert_eq!(instance.uuid().expect("uuid"), uuid(0, "MIG"));
    assert_eq!(instance.memory_info().expect("memory").total, 40 << 30);
    assert_eq!(total(0), 40 << 30);
    let parent = instance.mig_parent_device().expect("the card");
    assert_eq!(parent.memory_info().expect("memory").total, 80 << 30);
    let mut old = [0u8; 16];
    assert_eq!(cu!(cuDeviceGetUuid(&mut old => &mut [u8; 16], 0 => i32)), 0);
    assert!(card.uuid().expect("uuid").starts_with(&format!("GPU-{:02x}{:02x}", old[0], old[1])));
    nvml.device_by_uuid(uuid(0, "MIG")).expect("the instance by its name");
}

pub fn profile_470() {
    let nvml = Nvml::init().expect("NVML");
    let device = nvml.device_by_index(0).expect("a card");
    assert!(matches!(device.memory_info(), Err(NvmlError::FailedToLoadSymbol(_))));
    assert!(matches!(device.running_compute_processes(), Err(NvmlError::FailedToLoadSymbol(_))));
    assert!(device.running_compute_processes_v2().expect("processes").is_empty());
    let old = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref().expect("the old function");
    // SAFETY: a structure of three numbers, as the old function has it.
    let memory = unsafe {
        let mut memory = std::mem::zeroed();
        assert_eq!(old(device.handle(), &mut memory), 0);
        memory
    };
    assert_eq!((memory.total, memory.free), (3 << 30, 3 << 30));
}

pub fn no_library() {
    assert!(matches!(Nvml::init(), Err(NvmlError::LibloadingError(_))));
    retain(0).expect("the driver alone");
    assert_eq!(info().1, 1 << 30);
}

pub fn driver_not_loaded() {
    assert!(matches!(Nvml::init(), Err(NvmlError::DriverNotLoaded)));
}

pub fn events() {
    retain(0).expect("a context");
    let nvml = Nvml::init().expect("NVML");
    let set = nvml.create_event_set().expect("a set");
    let device = nvml.device_by_index(0).expect("a card");
    let set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).expect("registered");
    assert!(matches!(set.wait(10), Err(NvmlError::Timeout)));
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    let event = set.wait(5000).expect("an event");
    let told = format!("{:?}", event.event_data);
    assert!(told.contains("31"), "{told}");
    assert!(matches!(set.wait(10), Err(NvmlError::Timeout)));
}
