//! The default scheduler of a process, shared by its users.
//!
//! The first user creates it and the last one to release it ends it; a later user gets a new one. A
//! user that never releases it keeps it as long as the process lives. So a cell that is set once
//! does not hold it.

use std::sync::{Arc, Mutex, OnceLock};

use super::{Ownership, Scheduler};
use crate::error::Result;
use crate::sched::base::lock;
use crate::sched::runtime::Runtime;

/// The scheduler, which is the parent's in a forked child, and the number of its users. Locked for
/// moments, in which no code of a caller runs; a fork takes it (`ffi/fork.rs`).
static STATE: Mutex<Option<(Arc<Runtime>, u64)>> = Mutex::new(None);

/// Locks the default scheduler against other users until the result is dropped.
pub(crate) fn lock_default() -> impl Sized + 'static {
    lock(&STATE)
}

impl Scheduler {
    /// Returns the default scheduler of the process, created from the environment if there is none,
    /// and kept as long as the process lives. In a child that was forked after that,
    /// [`Error::Forked`].
    pub fn process_default() -> Result<&'static Scheduler> {
        static KEPT: OnceLock<Scheduler> = OnceLock::new();
        match KEPT.get() {
            Some(kept) => kept.runtime.process.check().map(|()| kept),
            None => {
                let shared = Scheduler::share_default()?;
                Ok(KEPT.get_or_init(|| shared))
            }
        }
    }

    /// Returns the same scheduler, to be released by dropping it or by
    /// [`shutdown`](Self::shutdown). The last user to release it ends it; the others leave the
    /// tasks that they have submitted to those that stay. Each user has its own order of
    /// [`wait_next`](Self::wait_next).
    pub fn share_default() -> Result<Scheduler> {
        let mut created = None;
        loop {
            let mut state = lock(&STATE);
            if state.is_none() {
                *state = created.take().map(|runtime| (runtime, 0));
            }
            if let Some((runtime, users)) = &mut *state {
                runtime.process.check()?;
                *users += 1;
                return Ok(Scheduler::new(runtime.clone(), Ownership::Shared(release)));
            }
            drop(state);
            // Not under the lock, for it may log. Two threads that come at once both create one,
            // and one is unused: it has no threads, and is dropped without the lock.
            created = Some(Scheduler::builder().build_runtime()?);
        }
    }
}

/// Removes a user. Returns true if no other one is left, so that this one has to end the scheduler.
fn release(runtime: &Arc<Runtime>) -> bool {
    let mut state = lock(&STATE);
    let Some((_, users)) = state.as_mut().filter(|(current, _)| Arc::ptr_eq(current, runtime)) else {
        return true;
    };
    *users -= 1;
    let last = *users == 0;
    if last {
        *state = None;
    }
    last
}
