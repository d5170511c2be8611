//! How tasks are taken: all that can be known to be wrong with one is said here, and nothing of one that is refused is left.

use std::sync::atomic::Ordering;

use super::scheduler::Scheduler;
use crate::error::{Error, Result};
use crate::sched::base::task::Task;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::job::{InlineJob, LightJob};
use crate::sched::light::queues::{LightItem, LocalQueue};
use crate::sched::light::slab::LightSlab;
use crate::sched::light::task::LightTask;
use crate::sched::light::{NO_DEVICE, STOPPING};
use crate::sched::plan::effects::Effects;
use crate::sched::runtime::shared::PlannerGuarded;

impl Scheduler {
    /// Takes a task. Refused at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, mut task: Task) -> Result<TaskId> {
        if task.is_light() {
            return self.submit_light(LightJob::Boxed(task.job), task.detached);
        }
        let ordered = task.ordered;
        let mut guard = self.lock()?;
        self.check(&guard, &task)?;
        let one = std::slice::from_mut(&mut task);
        let mut effects = Effects::at(self.shared.now());
        if let Err(error) = self.reserve(&mut guard, one, &mut Vec::new(), &mut effects) {
            // What it has put into the plan for others may have ended.
            self.shared.apply_effects(guard, effects);
            return Err(error);
        }
        let id = guard.planner.submit(task, &mut effects)?;
        if ordered {
            self.line.push(id);
        }
        self.shared.apply_effects(guard, effects);
        self.fail_if_deserted();
        Ok(id)
    }

    /// Takes all of the tasks, or none: then the error is that of the first that can't be taken.
    pub fn submit_many(&self, mut tasks: Vec<Task>) -> Result<Vec<TaskId>> {
        let mut guard = self.lock()?;
        for task in &tasks {
            self.check(&guard, task)?;
        }
        let me = self.shared.current_worker();
        let hand = me.as_ref().map(|me| &me.queue);
        let light = &self.shared.light;
        let count = tasks.iter().filter(|task| task.is_light()).count() as u64;
        let phase = match light.count_submitted(hand, count) {
            Ok(phase) => phase,
            Err(refused) => {
                // Why is read in the book.
                drop(guard);
                return Err(self.refused(refused, count));
            }
        };
        let mut slots = Vec::with_capacity(count as usize);
        let mut effects = Effects::at(self.shared.now());
        if let Err(error) = self.reserve(&mut guard, &mut tasks, &mut slots, &mut effects) {
            self.shared.apply_effects(guard, effects);
            slots.into_iter().for_each(|(_, position)| light.slab.free(position));
            self.refuse(phase, count);
            return Err(error);
        }
        let now = self.shared.clock();
        let mut ids = Vec::with_capacity(tasks.len());
        let mut items = Vec::with_capacity(slots.len());
        for task in tasks {
            let ordered = task.ordered;
            let slot = if task.is_light() { slots.pop() } else { None };
            let id = match slot {
                Some((slot, position)) => {
                    let generation = slot.fill(Some(LightJob::Boxed(task.job)), task.detached, phase, now);
                    items.push(light.slab.id(position, generation));
                    light.slab.id(position, generation)
                }
                None => guard.planner.submit(task, &mut effects)?,
            };
            if ordered {
                self.line.push(id);
            }
            ids.push(id);
        }
        for id in items {
            light.queues.push(hand, LightItem::WithId(id));
        }
        self.shared.apply_effects(guard, effects);
        self.after_push();
        Ok(ids)
    }

    /// Takes a task of which nothing is stated, and that nobody will ask for: it has no id.
    pub(crate) fn submit_bare_unknown(&self, code: InlineJob) -> Result<()> {
        self.shared.process.check()?;
        let me = self.shared.current_worker();
        let hand = me.as_ref().map(|me| &me.queue);
        let phase = self.accept(hand, 1)?;
        self.shared
            .light
            .queues
            .push(hand, LightItem::Detached { job: LightJob::Inline(code), epoch: phase });
        self.after_push();
        Ok(())
    }

    /// Takes a task of which nothing is stated.
    pub(crate) fn submit_bare(&self, code: InlineJob, detached: bool) -> Result<TaskId> {
        self.submit_light(LightJob::Inline(code), detached)
    }

    fn submit_light(&self, code: LightJob, detached: bool) -> Result<TaskId> {
        self.shared.process.check()?;
        let me = self.shared.current_worker();
        let hand = me.as_ref().map(|me| &me.queue);
        let light = &self.shared.light;
        let phase = self.accept(hand, 1)?;
        let (slot, position) = light.slab.allocate().inspect_err(|_| self.refuse(phase, 1))?;
        let generation = slot.fill(Some(code), detached, phase, self.shared.clock());
        let id = light.slab.id(position, generation);
        light.queues.push(hand, LightItem::WithId(id));
        self.after_push();
        Ok(id)
    }

    fn accept(&self, hand: Option<&LocalQueue>, tasks: u64) -> Result<u8> {
        self.shared.light.count_submitted(hand, tasks).map_err(|refused| self.refused(refused, tasks))
    }

    #[cold]
    fn refused(&self, (phase, gate): (u8, u8), tasks: u64) -> Error {
        self.refuse(phase, tasks);
        self.shared.refusal(gate)
    }

    #[cold]
    fn refuse(&self, phase: u8, tasks: u64) {
        self.shared.light.count_refused(tasks);
        self.shared.count_ended(None, phase, tasks);
    }

    /// After items were pushed: somebody comes for them, or nobody ever will.
    fn after_push(&self) {
        self.shared.wake_any_worker();
        if self.shared.light.stop_flags.load(Ordering::SeqCst) & (NO_DEVICE | STOPPING) != 0 {
            self.shared.end_all_queued();
        }
        self.fail_if_deserted();
    }

    /// The system gives no thread at all.
    fn fail_if_deserted(&self) {
        if self.shared.pool.is_deserted() {
            self.shared.fail_deserted();
        }
    }

    fn check(&self, guard: &PlannerGuarded, task: &Task) -> Result<()> {
        if guard.planner.is_closed() {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        for &before in task.after.iter().filter(|before| LightSlab::is_light(**before)) {
            self.shared.light.slab.find(before)?;
        }
        guard.planner.check_task(task)
    }

    /// All that could keep a checked task from being admitted, which would drop the caller's code with the book locked.
    fn prepare(&self, guard: &mut PlannerGuarded, task: &mut Task, effects: &mut Effects) -> Result<()> {
        for before in &mut task.after {
            *before = self.shared.planned_id(guard, *before, effects)?;
        }
        Ok(())
    }

    /// All that could keep checked tasks from being taken, before one of them is: what is refused was never submitted.
    fn reserve<'a>(
        &'a self,
        guard: &mut PlannerGuarded,
        tasks: &mut [Task],
        slots: &mut Vec<(&'a LightTask, u32)>,
        effects: &mut Effects,
    ) -> Result<()> {
        for task in tasks.iter_mut() {
            if task.is_light() {
                slots.push(self.shared.light.slab.allocate()?);
            } else {
                self.prepare(guard, task, effects)?;
            }
        }
        guard.planner.check_room(tasks.len() - slots.len())
    }
}
