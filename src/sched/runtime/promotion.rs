//! Light tasks in the plan: one that meets with something unusual goes on there as a planned task, and one
//! that planned tasks come after has a planned task that stands for it, its *shadow*, which is never ready and
//! ends when it does. A shadow whose task goes on in the plan becomes that planned task, so its followers stay.
//!
//! Both are kept in [`LightTasks::stand_ins`](crate::sched::light::LightTasks::stand_ins) until the light task ends. Locks are taken in this
//! order: the book, a light task's, the stand-ins.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::shared::{PlannerGuarded, Runtime};
use crate::error::{Error, Result};
use crate::sched::base::exec::{Exec, Job};
use crate::sched::base::outcome::WaitResult;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::epochs::Epoch;
use crate::sched::light::job::LightJob;
use crate::sched::light::slab::LightSlab;
use crate::sched::light::task::LightTask;
use crate::sched::plan::completion::AttemptEnd;
use crate::sched::plan::effects::Effects;

/// An attempt at a light task that says something of the device.
pub struct LightFailure {
    pub error: Error,
    pub device: usize,
    pub slot: u32,
    /// Of the device, in which it began.
    pub context: u32,
    pub started_ns: u64,
    /// Something else of ours ran there meanwhile.
    pub shared_device: bool,
}

/// A light task's job as that of the planned task which goes on in its stead.
struct PromotedJob {
    id: TaskId,
    job: LightJob,
}

impl Job for PromotedJob {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        let Exec { device, device_index, slot, attempt, lane, signal, held, findings, .. } = *exec;
        self.job.run(&Exec {
            task: self.id,
            device,
            device_index,
            slot,
            attempt,
            lane,
            signal,
            held,
            findings,
        })
    }
}

impl Runtime {
    /// A light task that met with something unusual goes on in the plan, as if it had begun there.
    pub fn promote(self: &Arc<Self>, slot: &LightTask, id: TaskId, job: LightJob, failed: LightFailure) {
        let LightFailure { error, device, slot: number, context, started_ns: since, shared_device: company } =
            failed;
        let generation = crate::sched::base::registry::unpack(id).1;
        let began = Duration::from_nanos(since);
        let job: Arc<dyn Job> = Arc::new(PromotedJob { id, job });
        let mut guard = self.lock();
        let mut effects = Effects::at(self.now());
        let stand_in = match slot.proxy(generation) {
            Some(shadow) => Ok(shadow),
            None => self.add_proxy(&mut guard, id, &mut Effects::at(began)),
        };
        let adopted = match stand_in {
            Ok(planned) => {
                let place = (device, number, context);
                guard.planner.adopt_promoted(began, planned, job, place, company, &mut effects)
            }
            Err(_) => Err(job),
        };
        let planned = match adopted {
            Ok(planned) => planned,
            // The plan has no room.
            Err(job) => {
                self.apply_effects(guard, effects);
                self.drop_job(job);
                let epoch = slot.epoch(generation);
                return self.end_light(None, slot, id, epoch, Err(error), self.clock());
            }
        };
        self.light.promoted_tasks.fetch_add(1, Ordering::SeqCst);
        slot.promote(generation, planned);
        if slot.signal.is_cancelled() {
            let _ = guard.planner.cancel(planned, &mut effects);
        }
        let end = AttemptEnd::Ran(Err(error));
        guard.planner.on_attempt_end(device, planned, 1, end, &mut effects);
        self.apply_effects(guard, effects);
    }

    /// The same for one that nobody can ask for: it gets a slot for that.
    pub fn promote_detached(self: &Arc<Self>, job: LightJob, epoch: Epoch, failed: LightFailure) {
        let since = failed.started_ns;
        match self.light.slab.allocate() {
            Ok((slot, position)) => {
                let generation = slot.fill(None, true, epoch, since);
                slot.set_running(generation, since);
                let id = self.light.slab.id(position, generation);
                self.promote(slot, id, job, failed);
            }
            Err(_) => {
                self.drop_job(job);
                self.light.count_end(None, &Err(failed.error));
                self.count_ended(None, epoch, 1);
            }
        }
    }

    /// A planned task has ended. If a light one went on as it, this is its end, too.
    pub fn end_promoted(self: &Arc<Self>, guard: &mut PlannerGuarded, planned: TaskId, outcome: Result<()>) {
        // A shadow whose own task ends is taken out of them before.
        let Some(id) = lock(&self.light.proxies).remove(&planned) else { return };
        let (slot, generation) = self.light.slab.get(id);
        self.light.promoted_tasks.fetch_sub(1, Ordering::SeqCst);
        let info = guard.planner.info(self.now(), planned);
        let _ = guard.planner.release(planned);
        let epoch = slot.epoch(generation);
        if let Ok(info) = info {
            slot.set_info(generation, &info);
        }
        let parting = slot.end(generation, outcome, self.clock(), |_| ());
        self.apply_end_actions(id, parting);
        self.count_ended(None, epoch, 1);
    }

    /// What stands in the plan for a light task that a planned one is to come after. To be followed by
    /// [`Runtime::settle`].
    pub fn planned_id(
        &self,
        guard: &mut PlannerGuarded,
        id: TaskId,
        effects: &mut Effects,
    ) -> Result<TaskId> {
        if !LightSlab::is_light(id) {
            return Ok(id);
        }
        let (slot, generation) = self.light.slab.find(id)?;
        let (stand_in, ended) = slot.attach_proxy(generation, id, |before| match before {
            Some(before) if guard.planner.contains(before) => Ok(before),
            _ => self.add_proxy(guard, id, effects),
        })?;
        if let Some(ended) = ended {
            // It was counted, and is from now on there.
            lock(&self.light.proxies).remove(&stand_in);
            let outcome = match ended {
                Ok(WaitResult::Cancelled) => Err(Error::Cancelled),
                ended => ended.map(|_| ()),
            };
            self.light.queues.callers.ends.uncount(&outcome);
            guard.planner.end_proxy(stand_in, outcome, effects);
        }
        Ok(stand_in)
    }

    fn add_proxy(&self, guard: &mut PlannerGuarded, id: TaskId, effects: &mut Effects) -> Result<TaskId> {
        let shadow = guard.planner.admit_proxy(effects)?;
        self.light.proxies_made.fetch_add(1, Ordering::SeqCst);
        lock(&self.light.proxies).insert(shadow, id);
        Ok(shadow)
    }
}
