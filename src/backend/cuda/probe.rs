//! Finds the GPUs without creating a context on any of them.
//!
//! NVML lists all GPUs of the machine. The driver lists those that this process may use, in its own
//! order (`CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`). Entries are matched by UUID, or else by
//! place on the PCI bus; ordinals are never compared.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUuuid};

use super::driver::{self, Driver, DriverFailure, DriverResult, LIBRARY, NoDriver};
use super::nvml::{self, DeviceExtent, NvmlDevice};
use super::status::{self, StatusClass};
use crate::backend::cpu::free_bytes;
use crate::backend::search::CpuFallback;
use crate::descriptor::{self, OccupiedStreams};
use crate::device::{BackendKind, DeviceInfo, Health};
use crate::error::{Error, Result};

/// Compute capability for which the kernels are compiled. GPUs from this one on run them.
const MIN_CAPABILITY: (u32, u32) = (3, 5);
/// The driver's value of the compute mode that excludes all programs.
const PROHIBITED: c_int = 2;
const NO_DEVICE: u32 = 100;
/// First CUDA version whose driver reports the UUID of a part. Older ones report that of its GPU.
const PART_UUIDS_SINCE: i32 = 11040;

/// Result of a probe.
#[derive(Debug, Clone, Default)]
pub struct ProbeResult {
    pub devices: Vec<ProbedDevice>,
    /// Messages for users: what is missing or unusable, why, and what to do.
    pub notes: Vec<String>,
    pub cpu_fallback: CpuFallback,
}

#[derive(Debug, Clone)]
pub struct ProbedDevice {
    pub info: DeviceInfo,
    pub device: CUdevice,
    pub multiprocessors: u32,
    /// NVML lists the device by its UUID.
    pub listed: bool,
    /// The device shares the host's memory.
    pub integrated: bool,
}

/// Searches for GPUs. A driver that is not ready is initialised again after each time of `backoff`.
/// Fails if the process can open no file: then nothing says whether there are GPUs.
pub fn probe(backoff: &[Duration]) -> Result<ProbeResult> {
    let _occupied = OccupiedStreams::here();
    let mut found = ProbeResult::default();
    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(none) => {
            if let Err(why) = descriptor::open_read("/dev/null".as_ref())
                && matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
            {
                return Err(Error::io("search for GPUs with", LIBRARY.as_ref(), why));
            }
            // Without a driver, NVML is useless, too.
            let (why, cpu_fallback) = match none {
                NoDriver::Missing(why) => (why, CpuFallback::Quiet),
                NoDriver::Unusable(why) => (why, CpuFallback::Warned),
            };
            return Ok(ProbeResult { notes: vec![why], cpu_fallback, ..found });
        }
    };
    driver::begin_search();
    // Fails harmlessly if the driver is not initialised: no code can capture a graph then.
    let _relaxed = driver.relaxed();
    // Before NVML's list, which may change while the driver is not ready.
    let initialised = initialise(driver, backoff);
    let listed = match nvml::list() {
        Ok(list) => {
            found.notes.extend(list.notes);
            list.devices
        }
        Err(why) => {
            found.notes.push(why);
            Vec::new()
        }
    };
    if let Err(why) = probe_devices(driver, initialised, &listed, &mut found) {
        found.notes.push(why);
    }
    driver::end_search(!found.devices.is_empty() || found.cpu_fallback == CpuFallback::Refused);
    Ok(found)
}

/// Initialises the driver. Waits while the driver, or a service that it needs, is not ready.
fn initialise(driver: &Driver, backoff: &[Duration]) -> DriverResult {
    // SAFETY: the flags must be 0 and are.
    let init = || unsafe { driver.init(0) };
    let mut done = init();
    for wait in backoff {
        match done {
            Err(failure) if status::class_of(failure.code) == StatusClass::Busy => {
                log::warn!(
                    "tries again in {} s to use NVIDIA's driver: {}",
                    wait.as_secs_f64(),
                    failure.message()
                );
                std::thread::sleep(*wait);
                done = init();
            }
            _ => break,
        }
    }
    done
}

