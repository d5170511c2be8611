//! The effects of a step of the planner, which its driver applies.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use crate::error::Result;
use crate::sched::base::{Job, TaskId};

/// A task whose job the driver has to drop before it publishes the end.
pub struct EndedTask {
    pub id: TaskId,
    pub job: Arc<dyn Job>,
    pub outcome: Result<()>,
}

/// A stack of ended tasks. Most steps end one, which takes no allocation.
#[derive(Default)]
pub struct EndedTasks {
    top: Option<EndedTask>,
    below: Vec<EndedTask>,
}

impl EndedTasks {
    pub fn push(&mut self, task: EndedTask) {
        self.below.extend(self.top.replace(task));
    }

    pub fn pop(&mut self) -> Option<EndedTask> {
        let top = self.top.take()?;
        self.top = self.below.pop();
        Some(top)
    }

    /// Moves the tasks of another stack on top.
    pub fn append(&mut self, other: &mut EndedTasks) {
        for task in other.below.drain(..).chain(other.top.take()) {
            self.push(task);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.top.is_none()
    }

    pub fn len(&self) -> usize {
        self.below.len() + usize::from(self.top.is_some())
    }
}

/// The time of a step of the planner, and what the driver has to do after it. Methods that change the planner read
/// the time and add to the rest; the driver applies each entry once.
#[must_use]
#[derive(Default)]
pub struct Effects {
    pub now: Duration,
    /// Tasks that have ended. The driver drops each job, without the lock if that runs code of the caller, then calls
    /// [`Planner::publish`](super::planner::Planner::publish).
    pub ended: EndedTasks,
    /// The number of tasks in `ended` that the driver has counted as ending.
    pub counted: usize,
    /// Devices whose poisoned context all attempts have left. The driver has the backend make a new one, then calls
    /// [`Planner::context_renewed`](super::planner::Planner::context_renewed).
    pub renewed: Vec<usize>,
    /// Attempts that are abandoned now, and the seconds that each had.
    pub abandoned: Vec<(TaskId, u32, f64)>,
    /// Records for the log, which may be the caller's code.
    pub log: Vec<(Level, String)>,
}

impl Effects {
    pub fn at(now: Duration) -> Self {
        Effects { now, ..Effects::default() }
    }

    /// Returns true if the next entry of `ended` or `log` runs code of the caller.
    pub fn runs_callers_code(&self) -> bool {
        !self.log.is_empty() || self.ended.top.as_ref().is_some_and(|task| task.job.has_drop())
    }
}
