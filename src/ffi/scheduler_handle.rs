//! Handles of schedulers. The object behind a handle is a scheduler.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

use super::handle::{HandleTable, LastLookup};
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
    static LAST_LOOKUP: RefCell<LastLookup<Scheduler>> = const { LastLookup::new() };
}

/// The scheduler behind a handle, kept alive while a call uses it.
pub(super) enum SchedulerRef {
    Default(&'static Scheduler),
    Created(Arc<Scheduler>),
}

impl Deref for SchedulerRef {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        match self {
            SchedulerRef::Default(scheduler) => scheduler,
            SchedulerRef::Created(scheduler) => scheduler,
        }
    }
}

/// Returns the scheduler behind a handle.
pub(super) fn scheduler(handle: *const sched_t) -> Result<SchedulerRef> {
    if handle.is_null() {
        // The call may create the scheduler.
        let _whole = CancelGuard::here();
        return Scheduler::process_default().map(SchedulerRef::Default);
    }
    SCHEDULERS.get_cached(handle, &LAST_LOOKUP).map(SchedulerRef::Created)
}
