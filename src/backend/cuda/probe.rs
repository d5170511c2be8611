//! Which cards there are, without touching one: nothing here makes a context.
//!
//! NVML knows all cards of the machine, the driver those that this process may use, in an order of its own
//! (`CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`). A card is the same in both if its UUID is, or else its place on
//! the PCI bus; numbers are never compared.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUuuid};

use super::driver::{self, Answer, Driver, Failure};
use super::nvml::{self, Extent, Listed};
use crate::backend::cpu::free_bytes;
use crate::device::{BackendKind, DeviceId, DeviceInfo, Health};

/// The kernels are compiled for this compute capability, from which on any card runs them.
const LEAST_CAPABILITY: (u32, u32) = (3, 5);
/// As the driver tells the compute mode.
const PROHIBITED: c_int = 2;
const NO_DEVICE: u32 = 100;

/// What a look at the machine has found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub cards: Vec<Card>,
    /// For people: what is missing or not used, why, and what to do.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Card {
    pub info: DeviceInfo,
    pub device: CUdevice,
    pub multiprocessors: u32,
    /// NVML knows it by its id.
    pub listed: bool,
    /// Its memory is the host's.
    pub integrated: bool,
}

pub fn probe() -> Found {
    let mut found = Found::default();
    let listed = match nvml::list() {
        Ok(list) => {
            found.notes.extend(list.notes);
            list.cards
        }
        Err(why) => {
            found.notes.push(why);
            Vec::new()
        }
    };
    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(why) => {
            // Without a driver there is nothing to say of NVML.
            found.notes = vec![why.to_owned()];
            return found;
        }
    };
    if let Err(why) = ask(driver, &listed, &mut found) {
        found.notes.push(why);
    }
    found
}

fn ask(driver: &Driver, listed: &[Listed], found: &mut Found) -> Result<(), String> {
    // SAFETY: flags have to be 0, and are.
    match unsafe { driver.init(0) } {
        Ok(()) => {}
        Err(failure) if failure.code == NO_DEVICE => {
            return Err(match (listed.is_empty(), visible()) {
                (false, Some(visible)) => {
                    format!("CUDA_VISIBLE_DEVICES={visible} hides every card from this process")
                }
                _ => "NVIDIA's driver finds no card".into(),
            });
        }
        Err(failure) => return Err(unusable(failure)),
    }
    let mut count = 0;
    // SAFETY: the number is ours.
    unsafe { driver.device_count(&mut count) }.map_err(unusable)?;
    for ordinal in 0..count {
        match card(driver, ordinal, listed, &mut found.notes) {
            Ok(card) => {
                driver::found();
                found.cards.push(card);
            }
            Err(failure) => found.notes.push(format!("cuda:{ordinal} can't be asked: {}", failure.words())),
        }
    }
    note_hidden(listed, found);
    Ok(())
}

fn unusable(failure: Failure) -> String {
    format!("NVIDIA's driver can't be used: {}; nvidia-smi may tell more", failure.words())
}

