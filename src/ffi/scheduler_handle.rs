//! Handles of schedulers, and the scheduler behind one.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

use super::handle::{Handles, Last};
use crate::backend::thread::Uncancelled;
use crate::error::Result;
use crate::sched::Scheduler;

/// A scheduler: tasks, and the devices that run them. NULL, where one is asked for, means the one that
/// the process shares (see sched_default), which that keeps as long as the process lives.
pub struct sched_t {
    _opaque: [u8; 0],
}

pub(super) static SCHEDULERS: Handles<Scheduler> = Handles::new("scheduler");

thread_local! {
    static LAST: RefCell<Last<Scheduler>> = const { Last::none() };
}

/// The scheduler behind a handle, kept alive while a call uses it.
pub(super) enum Named {
    Default(&'static Scheduler),
    Own(Arc<Scheduler>),
}

impl Deref for Named {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        match self {
            Named::Default(scheduler) => scheduler,
            Named::Own(scheduler) => scheduler,
        }
    }
}

pub(super) fn scheduler(handle: *const sched_t) -> Result<Named> {
    if handle.is_null() {
        // It may have to be made.
        let _whole = Uncancelled::here();
        return Scheduler::process_default().map(Named::Default);
    }
    SCHEDULERS.get_again(handle, &LAST).map(Named::Own)
}
