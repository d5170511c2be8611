//! GPUs that NVML, NVIDIA's management library, reports. It queries the kernel module, creates no
//! context, and lists GPUs that are hidden from this process. It may be missing, and each of its
//! calls may fail.

use std::sync::Mutex;

use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::{Device, Nvml};

use super::driver::is_forked_child;

/// A GPU, or an instance of a partitioned (MIG) GPU.
#[derive(Debug, Clone)]
pub struct NvmlDevice {
    /// `GPU-…` or `MIG-…`.
    pub uuid: String,
    pub name: String,
    /// PCI address in the driver's form, see [`short_pci`].
    pub pci: Option<String>,
    /// The compute mode excludes all programs.
    pub prohibited: bool,
    pub memory: Option<NvmlMemory>,
    pub extent: DeviceExtent,
}

impl NvmlDevice {
    pub fn is_part(&self) -> bool {
        matches!(self.extent, DeviceExtent::Part { .. })
    }
}

/// How programs can use a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeviceExtent {
    Whole,
    /// Programs can use only its instances, not the GPU itself.
    Divided,
    /// An instance of a GPU with this memory. `None`: NVML does not report it to this user.
    Part {
        of: Option<u64>,
    },
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy)]
pub struct NvmlMemory {
    pub total: u64,
    pub free: u64,
}

/// The listed devices, and messages about GPUs that NVML could not query.
pub struct NvmlList {
    pub devices: Vec<NvmlDevice>,
    pub notes: Vec<String>,
}

/// Returns NVML. It is loaded at the first success and never unloaded.
fn library() -> Result<&'static Nvml, NvmlError> {
    static LOADED: Mutex<Option<&'static Nvml>> = Mutex::new(None);
    // In a forked child the lock may belong to a thread of the parent, so nothing would release it.
    if is_forked_child() {
        return Err(NvmlError::Uninitialized);
    }
    let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(nvml) = *loaded {
        return Ok(nvml);
    }
    let nvml = Box::leak(Box::new(Nvml::init()?));
    *loaded = Some(nvml);
    Ok(nvml)
}

fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(why) => {
            std::error::Error::source(why).map_or_else(|| why.to_string(), |why| why.to_string())
        }
        other => other.to_string(),
    }
}

/// Lists all GPUs of the machine. The error is a message for users.
pub fn list() -> Result<NvmlList, String> {
    let nvml = library().map_err(|why| format!("NVML can't be used ({})", reason(&why)))?;
    let count = nvml.device_count().map_err(|why| format!("NVML can't count the GPUs ({})", reason(&why)))?;
    let mut list = NvmlList { devices: Vec::new(), notes: Vec::new() };
    for index in 0..count {
        let gpu = nvml.device_by_index(index).and_then(|gpu| Ok((gpu.uuid()?, gpu)));
        match gpu {
            Ok((uuid, gpu)) => list_device(&mut list, uuid, &gpu),
            Err(why) => list.notes.push(format!("NVML can't query its GPU {index}: {}", reason(&why))),
        }
    }
    Ok(list)
}

fn list_device(list: &mut NvmlList, uuid: String, device: &Device<'_>) {
    let memory = memory_of(device).ok();
    // GPUs that can't be partitioned report an error here.
    let divided = device.mig_mode().is_ok_and(|mode| mode.current != 0);
    let listed = NvmlDevice {
        uuid,
        name: device.name().unwrap_or_default(),
        pci: device.pci_info().ok().map(|pci| short_pci(&pci.bus_id)),
        prohibited: excludes_programs(device),
        memory,
        extent: if divided { DeviceExtent::Divided } else { DeviceExtent::Whole },
    };
    let parts = if divided { device.mig_device_count().unwrap_or(0) } else { 0 };
    for index in 0..parts {
        let Ok(part) = device.mig_device_by_index(index) else { continue };
        let Ok(uuid) = part.uuid() else { continue };
        let name = part.name().ok().filter(|name| !name.is_empty());
        list.devices.push(NvmlDevice {
            uuid,
            name: name.unwrap_or_else(|| listed.name.clone()),
            memory: memory_of(&part).ok(),
            extent: DeviceExtent::Part { of: memory.map(|memory| memory.total) },
            ..listed.clone()
        });
    }
    list.devices.push(listed);
}

