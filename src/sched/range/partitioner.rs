//! Which elements of a range are whose: every element is either loose, or in the share of one
//! participant, or in that participant's hands, or done. It moves between these under a lock, so no
//! element is ever in two hands, and none is lost.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a participant has taken and not begun. The others steal from it.
#[derive(Default)]
pub struct Share(Mutex<Range<u64>>);

/// The elements that nobody works on now.
pub struct Partitioner {
    /// In nobody's share.
    loose: Vec<Range<u64>>,
    shares: Vec<Arc<Share>>,
}

pub fn length(part: &Range<u64>) -> u64 {
    part.end.saturating_sub(part.start)
}

impl Share {
    fn rest(&self) -> MutexGuard<'_, Range<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece from the front, as large as `size` says of what is there. The second: how much stays.
    pub fn take(&self, size: impl FnOnce(u64) -> u64) -> Option<(Range<u64>, u64)> {
        let mut rest = self.rest();
        let there = length(&rest);
        if there == 0 {
            return None;
        }
        let size = size(there).clamp(1, there);
        let piece = rest.start..rest.start + size;
        rest.start = piece.end;
        Some((piece, there - size))
    }

    /// The upper half; the owner keeps a multiple of `grain`, and nothing of a last piece.
    fn steal(&self, grain: u64) -> Option<Range<u64>> {
        let mut rest = self.rest();
        let there = length(&rest);
        if there == 0 {
            return None;
        }
        let kept = there / 2 / grain * grain;
        let stolen = rest.start + kept..rest.end;
        rest.end = stolen.start;
        Some(stolen)
    }
}

impl Partitioner {
    pub fn new(all: Range<u64>) -> Self {
        let mut field = Partitioner { loose: Vec::new(), shares: Vec::new() };
        field.give_back(all);
        field
    }

    pub fn join(&mut self) -> Arc<Share> {
        let share = Arc::new(Share::default());
        self.shares.push(share.clone());
        share
    }

    /// What the participant had not begun is loose again.
    pub fn leave(&mut self, share: &Arc<Share>) {
        self.shares.retain(|other| !Arc::ptr_eq(other, share));
        let rest = std::mem::take(&mut *share.rest());
        self.give_back(rest);
    }

    /// A piece that was in a participant's hands and is not done.
    pub fn give_back(&mut self, piece: Range<u64>) {
        if length(&piece) > 0 {
            self.loose.push(piece);
        }
    }

    /// Fills an empty share: with what is loose, else with the upper half of the largest other share.
    pub fn fill(&mut self, share: &Arc<Share>, grain: u64) -> bool {
        let found = self.loose.pop().or_else(|| {
            let largest = self.shares.iter().max_by_key(|other| length(&other.rest()))?;
            largest.steal(grain)
        });
        match found {
            Some(part) => {
                *share.rest() = part;
                true
            }
            None => false,
        }
    }

    pub fn has_loose(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Whether there is anything to begin in other hands than this share's.
    pub fn left_beside(&self, share: &Arc<Share>) -> bool {
        let mut others = self.shares.iter().filter(|other| !Arc::ptr_eq(other, share));
        self.has_loose() || others.any(|other| length(&other.rest()) > 0)
    }

    /// Elements that nobody has begun.
    pub fn left(&self) -> u64 {
        let loose: u64 = self.loose.iter().map(length).sum();
        loose + self.shares.iter().map(|share| length(&share.rest())).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thief_takes_the_upper_half_and_leaves_whole_grains() {
        let mut field = Partitioner::new(0..100);
        let (one, two) = (field.join(), field.join());
        assert!(field.fill(&one, 8));
        assert_eq!(one.take(|_| 8), Some((0..8, 92)));
        assert!(field.fill(&two, 8));
        assert_eq!((one.rest().clone(), two.rest().clone()), (8..48, 48..100));
        field.leave(&one);
        assert_eq!(field.left(), 92, "the other keeps its share");
    }

    #[test]
    fn the_last_piece_is_stolen_whole() {
        let mut field = Partitioner::new(7..8);
        let (one, two) = (field.join(), field.join());
        assert!(field.fill(&one, 1));
        assert!(field.fill(&two, 1));
        assert_eq!(one.take(|_| 1), None);
        assert_eq!(two.take(|_| 5), Some((7..8, 0)));
        assert!(!field.fill(&one, 1));
    }

    #[test]
    fn what_comes_back_is_given_out_again() {
        let mut field = Partitioner::new(u64::MAX - 10..u64::MAX);
        let one = field.join();
        assert!(field.fill(&one, 1));
        let (piece, rest) = one.take(|there| there / 2).unwrap();
        assert_eq!((length(&piece), rest), (5, 5));
        field.give_back(piece);
        field.leave(&one);
        assert_eq!(field.left(), 10);
        let two = field.join();
        assert!(field.fill(&two, 1) && field.has_loose());
    }

    #[test]
    fn the_longest_range_does_not_overflow() {
        let mut field = Partitioner::new(0..u64::MAX);
        let (one, two) = (field.join(), field.join());
        assert!(field.fill(&one, u64::MAX) && field.fill(&two, u64::MAX));
        assert_eq!(two.take(|_| u64::MAX), Some((0..u64::MAX, 0)), "less than two grains is not split");
        assert_eq!(field.left(), 0);
    }
}
