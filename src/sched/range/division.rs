//! Division of a range: [`Partitioner`] assigns elements to workers, [`ChunkSizer`] sets how many
//! at a time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sched::base::{Policy, TaskId};

/// A worker that takes part in a range: its device, and its own task: the owner's or the helper's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Participant {
    pub device: usize,
    pub task: TaskId,
}

/// The elements that no participant works on, and the participants.
///
/// Every element is unassigned, in the chunk that a participant works on, or done. It moves between
/// these under the range's lock, so no element is worked on twice, and none is lost.
#[derive(Default)]
pub struct Partitioner {
    /// The last are taken first.
    unassigned: Vec<Range<u64>>,
    participants: Vec<Participant>,
}

pub fn length(part: &Range<u64>) -> u64 {
    part.end.saturating_sub(part.start)
}

impl Partitioner {
    pub fn new(all: Range<u64>) -> Self {
        let mut partitioner = Partitioner::default();
        partitioner.give_back(all);
        partitioner
    }

    pub fn join(&mut self, own: Participant) {
        self.participants.push(own);
    }

    pub fn leave(&mut self, own: Participant) {
        // An abandoned attempt at a helper task has the same task as the next one.
        if let Some(at) = self.participants.iter().position(|other| *other == own) {
            self.participants.swap_remove(at);
        }
    }

    /// Returns the most elements that a chunk can have now: those in a row.
    pub fn available(&self) -> u64 {
        self.unassigned.last().map_or(0, length)
    }

    /// Takes a chunk of at most so many elements, at least 1.
    pub fn take(&mut self, size: u64) -> Option<Range<u64>> {
        let part = self.unassigned.pop()?;
        let end = part.start + size.clamp(1, length(&part));
        self.give_back(end..part.end);
        Some(part.start..end)
    }

    /// Returns elements that are not done. They are taken next: if they are the cause of a failure,
    /// that shows before others fail.
    pub fn give_back(&mut self, part: Range<u64>) {
        if !part.is_empty() {
            self.unassigned.push(part);
        }
    }

    pub fn has_unassigned(&self) -> bool {
        !self.unassigned.is_empty()
    }

    pub fn participants(&self) -> usize {
        self.participants.len()
    }

    /// Returns true if a participant is there whose task is none of these.
    pub fn has_participants_but(&self, tasks: &[TaskId]) -> bool {
        self.participants.iter().any(|other| !tasks.contains(&other.task))
    }

    /// Returns the devices of the other participants.
    pub fn devices_beside(&self, own: Participant) -> impl Iterator<Item = usize> {
        self.participants.iter().filter(move |other| **other != own).map(|other| other.device)
    }

    /// Returns the number of elements that are not begun.
    pub fn remaining(&self) -> u64 {
        self.unassigned.iter().map(length).sum()
    }
}

/// Chooses how many elements a call gets on each device.
///
/// With a grain, each call gets that many. Without one, the first call gets one element, and the
/// measured times lead to a size that takes [`Policy::chunk_seconds`]. No call gets more than a
/// quarter of a participant's part of the rest ([`Policy::chunks_of_part`]), so that all end at
/// about the same time. After a chunk did not fit a device, its calls get at most half of that.
///
/// All numbers are by device and without a lock: a lost update costs a little balance, nothing
/// else.
pub struct ChunkSizer {
    pub policy: Arc<Policy>,
    grain: Option<u64>,
    devices: Vec<DeviceChunks>,
}

struct DeviceChunks {
    /// Seconds per element, as the bits of an `f64`; 0: not known.
    seconds: AtomicU64,
    size: AtomicU64,
    /// The largest size that may fit.
    most: AtomicU64,
}

impl ChunkSizer {
    pub fn new(grain: Option<u64>, devices: usize, policy: Arc<Policy>) -> Self {
        let unmeasured =
            || DeviceChunks { seconds: AtomicU64::new(0), size: 1.into(), most: u64::MAX.into() };
        ChunkSizer { policy, grain, devices: (0..devices).map(|_| unmeasured()).collect() }
    }