/// Returns the memory of a device. Drivers up to the 470 series have only the first version of the
/// call.
fn memory_of(device: &Device<'_>) -> Result<NvmlMemory, NvmlError> {
    if let Ok(memory) = device.memory_info() {
        return Ok(NvmlMemory { total: memory.total, free: memory.free });
    }
    let nvml = library()?;
    let ask = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref();
    let ask = ask.map_err(|why| NvmlError::FailedToLoadSymbol(why.to_string()))?;
    let mut memory = std::mem::MaybeUninit::zeroed();
    // SAFETY: the handle belongs to this library, which fills in the struct if it returns 0; zeros
    // are valid.
    let memory = unsafe {
        nvml_try(ask(device.handle(), memory.as_mut_ptr()))?;
        memory.assume_init()
    };
    Ok(NvmlMemory { total: memory.total, free: memory.free })
}

/// Returns the GPU at this PCI address; for a part, the GPU that it belongs to. A search by UUID
/// fails with [`NvmlError::GpuLost`] if any GPU of the machine is lost, so it is made only if the
/// address is not known.
fn gpu<'a>(nvml: &'a Nvml, uuid: &str, pci: Option<&str>) -> Result<Device<'a>, NvmlError> {
    pci.map_or_else(|| nvml.device_by_uuid(uuid), |pci| nvml.device_by_pci_bus_id(pci))
}

/// Returns a whole GPU, or a part, which only its UUID identifies.
fn device<'a>(nvml: &'a Nvml, uuid: &str, pci: Option<&str>) -> Result<Device<'a>, NvmlError> {
    gpu(nvml, uuid, pci.filter(|_| !uuid.starts_with("MIG-")))
}

/// Returns the memory of the device with this UUID, on a GPU at this PCI address.
pub fn memory(uuid: &str, pci: Option<&str>) -> Option<NvmlMemory> {
    memory_of(&device(library().ok()?, uuid, pci).ok()?).ok()
}

/// Returns the bytes of the device, see [`memory`], that this process uses. `None`: NVML does not
/// report them, or lists the process under its number outside a container.
pub fn own_bytes(uuid: &str, pci: Option<&str>) -> Option<u64> {
    let processes = device(library().ok()?, uuid, pci).ok()?.running_compute_processes().ok()?;
    match processes.iter().find(|process| process.pid == std::process::id())?.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    }
}

/// Returns true if the GPU of the device, see [`memory`], has fallen off the bus. Not all drivers
/// report it by that code. If the driver can't reach the GPU (`suspected`), the NVML codes
/// "unknown" and "not found" count, too.
pub fn is_lost(uuid: &str, pci: Option<&str>, suspected: bool) -> bool {
    let gone = |why: NvmlError| match why {
        NvmlError::GpuLost => true,
        NvmlError::ResetRequired | NvmlError::Unknown | NvmlError::NotFound => suspected,
        _ => false,
    };
    library().is_ok_and(|nvml| gpu(nvml, uuid, pci).and_then(|gpu| memory_of(&gpu)).is_err_and(gone))
}

/// Returns true if the compute mode of the device, see [`memory`], excludes all programs.
pub fn is_prohibited(uuid: &str, pci: Option<&str>) -> bool {
    library().is_ok_and(|nvml| gpu(nvml, uuid, pci).is_ok_and(|gpu| excludes_programs(&gpu)))
}

fn excludes_programs(gpu: &Device<'_>) -> bool {
    matches!(gpu.compute_mode(), Ok(ComputeMode::Prohibited))
}

/// Converts NVML's `00000000:01:00.0` to the driver's `0000:01:00.0`, in capitals.
pub fn short_pci(id: &str) -> String {
    let id = id.to_ascii_uppercase();
    match id.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[domain.len() - 4..])
        }
        _ => id,
    }
}
