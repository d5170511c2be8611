//! Division of a range: [`Partitioner`] assigns elements to workers, [`ChunkSizer`] sets how many
//! at a time.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sched::base::{Policy, TaskId, lock};

/// The elements that a participant has been assigned and has not begun. Others steal from it.
pub struct Share {
    /// The device of the participant, and its own task: the owner's or the helper's.
    pub device: usize,
    pub task: TaskId,
    rest: Mutex<Range<u64>>,
}

/// The elements that no participant works on.
///
/// Every element is unassigned, in the share of one participant, in the chunk that the participant
/// works on, or done. It moves between these under a lock, so no element is worked on twice, and
/// none is lost.
#[derive(Default)]
pub struct Partitioner {
    /// Elements in no share. The last are taken first.
    unassigned: Vec<Range<u64>>,
    shares: Vec<Arc<Share>>,
}

pub fn length(part: &Range<u64>) -> u64 {
    part.end.saturating_sub(part.start)
}

impl Share {
    fn rest(&self) -> MutexGuard<'_, Range<u64>> {
        lock(&self.rest)
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
        let kept = length(&rest) / 2 / grain * grain;
        let stolen = rest.start + kept..rest.end;
        rest.end = stolen.start;
        (!stolen.is_empty()).then_some(stolen)
    }
}

impl Partitioner {
    pub fn new(all: Range<u64>) -> Self {
        let mut partitioner = Partitioner::default();
        partitioner.give_back(all);
        partitioner
    }

    /// Adds a participant with an empty share.
    pub fn join(&mut self, device: usize, task: TaskId) -> Arc<Share> {
        let share = Arc::new(Share { device, task, rest: Mutex::default() });
        self.shares.push(share.clone());
        share
    }

    /// Removes a participant. The rest of its share becomes unassigned. A chunk under which its
    /// device failed is taken before: if the elements are the cause, that shows before more of them
    /// fail.
    pub fn leave(&mut self, share: &Arc<Share>) {
        self.shares.retain(|other| !Arc::ptr_eq(other, share));
        let rest = std::mem::take(&mut *share.rest());
        if !rest.is_empty() {
            self.unassigned.insert(0, rest);
        }
    }

    /// Returns a chunk that was begun and is not done.
    pub fn give_back(&mut self, chunk: Range<u64>) {
        if !chunk.is_empty() {
            self.unassigned.push(chunk);
        }
    }

    /// Fills an empty share with unassigned elements, else with the upper half of the largest
    /// share. Returns false if nothing is left to take.
    pub fn fill(&mut self, share: &Share, grain: u64) -> bool {
        let largest = || self.shares.iter().max_by_key(|other| length(&other.rest()));
        let Some(part) = self.unassigned.pop().or_else(|| largest()?.steal(grain)) else { return false };
        *share.rest() = part;
        true
    }

    pub fn has_unassigned(&self) -> bool {
        !self.unassigned.is_empty()
    }

    /// Returns true if a participant is there whose task is none of these.
    pub fn has_participants_but(&self, tasks: &[TaskId]) -> bool {
        self.shares.iter().any(|share| !tasks.contains(&share.task))
    }

    /// Returns the shares of the other participants.
    pub fn beside(&self, share: &Share) -> impl Iterator<Item = &Share> {
        self.shares.iter().map(Arc::as_ref).filter(move |other| !std::ptr::eq(*other, share))
    }

    /// Returns true if elements outside of this share are not begun.
    pub fn has_elements_beside(&self, share: &Share) -> bool {
        self.has_unassigned() || self.beside(share).any(|other| !other.rest().is_empty())
    }

    /// Returns the number of elements that are not begun.
    pub fn remaining(&self) -> u64 {
        let unassigned: u64 = self.unassigned.iter().map(length).sum();
        unassigned + self.shares.iter().map(|share| length(&share.rest())).sum::<u64>()
    }
}

/// Chooses how many elements a call gets on each device.
///
/// With a grain, each call gets that many. Without one, the first call gets one element, and the
/// measured times lead to a size that takes [`Policy::chunk_seconds`]. No call gets more than a
/// quarter of a share ([`Policy::chunks_of_share`]), so that there is always something to steal.
/// After a chunk did not fit a device, its calls get at most half of that.
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

    /// Returns the number of which shares are split at multiples.
    pub fn grain(&self) -> u64 {
        self.grain.unwrap_or(1)
    }

    /// Returns the number of elements of the next call. `available`: elements of the share.
    pub fn size(&self, device: usize, available: u64) -> u64 {
        let device = &self.devices[device];
        let wanted = self.grain.unwrap_or_else(|| {
            device.size.load(Ordering::Relaxed).min((available / self.policy.chunks_of_share).max(1))
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
    fn thief_takes_the_upper_half_and_leaves_whole_grains() {
        let mut partitioner = Partitioner::new(0..100);
        let (one, two) = (partitioner.join(0, TaskId(1)), partitioner.join(0, TaskId(2)));
        assert!(partitioner.fill(&one, 8));
        assert_eq!(one.take(|_| 8), Some((0..8, 92)));
        assert!(partitioner.fill(&two, 8));
        assert_eq!((one.rest().clone(), two.rest().clone()), (8..48, 48..100));
        partitioner.leave(&one);
        assert_eq!(partitioner.remaining(), 92, "the other keeps its share");
    }

    #[test]
    fn calls_grow_to_the_target_and_not_beyond() {
        let sizer = ChunkSizer::new(None, 1, Arc::default());
        let mut sizes = Vec::new();
        for _ in 0..8 {
            let size = sizer.size(0, u64::MAX);
            sizes.push(size);
            sizer.record(0, size, size as f64 * 1e-6);
        }
        assert_eq!(sizes[..4], [1, 16, 256, 750]);
        assert_eq!(sizer.size(0, 100), 25, "something is left to steal");
        assert_eq!(sizer.size(0, 1), 1);
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
