//! Handles of schedulers. The object behind a handle is a scheduler.

use std::cell::Cell;

use super::handle::{HandleTable, LastLookup};
use crate::backend::float_mode::FloatMode;
use crate::backend::thread::CancelGuard;
use crate::error::Result;
use crate::sched::Scheduler;

/// A scheduler: tasks, and the devices that run them. NULL, where a handle is expected, means the
/// scheduler that the process shares (see sched_default), and keeps it until the process ends.
pub struct sched_t {
    _opaque: [u8; 0],
}

pub(super) static SCHEDULERS: HandleTable<Scheduler> = HandleTable::new("scheduler");

thread_local! {
    static LAST_LOOKUP: Cell<Option<LastLookup<Scheduler>>> = const { Cell::new(None) };
}

/// Calls `call` with the scheduler behind a handle, which lives at least until that has returned.
#[inline]
pub(super) fn with_scheduler<R>(
    handle: *const sched_t,
    call: impl FnOnce(&Scheduler) -> Result<R>,
) -> Result<R> {
    if handle.is_null() {
        return call(process_default()?);
    }
    SCHEDULERS.with(handle, &LAST_LOOKUP, call)
}

fn process_default() -> Result<&'static Scheduler> {
    // The call may create the scheduler.
    let (_whole, _mode) = (CancelGuard::here(), FloatMode::standard());
    Scheduler::process_default()
}

/// Removes the handle of a scheduler that has ended, or of a shared one that was released.
pub(super) fn remove(handle: *const sched_t) -> Result<()> {
    SCHEDULERS.remove(handle)?;
    // This thread does not keep it either.
    drop(LAST_LOOKUP.try_with(Cell::take));
    Ok(())
}
