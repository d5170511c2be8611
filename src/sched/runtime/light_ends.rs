//! Ends of light tasks: how they are published and counted, and ends of those that have not begun or are
//! inside an abandoned attempt.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Runtime;
use crate::error::{Error, Result};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::outcome::WaitResult;
use crate::sched::base::registry::unpack;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::epochs::Epoch;
use crate::sched::light::nested::NestedTask;
use crate::sched::light::queues::{LightItem, LocalQueue};
use crate::sched::light::task::{EndActions, LightTask};
use crate::sched::sleep::wait_queues::ALL_TASKS;

impl Runtime {
    /// Runs `end`, which takes light tasks out of the queues, drops their jobs and publishes their ends. Meanwhile no
    /// wait counts as a deadlock, and no shutdown is complete.
    pub fn ending<T>(&self, end: impl FnOnce() -> T) -> T {
        self.jobs_dropping.fetch_add(1, Ordering::SeqCst);
        let ended = end();
        self.jobs_dropping.fetch_sub(1, Ordering::SeqCst);
        self.notify_blocked();
        ended
    }

    /// Publishes the end of a light task whose job has been dropped.
    pub fn end_light(
        self: &Arc<Self>,
        hand: Option<&LocalQueue>,
        slot: &LightTask,
        id: TaskId,
        phase: Epoch,
        outcome: Result<()>,
        now: u64,
    ) {
        let generation = unpack(id).1;
        let mut parting =
            slot.end(generation, outcome, now, |outcome| self.light.count_outcome(hand, outcome));
        let shadow = parting.proxy.take();
        self.apply_end_actions(id, parting);
        self.count_ended(hand, phase, 1);
        if let Some((shadow, outcome)) = shadow {
            self.end_proxy(shadow, outcome);
        }
    }

    pub fn count_ended(&self, hand: Option<&LocalQueue>, phase: Epoch, tasks: u64) {
        if self.light.count_ended(hand, phase, tasks) {
            self.wait_queues.notify(ALL_TASKS);
        }
        // A worker that ends the last task checks by itself whether it may leave, and one that leaves wakes the others.
        if hand.is_none() && self.light.is_stopping() && self.light.epochs.is_drained() {
            self.pool.event_count.wake_all();
        }
    }

    /// Ends a watch of a light task. Returns the outcome, if there is one.
    pub fn unwatch_light(&self, slot: &LightTask, generation: u64, id: TaskId) -> Option<Result<WaitResult>> {
        let (outcome, free) = slot.stop_wait(generation);
        self.apply_end_actions(id, EndActions { free, ..EndActions::default() });
        outcome
    }

    pub fn apply_end_actions(&self, id: TaskId, parting: EndActions) {
        if parting.free {
            self.light.slab.free(unpack(id).2 as u32);
        }
        if parting.notify {
            self.wait_queues.notify(id);
        }
    }

    /// Ends all light tasks that have not begun: they are cancelled, or no device is left for them.
    pub fn end_all_queued(self: &Arc<Self>) {
        let why = if self.light.is_stopping() {
            Error::Cancelled
        } else {
            self.lock().planner.no_device("the task".into(), DeviceMask::ALL, &[])
        };
        while let Some(item) = self.light.queues.drain_one() {
            self.end_queued_item(None, item, &why);
        }
    }

    /// Fails everything: the system gives no thread to run it.
    pub fn fail_deserted(self: &Arc<Self>) {
        let why = Error::NoThread { purpose: "to run tasks", why: "the log has its words".into() };
        while let Some(item) = self.light.queues.drain_one() {
            self.end_queued_item(None, item, &why);
        }
        self.step(|planner, effects| planner.fail_ready(&why, effects));
    }

    pub fn end_queued_item(self: &Arc<Self>, hand: Option<&LocalQueue>, item: LightItem, why: &Error) {
        match item {
            LightItem::WithId(id) => {
                if let Ok((slot, generation)) = self.light.slab.find(id) {
                    self.end_queued(hand, slot, generation, id, why);
                }
            }
            LightItem::Detached { job: code, epoch: phase } => self.ending(|| {
                self.drop_job(code);
                self.light.count_outcome(hand, &Err(why.clone()));
                self.count_ended(hand, phase, 1);
            }),
        }
    }

    /// Ends a light task if it has not begun. Returns whether it did.
    pub fn end_queued(
        self: &Arc<Self>,
        hand: Option<&LocalQueue>,
        slot: &LightTask,
        generation: u64,
        id: TaskId,
        why: &Error,
    ) -> bool {
        self.ending(|| {
            let Some((code, phase)) = slot.withdraw(generation) else { return false };
            self.drop_job(code);
            self.end_light(hand, slot, id, phase, Err(why.clone()), self.clock());
            true
        })
    }

    /// Ends the light tasks inside an abandoned attempt at a planned task.
    pub fn end_nested(self: &Arc<Self>, id: TaskId, attempt: u32, limit_s: f64) {
        for worker in self.light.queues.workers() {
            let device = self.devices[worker.device].label();
            let hold = |frame: NestedTask| {
                if frame.id.0 != 0 {
                    let (slot, generation) = self.light.slab.get(frame.id);
                    slot.hold(generation);
                }
            };
            for NestedTask { id, epoch } in
                worker.stats.nested.take_all((id, attempt), hold).into_iter().rev()
            {
                worker.stats.light_since.store(0, Ordering::Relaxed);
                let what = "the task on top of which it ran".into();
                let outcome = Err(Error::Deadline { what, limit_s, device: device.clone() });
                if id.0 == 0 {
                    self.light.count_outcome(None, &outcome);
                    self.count_ended(None, epoch, 1);
                    continue;
                }
                let (slot, _) = self.light.slab.get(id);
                self.end_light(None, slot, id, epoch, outcome, self.clock());
            }
        }
    }
}