fn probe_devices(
    driver: &Driver,
    initialised: DriverResult,
    listed: &[NvmlDevice],
    found: &mut ProbeResult,
) -> std::result::Result<(), String> {
    let mut unusable = |failure: DriverFailure| {
        let is_busy = status::class_of(failure.code) == StatusClass::Busy;
        found.cpu_fallback = if is_busy { CpuFallback::Refused } else { CpuFallback::Warned };
        format!("NVIDIA's driver can't be used: {}; nvidia-smi may report more", failure.message())
    };
    match initialised {
        Ok(()) => {}
        Err(failure) if failure.code == NO_DEVICE => {
            let all_divided = listed.iter().all(|gpu| gpu.extent == DeviceExtent::Divided);
            return Err(
                match (note_without_parts(listed, &found.devices).filter(|_| all_divided), visible()) {
                    (Some(note), _) => note,
                    (None, Some(visible)) if !listed.is_empty() => {
                        format!("CUDA_VISIBLE_DEVICES={visible} hides every GPU from this process")
                    }
                    _ => "NVIDIA's driver finds no GPU".into(),
                },
            );
        }
        Err(failure) => return Err(unusable(failure)),
    }
    let mut count = 0;
    // SAFETY: a valid place for the number.
    unsafe { driver.device_count(&mut count) }.map_err(unusable)?;
    for ordinal in 0..count {
        match probe_device(driver, ordinal, listed, &mut found.notes) {
            Ok(gpu) => found.devices.push(gpu),
            Err(failure) => {
                found.notes.push(format!("cuda:{ordinal} can't be queried: {}", failure.message()))
            }
        }
    }
    note_hidden(listed, found);
    found.notes.extend(note_without_parts(listed, &found.devices));
    Ok(())
}

fn probe_device(
    driver: &Driver,
    ordinal: c_int,
    listed: &[NvmlDevice],
    notes: &mut Vec<String>,
) -> DriverResult<ProbedDevice> {
    let mut device = 0;
    // SAFETY: a valid place for the number.
    unsafe { driver.device(&mut device, ordinal)? };
    // SAFETY: the driver writes texts with a final zero and cuts them to the given length.
    let name = text(|to, room| unsafe { driver.device_name(to, room, device) })?;
    // SAFETY: see above.
    let pci = text(|to, room| unsafe { driver.device_pci(to, room, device) });
    let pci = pci.ok().map(|pci| nvml::short_pci(&pci));
    // SAFETY: the driver writes 16 bytes.
    let own = uuid(|to| unsafe { driver.device_uuid(to, device) })?;
    // SAFETY: see above.
    let parent = uuid(|to| unsafe { driver.parent_uuid(to, device) }).unwrap_or(own);
    let mut total = 0;
    // SAFETY: a valid place for the number.
    unsafe { driver.device_memory(&mut total, device)? };
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: a valid place for the number; an attribute that the driver does not know is an
        // error.
        unsafe { driver.device_attribute(&mut value, which, device) }.map(|()| value)
    };
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
    );

    let divided = if driver.is_older_than(PART_UUIDS_SINCE) { divided_gpu(listed, own) } else { None };
    let part = divided.is_some() || own != parent;
    let same = match divided {
        Some(gpu) => chosen_part(listed, gpu),
        None => nvml_entry(listed, own, part, pci.as_deref()),
    };
    let id = same.or(divided).map(|same| same.uuid.clone());
    let id = id.unwrap_or_else(|| format_uuid(if part { "MIG" } else { "GPU" }, own));
    let memory = same.and_then(|same| same.memory);
    let total = total as u64;
    let whole = match same.map(|same| same.extent) {
        Some(DeviceExtent::Part { of }) => of,
        _ => (!part).then_some(total),
    };
    let integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED) == Ok(1);
    let prohibited = same.is_some_and(|same| same.prohibited)
        || attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == Ok(PROHIBITED);
    let is_unknown = divided.is_some() && same.is_none();
    let (health, note) = if is_unknown {
        (Health::Barred, Some(unknown_part(ordinal, &id)))
    } else {
        health(ordinal, &id, pci.as_deref(), prohibited, capability)
    };
    notes.extend(note);
    let clock = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).unwrap_or(0);
    let width = attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0);
    let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap_or(1);
    let info = DeviceInfo {
        id,
        backend: BackendKind::Cuda,
        ordinal: ordinal as u32,
        name,
        pci_bus_id: pci,
        compute_capability: Some(capability),
        cpu_threads: None,
        total_bytes: total,
        context_bytes: 0,
        free_bytes: usable_free_bytes(memory.map_or(total, |memory| memory.free.min(total)), integrated),
        // Without the size of the whole GPU, no estimate is better than one that is many times too
        // high.
        speed: bandwidth(clock, width)
            .zip(whole)
            .map(|(speed, whole)| speed * total as f64 / whole.max(total) as f64),
        health,
    };
    let multiprocessors = multiprocessors.max(1) as u32;
    Ok(ProbedDevice { info, device, multiprocessors, listed: same.is_some(), integrated })
}

