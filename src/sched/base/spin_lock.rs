//! A lock that is held for a few instructions.
//!
//! Locking and unlocking a mutex are an atomic exchange each, and a small task with an id passes
//! six locks. Unlocking this one is a store, so it wakes nobody: a thread that finds the lock held
//! spins, then yields, then sleeps for moments. The holder calls no code of others and does not
//! wait.

#[cfg(not(loom))]
use spin::mutex::SpinMutex as Inner;
#[cfg(not(loom))]
pub use spin::mutex::SpinMutexGuard as SpinGuard;

#[cfg(loom)]
pub use super::sync::MutexGuard as SpinGuard;
#[cfg(loom)]
use super::sync::{Mutex as Inner, locked};
#[cfg(not(loom))]
use crate::backend::thread::CancelGuard;

#[derive(Default)]
pub struct SpinLock<T>(Inner<T>);

impl<T> SpinLock<T> {
    #[cfg(not(loom))]
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.wait())
    }

    /// The models of the protocols only need a lock.
    #[cfg(loom)]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        locked(&self.0)
    }

    #[cfg(not(loom))]
    #[cold]
    fn wait(&self) -> SpinGuard<'_, T> {
        /// The pause of a thread that has yielded often: a holder of lower priority gets the core.
        const PAUSE: std::time::Duration = std::time::Duration::from_micros(50);
        let backoff = crossbeam_utils::Backoff::new();
        loop {
            match backoff.is_completed() {
                true => {
                    // A sleep is a cancellation point.
                    let _whole = CancelGuard::here();
                    std::thread::sleep(PAUSE);
                }
                false => backoff.snooze(),
            }
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::SpinLock;

    #[test]
    fn waiting_thread_gets_a_lock_that_is_held_long() {
        let lock = SpinLock::<u8>::default();
        let guard = lock.lock();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| *lock.lock());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(guard);
            assert_eq!(waiter.join().unwrap(), 0);
        });
    }
}
