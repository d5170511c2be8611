//! A task that a thread waits for. It outlives the release of the task.

use std::sync::Arc;

use crate::error::Result;
use crate::sched::base::{Completion, TaskId, WaitResult};
use crate::sched::light::LightTask;
use crate::sched::runtime::Runtime;

pub enum Watch<'a> {
    Planned(Arc<Completion>),
    Light(&'a LightTask, u64, TaskId),
    Ended(Result<WaitResult>),
}

impl Watch<'_> {
    /// Starts a wait for a task, to be ended by [`Watch::end`].
    pub fn start(runtime: &Runtime, id: TaskId) -> Result<Watch<'_>> {
        if id.is_light() {
            let (task, generation) = runtime.light.slab.find(id)?;
            let ended = task.start_wait(generation, id)?;
            return Ok(ended.map_or(Watch::Light(task, generation, id), Watch::Ended));
        }
        let completion = runtime.lock().planner.start_wait(id)?;
        Ok(match completion.outcome.get() {
            Some(outcome) => Watch::Ended(outcome.clone()),
            None => Watch::Planned(completion),
        })
    }

    pub fn is_ended(&self) -> bool {
        match self {
            Watch::Ended(_) => true,
            Watch::Planned(completion) => completion.outcome.get().is_some(),
            Watch::Light(task, generation, _) => task.is_ended(*generation),
        }
    }

    /// Ends a wait. Returns the outcome if there is one.
    pub fn end(self, runtime: &Runtime) -> Option<Result<WaitResult>> {
        match self {
            Watch::Ended(outcome) => Some(outcome),
            Watch::Planned(completion) => completion.outcome.get().cloned(),
            Watch::Light(task, generation, id) => runtime.unwatch_light(task, generation, id),
        }
    }
}
