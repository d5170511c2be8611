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

/// The time of a step of the planner, and what the driver has to do after it. Methods that change the planner read
/// the time and add to the rest; the driver applies each entry once.
#[must_use]
#[derive(Default)]
pub struct Effects {
    pub now: Duration,
    /// Tasks that have ended. The driver drops each job without the lock, then calls
    /// [`Planner::publish`](super::planner::Planner::publish).
    pub ended: Vec<EndedTask>,
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
}
