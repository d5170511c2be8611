//! The concurrency tuner: how many tasks at a time give a device its best throughput.
//!
//! Starting with one slot, the tuner times a window of tasks while the device always has enough to
//! do, then tries one more slot. If that brings at least [`Policy::tuner_gain`] times the
//! throughput it stays, and the next is tried; if not, the tuner goes one slot back and is
//! finished.

use std::time::Duration;

use crate::sched::base::Policy;

/// The number of slots that asks for a [`ConcurrencyTuner`] on each device.
pub const AUTO_SLOTS: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub struct ConcurrencyTuner {
    slots: u32,
    /// Throughput with one slot less, in average tasks per second.
    before: f64,
    finished: bool,
    /// The current window: its begin, tasks and work.
    begun: Option<Duration>,
    tasks: u32,
    done: f64,
}

impl ConcurrencyTuner {
    pub fn new() -> Self {
        ConcurrencyTuner { slots: 1, before: 0.0, finished: false, begun: None, tasks: 0, done: 0.0 }
    }

    /// Records a task that has ended well and returns the number of slots to use from now on.
    /// `done`: its work in average tasks. `busy`: all slots were in use until then, and more tasks
    /// are ready.
    pub fn task_ended(&mut self, policy: &Policy, now: Duration, done: f64, busy: bool) -> u32 {
        if self.finished {
            return self.slots;
        }
        // A window begins when a task ends, so that it holds whole tasks.
        let Some(begun) = self.begun.filter(|_| busy) else {
            self.begun = busy.then_some(now);
            (self.tasks, self.done) = (0, 0.0);
            return self.slots;
        };
        self.tasks += 1;
        self.done += done;
        if self.tasks < policy.tuner_window * self.slots {
            return self.slots;
        }
        let rate = self.done / (now.saturating_sub(begun)).as_secs_f64().max(1e-9);
        if rate < policy.tuner_gain * self.before {
            (self.slots, self.finished) = (self.slots - 1, true);
        } else if self.slots == policy.most_slots {
            self.finished = true;
        } else {
            (self.slots, self.before) = (self.slots + 1, rate);
        }
        self.begun = None;
        self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slots after many tasks on a device that does `rate(slots)` tasks per second.
    fn tuned(rate: impl Fn(u32) -> f64) -> u32 {
        let (mut tuner, mut now, mut slots) = (ConcurrencyTuner::new(), 0.0, 1);
        for _ in 0..400 {
            now += 1.0 / rate(slots);
            slots = tuner.task_ended(&Policy::default(), Duration::from_secs_f64(now), 1.0, true);
        }
        slots
    }

    #[test]
    fn slots_grow_while_throughput_does() {
        assert_eq!(tuned(|_| 2.0), 1);
        assert_eq!(tuned(|slots| f64::from(slots.min(3))), 3);
        assert_eq!(tuned(|slots| 1.0 + 0.2 * f64::from(slots)), 8);
        assert_eq!(tuned(|slots| 1.0 / f64::from(slots)), 1);
    }

    #[test]
    fn only_busy_windows_count() {
        let mut tuner = ConcurrencyTuner::new();
        for second in 0..100 {
            let now = Duration::from_secs(second);
            assert_eq!(tuner.task_ended(&Policy::default(), now, 1.0, second % 3 != 0), 1);
        }
    }
}
