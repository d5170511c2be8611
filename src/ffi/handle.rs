//! Handles: numbers that look like pointers. A handle is looked up, never dereferenced, and never
//! issued twice. So a destroyed or foreign handle is an error, not a crash.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

use crate::error::{Error, Result};

/// The live objects of one kind, by their handles.
pub(super) struct HandleTable<T> {
    kind: &'static str,
    live: Mutex<BTreeMap<usize, Arc<T>>>,
    /// Number of objects removed so far; changed under the lock.
    removed: AtomicUsize,
}

/// The last lookup of a thread. It keeps the object until the thread's next lookup or its end.
pub(super) struct LastLookup<T> {
    token: usize,
    /// [`HandleTable::removed`] at the time of the lookup. While it is unchanged, the object still
    /// has its handle.
    removed: usize,
    object: Arc<T>,
}

/// Where a thread stores its last lookup.
pub(super) type LookupCell<T> = LocalKey<Cell<Option<LastLookup<T>>>>;

/// Counter of handles of all kinds, so that a handle of one kind is unknown to the others.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Returns a multiple of 16, as an allocator does, far from zero. Two copies of the library in one
/// process, such as a static and a shared one, return different numbers.
fn token(count: usize) -> usize {
    #[cfg(target_pointer_width = "64")]
    const SHIFT: u32 = 36;
    #[cfg(not(target_pointer_width = "64"))]
    const SHIFT: u32 = 8;
    // The page of this copy's counter, in 24 bits.
    let copy = (&raw const NEXT).addr() >> 12 & 0xff_ffff;
    (copy << SHIFT) + 16 * count
}

impl<T> HandleTable<T> {
    pub(super) const fn new(kind: &'static str) -> Self {
        HandleTable { kind, live: Mutex::new(BTreeMap::new()), removed: AtomicUsize::new(0) }
    }

    /// Locks the table until the result is dropped.
    pub(super) fn live(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<T>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object and returns its handle.
    pub(super) fn add<Opaque>(&self, object: Arc<T>) -> *mut Opaque {
        let token = token(NEXT.fetch_add(1, Ordering::Relaxed));
        self.live().insert(token, object);
        ptr::without_provenance_mut(token)
    }

    /// Returns the object of a handle.
    pub(super) fn get<Opaque>(&self, handle: *const Opaque) -> Result<Arc<T>> {
        if handle.is_null() {
            return Err(Error::argument(self.kind, "NULL", "a handle from its create function"));
        }
        let found = self.live().get(&handle.addr()).cloned();
        found.ok_or_else(|| self.unknown(handle))
    }

    /// Calls `call` with the object of a handle. For frequent calls: takes no lock if the handle is
    /// that of the thread's last lookup, which is taken out of `cell` meanwhile, so that the count
    /// of the object's owners, which threads share, stays as it is.
    #[inline]
    pub(super) fn with<Opaque, R>(
        &self,
        handle: *const Opaque,
        cell: &'static LookupCell<T>,
        call: impl FnOnce(&T) -> Result<R>,
    ) -> Result<R> {
        let token = handle.addr();
        // Read before the lookup, so that the next call detects a removal right after it.
        let removed = self.removed.load(Ordering::Acquire);
        let last = cell.try_with(Cell::take).ok().flatten();
        let lookup = match last {
            Some(last) if last.token == token && last.removed == removed => last,
            _ => LastLookup { token, removed, object: self.get(handle)? },
        };
        let (removed, result) = (lookup.removed, call(&lookup.object));
        // Drops the lookup of a call inside this one. A thread whose locals are destroyed stores none.
        drop(cell.try_with(|cell| cell.replace(Some(lookup))));
        // An object that may have been removed meanwhile is not kept.
        if self.removed.load(Ordering::Acquire) != removed {
            drop(cell.try_with(Cell::take));
        }
        result
    }

    /// Removes and returns the object of a handle.
    pub(super) fn remove<Opaque>(&self, handle: *const Opaque) -> Result<Arc<T>> {
        let mut live = self.live();
        let found = live.remove(&handle.addr());
        self.removed.fetch_add(usize::from(found.is_some()), Ordering::Release);
        drop(live);
        found.ok_or_else(|| self.unknown(handle))
    }

    fn unknown<Opaque>(&self, handle: *const Opaque) -> Error {
        Error::Stale { what: self.kind, id: handle.addr() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;

    static THINGS: HandleTable<String> = HandleTable::new("thing");

    thread_local! {
        static LAST: Cell<Option<LastLookup<String>>> = const { Cell::new(None) };
    }

    fn again(handle: *const c_void) -> Option<String> {
        THINGS.with(handle, &LAST, |thing| Ok(thing.clone())).ok()
    }

    #[test]
    fn cached_lookup_finds_only_live_objects() {
        let (a, b): (*mut c_void, *mut c_void) =
            (THINGS.add(Arc::new("a".into())), THINGS.add(Arc::new("b".into())));
        for _ in 0..2 {
            assert_eq!(again(a).as_deref(), Some("a"));
        }
        assert_eq!(again(b).as_deref(), Some("b"));
        assert_eq!(again(a).as_deref(), Some("a"));
        // A call uses the object while it is removed, and calls inside it find others.
        let used = THINGS.with(a, &LAST, |thing| {
            drop(THINGS.remove(a));
            assert_eq!(again(a), None);
            assert_eq!(again(b).as_deref(), Some("b"));
            Ok(thing.clone())
        });
        assert_eq!(used.as_deref(), Ok("a"));
        assert_eq!(again(a), None);
        assert_eq!(again(b).as_deref(), Some("b"));
        assert_eq!(again(ptr::null()), None);
    }

    #[test]
    fn removed_object_lives_until_the_next_lookup_of_its_thread() {
        let thing = Arc::new("a".to_owned());
        let seen = Arc::downgrade(&thing);
        let (a, b): (*mut c_void, *mut c_void) = (THINGS.add(thing), THINGS.add(Arc::new("b".into())));
        assert_eq!(again(a).as_deref(), Some("a"));
        drop(THINGS.remove(a));
        assert!(seen.upgrade().is_some());
        assert_eq!(again(b).as_deref(), Some("b"));
        assert!(seen.upgrade().is_none());
    }
}
