//! How many tasks at a time a device does best with, found by watching how much it gets done.
//!
//! Starting with one, as many tasks as make a window are timed while the device always has enough to
//! do; then one more slot is tried. If that gets at least [`WORTH`] times as much done it stays, and
//! the next is tried; if not, the search goes back and is over.

use std::time::Duration;

/// As a number of slots: as many as each device turns out to do best with.
pub const AUTO_SLOTS: u32 = u32::MAX;

/// Tasks of a window, for each slot.
const WINDOW: u32 = 4;
/// A slot more has to bring so much.
const WORTH: f64 = 1.05;
/// More is not tried.
pub const MOST: u32 = 8;

#[derive(Debug, Clone)]
pub struct ConcurrencyTuner {
    slots: u32,
    /// What was done per second with one slot less.
    before: f64,
    over: bool,
    begun: Option<Duration>,
    tasks: u32,
    done: f64,
}

impl ConcurrencyTuner {
    pub fn new() -> Self {
        ConcurrencyTuner { slots: 1, before: 0.0, over: false, begun: None, tasks: 0, done: 0.0 }
    }

    /// A task has ended well, `done` of what an average one is. `busy`: all slots were in use until then,
    /// and there is more to do. Returns how many slots to use from now on.
    pub fn ended(&mut self, now: Duration, done: f64, busy: bool) -> u32 {
        if self.over {
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
        if self.tasks < WINDOW * self.slots {
            return self.slots;
        }
        let rate = self.done / (now.saturating_sub(begun)).as_secs_f64().max(1e-9);
        if rate < WORTH * self.before {
            (self.slots, self.over) = (self.slots - 1, true);
        } else if self.slots == MOST {
            self.over = true;
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

    /// Slots after many tasks on a device that does `rate(slots)` tasks a second.
    fn found(rate: impl Fn(u32) -> f64) -> u32 {
        let (mut search, mut now, mut slots) = (ConcurrencyTuner::new(), 0.0, 1);
        for _ in 0..400 {
            now += 1.0 / rate(slots);
            slots = search.ended(Duration::from_secs_f64(now), 1.0, true);
        }
        slots
    }

    #[test]
    fn as_many_as_bring_something() {
        assert_eq!(found(|_| 2.0), 1);
        assert_eq!(found(|slots| f64::from(slots.min(3))), 3);
        assert_eq!(found(|slots| 1.0 + 0.2 * f64::from(slots)), 8);
        assert_eq!(found(|slots| 1.0 / f64::from(slots)), 1);
    }

    #[test]
    fn only_busy_times_count() {
        let mut search = ConcurrencyTuner::new();
        for second in 0..100 {
            assert_eq!(search.ended(Duration::from_secs(second), 1.0, second % 3 != 0), 1);
        }
    }
}
