//! The effects of a step of the planner, which its driver applies.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use crate::error::Result;
use crate::sched::base::{Epoch, Job, TaskId};

/// A task whose job the driver has to drop before it publishes the end.
pub struct EndedTask {
    pub id: TaskId,
    /// The id by which callers know the task.
    pub known_as: TaskId,
    /// The epoch in which the driver counts the end.
    pub epoch: Option<Epoch>,
    /// `None` once the driver has taken it.
    pub job: Option<Arc<dyn Job>>,
    pub outcome: Result<()>,
}

/// The time of a step of the planner, and what the driver has to do after it. Methods that change
/// the planner read the time and add to the rest; the driver applies each entry once.
#[must_use]
#[derive(Default)]
pub struct Effects {
    pub now: Duration,
    /// Tasks that have ended, the next one last. The driver drops each job, without the lock if
    /// that runs code of the caller, then calls `Planner::publish`.
    pub ended: Vec<EndedTask>,
    /// Devices whose poisoned context all tasks have left. The driver has the backend retire it, so
    /// that the next queue opens a new one, then calls `Planner::context_renewed`.
    pub renewed: Vec<usize>,
    /// Attempts that are abandoned now, and the seconds that each had.
    pub abandoned: Vec<(TaskId, u32, f64)>,
    /// Owners of ranges whose helpers are abandoned now. They may wait for those.
    pub owners: Vec<TaskId>,
    /// Records for the log, which may be the caller's code.
    pub log: Vec<(Level, String)>,
}

impl Effects {
    pub fn at(now: Duration) -> Self {
        Effects { now, ..Effects::default() }
    }

    /// Returns true if the next entry of `ended` or `log` runs code of the caller.
    pub fn runs_callers_code(&self) -> bool {
        !self.log.is_empty()
            || self.ended.last().and_then(|task| task.job.as_ref()).is_some_and(|job| job.has_drop())
    }
}
