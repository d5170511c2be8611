//! A lock that is held for a few instructions.
//!
//! Locking and unlocking a mutex are an atomic exchange each, and a small task with an id passes
//! six locks. Unlocking this one is a store, so it wakes nobody: a thread that finds the lock held
//! spins, then yields, then sleeps for moments. The holder calls no code of others and does not
//! wait.

#[cfg(not(loom))]
pub use spinning::{SpinGuard, SpinLock};

#[cfg(loom)]
pub use models::{SpinGuard, SpinLock};

#[cfg(not(loom))]
mod spinning {
    use std::time::Duration;

    use crossbeam_utils::Backoff;
    use spin::mutex::{SpinMutex, SpinMutexGuard};

    /// The pause of a thread that has yielded often: a holder of lower priority gets the core.
    const PAUSE: Duration = Duration::from_micros(50);

    #[derive(Default)]
    pub struct SpinLock<T>(SpinMutex<T>);

    pub type SpinGuard<'a, T> = SpinMutexGuard<'a, T>;

    impl<T> SpinLock<T> {
        pub fn new(value: T) -> Self {
            SpinLock(SpinMutex::new(value))
        }

        #[inline]
        pub fn lock(&self) -> SpinGuard<'_, T> {
            self.0.try_lock().unwrap_or_else(|| self.wait())
        }

        #[cold]
        fn wait(&self) -> SpinGuard<'_, T> {
            let backoff = Backoff::new();
            loop {
                match backoff.is_completed() {
                    true => std::thread::sleep(PAUSE),
                    false => backoff.snooze(),
                }
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
        }
    }
}

/// The models of the protocols only need a lock.
#[cfg(loom)]
mod models {
    use crate::sched::base::{
        locked,
        sync::{Mutex, MutexGuard},
    };

    #[derive(Default)]
    pub struct SpinLock<T>(Mutex<T>);

    pub type SpinGuard<'a, T> = MutexGuard<'a, T>;

    impl<T> SpinLock<T> {
        pub fn new(value: T) -> Self {
            SpinLock(Mutex::new(value))
        }

        pub fn lock(&self) -> SpinGuard<'_, T> {
            locked(&self.0)
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::SpinLock;

    #[test]
    fn waiting_thread_gets_a_lock_that_is_held_long() {
        let lock = SpinLock::new(1);
        let guard = lock.lock();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| *lock.lock());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(guard);
            assert_eq!(waiter.join().unwrap(), 1);
        });
    }
}
