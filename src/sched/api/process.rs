//! The scheduler that all of a process share, and who holds it.
//!
//! It is made when the first asks for it and ended when the last has given it back; whoever asks
//! later gets a new one. A holder that never gives back keeps it as long as the process lives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::scheduler::{Ownership, Scheduler};
use crate::error::{Error, Result};
use crate::fork::forks;
use crate::sched::runtime::shared::Runtime;

struct DefaultScheduler {
    shared: Arc<Runtime>,
    holders: u64,
}

struct Place {
    current: Option<DefaultScheduler>,
    /// Threads that are about to make one.
    making: u32,
}

/// Open except for moments, in which no code of a caller runs.
static PLACE: Mutex<Place> = Mutex::new(Place { current: None, making: 0 });

/// The process that has, or is about to have, one, as one more than its number of [`forks`]: a child
/// must not wait for a lock that another thread of its parent held. 0: none.
static MAKER: AtomicU64 = AtomicU64::new(0);

fn place() -> MutexGuard<'static, Place> {
    PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody takes or gives back the process's scheduler until the result is dropped.
pub(crate) fn hold_still() -> impl Sized + 'static {
    place()
}

impl Scheduler {
    /// The scheduler that all of a process share, made from the environment if nobody holds it, and
    /// kept from now on as long as the process lives. In a child that was forked after that,
    /// [`Error::Forked`].
    pub fn process_default() -> Result<&'static Scheduler> {
        kept()
    }

    /// The same one, to be given back by dropping it or by [`shutdown`](Self::shutdown): whoever gives
    /// it back last ends it, the others leave what they have submitted to those that stay. Each
    /// holder has its own order of [`wait_next`](Self::wait_next).
    pub fn share_default() -> Result<Scheduler> {
        hold()
    }
}

/// Another holder of the process's scheduler.
fn hold() -> Result<Scheduler> {
    let here = forks() + 1;
    if let Err(maker) = MAKER.compare_exchange(0, here, Ordering::AcqRel, Ordering::Acquire)
        && maker != here
    {
        return Err(Error::Forked);
    }
    let mut held = place();
    if let Some(current) = held.current.as_mut() {
        current.holders += 1;
        return Ok(Scheduler::new(current.shared.clone(), Ownership::Held(give_back)));
    }
    held.making += 1;
    drop(held);
    // Not under the lock, for it may log. Two who come at once make two, and one goes unused.
    let made = Scheduler::builder().build();
    let mut held = place();
    held.making -= 1;
    let none = made.is_err() && held.making == 0 && held.current.is_none();
    // Without a scheduler a child may make its own. Another thread may have given the last one back, and reset this.
    MAKER.store(if none { 0 } else { here }, Ordering::Release);
    let made = made?;
    let current =
        held.current.get_or_insert_with(|| DefaultScheduler { shared: made.shared().clone(), holders: 0 });
    current.holders += 1;
    let shared = current.shared.clone();
    drop(held);
    made.leave_to(&shared);
    Ok(Scheduler::new(shared, Ownership::Held(give_back)))
}

/// Whether nobody holds it any more, so that who gave it back last has to end it.
fn give_back(shared: &Arc<Runtime>) -> bool {
    let mut held = place();
    let Some(current) = held.current.as_mut().filter(|current| Arc::ptr_eq(&current.shared, shared)) else {
        return true;
    };
    current.holders -= 1;
    let last = current.holders == 0;
    if last {
        held.current = None;
        MAKER.store(0, Ordering::Release);
    }
    last
}

/// A holder that never gives back.
fn kept() -> Result<&'static Scheduler> {
    static KEPT: OnceLock<Scheduler> = OnceLock::new();
    match KEPT.get() {
        Some(kept) => kept.check_process().map(|()| kept),
        None => {
            let held = hold()?;
            Ok(KEPT.get_or_init(|| held))
        }
    }
}