fn card(driver: &Driver, ordinal: c_int, listed: &[Listed], notes: &mut Vec<String>) -> Answer<Card> {
    let mut device = 0;
    // SAFETY: the number is ours.
    unsafe { driver.device(&mut device, ordinal)? };
    // SAFETY: texts are written with their final zero, and cut to the room.
    let name = text(|to, room| unsafe { driver.device_name(to, room, device) })?;
    // SAFETY: see above.
    let pci = text(|to, room| unsafe { driver.device_pci(to, room, device) });
    let pci = pci.ok().map(|pci| nvml::short_pci(&pci));
    // SAFETY: the driver fills in 16 bytes.
    let own = uuid(|to| unsafe { driver.device_uuid(to, device) })?;
    // SAFETY: see above.
    let parent = uuid(|to| unsafe { driver.parent_uuid(to, device) }).unwrap_or(own);
    let mut total = 0;
    // SAFETY: the number is ours.
    unsafe { driver.device_memory(&mut total, device)? };
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the number is ours; an attribute that the driver does not know is an error.
        unsafe { driver.device_attribute(&mut value, which, device) }.map(|()| value)
    };
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
    );

    let part = own != parent;
    let same = same_card(listed, own, part, pci.as_deref());
    let id = same.map_or_else(|| dashed(if part { "MIG" } else { "GPU" }, own), |same| same.uuid.clone());
    let memory = same.and_then(|same| same.memory);
    let total = total as u64;
    let whole = match same.map(|same| same.extent) {
        Some(Extent::Part { of }) => of,
        _ => (!part).then_some(total),
    };
    let integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED) == Ok(1);
    let label = format!("cuda:{ordinal}");
    let mut health = Health::Good;
    if nvml::is_lost(&id, false) {
        health = Health::Retired;
        notes.push(format!("{label} ({id}) has fallen off the bus; the machine has to be restarted"));
    } else if same.is_some_and(|same| same.prohibited)
        || attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == Ok(PROHIBITED)
    {
        health = Health::Barred;
        notes.push(format!(
            "{label} ({id}) is closed to programs (compute mode prohibited); its administrator can open it: \
             nvidia-smi -i {id} -c DEFAULT"
        ));
    } else if capability < LEAST_CAPABILITY {
        health = Health::Barred;
        notes.push(format!(
            "{label} ({id}) has compute capability {}.{}; the kernels need {}.{} or more",
            capability.0, capability.1, LEAST_CAPABILITY.0, LEAST_CAPABILITY.1
        ));
    }
    let clock = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).unwrap_or(0);
    let width = attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0);
    let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap_or(1);
    let info = DeviceInfo {
        id: DeviceId::new(&id),
        backend: BackendKind::Cuda,
        ordinal: ordinal as u32,
        name,
        pci_bus_id: pci,
        compute_capability: Some(capability),
        cpu_threads: None,
        total_bytes: total,
        free_bytes: free(memory.map_or(total, |memory| memory.free.min(total)), integrated),
        // Of a part of nobody knows how much, no guess is better than one that is many times too high.
        speed: bandwidth(clock, width)
            .zip(whole)
            .map(|(speed, whole)| speed * total as f64 / whole.max(total) as f64),
        health,
    };
    let multiprocessors = multiprocessors.max(1) as u32;
    Ok(Card { info, device, multiprocessors, listed: same.is_some(), integrated })
}

/// Where the memory is the host's, no more of it is free than the host has, whatever is told.
pub fn free(told: u64, integrated: bool) -> u64 {
    if integrated { told.min(free_bytes()) } else { told }
}

/// Two words each clock, so many bits at once: bytes a second. `clock` is in kHz.
fn bandwidth(clock: c_int, width: c_int) -> Option<f64> {
    (clock > 0 && width > 0).then(|| 2.0 * 1e3 * f64::from(clock) * f64::from(width) / 8.0)
}

/// By its UUID; where NVML tells none that the driver knows, by its place on the bus. A part of a card is never the
/// card itself, whose memory is the other parts', too.
fn same_card<'a>(listed: &'a [Listed], uuid: [u8; 16], part: bool, pci: Option<&str>) -> Option<&'a Listed> {
    let digits = dashed("", uuid);
    let named =
        |card: &&Listed| card.extent != Extent::Divided && card.uuid.to_lowercase().ends_with(&digits);
    let placed =
        |card: &&Listed| !part && card.extent == Extent::Whole && pci.is_some() && card.pci.as_deref() == pci;
    listed.iter().find(named).or_else(|| listed.iter().find(placed))
}

/// Cards that the machine has and this process does not see.
fn note_hidden(listed: &[Listed], found: &mut Found) {
    let Some(visible) = visible() else { return };
    let seen = |card: &Listed| found.cards.iter().any(|seen| seen.info.id.as_str() == card.uuid);
    let hidden = listed.iter().filter(|card| !seen(card) && card.extent != Extent::Divided);
    let hidden: Vec<String> = hidden.map(|card| format!("{} ({})", card.uuid, card.name)).collect();
    if !hidden.is_empty() {
        found
            .notes
            .push(format!("CUDA_VISIBLE_DEVICES={visible} hides from this process: {}", hidden.join(", ")));
    }
}

fn visible() -> Option<String> {
    std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned())
}

fn text(ask: impl FnOnce(*mut c_char, c_int) -> Answer) -> Answer<String> {
    let mut room = [0 as c_char; 256];
    // One is kept back, so that there is a final zero whatever happens.
    ask(room.as_mut_ptr(), room.len() as c_int - 1)?;
    // SAFETY: the array ends with a zero.
    Ok(unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned())
}

fn uuid(ask: impl FnOnce(*mut CUuuid) -> Answer) -> Answer<[u8; 16]> {
    let mut uuid = MaybeUninit::<CUuuid>::zeroed();
    ask(uuid.as_mut_ptr())?;
    // SAFETY: 16 numbers, of which zeros are valid ones.
    Ok(unsafe { uuid.assume_init() }.bytes.map(|byte| byte as u8))
}

/// `GPU-8-4-4-4-12`; without the kind only the digits and their dashes.
fn dashed(kind: &str, uuid: [u8; 16]) -> String {
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
