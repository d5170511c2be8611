//! Abandoned attempts, whose threads no thread waits for, and the light tasks inside them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Runtime;
use crate::error::Error;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::nested::NestedTask;
use crate::sched::sleep::wait_queues::BLOCKED_TASKS;

impl Runtime {
    /// Abandons the threads of attempts. They count neither as blocked nor as awake from now on.
    pub fn abandon_attempts(&self, attempts: &[(TaskId, u32, f64)]) {
        for &(id, attempt, _) in attempts {
            self.light.queues.for_each_worker(|worker| worker.stats.nested.abandon((id, attempt)));
            self.wait_queues.notify(id);
            self.wait_queues.notify(BLOCKED_TASKS);
        }
        self.pool.abandon(attempts.len());
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
                    self.light.count_end(None, &outcome);
                    self.count_ended(None, epoch, 1);
                    continue;
                }
                let (slot, _) = self.light.slab.get(id);
                self.end_light(None, slot, id, epoch, outcome, self.clock());
            }
        }
    }
}
