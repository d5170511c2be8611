//! A card as this process has it: one primary context, made when the first queue needs it and given up with the
//! last, whatever schedulers they belong to.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUdevice;

use super::context::Context;
use super::driver::{Driver, Failure};
use super::{nvml, probe};
use crate::device::DeviceInfo;
use crate::error::{DeviceFault, Error, Result};

/// The kind of failure that also comes of a card that is not there any more.
const SUSPICIOUS: [u32; 5] = [4, 46, 100, 101, 999];
const INVALID_DEVICE: u32 = 101;
/// From this CUDA version on, a card that is somebody else's has a code of its own.
const UNAVAILABLE_SINCE: i32 = 11070;
/// How long a new queue waits for those to go that still work in a context of no use.
const LEAVING: Duration = Duration::from_secs(10);

pub struct Card {
    pub(super) driver: &'static Driver,
    pub(super) device: CUdevice,
    info: DeviceInfo,
    multiprocessors: u32,
    listed: bool,
    integrated: bool,
    context: Mutex<Weak<Context>>,
    /// Whether a context is retained. Held by who makes or releases one, which may take a while.
    pub(super) retained: Mutex<bool>,
    pub(super) released: Condvar,
}

/// A card's context.
enum Found {
    Fit(Arc<Context>),
    /// Of no use any more, and somebody is still inside: to be waited for, without the lock, as others may wait too.
    Left(Arc<Context>),
}

impl Card {
    /// The one card of this number in the process.
    pub(super) fn of(driver: &'static Driver, found: probe::Card) -> Arc<Card> {
        static CARDS: Mutex<BTreeMap<u32, Arc<Card>>> = Mutex::new(BTreeMap::new());
        let mut cards = CARDS.lock().unwrap_or_else(PoisonError::into_inner);
        let probe::Card { info, device, multiprocessors, listed, integrated } = found;
        cards
            .entry(info.ordinal)
            .or_insert_with(|| {
                let (context, retained) = (Mutex::default(), Mutex::new(false));
                let released = Condvar::new();
                Arc::new(Card {
                    driver,
                    device,
                    info,
                    multiprocessors,
                    listed,
                    integrated,
                    context,
                    retained,
                    released,
                })
            })
            .clone()
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

    /// What could be allocated now: what NVML calls free, and what is kept here for reuse. Without NVML the
    /// context is asked, and where there is none, nothing of ours is on the card: all of it.
    pub fn free_bytes(&self) -> u64 {
        let context = self.lock().upgrade();
        let kept = context.as_ref().map_or(0, |context| context.kept_bytes());
        let told = self.listed.then(|| nvml::memory(self.info.id.as_str())).flatten();
        let free = told.map(|memory| memory.free);
        let free = free.or_else(|| context?.free_bytes()).unwrap_or(self.info.total_bytes);
        probe::free(free, self.integrated).saturating_add(kept).min(self.info.total_bytes)
    }

    /// The context, retained if nobody has it. One that is of no use any more is given up first,
    /// when all have left it.
    pub(super) fn context(self: &Arc<Self>) -> Result<Arc<Context>> {
        let until = Instant::now() + LEAVING;
        loop {
            match self.find()? {
                Found::Fit(context) => return Ok(context),
                Found::Left(context) => context.wait_until_left(until)?,
            }
        }
    }

    fn find(self: &Arc<Self>) -> Result<Found> {
        // Declared before the lock, and so dropped after it: it may be the last to hold a context.
        let mut there;
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            there = self.lock().upgrade();
            match &there {
                Some(context) if !context.is_stale() => return Ok(Found::Fit(context.clone())),
                Some(context) if !context.bury(&mut retained)? => return Ok(Found::Left(context.clone())),
                Some(_) => {}
                // Nobody has it any more, and it is about to be released.
                None if *retained => {
                    retained = self.released.wait(retained).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                None => {}
            }
            let context = Context::retain(self)?;
            *retained = true;
            *self.lock() = Arc::downgrade(&context);
            return Ok(Found::Fit(context));
        }
    }

    /// The context that there is gets no more queues.
    pub(super) fn renew(&self) {
        let context = self.lock().upgrade();
        if let Some(context) = context {
            context.retire();
        }
    }

    /// What a failure means here: a card may be gone, or be somebody else's.
    pub(super) fn error(&self, failure: Failure, what: &str) -> Error {
        let error = failure.error(&self.label(), what);
        let of_device = matches!(error, Error::Device { .. });
        let suspected = SUSPICIOUS.contains(&failure.code);
        if (of_device || suspected) && self.is_lost(suspected) {
            let what = format!("{what}: {}, and NVML says that the card is gone", failure.words());
            return Error::Device { device: self.label(), what, fault: DeviceFault::Lost };
        }
        match error {
            Error::NoMemory { what, needed, place, .. } => {
                Error::NoMemory { what, needed, place, there: self.free_bytes() }
            }
            error => error,
        }
    }

    /// The same for the making of a context. Drivers before CUDA 11.7 have no code of its own for a card
    /// that its mode keeps from us.
    pub(super) fn error_of_retain(&self, failure: Failure) -> Error {
        let what = "to make a context";
        match self.error(failure, what) {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Weak<Context>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