/// Returns the health of a device, and a message if it can't be used.
fn health(
    ordinal: c_int,
    id: &str,
    pci: Option<&str>,
    prohibited: bool,
    capability: (u32, u32),
) -> (Health, Option<String>) {
    let label = format!("cuda:{ordinal}");
    if nvml::is_lost(id, pci, false) {
        let note = format!("{label} ({id}) has fallen off the bus; restart the machine");
        (Health::Retired, Some(note))
    } else if prohibited {
        let note = format!(
            "{label} ({id}) is closed to programs (compute mode prohibited); its administrator can open it: \
             nvidia-smi -i {id} -c DEFAULT"
        );
        (Health::Barred, Some(note))
    } else if capability < MIN_CAPABILITY {
        let note = format!(
            "{label} ({id}) has compute capability {}.{}; the kernels need {}.{} or more",
            capability.0, capability.1, MIN_CAPABILITY.0, MIN_CAPABILITY.1
        );
        (Health::Barred, Some(note))
    } else {
        (Health::Good, None)
    }
}

/// Returns the reported free bytes. For integrated memory, returns at most the host's free bytes.
pub fn usable_free_bytes(reported: u64, integrated: bool) -> u64 {
    if integrated { reported.min(free_bytes()) } else { reported }
}

/// Returns bytes per second: two words of `width` bits per clock. `clock` is in kHz.
fn bandwidth(clock: c_int, width: c_int) -> Option<f64> {
    (clock > 0 && width > 0).then(|| 2.0 * 1e3 * f64::from(clock) * f64::from(width) / 8.0)
}

/// Returns NVML's entry of a device: by UUID, or by place on the PCI bus if NVML reports another
/// UUID than the driver. An instance never matches its whole GPU, whose memory other instances use,
/// too.
fn nvml_entry<'a>(
    listed: &'a [NvmlDevice],
    uuid: [u8; 16],
    part: bool,
    pci: Option<&str>,
) -> Option<&'a NvmlDevice> {
    let digits = format_uuid("", uuid);
    let named =
        |gpu: &&NvmlDevice| gpu.extent != DeviceExtent::Divided && gpu.uuid.to_lowercase().ends_with(&digits);
    let placed = |gpu: &&NvmlDevice| {
        !part && gpu.extent == DeviceExtent::Whole && pci.is_some() && gpu.pci.as_deref() == pci
    };
    listed.iter().find(named).or_else(|| listed.iter().find(placed))
}

/// Returns the divided GPU with this UUID.
fn divided_gpu(listed: &[NvmlDevice], uuid: [u8; 16]) -> Option<&NvmlDevice> {
    let digits = format_uuid("", uuid);
    listed
        .iter()
        .find(|gpu| gpu.extent == DeviceExtent::Divided && gpu.uuid.to_lowercase().ends_with(&digits))
}

/// Returns the part of a divided GPU that the driver gives to this process: the first that
/// `CUDA_VISIBLE_DEVICES` names, or the only one.
fn chosen_part<'a>(listed: &'a [NvmlDevice], gpu: &NvmlDevice) -> Option<&'a NvmlDevice> {
    let parts = || listed.iter().filter(|part| part.is_part() && part.pci == gpu.pci);
    let visible = visible().unwrap_or_default();
    let mut names = visible.split(',').map(str::trim);
    let named = names.find_map(|name| parts().find(|part| part.uuid.eq_ignore_ascii_case(name)));
    named.or_else(|| parts().next().filter(|_| parts().count() == 1))
}

