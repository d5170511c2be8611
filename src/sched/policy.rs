//! Which task next: pure functions, no state.

use std::cmp::Reverse;

/// A place in the queue: higher priority first; within one, more work first, what states none
/// after that; and what came first among equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    priority: Reverse<i32>,
    work: Reverse<u64>,
    arrival: u64,
}

impl Rank {
    /// `work` is checked at submit: positive and finite, so its bits order as it does.
    pub fn new(priority: i32, work: Option<f64>, arrival: u64) -> Self {
        Rank { priority: Reverse(priority), work: Reverse(work.map_or(0, |work| work.to_bits())), arrival }
    }
}

/// How often a task may be passed over on a device, for want of memory, before that device
/// starts nothing else: then the memory that it waits for comes free.
pub const PATIENCE: u32 = 8;

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
}
