//! What NVIDIA's management library tells of the cards. It asks the kernel's driver and makes no context, and
//! knows cards that this process does not see. It may be missing, and any answer of it, too.

use std::sync::Mutex;

use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::{Device, Nvml};

use super::driver::forked;

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
    pub extent: Extent,
}

/// What of a card programs have with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    Whole,
    /// Nothing: only its parts run programs.
    Divided,
    /// A part of a card with so much memory in all, which not everybody is told.
    Part {
        of: Option<u64>,
    },
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
    // Another thread may have held the lock when this process was forked, and is not here to open it.
    if forked() {
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
    let memory = memory_of(card).ok();
    // Cards that can't be divided say that it is not supported.
    let divided = card.mig_mode().is_ok_and(|mode| mode.current != 0);
    let listed = Listed {
        uuid,
        name: card.name().unwrap_or_default(),
        pci: card.pci_info().ok().map(|pci| short_pci(&pci.bus_id)),
        prohibited: matches!(card.compute_mode(), Ok(ComputeMode::Prohibited)),
        memory,
        extent: if divided { Extent::Divided } else { Extent::Whole },
    };
    let places = if divided { card.mig_device_count().unwrap_or(0) } else { 0 };
    for place in 0..places {
        let Ok(part) = card.mig_device_by_index(place) else { continue };
        let Ok(uuid) = part.uuid() else { continue };
        let name = part.name().ok().filter(|name| !name.is_empty());
        list.cards.push(Listed {
            uuid,
            name: name.unwrap_or_else(|| listed.name.clone()),
            memory: memory_of(&part).ok(),
            extent: Extent::Part { of: memory.map(|memory| memory.total) },
            ..listed.clone()
        });
    }
    list.cards.push(listed);
}

/// Drivers up to the 470 series have only the first version of the question.
fn memory_of(card: &Device<'_>) -> Result<Memory, NvmlError> {
    if let Ok(memory) = card.memory_info() {
        return Ok(Memory { total: memory.total, free: memory.free });
    }
    let nvml = library()?;
    let ask = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref();
    let ask = ask.map_err(|why| NvmlError::FailedToLoadSymbol(why.to_string()))?;
    let mut memory = std::mem::MaybeUninit::zeroed();
    // SAFETY: the handle is of this library, which fills in the structure if it answers 0; of zeros it is valid.
    let memory = unsafe {
        nvml_try(ask(card.handle(), memory.as_mut_ptr()))?;
        memory.assume_init()
    };
    Ok(Memory { total: memory.total, free: memory.free })
}

/// What of a card is free now.
pub fn memory(uuid: &str) -> Option<Memory> {
    memory_of(&library().ok()?.device_by_uuid(uuid).ok()?).ok()
}

/// Whether the card is known to have fallen off the bus. Not all drivers say that in this word: of one that is
/// `suspected`, since the driver can't reach it, NVML's not knowing or not finding it says as much.
pub fn is_lost(uuid: &str, suspected: bool) -> bool {
    let gone = |why: NvmlError| match why {
        NvmlError::GpuLost => true,
        NvmlError::ResetRequired | NvmlError::Unknown | NvmlError::NotFound => suspected,
        _ => false,
    };
    library().is_ok_and(|nvml| nvml.device_by_uuid(uuid).and_then(|card| memory_of(&card)).is_err_and(gone))
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
