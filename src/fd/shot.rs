//! One shot, from first step to gather; and a shot as a task of the scheduler.

use std::sync::Arc;

use super::plan::Plan;
use super::survey::{Gather, Shot};
use crate::backend::Lane;
use crate::error::{Error, Result};
use crate::sched::Task;

/// What a running shot tells and asks while it runs.
pub trait Control {
    /// After step `step` of `nt`; an error ends the shot with it.
    fn step(&self, step: usize, nt: usize) -> Result<()>;
    /// The pressure over the model's grid after `step + 1` steps.
    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()>;
}

/// Runs a shot on the lane that it is given.
pub fn run(plan: &Plan, shot: &Shot, lane: Lane<'_>, control: &dyn Control) -> Result<Gather> {
    let _ = (plan, shot, lane, control);
    Err(Error::Internal("not built yet".into()))
}

/// Where a shot's results go. Called on a worker's thread; a retried shot calls again.
pub trait Output: Send + Sync {
    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()>;
    /// Called once the result counts: no cancel comes between.
    fn finish(&self, gather: Gather) -> Result<()>;
}

/// A shot as a task, with its memory and work filled in.
pub fn task(plan: Arc<Plan>, shot: Shot, output: impl Output + 'static) -> Result<Task> {
    let _ = (plan, shot, output);
    Err(Error::Internal("not built yet".into()))
}
