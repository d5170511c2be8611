//! What the protocols of the light tier are made of: std's, or loom's when they are model-checked
//! (`--cfg loom`).

#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};

use std::sync::PoisonError;

/// Nothing of the library panics half-way through a change, so a poisoned lock is as good as any.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After a `SeqCst` access on whose place in the total order something depends: loom knows that order of fences
/// only.
pub fn total_order() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// The same for a lock that is no part of a protocol.
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
