//! What a caller holds is a number that looks like a pointer. It is never followed, only looked up,
//! and never given out twice: a destroyed or foreign one is an error and not a crash.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::LocalKey;

use crate::error::{Error, Result};

/// The live things of one kind, by their handles.
pub(super) struct Handles<T> {
    what: &'static str,
    live: Mutex<BTreeMap<usize, Arc<T>>>,
    /// How many have been removed; changed under the lock.
    removed: AtomicUsize,
}

/// What a thread found last. Not counted as a use of it: a thread that sleeps keeps nothing alive.
pub(super) struct Last<T> {
    token: usize,
    /// Of [`Handles::removed`], when it was found: as long as nothing is removed, it is still there.
    removed: usize,
    thing: Weak<T>,
}

impl<T> Last<T> {
    pub(super) const fn none() -> RefCell<Self> {
        RefCell::new(Last { token: 0, removed: 0, thing: Weak::new() })
    }
}

/// Counts for all kinds together, so that a handle of one kind is unknown to the others.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Multiples of 16 as an allocator would give, far from zero.
fn token(count: usize) -> usize {
    0x5c0_0000 + 16 * count
}

impl<T> Handles<T> {
    pub(super) const fn new(what: &'static str) -> Self {
        Handles { what, live: Mutex::new(BTreeMap::new()), removed: AtomicUsize::new(0) }
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

    /// [`Handles::get`] for what threads ask for again and again: without the lock, where it is
    /// what this thread asked for before.
    pub(super) fn get_again<Opaque>(
        &self,
        handle: *const Opaque,
        last: &'static LocalKey<RefCell<Last<T>>>,
    ) -> Result<Arc<T>> {
        let token = handle.addr();
        let known = last.try_with(|last| {
            let last = last.try_borrow().ok()?;
            let same = last.token == token && last.removed == self.removed.load(Ordering::Acquire);
            same.then(|| last.thing.upgrade()).flatten()
        });
        if let Ok(Some(thing)) = known {
            return Ok(thing);
        }
        // Before the look, so that what is removed right after it is noticed next time.
        let removed = self.removed.load(Ordering::Acquire);
        let thing = self.get(handle)?;
        // A thread at its very end remembers nothing.
        let _ = last.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                *last = Last { token, removed, thing: Arc::downgrade(&thing) };
            }
        });
        Ok(thing)
    }

    pub(super) fn remove<Opaque>(&self, handle: *const Opaque) -> Result<Arc<T>> {
        let mut live = self.live();
        let found = live.remove(&handle.addr());
        self.removed.fetch_add(usize::from(found.is_some()), Ordering::Release);
        drop(live);
        found.ok_or_else(|| self.unknown(handle))
    }

    fn unknown<Opaque>(&self, handle: *const Opaque) -> Error {
        Error::Stale { what: self.what, id: handle.addr() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;

    static THINGS: Handles<String> = Handles::new("thing");

    thread_local! {
        static LAST: RefCell<Last<String>> = const { Last::none() };
    }

    fn again(handle: *const c_void) -> Option<String> {
        THINGS.get_again(handle, &LAST).ok().map(|thing| thing.to_string())
    }

    #[test]
    fn who_has_asked_before_finds_only_what_is_still_there_and_keeps_nothing() {
        let thing = Arc::new("a".to_owned());
        let seen = Arc::downgrade(&thing);
        let (a, b): (*mut c_void, *mut c_void) = (THINGS.add(thing), THINGS.add(Arc::new("b".into())));
        for _ in 0..2 {
            assert_eq!(again(a).as_deref(), Some("a"));
        }
        assert_eq!(again(b).as_deref(), Some("b"));
        assert_eq!(again(a).as_deref(), Some("a"));
        // Somebody is in a call with it, and it is removed meanwhile.
        let used = THINGS.get_again(a, &LAST).ok();
        drop(THINGS.remove(a));
        assert_eq!(again(a), None);
        drop(used);
        assert!(seen.upgrade().is_none(), "a thread's memory of it keeps it alive");
        assert_eq!(again(b).as_deref(), Some("b"));
        assert_eq!(again(ptr::null()), None);
    }
}
