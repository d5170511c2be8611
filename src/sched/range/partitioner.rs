//! The partitioner: which participant has which elements of a range.
//!
//! Every element is unassigned, in the share of one participant, in the chunk that the participant
//! works on, or done. It moves between these under a lock, so no element is worked on twice, and
//! none is lost.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sched::base::sync::lock;

/// The elements that a participant has been assigned and has not begun. Others steal from it.
#[derive(Default)]
pub struct Share(Mutex<Range<u64>>);

/// The elements that no participant works on.
pub struct Partitioner {
    /// Elements in no share.
    unassigned: Vec<Range<u64>>,
    shares: Vec<Arc<Share>>,
}

pub fn length(part: &Range<u64>) -> u64 {
    part.end.saturating_sub(part.start)
}

impl Share {
    fn rest(&self) -> MutexGuard<'_, Range<u64>> {
        lock(&self.0)
    }

    /// Takes a chunk from the front. `size` gets the number of elements in the share and returns
    /// how many to take. Returns the chunk and the number of elements that remain.
    pub fn take(&self, size: impl FnOnce(u64) -> u64) -> Option<(Range<u64>, u64)> {
        let mut rest = self.rest();
        let available = length(&rest);
        if available == 0 {
            return None;
        }
        let size = size(available).clamp(1, available);
        let chunk = rest.start..rest.start + size;
        rest.start = chunk.end;
        Some((chunk, available - size))
    }

    /// Takes the upper half. The participant keeps a multiple of `grain`, and nothing of a single
    /// one.
    fn steal(&self, grain: u64) -> Option<Range<u64>> {
        let mut rest = self.rest();
        let available = length(&rest);
        if available == 0 {
            return None;
        }
        let kept = available / 2 / grain * grain;
        let stolen = rest.start + kept..rest.end;
        rest.end = stolen.start;
        Some(stolen)
    }
}

impl Partitioner {
    pub fn new(all: Range<u64>) -> Self {
        let mut partitioner = Partitioner { unassigned: Vec::new(), shares: Vec::new() };
        partitioner.give_back(all);
        partitioner
    }

    /// Adds a participant with an empty share.
    pub fn join(&mut self) -> Arc<Share> {
        let share = Arc::new(Share::default());
        self.shares.push(share.clone());
        share
    }

    /// Removes a participant. The rest of its share becomes unassigned.
    pub fn leave(&mut self, share: &Arc<Share>) {
        self.shares.retain(|other| !Arc::ptr_eq(other, share));
        let rest = std::mem::take(&mut *share.rest());
        self.give_back(rest);
    }

    /// Returns a chunk that was begun and is not done.
    pub fn give_back(&mut self, chunk: Range<u64>) {
        if length(&chunk) > 0 {
            self.unassigned.push(chunk);
        }
    }

    /// Fills an empty share with unassigned elements, else with the upper half of the largest
    /// share. Returns false if nothing is left to take.
    pub fn fill(&mut self, share: &Arc<Share>, grain: u64) -> bool {
        let found = self.unassigned.pop().or_else(|| {
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

    pub fn has_unassigned(&self) -> bool {
        !self.unassigned.is_empty()
    }

    /// Returns true if elements outside of this share are not begun.
    pub fn has_elements_beside(&self, share: &Arc<Share>) -> bool {
        let mut others = self.shares.iter().filter(|other| !Arc::ptr_eq(other, share));
        self.has_unassigned() || others.any(|other| length(&other.rest()) > 0)
    }

    /// Returns the number of elements that are not begun.
    pub fn remaining(&self) -> u64 {
        let unassigned: u64 = self.unassigned.iter().map(length).sum();
        unassigned + self.shares.iter().map(|share| length(&share.rest())).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thief_takes_the_upper_half_and_leaves_whole_grains() {
        let mut partitioner = Partitioner::new(0..100);
        let (one, two) = (partitioner.join(), partitioner.join());
        assert!(partitioner.fill(&one, 8));
        assert_eq!(one.take(|_| 8), Some((0..8, 92)));
        assert!(partitioner.fill(&two, 8));
        assert_eq!((one.rest().clone(), two.rest().clone()), (8..48, 48..100));
        partitioner.leave(&one);
        assert_eq!(partitioner.remaining(), 92, "the other keeps its share");
    }

    #[test]
    fn single_element_is_stolen_whole() {
        let mut partitioner = Partitioner::new(7..8);
        let (one, two) = (partitioner.join(), partitioner.join());
        assert!(partitioner.fill(&one, 1));
        assert!(partitioner.fill(&two, 1));
        assert_eq!(one.take(|_| 1), None);
        assert_eq!(two.take(|_| 5), Some((7..8, 0)));
        assert!(!partitioner.fill(&one, 1));
    }

    #[test]
    fn returned_chunks_are_handed_out_again() {
        let mut partitioner = Partitioner::new(u64::MAX - 10..u64::MAX);
        let one = partitioner.join();
        assert!(partitioner.fill(&one, 1));
        let (chunk, rest) = one.take(|available| available / 2).unwrap();
        assert_eq!((length(&chunk), rest), (5, 5));
        partitioner.give_back(chunk);
        partitioner.leave(&one);
        assert_eq!(partitioner.remaining(), 10);
        let two = partitioner.join();
        assert!(partitioner.fill(&two, 1) && partitioner.has_unassigned());
    }

    #[test]
    fn longest_range_does_not_overflow() {
        let mut partitioner = Partitioner::new(0..u64::MAX);
        let (one, two) = (partitioner.join(), partitioner.join());
        assert!(partitioner.fill(&one, u64::MAX) && partitioner.fill(&two, u64::MAX));
        assert_eq!(two.take(|_| u64::MAX), Some((0..u64::MAX, 0)), "less than two grains is not split");
        assert_eq!(partitioner.remaining(), 0);
    }
}
