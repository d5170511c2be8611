//! Submission of tasks. All checks come before the first effect, so a refused task was never
//! submitted.

use std::sync::atomic::Ordering;

use super::Scheduler;
use crate::error::{Error, Result};
use crate::sched::base::{Task, TaskId, lock};
use crate::sched::light::{InlineJob, LightItem, LightJob, LightTask, LocalQueue, NO_DEVICE, STOPPING};
use crate::sched::plan::Effects;
use crate::sched::runtime::PlannerGuarded;

impl Scheduler {
    /// Submits a task. Fails at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, mut task: Task) -> Result<TaskId> {
        if task.is_light() {
            return self.submit_light(LightJob::Shared(task.job), task.detached);
        }
        let ordered = task.ordered;
        let mut guard = self.lock()?;
        self.check(&guard, &task)?;
        let one = std::slice::from_mut(&mut task);
        let mut effects = Effects::at(self.runtime.now());
        if let Err(error) = self.reserve(&mut guard, one, &mut Vec::new(), &mut effects) {
            // Proxies of light tasks that it depends on may have ended.
            self.runtime.apply_effects(guard, effects);
            return Err(error);
        }
        let id = guard.planner.submit(task, &mut effects)?;
        if ordered {
            lock(&self.ordered).push_back(id);
        }
        self.runtime.apply_effects(guard, effects);
        self.fail_if_deserted();
        Ok(id)
    }

    /// Submits all of the tasks or none: then the error is that of the first one that is refused.
    pub fn submit_many(&self, mut tasks: Vec<Task>) -> Result<Vec<TaskId>> {
        let mut guard = self.lock()?;
        for task in &tasks {
            self.check(&guard, task)?;
        }
        let worker = self.runtime.current_worker();
        let queue = worker.as_ref().map(|worker| &worker.queue);
        let light = &self.runtime.light;
        let count = tasks.iter().filter(|task| task.is_light()).count() as u64;
        let epoch = match light.count_submitted(queue, count) {
            Ok(epoch) => epoch,
            Err(refused) => {
                // `refused` takes the planner lock.
                drop(guard);
                return Err(self.refused(refused, count));
            }
        };
        let mut slots = Vec::with_capacity(count as usize);
        let mut effects = Effects::at(self.runtime.now());
        if let Err(error) = self.reserve(&mut guard, &mut tasks, &mut slots, &mut effects) {
            self.runtime.apply_effects(guard, effects);
            slots.into_iter().for_each(|(_, position)| light.slab.free(position));
            self.refuse(epoch, count);
            return Err(error);
        }
        let now = self.runtime.clock();
        let mut ids = Vec::with_capacity(tasks.len());
        let mut items = Vec::with_capacity(slots.len());
        for task in tasks {
            let ordered = task.ordered;
            let slot = if task.is_light() { slots.pop() } else { None };
            let id = match slot {
                Some((slot, position)) => {
                    let generation = slot.fill(LightJob::Shared(task.job), task.detached, epoch, now);
                    items.push(light.slab.id(position, generation));
                    light.slab.id(position, generation)
                }
                None => guard.planner.submit(task, &mut effects)?,
            };
            if ordered {
                lock(&self.ordered).push_back(id);
            }
            ids.push(id);
        }
        for id in items {
            light.queues.push(queue, LightItem::WithId(id));
        }
        self.runtime.apply_effects(guard, effects);
        self.after_push();
        Ok(ids)
    }

    /// Submits a light task without an id.
    pub(crate) fn submit_inline_without_id(&self, job: InlineJob) -> Result<()> {
        self.runtime.process.check()?;
        let worker = self.runtime.current_worker();
        let queue = worker.as_ref().map(|worker| &worker.queue);
        let epoch = self.count_submitted(queue)?;
        self.runtime.light.queues.push(queue, LightItem::Detached { job: LightJob::Inline(job), epoch });
        self.after_push();
        Ok(())
    }

    /// Submits a light task.
    pub(crate) fn submit_inline(&self, job: InlineJob, detached: bool) -> Result<TaskId> {
        self.submit_light(LightJob::Inline(job), detached)
    }

    fn submit_light(&self, job: LightJob, detached: bool) -> Result<TaskId> {
        self.runtime.process.check()?;
        let worker = self.runtime.current_worker();
        let queue = worker.as_ref().map(|worker| &worker.queue);
        let light = &self.runtime.light;
        let epoch = self.count_submitted(queue)?;
        let (slot, position) = light.slab.allocate().inspect_err(|_| self.refuse(epoch, 1))?;
        let generation = slot.fill(job, detached, epoch, self.runtime.clock());
        let id = light.slab.id(position, generation);
        light.queues.push(queue, LightItem::WithId(id));
        self.after_push();
        Ok(id)
    }

    fn count_submitted(&self, queue: Option<&LocalQueue>) -> Result<u8> {
        self.runtime.light.count_submitted(queue, 1).map_err(|refused| self.refused(refused, 1))
    }

    /// Uncounts refused tasks. Returns why the light tier is closed.
    #[cold]
    fn refused(&self, (epoch, stop_flags): (u8, u8), tasks: u64) -> Error {
        self.refuse(epoch, tasks);
        self.runtime.refusal(stop_flags)
    }

    #[cold]
    fn refuse(&self, epoch: u8, tasks: u64) {
        self.runtime.light.refused_tasks.fetch_add(tasks, Ordering::Relaxed);
        self.runtime.count_ended(None, epoch, tasks);
    }

    /// Wakes a worker for pushed items, or ends them if no worker will ever run them.
    fn after_push(&self) {
        self.runtime.wake_any_worker();
        if self.runtime.light.stop_flags.load(Ordering::SeqCst) & (NO_DEVICE | STOPPING) != 0 {
            self.runtime.end_all_queued();
        }
        self.fail_if_deserted();
    }

    /// Fails all tasks if the system gives no thread at all.
    fn fail_if_deserted(&self) {
        if self.runtime.pool.is_deserted() {
            self.runtime.fail_deserted();
        }
    }

    fn check(&self, guard: &PlannerGuarded, task: &Task) -> Result<()> {
        if guard.planner.is_closed() {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        for &before in task.after.iter().filter(|before| before.is_light()) {
            self.runtime.light.slab.find(before)?;
        }
        guard.planner.check_task(task)
    }

    /// Takes all that checked tasks need, so that their submission can't fail: it would drop the
    /// caller's code under the planner lock. Light tasks get slots; dependencies on light tasks
    /// become proxies.
    fn reserve<'a>(
        &'a self,
        guard: &mut PlannerGuarded,
        tasks: &mut [Task],
        slots: &mut Vec<(&'a LightTask, u32)>,
        effects: &mut Effects,
    ) -> Result<()> {
        for task in tasks.iter_mut() {
            if task.is_light() {
                slots.push(self.runtime.light.slab.allocate()?);
                continue;
            }
            for before in &mut task.after {
                *before = self.runtime.planned_id(guard, *before, effects)?;
            }
        }
        guard.planner.check_room(tasks.len() - slots.len())
    }
}
