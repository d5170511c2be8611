//! Submission of tasks. All checks come before the first effect, so a refused task was never
//! submitted.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use super::Scheduler;
use crate::error::{Error, Result};
use crate::sched::base::{DeviceMask, Task, TaskId, lock, no_memory};
use crate::sched::light::{
    CLOSED, InlineJob, LightItem, LightJob, LightTask, LocalQueue, NO_DEVICE, STOPPING,
};
use crate::sched::plan::Effects;
use crate::sched::runtime::PlannerGuarded;

/// Upper bound of the bytes of a task in small allocations: the completion of a planned one, a place
/// of a light one, and nodes of queues.
const SMALL_BYTES: usize = 256;
/// Predecessors of a task that take as much at most: a place in a set and in a map, and the first
/// successors.
const PREDECESSORS: usize = 1;

impl Scheduler {
    /// Submits a task. Fails at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, task: Task) -> Result<TaskId> {
        if task.is_light() {
            return self.submit_light(LightJob::Shared(task.job), task.detached);
        }
        let mut id = TaskId(0);
        self.submit_all([task], |_, error| error, |submitted| id = submitted)?;
        Ok(id)
    }

    /// Submits all of the tasks or none: then the error is that of the first one that is refused.
    pub fn submit_many(&self, tasks: Vec<Task>) -> Result<Vec<TaskId>> {
        self.submit_list(tasks, |_, error| error)
    }

    /// As [`Scheduler::submit_many`]. `refuse` gets the index of a task that is refused.
    pub(crate) fn submit_list(
        &self,
        tasks: Vec<Task>,
        refuse: impl Fn(usize, Error) -> Error,
    ) -> Result<Vec<TaskId>> {
        let mut ids = Vec::new();
        ids.try_reserve_exact(tasks.len()).map_err(|_| no_memory::<TaskId>("the ids", tasks.len()))?;
        self.submit_all(tasks, refuse, |id| ids.push(id))?;
        Ok(ids)
    }

    fn submit_all(
        &self,
        mut tasks: impl AsMut<[Task]> + IntoIterator<Item = Task>,
        refuse: impl Fn(usize, Error) -> Error,
        mut report: impl FnMut(TaskId),
    ) -> Result<()> {
        let runtime = self.runtime()?;
        let mut guard = runtime.lock();
        for (index, task) in tasks.as_mut().iter().enumerate() {
            self.check(&guard, task).map_err(|error| refuse(index, error))?;
        }
        let worker = runtime.current_worker();
        let queue = worker.as_ref().map(|worker| &worker.queue);
        let light = &runtime.light;
        let count = tasks.as_mut().len() as u64;
        let epoch = match light.count_submitted(queue, count) {
            Ok(epoch) => epoch,
            Err(refused) => {
                // `refused` takes the planner lock.
                drop(guard);
                return Err(self.refused(refused, count));
            }
        };
        let (mut slots, mut ended) = (Vec::new(), Vec::new());
        if let Err(error) = self.reserve(&mut guard, tasks.as_mut(), &mut slots, &mut ended) {
            drop(guard);
            slots.into_iter().for_each(|(_, position)| light.slab.free(position));
            self.refuse(epoch, count);
            return Err(error);
        }
        let mut effects = Effects::at(runtime.now());
        let (now, pushed) = (runtime.clock(), !slots.is_empty());
        if count > 0 {
            light.note_submission(|| now);
        }
        for mut task in tasks {
            task.epoch = Some(epoch);
            let ordered = task.ordered;
            let slot = if task.is_light() { slots.pop() } else { None };
            let id = match slot {
                Some((slot, position)) => {
                    let generation = slot.fill(LightJob::Shared(task.job), task.detached, epoch, now);
                    let id = light.slab.id(position, generation);
                    light.queues.push(queue, LightItem::WithId(id));
                    id
                }
                None => guard.planner.submit(task, &mut effects)?,
            };
            if ordered {
                lock(&self.ordered).push_back(id);
            }
            report(id);
        }
        for (before, outcome) in ended {
            guard.planner.light_task_ended(before, &outcome, &mut effects);
        }
        runtime.apply_effects(guard, effects);
        match pushed {
            false => runtime.fail_if_deserted(),
            true => self.after_push(),
        }
        Ok(())
    }

    /// Submits a light task without an id.
    pub(crate) fn submit_inline_without_id(&self, job: InlineJob) -> Result<()> {
        let runtime = self.runtime()?;
        let worker = runtime.current_worker();
        let queue = worker.as_ref().map(|worker| &worker.queue);
        let epoch = self.count_submitted(queue)?;
        runtime.light.queues.push(queue, LightItem::Detached { job: LightJob::Inline(job), epoch });
        self.after_push();
        Ok(())
    }

    pub(crate) fn submit_light(&self, job: LightJob, detached: bool) -> Result<TaskId> {
        let runtime = self.runtime()?;
        let worker = runtime.current_worker();
        let queue = worker.as_ref().map(|worker| &worker.queue);
        let light = &runtime.light;
        let epoch = self.count_submitted(queue)?;
        let (slot, position) = light.slab.allocate().inspect_err(|_| self.refuse(epoch, 1))?;
        let generation = slot.fill(job, detached, epoch, runtime.clock());
        let id = light.slab.id(position, generation);
        light.queues.push(queue, LightItem::WithId(id));
        self.after_push();
        Ok(id)
    }

    fn count_submitted(&self, queue: Option<&LocalQueue>) -> Result<u8> {
        let light = &self.runtime.light;
        let epoch = light.count_submitted(queue, 1).map_err(|refused| self.refused(refused, 1))?;
        light.note_submission(|| self.runtime.clock());
        Ok(epoch)
    }

    /// Uncounts refused tasks. Returns why the light tier is closed.
    #[cold]
    fn refused(&self, (epoch, stop_flags): (u8, u8), tasks: u64) -> Error {
        self.refuse(epoch, tasks);
        if stop_flags & (CLOSED | STOPPING) != 0 {
            return Error::Shutdown { what: "submitting a task" };
        }
        self.runtime.lock().planner.no_device("the task".into(), DeviceMask::ALL, &[])
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
        self.runtime.fail_if_deserted();
    }

    fn check(&self, guard: &PlannerGuarded, task: &Task) -> Result<()> {
        if self.runtime.light.stop_flags.load(Ordering::SeqCst) & (CLOSED | STOPPING) != 0 {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        for &before in task.after.iter().filter(|before| before.is_light()) {
            self.runtime.light.slab.find(before)?;
        }
        guard.planner.check_task(task)
    }

    /// Takes all that checked tasks need, so that their submission can't fail: it would drop the
    /// caller's code under the planner lock. Light tasks get slots. Light tasks that planned ones
    /// come after report their end from now on; `ended` gets those that have ended.
    fn reserve<'a>(
        &'a self,
        guard: &mut PlannerGuarded,
        tasks: &[Task],
        slots: &mut Vec<(&'a LightTask, u32)>,
        ended: &mut Vec<(TaskId, Result<()>)>,
    ) -> Result<()> {
        let slab = &self.runtime.light.slab;
        let light = tasks.iter().filter(|task| task.is_light()).count();
        let failed = |_| no_memory::<[u8; SMALL_BYTES]>("the tasks", tasks.len());
        slots.try_reserve_exact(light).map_err(failed)?;
        guard.planner.reserve(tasks.len() - light)?;
        let ordered = tasks.iter().filter(|task| task.ordered).count();
        if ordered > 0 {
            lock(&self.ordered).try_reserve(ordered).map_err(failed)?;
        }
        // The small allocations abort the process where one fails, so all are tried at once.
        let mut small: Vec<[u8; SMALL_BYTES]> = Vec::new();
        let predecessors: usize = tasks.iter().map(|task| task.after.len()).sum();
        let count = tasks.len() + predecessors.div_ceil(PREDECESSORS);
        black_box(&mut small).try_reserve_exact(count).map_err(failed)?;
        drop(small);
        for task in tasks {
            if task.is_light() {
                slots.push(slab.allocate()?);
            }
            for &before in task.after.iter().filter(|before| before.is_light()) {
                let (light, generation) = slab.find(before)?;
                ended.extend(light.follow(generation, before)?.map(|outcome| (before, outcome)));
            }
        }
        Ok(())
    }
}
