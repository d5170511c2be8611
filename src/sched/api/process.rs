//! The default scheduler of a process, shared by its users.
//!
//! The first user creates it and the last one to release it ends it; a later user gets a new one. A
//! user that never releases it keeps it as long as the process lives. So a cell that is set once
//! does not hold it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::{Ownership, Scheduler};
use crate::error::{Error, Result};
use crate::fork::forks;
use crate::sched::base::lock;
use crate::sched::runtime::Runtime;

struct DefaultState {
    /// The scheduler, and the number of its users.
    current: Option<(Arc<Runtime>, u64)>,
    /// Threads that are creating one.
    creating: u32,
}

/// Locked for moments, in which no code of a caller runs.
static STATE: Mutex<DefaultState> = Mutex::new(DefaultState { current: None, creating: 0 });

/// The process that has, or is about to have, a default scheduler, as one more than its number of
/// [`forks`]: a child must not wait for a lock that another thread of its parent held. 0: none.
static CREATOR: AtomicU64 = AtomicU64::new(0);

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
        let here = forks() + 1;
        if let Err(creator) = CREATOR.compare_exchange(0, here, Ordering::AcqRel, Ordering::Acquire)
            && creator != here
        {
            return Err(Error::Forked);
        }
        let mut guard = lock(&STATE);
        if let Some((runtime, users)) = &mut guard.current {
            *users += 1;
            return Ok(Scheduler::new(runtime.clone(), Ownership::Shared(release)));
        }
        guard.creating += 1;
        drop(guard);
        // Not under the lock, for it may log. Two threads that come at once both create one, and
        // one is unused.
        let created = Scheduler::builder().build_runtime();
        let mut guard = lock(&STATE);
        guard.creating -= 1;
        let none = created.is_err() && guard.creating == 0 && guard.current.is_none();
        // Without a scheduler a child may create its own. Another thread may have released the last
        // one and reset this.
        CREATOR.store(if none { 0 } else { here }, Ordering::Release);
        // Dropped without the lock if it is unused; it has no threads.
        let created = created?;
        let (runtime, users) = guard.current.get_or_insert_with(|| (created.clone(), 0));
        *users += 1;
        let runtime = runtime.clone();
        drop(guard);
        Ok(Scheduler::new(runtime, Ownership::Shared(release)))
    }
}

/// Removes a user. Returns true if no other one is left, so that this one has to end the scheduler.
fn release(runtime: &Arc<Runtime>) -> bool {
    let mut guard = lock(&STATE);
    let Some((_, users)) = guard.current.as_mut().filter(|(current, _)| Arc::ptr_eq(current, runtime)) else {
        return true;
    };
    *users -= 1;
    let last = *users == 0;
    if last {
        guard.current = None;
        CREATOR.store(0, Ordering::Release);
    }
    last
}
