//! NVML. A handle is the GPU's place in `FAKECUDA` plus one; the second byte is the number of a MIG
//! instance, or 0.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fakecuda::config::GpuSpec;
use fakecuda::driver::{Driver, lock};
use fakecuda::faults::Effect;
use fakecuda::node::Node;

use crate::attributes::text;

pub type Device = usize;

const UNINITIALIZED: c_int = 1;
const INVALID: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NO_PERMISSION: c_int = 4;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;
const FUNCTION_NOT_FOUND: c_int = 13;
const GPU_LOST: c_int = 15;

static USERS: AtomicU32 = AtomicU32::new(0);

fn initialised() -> Result<&'static Driver, c_int> {
    if USERS.load(Ordering::Relaxed) == 0 { Err(UNINITIALIZED) } else { Ok(Driver::get()) }
}

fn index(device: Device) -> Result<usize, c_int> {
    (device & 0xff).checked_sub(1).filter(|gpu| *gpu < Driver::get().gpus.len()).ok_or(INVALID)
}

fn spec(device: Device) -> Result<&'static GpuSpec, c_int> {
    Ok(&Driver::get().gpus[index(device)?].spec)
}

fn touch(device: Device) -> Result<usize, c_int> {
    let (driver, index) = (initialised()?, index(device)?);
    for effect in driver.faults.count(index, "nvml") {
        match effect {
            Effect::Code(code) => return Err(code),
            Effect::Lost => return Err(GPU_LOST),
            _ => {}
        }
    }
    let gpu = &driver.gpus[index];
    if gpu.lost() { Err(gpu.spec.gone) } else { Ok(index) }
}

fn memory(device: Device) -> Result<(u64, u64), c_int> {
    let index = touch(device)?;
    let gpu = &Driver::get().gpus[index];
    let spec = &gpu.spec;
    if spec.integrated {
        return Err(NOT_SUPPORTED);
    }
    // Only the administrator may read the memory of a whole GPU that is divided.
    if device <= 0xff && spec.mig > 0 && !Driver::get().config.root {
        return Err(NO_PERMISSION);
    }
    let total = if device > 0xff { spec.usable() } else { spec.memory };
    let (used, other) = {
        let state = lock(&gpu.state);
        (state.used, state.other)
    };
    let used = Node::get().map_or(used, |node| node.in_use(index));
    Ok((total, (used + other).min(total)))
}

macro_rules! nvml {
    ($( fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block )*) => { $(
        /// # Safety
        /// As NVML asks of its callers.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: the caller's pointers are valid; handles are numbers.
            #[allow(unused_unsafe)]
            let run = || -> Result<(), c_int> { unsafe { $body }; Ok(()) };
            run().err().unwrap_or(0)
        }
    )* };
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    numbers: [c_uint; 5],
    bus_id: [c_char; 32],
}

#[repr(C)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    instances: [c_uint; 2],
}

