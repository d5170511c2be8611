//! Light tasks in the planner: how one is promoted, and how planned tasks come after one.
//!
//! The protocol is in [`Proxies`](crate::sched::light::proxies::Proxies).

use std::sync::Arc;
use std::time::Duration;

use super::{PlannerGuarded, Runtime};
use crate::error::{Error, Result};
use crate::sched::base::{Exec, Job, TaskId, unpack};
use crate::sched::light::{Epoch, LightAttempt, LightJob, LightTask, PlannerStep};
use crate::sched::plan::{AttemptEnd, Effects};

/// A failed attempt at a light task that concerns its device.
pub struct LightFailure {
    pub error: Error,
    pub device: usize,
    pub slot: u32,
    /// The device's context in which it began.
    pub context: u32,
    pub started_ns: u64,
    /// Another task of this process ran on the device meanwhile.
    pub shared_device: bool,
}

/// A light task's job as that of the planned task which runs in its stead.
struct PromotedJob {
    id: TaskId,
    job: LightJob,
}

impl Job for PromotedJob {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        self.job.run(&Exec { task: self.id, ..*exec })
    }
}

impl Runtime {
    /// Hands a light task to the planner after a failed attempt, as if that had begun there.
    pub fn promote(self: &Arc<Self>, task: &LightTask, id: TaskId, job: LightJob, failure: LightFailure) {
        let LightFailure { error, device, slot, context, started_ns, shared_device } = failure;
        let job: Arc<dyn Job> = Arc::new(PromotedJob { id, job });
        let mut guard = self.lock();
        let mut effects = Effects::at(Duration::from_nanos(started_ns));
        let mut step = PlannerStep(&mut guard.planner, &mut effects);
        let place = (device, slot, context);
        let promoted = self.light.proxies.promote(&mut step, task, id, job, place, shared_device);
        effects.now = self.now();
        match promoted {
            Ok(promoted) => {
                let end = AttemptEnd::Ran(Err(error));
                guard.planner.on_attempt_end(device, promoted, 1, end, &mut effects);
                self.apply_effects(guard, effects);
            }
            Err(job) => {
                self.apply_effects(guard, effects);
                self.drop_job(job);
                self.end_light(None, Some(task), id, task.epoch(unpack(id).1), Err(error), self.clock());
            }
        }
    }

    /// Does the same for a task without an id, which gets one for that.
    pub fn promote_detached(self: &Arc<Self>, job: LightJob, epoch: Epoch, failure: LightFailure) {
        let started_ns = failure.started_ns;
        match self.light.slab.allocate() {
            Ok((task, position)) => {
                let generation = task.fill(job, true, epoch, started_ns);
                let begun = task.begin(generation, failure.device, failure.slot, started_ns);
                if let Some(LightAttempt { job, .. }) = begun {
                    self.promote(task, self.light.slab.id(position, generation), job, failure);
                }
            }
            Err(_) => {
                self.drop_job(job);
                self.end_light(None, None, TaskId(0), epoch, Err(failure.error), 0);
            }
        }
    }

    /// Ends the light task that was promoted to a planned one which has ended, if there is one.
    pub fn end_promoted(self: &Arc<Self>, guard: &mut PlannerGuarded, planned: TaskId, outcome: Result<()>) {
        let Some(id) = self.light.proxies.take_promoted(planned) else { return };
        let (task, generation) = self.light.slab.get(id);
        let info = guard.planner.info(self.now(), planned);
        let _ = guard.planner.release(planned);
        let epoch = task.epoch(generation);
        if let Ok(info) = info {
            task.set_info(generation, &info);
        }
        let actions = task.end(generation, outcome, self.clock(), |_| ());
        self.apply_end_actions(id, actions);
        self.count_ended(None, epoch, 1);
    }

    /// Returns the planned task that ends with `id`, for tasks that come after it. The caller then
    /// calls [`Runtime::apply_effects`].
    pub fn planned_id(
        &self,
        guard: &mut PlannerGuarded,
        id: TaskId,
        effects: &mut Effects,
    ) -> Result<TaskId> {
        if !id.is_light() {
            return Ok(id);
        }
        let (task, _) = self.light.slab.find(id)?;
        let mut step = PlannerStep(&mut guard.planner, effects);
        self.light.proxies.attach(&mut step, task, id, |end| self.light.uncount_outcome(end))
    }

    /// Ends the proxy of a light task that has ended.
    pub fn end_proxy(self: &Arc<Self>, proxy: TaskId, outcome: Result<()>) {
        self.step(|planner, effects| {
            self.light.proxies.end(&mut PlannerStep(planner, effects), proxy, outcome);
        });
    }
}
