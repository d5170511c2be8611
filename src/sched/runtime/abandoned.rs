//! Attempts whose threads nobody waits for any more, and what runs on top of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Runtime;
use crate::error::Error;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::nested::NestedTask;
use crate::sched::sleep::wait_queues::INSIDE;

impl Runtime {
    /// Nobody waits any more for the threads of these attempts. None of them counts as blocked from now on, for it does not count
    /// as awake either.
    pub fn give_up(&self, attempts: &[(TaskId, u32, f64)]) {
        for &(id, attempt, _) in attempts {
            self.light.queues.each_station(|station| station.books.on_top.give_up((id, attempt)));
            self.wait_queues.ring(id);
            self.wait_queues.ring(INSIDE);
        }
        self.pool.give_up(attempts.len());
    }

    /// An attempt at a planned task is given up: what runs on top of it does not return either.
    pub fn give_up_on_top(self: &Arc<Self>, id: TaskId, attempt: u32, limit_s: f64) {
        for station in self.light.queues.stations() {
            let device = self.devices[station.device].label();
            let stay = |frame: NestedTask| {
                if frame.id.0 != 0 {
                    let (slot, generation) = self.light.slots.place(frame.id);
                    slot.stay(generation);
                }
            };
            for NestedTask { id, phase } in station.books.on_top.take((id, attempt), stay).into_iter().rev() {
                station.books.since.store(0, Ordering::Relaxed);
                let what = "the task on top of which it ran".into();
                let outcome = Err(Error::Deadline { what, limit_s, device: device.clone() });
                if id.0 == 0 {
                    self.light.count_end(None, &outcome);
                    self.count_ended(None, phase, 1);
                    continue;
                }
                let (slot, _) = self.light.slots.place(id);
                self.end_light(None, slot, id, phase, outcome, self.clock());
            }
        }
    }
}
