//! Blocks one thread until another one notifies it.

use std::sync::PoisonError;
use std::time::Instant;

use crate::sched::base::sync::{Condvar, Mutex, MutexGuard, locked};

/// A thread's place to wait. A notification that comes before the wait ends that at once.
#[derive(Default)]
pub struct Parker {
    state: Mutex<ParkerState>,
    changed: Condvar,
}

#[derive(Default)]
pub struct ParkerState {
    pub notified: bool,
    /// Counted in [`WaitQueues::blocked`](super::wait_queues::WaitQueues::blocked); never while it is
    /// notified.
    pub blocked: bool,
}

impl Parker {
    /// Blocks until a notification, and takes it. Returns false if the deadline passed first.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        while !state.notified {
            let woken = match deadline {
                None => self.changed.wait(state).map_err(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let woken = self.changed.wait_timeout(state, left);
                    woken.map(|woken| woken.0).map_err(|poison| poison.into_inner().0)
                }
            };
            state = woken.unwrap_or_else(|state| state);
        }
        state.notified = false;
        true
    }

    /// Notifies the thread, after `change` in the same critical section.
    pub fn notify(&self, change: impl FnOnce(&mut ParkerState)) {
        let mut state = self.lock();
        state.notified = true;
        change(&mut state);
        self.changed.notify_one();
    }

    pub fn lock(&self) -> MutexGuard<'_, ParkerState> {
        locked(&self.state)
    }
}
