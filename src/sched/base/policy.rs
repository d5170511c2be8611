//! Which task next, and what is to be thought of one that runs: pure functions and numbers, no state.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A place in the queue: higher priority first; within one, more work first, what states none
/// after that; and what came first among equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    priority: Reverse<i32>,
    work: Reverse<u64>,
    arrival: u64,
}

impl Rank {
    /// `work` is checked at submit: in [`WORK`], so its bits order as it does.
    pub fn new(priority: i32, work: Option<f64>, arrival: u64) -> Self {
        Rank { priority: Reverse(priority), work: Reverse(work.map_or(0, |work| work.to_bits())), arrival }
    }

    pub fn priority(self) -> i32 {
        self.priority.0
    }

    /// The same task, so many priorities higher.
    pub fn raised(self, by: u32) -> Self {
        Rank { priority: Reverse(self.priority.0.saturating_add_unsigned(by)), ..self }
    }
}

/// What a task may tell of its work. Sums and products of such numbers stay numbers.
pub const WORK: RangeInclusive<f64> = 1e-100..=1e100;

/// How often a task may be passed over on a device, for want of memory, before that device
/// starts nothing else: then the memory that it waits for comes free.
pub const PATIENCE: u32 = 8;

/// How many ready tasks a placement looks ahead, of those that may begin on the device, and of those that keep
/// others busy. Beyond it the longest are first anyway.
pub const HORIZON: usize = 512;

/// A device that is at most so many times slower than the fastest never leaves a task to others.
pub const NEAR: f64 = 1.5;

/// A second copy is started where it should end in less than this share of what the first still needs.
pub const GAIN: f64 = 0.9;

/// Copies of a task that run at a time, the first counted.
pub const COPIES: u32 = 3;

/// A device that has been left out so many times as long as an average task takes there, and at
/// least [`PROBE_AFTER`], is given one again: it may have been judged by an accident.
pub const PROBE_TIMES: f64 = 10.0;
pub const PROBE_AFTER: Duration = Duration::from_secs(300);

/// Classes of which is known how fast each device is, and what their tasks have done. Of more, those are forgotten
/// that have not been used for longest.
pub const CLASSES: usize = 4096;

/// Tasks found guilty in a row, after which it is the device.
pub const CONVICTIONS: u32 = 3;

/// Attempts of a task whose result was wrong, after which it is the task.
pub const WRONG_ATTEMPTS: u32 = 2;
/// Tasks whose result was wrong on a device and right when computed again, after which it is the device.
pub const WRONG_TASKS: usize = 2;

/// How long fewer tasks at a time start on a device that was short of something.
pub const THROTTLE: Duration = Duration::from_secs(60);

/// How long a device that refused a task, because another process has it or its memory, begins none like it, by the number
/// of times that all devices have refused the task. It fails once they have done so one time more.
pub const BACKOFF: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

/// How long a device is taken to be as full as it was found, when other processes had taken memory that a task
/// needs. Nobody says when they give it back.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An attempt is late after so many times what its like have taken, and not before [`LATE_LEAST`]: that long a machine
/// may just be doing something else.
pub const LATE: f64 = 5.0;
pub const LATE_LEAST: Duration = Duration::from_secs(1);

/// An attempt that was asked to stop has as long again as it was given, and at least this, to return.
pub const GRACE: Duration = Duration::from_secs(10);

/// An attempt that another copy has made superfluous has so many times its expected time, from its beginning, before its
/// device is taken to hang: its code may be unable to stop early. Beyond twice the expected time no scatter explains it,
/// see [`is_odd`].
pub const DISMISSED: f64 = 2.0;

/// A waiting task gains one priority each time it has waited so many average durations.
pub const AGEING: f64 = 10.0;

/// Who is due is looked up after so long for each ready task, at the earliest: that costs a hundredth of it.
pub const AGEING_EACH: Duration = Duration::from_micros(100);

/// Returns the moment up to which unused classes are forgotten, given the last use of each. An eighth less than
/// [`CLASSES`] stay, so that the search is rare.
pub fn forgotten_until(mut used: Vec<u64>) -> u64 {
    match used.len().saturating_sub(CLASSES - CLASSES / 8) {
        0 => 0,
        surplus => *used.select_nth_unstable(surplus - 1).1,
    }
}

/// Whether an attempt has run for longer than the scatter of its like explains: those that tell their work
/// scatter by a fifth.
pub fn is_odd(expected: f64, elapsed: f64, told: bool) -> bool {
    elapsed > if told { 1.25 } else { 2.0 } * expected
}

/// How many seconds more an attempt should take that was expected to take `expected` and has run for
/// `elapsed`. A little late it is taken to be nearly done; much later, something is wrong with it or
/// with what was said of it, and it is expected to take as long again.
pub fn remaining(expected: f64, elapsed: f64, told: bool) -> f64 {
    if is_odd(expected, elapsed, told) {
        elapsed
    } else {
        let least = if told { 0.05 } else { 0.3 };
        (expected - elapsed).max(least * expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_then_longest_then_first_come() {
        let mut ranks = [
            (4, Rank::new(0, None, 1)),
            (5, Rank::new(0, None, 2)),
            (3, Rank::new(0, Some(1e-300), 3)),
            (2, Rank::new(0, Some(7.0), 4)),
            (1, Rank::new(3, None, 5)),
            (6, Rank::new(-1, Some(1e300), 0)),
        ];
        ranks.sort_by_key(|&(_, rank)| rank);
        assert_eq!(ranks.map(|(place, _)| place), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn what_is_much_too_late_is_not_nearly_done() {
        assert_eq!(remaining(10.0, 4.0, true), 6.0);
        assert_eq!(remaining(10.0, 11.0, true), 0.5);
        assert_eq!(remaining(10.0, 300.0, true), 300.0);
        assert_eq!(remaining(10.0, 11.0, false), 3.0);
    }

    #[test]
    fn attempt_is_odd_beyond_the_scatter_of_its_like() {
        for (elapsed, told, odd) in
            [(12.4, true, false), (12.6, true, true), (19.9, false, false), (20.1, false, true)]
        {
            assert_eq!(is_odd(10.0, elapsed, told), odd, "{elapsed} s");
        }
    }
}
