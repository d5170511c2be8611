//! A card as this process has it: what is known of it, and what failures mean there.

use std::sync::{Condvar, Mutex};

use cudarc::driver::sys::CUdevice;

use super::driver::{Driver, Failure};
use super::{nvml, probe};
use crate::device::DeviceInfo;
use crate::error::{DeviceFault, Error};

/// The kind of failure that also comes of a card that is not there any more.
const SUSPICIOUS: [u32; 5] = [4, 46, 100, 101, 999];
const INVALID_DEVICE: u32 = 101;
/// From this CUDA version on, a card that is somebody else's has a code of its own.
const UNAVAILABLE_SINCE: i32 = 11070;

pub struct Card {
    pub(super) driver: &'static Driver,
    pub(super) device: CUdevice,
    info: DeviceInfo,
    multiprocessors: u32,
    listed: bool,
    integrated: bool,
    /// Whether a context is retained. Held by who makes or releases one, which may take a while.
    pub(super) retained: Mutex<bool>,
    pub(super) released: Condvar,
}

impl Card {
    pub(super) fn new(driver: &'static Driver, found: probe::Card) -> Card {
        let probe::Card { info, device, multiprocessors, listed, integrated } = found;
        let (retained, released) = (Mutex::new(false), Condvar::new());
        Card { driver, device, info, multiprocessors, listed, integrated, retained, released }
    }

    /// As it was when the process first looked.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// `cuda:0`.
    pub fn label(&self) -> String {
        self.info.label()
    }

    /// Returns the bytes that could be allocated now: those that NVML calls free, and those `cached` here.
    /// Without NVML, the context's answer counts; without a context, nothing of ours is on the card, and all is free.
    pub(super) fn free_bytes(&self, cached: u64, told_by_context: impl FnOnce() -> Option<u64>) -> u64 {
        let told = self.listed.then(|| nvml::memory(self.info.id.as_str())).flatten();
        let free = told.map(|memory| memory.free);
        let free = free.or_else(told_by_context).unwrap_or(self.info.total_bytes);
        probe::free(free, self.integrated).saturating_add(cached).min(self.info.total_bytes)
    }

    /// Returns what a failure means here: the card may be gone, or belong to another process. `free` returns the
    /// [`free_bytes`](Card::free_bytes).
    pub(super) fn error(&self, failure: Failure, what: &str, free: impl FnOnce() -> u64) -> Error {
        let error = failure.error(&self.label(), what);
        let of_device = matches!(error, Error::Device { .. });
        let suspected = SUSPICIOUS.contains(&failure.code);
        if (of_device || suspected) && self.is_lost(suspected) {
            let what = format!("{what}: {}, and NVML says that the card is gone", failure.words());
            return Error::Device { device: self.label(), what, fault: DeviceFault::Lost };
        }
        match error {
            Error::NoMemory { what, needed, place, .. } => {
                Error::NoMemory { what, needed, place, there: free() }
            }
            error => error,
        }
    }

    /// The same for a context that could not be retained. Drivers before CUDA 11.7 have no code for a card that its
    /// compute mode keeps from this process.
    pub(super) fn error_of_retain(&self, failure: Failure) -> Error {
        let what = "to make a context";
        match self.error(failure, what, || self.free_bytes(0, || None)) {
            Error::Driver { device, what }
                if failure.code == INVALID_DEVICE && self.driver.is_older_than(UNAVAILABLE_SINCE) =>
            {
                Error::Busy { device, what }
            }
            error => error,
        }
    }

    fn is_lost(&self, suspected: bool) -> bool {
        self.listed && nvml::is_lost(self.info.id.as_str(), suspected)
    }
}