fn unknown_part(ordinal: c_int, gpu: &str) -> String {
    format!(
        "cuda:{ordinal} is a MIG part of {gpu}, and drivers before CUDA 11.4 (470) do not report which; put the \
         name that nvidia-smi -L lists into CUDA_VISIBLE_DEVICES, or install a newer driver"
    )
}

/// Adds messages about GPUs that `CUDA_VISIBLE_DEVICES` hides from this process, and about hidden
/// instances: CUDA gives a process at most one.
fn note_hidden(listed: &[NvmlDevice], found: &mut ProbeResult) {
    let is_visible =
        |gpu: &NvmlDevice| found.devices.iter().any(|device| device.info.id.as_str() == gpu.uuid);
    let has_part = listed.iter().any(|gpu| gpu.is_part() && is_visible(gpu));
    let hidden = |others: bool| {
        let hidden = listed.iter().filter(|gpu| !is_visible(gpu) && gpu.extent != DeviceExtent::Divided);
        let hidden = hidden.filter(|gpu| others == (has_part && gpu.is_part()));
        hidden.map(|gpu| format!("{} ({})", gpu.uuid, gpu.name)).collect::<Vec<_>>().join(", ")
    };
    let (parts, gpus) = (hidden(true), hidden(false));
    if !parts.is_empty() {
        found.notes.push(format!(
            "CUDA gives a process one MIG part; start a process for each of the others, with its name in \
             CUDA_VISIBLE_DEVICES: {parts}"
        ));
    }
    if let Some(visible) = visible().filter(|_| !gpus.is_empty()) {
        found.notes.push(format!("CUDA_VISIBLE_DEVICES={visible} hides from this process: {gpus}"));
    }
}

/// Returns a message about divided GPUs that have no part. `None`: there is no such GPU.
fn note_without_parts(listed: &[NvmlDevice], found: &[ProbedDevice]) -> Option<String> {
    let has_part = |gpu: &NvmlDevice| {
        // NVML may list no part because it can't query the one that the driver found.
        listed.iter().any(|part| part.is_part() && part.pci == gpu.pci)
            || found.iter().any(|device| device.info.pci_bus_id == gpu.pci)
    };
    let empty = listed.iter().filter(|gpu| gpu.extent == DeviceExtent::Divided && !has_part(gpu));
    let empty: Vec<_> = empty.map(|gpu| format!("{} ({})", gpu.uuid, gpu.name)).collect();
    (!empty.is_empty()).then(|| {
        format!(
            "MIG is on and NVML lists no part: {}; create parts: nvidia-smi mig -i GPU -cgi PROFILE -C (nvidia-smi \
             mig -lgip lists the profiles)",
            empty.join(", ")
        )
    })
}

fn visible() -> Option<String> {
    std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned())
}

fn text(ask: impl FnOnce(*mut c_char, c_int) -> DriverResult) -> DriverResult<String> {
    let mut room = [0 as c_char; 256];
    // The driver gets one byte less than the buffer, so that a final zero always remains.
    ask(room.as_mut_ptr(), room.len() as c_int - 1)?;
    // SAFETY: the array ends with a zero.
    Ok(unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned())
}

fn uuid(ask: impl FnOnce(*mut CUuuid) -> DriverResult) -> DriverResult<[u8; 16]> {
    let mut uuid = MaybeUninit::<CUuuid>::zeroed();
    ask(uuid.as_mut_ptr())?;
    // SAFETY: 16 numbers, for which zeros are valid.
    Ok(unsafe { uuid.assume_init() }.bytes.map(|byte| byte as u8))
}

/// Formats a UUID as `GPU-8-4-4-4-12`; without a kind only the digits and dashes.
fn format_uuid(kind: &str, uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    if kind.is_empty() { digits } else { format!("{kind}-{digits}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_two_words_a_clock_or_unknown() {
        assert_eq!(bandwidth(5_000_000, 384), Some(480e9));
        assert_eq!([bandwidth(0, 384), bandwidth(5_000_000, 0), bandwidth(-1, -1)], [None; 3]);
    }
}
