//! What a caller holds is a number that looks like a pointer. It is never followed, only looked up,
//! and never given out twice: a destroyed or foreign one is an error and not a crash.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The live things of one kind, by their handles.
pub(super) struct Handles<T> {
    what: &'static str,
    live: Mutex<BTreeMap<usize, Arc<T>>>,
}

/// Counts for all kinds together, so that a handle of one kind is unknown to the others.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Multiples of 16 as an allocator would give, far from zero.
fn token(count: usize) -> usize {
    0x5c0_0000 + 16 * count
}

impl<T> Handles<T> {
    pub(super) const fn new(what: &'static str) -> Self {
        Handles { what, live: Mutex::new(BTreeMap::new()) }
    }

    /// Nothing is added, looked up or removed until the result is dropped.
    pub(super) fn live(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<T>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add<Opaque>(&self, thing: Arc<T>) -> *mut Opaque {
        let token = token(NEXT.fetch_add(1, Ordering::Relaxed));
        self.live().insert(token, thing);
        ptr::without_provenance_mut(token)
    }

    pub(super) fn get<Opaque>(&self, handle: *const Opaque) -> Result<Arc<T>> {
        if handle.is_null() {
            return Err(Error::argument(self.what, "NULL", "what its create function gave"));
        }
        let found = self.live().get(&handle.addr()).cloned();
        found.ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn remove<Opaque>(&self, handle: *const Opaque) -> Result<Arc<T>> {
        let found = self.live().remove(&handle.addr());
        found.ok_or_else(|| self.unknown(handle))
    }

    fn unknown<Opaque>(&self, handle: *const Opaque) -> Error {
        Error::Stale { what: self.what, id: handle.addr() as u64 }
    }
}