    /// Returns the number of elements of the next call. `rest`: elements that are not begun.
    pub fn size(&self, device: usize, rest: u64, participants: usize) -> u64 {
        let device = &self.devices[device];
        let wanted = self.grain.unwrap_or_else(|| {
            let chunks = self.policy.chunks_of_part * participants as u64;
            device.size.load(Ordering::Relaxed).min((rest / chunks).max(1))
        });
        wanted.min(device.most.load(Ordering::Relaxed))
    }

    /// Records the time of a call.
    pub fn record(&self, device: usize, elements: u64, seconds: f64) {
        let measured = (seconds / elements as f64).max(1e-12);
        let mean = self.seconds(device).map_or(measured, |before| 0.5 * (before + measured));
        let device = &self.devices[device];
        device.seconds.store(mean.to_bits(), Ordering::Relaxed);
        let wanted = (self.policy.chunk_seconds / mean).clamp(1.0, 1e18) as u64;
        let most = elements.saturating_mul(self.policy.chunk_growth);
        device.size.store(wanted.min(most), Ordering::Relaxed);
    }

    /// Halves the size after a chunk did not fit. Returns false if it was a single element, so that
    /// nothing will.
    pub fn halve(&self, device: usize, elements: u64) -> bool {
        self.devices[device].most.fetch_min((elements / 2).max(1), Ordering::Relaxed);
        elements > 1
    }

    fn seconds(&self, device: usize) -> Option<f64> {
        let seconds = f64::from_bits(self.devices[device].seconds.load(Ordering::Relaxed));
        (seconds > 0.0).then_some(seconds)
    }

    /// Returns true for a device that has to check [`ChunkSizer::should_decline`] before each call.
    pub fn is_slow(&self, device: usize) -> bool {
        let mut all = (0..self.devices.len()).filter_map(|other| self.seconds(other));
        let Some(own) = self.seconds(device) else { return false };
        all.any(|other| own > self.policy.slow_device * other)
    }

    /// Returns true if the other participants would finish all remaining elements before this
    /// device finishes one. `others`: the device of each of them.
    pub fn should_decline(&self, device: usize, remaining: u64, others: impl Iterator<Item = usize>) -> bool {
        let Some(own) = self.seconds(device) else { return false };
        let speed: f64 = others.filter_map(|other| Some(1.0 / self.seconds(other)?)).sum();
        remaining as f64 / own < speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_are_given_back_are_taken_next() {
        let mut partitioner = Partitioner::new(0..100);
        partitioner.join(Participant { device: 0, task: TaskId(1) });
        assert_eq!(partitioner.take(11), Some(0..11));
        partitioner.give_back(0..8);
        assert_eq!((partitioner.available(), partitioner.remaining()), (8, 97));
        let rest = std::iter::from_fn(|| partitioner.take(50));
        assert_eq!(rest.collect::<Vec<_>>(), [0..8, 11..61, 61..100]);
    }

    #[test]
    fn calls_grow_to_the_target_and_not_beyond() {
        let sizer = ChunkSizer::new(None, 1, Arc::default());
        let mut sizes = Vec::new();
        for _ in 0..8 {
            let size = sizer.size(0, u64::MAX, 1);
            sizes.push(size);
            sizer.record(0, size, size as f64 * 1e-6);
        }
        assert_eq!(sizes[..4], [1, 16, 256, 750]);
        assert_eq!([1, 5].map(|participants| sizer.size(0, 100, participants)), [25, 5], "all have some");
        assert_eq!(sizer.size(0, 1, 1), 1);
    }

    #[test]
    fn slow_device_leaves_the_end_to_fast_ones() {
        let sizer = ChunkSizer::new(Some(1), 3, Arc::default());
        sizer.record(0, 1, 1.0);
        sizer.record(1, 1, 2.0);
        assert!(sizer.is_slow(1), "twice as long as the fastest");
        sizer.record(1, 1, 38.0);
        assert!(sizer.is_slow(1) && !sizer.is_slow(0) && !sizer.is_slow(2));
        assert!(sizer.should_decline(1, 19, [0].into_iter()));
        assert!(!sizer.should_decline(1, 21, [0].into_iter()));
        assert!(sizer.should_decline(1, 21, [0, 0].into_iter()), "two slots of the fast one");
        assert!(!sizer.should_decline(1, 5, [].into_iter()), "no other participant");
        assert!(!sizer.should_decline(1, 5, [2].into_iter()), "the other is not measured");
    }
}
