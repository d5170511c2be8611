//! What NVIDIA's management library tells of the cards. It asks the kernel's driver and makes no context, and
//! knows cards that this process does not see. It may be missing, and any answer of it, too.

use std::sync::Mutex;

use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// A card, or an instance of one that is divided.
#[derive(Debug, Clone)]
pub struct Listed {
    /// `GPU-…` or `MIG-…`.
    pub uuid: String,
    pub name: String,
    /// As the driver writes it, see [`short_pci`].
    pub pci: Option<String>,
    /// Its owner lets no program use it.
    pub prohibited: bool,
    pub memory: Option<Memory>,
    /// Of the card that it is a part of.
    pub whole: Option<u64>,
}

/// In bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub total: u64,
    pub free: u64,
}

/// What it has listed, and what it had to say of cards that it could not ask.
pub struct List {
    pub cards: Vec<Listed>,
    pub notes: Vec<String>,
}

/// Loaded once it is there, and kept.
fn library() -> Result<&'static Nvml, NvmlError> {
    static LOADED: Mutex<Option<&'static Nvml>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(nvml) = *loaded {
        return Ok(nvml);
    }
    let nvml = Box::leak(Box::new(Nvml::init()?));
    *loaded = Some(nvml);
    Ok(nvml)
}

fn words(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(why) => {
            std::error::Error::source(why).map_or_else(|| why.to_string(), |why| why.to_string())
        }
        other => other.to_string(),
    }
}

/// All cards of the machine. The error is for people.
pub fn list() -> Result<List, String> {
    let nvml = library().map_err(|why| format!("NVML can't be used ({})", words(&why)))?;
    let count = nvml.device_count().map_err(|why| format!("NVML does not count cards ({})", words(&why)))?;
    let mut list = List { cards: Vec::new(), notes: Vec::new() };
    for index in 0..count {
        let card = nvml.device_by_index(index).and_then(|card| Ok((card.uuid()?, card)));
        match card {
            Ok((uuid, card)) => list_card(&mut list, uuid, &card),
            Err(why) => list.notes.push(format!("NVML can't ask its card {index}: {}", words(&why))),
        }
    }
    Ok(list)
}

fn list_card(list: &mut List, uuid: String, card: &Device<'_>) {
    let memory = memory_of(card);
    let listed = Listed {
        uuid,
        name: card.name().unwrap_or_default(),
        pci: card.pci_info().ok().map(|pci| short_pci(&pci.bus_id)),
        prohibited: matches!(card.compute_mode(), Ok(ComputeMode::Prohibited)),
        memory,
        whole: None,
    };
    // Cards that can't be divided say that it is not supported.
    let divided = card.mig_mode().is_ok_and(|mode| mode.current != 0);
    let places = if divided { card.mig_device_count().unwrap_or(0) } else { 0 };
    for place in 0..places {
        let Ok(part) = card.mig_device_by_index(place) else { continue };
        let Ok(uuid) = part.uuid() else { continue };
        let name = part.name().ok().filter(|name| !name.is_empty());
        list.cards.push(Listed {
            uuid,
            name: name.unwrap_or_else(|| listed.name.clone()),
            memory: memory_of(&part),
            whole: memory.map(|memory| memory.total),
            ..listed.clone()
        });
    }
    list.cards.push(listed);
}

/// Drivers up to the 470 series have only the first version of the question.
fn memory_of(card: &Device<'_>) -> Option<Memory> {
    if let Ok(memory) = card.memory_info() {
        return Some(Memory { total: memory.total, free: memory.free });
    }
    let nvml = library().ok()?;
    let ask = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref().ok()?;
    let mut memory = std::mem::MaybeUninit::zeroed();
    // SAFETY: the handle is of this library, which fills in the structure if it answers 0; of zeros it is valid.
    let memory = unsafe { (ask(card.handle(), memory.as_mut_ptr()) == 0).then(|| memory.assume_init())? };
    Some(Memory { total: memory.total, free: memory.free })
}

/// What of a card is free now.
pub fn memory(uuid: &str) -> Option<Memory> {
    memory_of(&library().ok()?.device_by_uuid(uuid).ok()?)
}

/// Whether the card is known to have fallen off the bus.
pub fn is_lost(uuid: &str) -> bool {
    let Ok(nvml) = library() else { return false };
    let gone = |why: &NvmlError| matches!(why, NvmlError::GpuLost);
    match nvml.device_by_uuid(uuid) {
        Ok(card) => card.memory_info().is_err_and(|why| gone(&why)),
        Err(why) => gone(&why),
    }
}

/// `00000000:01:00.0` as the driver writes it, `0000:01:00.0`, in capitals.
pub fn short_pci(id: &str) -> String {
    let id = id.to_ascii_uppercase();
    match id.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[domain.len() - 4..])
        }
        _ => id,
    }
}