nvml! {
    fn nvmlInit_v2() {
        let config = &Driver::get().config;
        std::thread::sleep(Duration::from_millis(config.nvml_ms));
        if config.nvml != 0 { return Err(config.nvml as c_int) }
        USERS.fetch_add(1, Ordering::Relaxed);
    }
    fn nvmlShutdown() {
        initialised()?;
        USERS.fetch_sub(1, Ordering::Relaxed);
    }
    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        *count = initialised()?.gpus.len() as c_uint;
    }
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Device) {
        let gpu = *initialised()?.config.pci_order().get(index as usize).ok_or(INVALID)?;
        touch(gpu + 1)?;
        *device = gpu + 1;
    }
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Device) {
        let wanted = CStr::from_ptr(uuid).to_string_lossy();
        // The search may initialise any GPU on its way, and fails if one is lost.
        if let Some(lost) = initialised()?.gpus.iter().find(|gpu| gpu.lost()) { return Err(lost.spec.gone) }
        for (gpu, spec) in initialised()?.config.gpus.iter().enumerate() {
            let instance = (0..spec.mig).find(|i| spec.mig_uuid_text(*i).eq_ignore_ascii_case(&wanted));
            if let Some(instance) = instance {
                *device = (gpu + 1) | ((instance as usize + 1) << 8);
                return Ok(());
            }
            if spec.uuid_text().eq_ignore_ascii_case(&wanted) {
                touch(gpu + 1)?;
                *device = gpu + 1;
                return Ok(());
            }
        }
        Err::<(), _>(NOT_FOUND)?
    }
    fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, device: *mut Device) {
        let wanted = CStr::from_ptr(id).to_string_lossy().to_ascii_uppercase();
        let gpus = &initialised()?.config.gpus;
        let at = |spec: &GpuSpec| [4, 8].iter().any(|digits| spec.pci_text(*digits) == wanted);
        let gpu = gpus.iter().position(at).ok_or(NOT_FOUND)?;
        touch(gpu + 1)?;
        *device = gpu + 1;
    }
    fn nvmlDeviceGetName(device: Device, name: *mut c_char, length: c_int) {
        touch(device)?;
        text(name, length, &spec(device)?.name)?
    }
    fn nvmlDeviceGetUUID(device: Device, uuid: *mut c_char, length: c_int) {
        touch(device)?;
        match device >> 8 {
            0 => text(uuid, length, &spec(device)?.uuid_text())?,
            instance => text(uuid, length, &spec(device)?.mig_uuid_text(instance as u32 - 1))?,
        }
    }
    fn nvmlDeviceGetPciInfo_v3(device: Device, pci: *mut Pci) {
        touch(device)?;
        let spec = spec(device)?;
        let (domain, bus, place) = spec.pci;
        *pci = Pci { legacy: [0; 16], numbers: [domain, bus, place, 0x1b06_10de, 0], bus_id: [0; 32] };
        text((*pci).legacy.as_mut_ptr(), 16, &spec.pci_text(4))?;
        text((*pci).bus_id.as_mut_ptr(), 32, &spec.pci_text(8))?
    }
    fn nvmlDeviceGetMemoryInfo(device: Device, info: *mut Memory) {
        let (total, used) = memory(device)?;
        *info = Memory { total, free: total - used, used };
    }
    fn nvmlDeviceGetMemoryInfo_v2(device: Device, info: *mut MemoryV2) {
        if !Driver::get().config.nvml_new { return Err(FUNCTION_NOT_FOUND) }
        let (total, used) = memory(device)?;
        let version = (*info).version;
        if version != (size_of::<MemoryV2>() as c_uint | 2 << 24) { return Err(INVALID) }
        *info = MemoryV2 { version, total, reserved: 0, free: total - used, used };
    }
    fn nvmlDeviceGetComputeRunningProcesses_v3(device: Device, count: *mut c_uint, list: *mut Process) {
        if !Driver::get().config.nvml_new { return Err(FUNCTION_NOT_FOUND) }
        // Other processes are not listed.
        let used = lock(&Driver::get().gpus[touch(device)?].state).used;
        let room = *count;
        *count = (used > 0).into();
        if *count > room { return Err(INSUFFICIENT_SIZE) }
        if used > 0 { *list = Process { pid: std::process::id(), used, instances: [c_uint::MAX; 2] } }
    }
    fn nvmlDeviceGetComputeMode(device: Device, mode: *mut c_uint) {
        *mode = Driver::get().gpus[touch(device)?].mode() as c_uint;
    }
    fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) {
        touch(device)?;
        if spec(device)?.cc.0 < 8 { return Err(NOT_SUPPORTED) }
        *current = spec(device)?.divided.into();
        *pending = *current;
    }
    fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: *mut c_uint) {
        touch(device)?;
        *count = 7;
    }
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Device, index: c_uint, mig: *mut Device) {
        let gpu = touch(device)?;
        for effect in Driver::get().faults.count(gpu, "mig") {
            if let Effect::Code(code) = effect { return Err(code) }
        }
        if index >= spec(device)?.mig { return Err(NOT_FOUND) }
        *mig = (device & 0xff) | ((index as usize + 1) << 8);
    }
}
