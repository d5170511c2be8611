//! The order of ready tasks.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Accepted work of a task. Sums and products of such numbers stay finite.
pub const WORK: RangeInclusive<f64> = 1e-100..=1e100;

/// A task's place in the ready queue: higher priority first; then more work first, tasks that state none last; then
/// the earlier arrival.
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

    /// Returns the rank with a priority that is higher by so much.
    pub fn raised(self, by: u32) -> Self {
        Rank { priority: Reverse(self.priority.0.saturating_add_unsigned(by)), ..self }
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
}
