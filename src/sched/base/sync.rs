//! Locks and atomics of model-checked protocols: those of std, or of loom with `--cfg loom`.

#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};

use std::sync::PoisonError;

/// Locks a mutex of a protocol. A poisoned lock is used: the library does not panic half-way
/// through a change.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows a `SeqCst` access whose place in the total order matters: loom orders only fences
/// totally.
pub fn total_order() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Locks a mutex that is no part of a protocol.
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Functions that the models of the protocols share.
#[cfg(all(test, loom))]
pub mod models {
    use loom::thread::{self, JoinHandle};

    use super::Arc;

    /// Runs a model in every order of the steps of its threads, with up to so many preemptions.
    pub fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    /// Starts a thread that shares the world of a model.
    pub fn start<W: 'static, T: 'static>(
        world: &Arc<W>,
        code: impl FnOnce(&W) -> T + 'static,
    ) -> JoinHandle<T> {
        let world = world.clone();
        thread::spawn(move || code(&world))
    }

    pub fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
