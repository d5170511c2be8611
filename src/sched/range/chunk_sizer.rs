//! The chunk sizer: how many elements a call gets on each device.
//!
//! With a grain, each call gets that many. Without one, the first call gets one element, and the
//! measured times lead to a size that takes [`Policy::chunk_seconds`]. No call gets more than a
//! quarter of a share ([`Policy::chunks_of_share`]), so that there is always something to steal. After a chunk did not fit a device, its
//! calls get at most half of that.
//!
//! All numbers are by device and without a lock: a lost update costs a little balance, nothing
//! else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sched::base::Policy;

pub struct ChunkSizer {
    policy: Arc<Policy>,
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
        let unmeasured = || DeviceChunks {
            seconds: AtomicU64::new(0),
            size: AtomicU64::new(1),
            most: AtomicU64::new(u64::MAX),
        };
        ChunkSizer { policy, grain, devices: (0..devices).map(|_| unmeasured()).collect() }
    }

    /// Returns the number of which shares are split at multiples.
    pub fn grain(&self) -> u64 {
        self.grain.unwrap_or(1)
    }

    /// Returns the number of elements of the next call. `available`: elements of the share.
    pub fn size(&self, device: usize, available: u64) -> u64 {
        let device = &self.devices[device];
        let most = device.most.load(Ordering::Relaxed);
        match self.grain {
            Some(grain) => grain.min(most),
            None => {
                let share = (available / self.policy.chunks_of_share).max(1);
                device.size.load(Ordering::Relaxed).min(most).min(share)
            }
        }
    }

    /// Records the time of a call.
    pub fn record(&self, device: usize, elements: u64, seconds: f64) {
        let device = &self.devices[device];
        let measured = (seconds / elements as f64).max(1e-12);
        let before = f64::from_bits(device.seconds.load(Ordering::Relaxed));
        let mean = if before > 0.0 { 0.5 * (before + measured) } else { measured };
        device.seconds.store(mean.to_bits(), Ordering::Relaxed);
        if self.grain.is_none() {
            let wanted = (self.policy.chunk_seconds / mean).clamp(1.0, 1e18) as u64;
            device
                .size
                .store(wanted.min(elements.saturating_mul(self.policy.chunk_growth)), Ordering::Relaxed);
        }
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
        let Some(own) = self.seconds(device) else { return false };
        (0..self.devices.len())
            .filter_map(|other| self.seconds(other))
            .any(|other| own > self.policy.slow_device * other)
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
    fn long_elements_are_handed_out_one_by_one() {
        let sizer = ChunkSizer::new(None, 1, Arc::default());
        sizer.record(0, 1, 60.0);
        assert_eq!(sizer.size(0, 1000), 1);
    }

    #[test]
    fn size_that_did_not_fit_is_halved() {
        let sizer = ChunkSizer::new(Some(64), 2, Arc::default());
        assert!(sizer.halve(0, 64) && sizer.halve(0, 32));
        assert_eq!((sizer.size(0, 1000), sizer.size(1, 1000)), (16, 64));
        assert!(!sizer.halve(0, 1));
        assert_eq!(sizer.size(0, 1000), 1);
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
