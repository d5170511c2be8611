//! How many elements a call gets on each device.
//!
//! Told a grain, a call gets that many. Told none, it begins with one element, and the time of each
//! call leads to a size that takes [`TARGET`]: long enough that handing out costs nothing, short enough
//! that the last calls end at about the same time. No call takes more than a quarter of a share, so that there is
//! always something to steal. A device that was too small for a call gets at most half of that from then on.
//!
//! All numbers are per device and without a lock: a lost update costs a little balance, nothing else.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds that a call should take.
const TARGET: f64 = 0.75e-3;
/// How much larger a call may be than the one before: the first elements may be unlike the others.
const GROWTH: u64 = 16;
/// The part of a share that a call may take.
const PART: u64 = 4;
/// A device is slow if it needs so many times as long as the fastest.
const SLOW: f64 = 1.5;

pub struct ChunkSizer {
    grain: Option<u64>,
    devices: Vec<DeviceChunks>,
}

struct DeviceChunks {
    /// Seconds an element, as the bits of an `f64`; 0: not known.
    seconds: AtomicU64,
    size: AtomicU64,
    /// More does not fit.
    most: AtomicU64,
}

impl ChunkSizer {
    pub fn new(grain: Option<u64>, devices: usize) -> Self {
        let measured = || DeviceChunks {
            seconds: AtomicU64::new(0),
            size: AtomicU64::new(1),
            most: AtomicU64::new(u64::MAX),
        };
        ChunkSizer { grain, devices: (0..devices).map(|_| measured()).collect() }
    }

    /// Shares are split at multiples of this.
    pub fn grain(&self) -> u64 {
        self.grain.unwrap_or(1)
    }

    /// Elements of the next call, of `there` that could be taken.
    pub fn size(&self, device: usize, there: u64) -> u64 {
        let device = &self.devices[device];
        let most = device.most.load(Ordering::Relaxed);
        match self.grain {
            Some(grain) => grain.min(most),
            None => device.size.load(Ordering::Relaxed).min(most).min((there / PART).max(1)),
        }
    }

    pub fn learn(&self, device: usize, elements: u64, seconds: f64) {
        let device = &self.devices[device];
        let now = (seconds / elements as f64).max(1e-12);
        let before = f64::from_bits(device.seconds.load(Ordering::Relaxed));
        let mean = if before > 0.0 { 0.5 * (before + now) } else { now };
        device.seconds.store(mean.to_bits(), Ordering::Relaxed);
        if self.grain.is_none() {
            let wanted = (TARGET / mean).clamp(1.0, 1e18) as u64;
            device.size.store(wanted.min(elements.saturating_mul(GROWTH)), Ordering::Relaxed);
        }
    }

    /// So many did not fit. False: it was one element, so nothing will.
    pub fn halve(&self, device: usize, elements: u64) -> bool {
        self.devices[device].most.fetch_min((elements / 2).max(1), Ordering::Relaxed);
        elements > 1
    }

    fn seconds(&self, device: usize) -> Option<f64> {
        let seconds = f64::from_bits(self.devices[device].seconds.load(Ordering::Relaxed));
        (seconds > 0.0).then_some(seconds)
    }

    /// Whether a device is so slow that it has to ask [`ChunkSizer::should_decline`] before each call.
    pub fn is_slow(&self, device: usize) -> bool {
        let Some(own) = self.seconds(device) else { return false };
        (0..self.devices.len()).filter_map(|other| self.seconds(other)).any(|other| own > SLOW * other)
    }

    /// Whether the others, each named once with its device, would have done all that is left before
    /// this device had done one element.
    pub fn should_decline(&self, device: usize, left: u64, others: impl Iterator<Item = usize>) -> bool {
        let Some(own) = self.seconds(device) else { return false };
        let speed: f64 = others.filter_map(|other| Some(1.0 / self.seconds(other)?)).sum();
        left as f64 / own < speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_grows_to_the_target_and_not_beyond() {
        let pace = ChunkSizer::new(None, 1);
        let mut sizes = Vec::new();
        for _ in 0..8 {
            let size = pace.size(0, u64::MAX);
            sizes.push(size);
            pace.learn(0, size, size as f64 * 1e-6);
        }
        assert_eq!(sizes[..4], [1, 16, 256, 750]);
        assert_eq!(pace.size(0, 100), 25, "something is left to steal");
        assert_eq!(pace.size(0, 1), 1);
    }

    #[test]
    fn long_elements_are_handed_out_one_by_one() {
        let pace = ChunkSizer::new(None, 1);
        pace.learn(0, 1, 60.0);
        assert_eq!(pace.size(0, 1000), 1);
    }

    #[test]
    fn what_did_not_fit_is_halved_and_remembered() {
        let pace = ChunkSizer::new(Some(64), 2);
        assert!(pace.halve(0, 64) && pace.halve(0, 32));
        assert_eq!((pace.size(0, 1000), pace.size(1, 1000)), (16, 64));
        assert!(!pace.halve(0, 1));
        assert_eq!(pace.size(0, 1000), 1);
    }

    #[test]
    fn a_slow_device_leaves_the_end_to_the_fast() {
        let pace = ChunkSizer::new(Some(1), 3);
        pace.learn(0, 1, 1.0);
        pace.learn(1, 1, 2.0);
        assert!(pace.is_slow(1), "twice as long as the fastest");
        pace.learn(1, 1, 38.0);
        assert!(pace.is_slow(1) && !pace.is_slow(0) && !pace.is_slow(2));
        assert!(pace.should_decline(1, 19, [0].into_iter()));
        assert!(!pace.should_decline(1, 21, [0].into_iter()));
        assert!(pace.should_decline(1, 21, [0, 0].into_iter()), "two slots of the fast one");
        assert!(!pace.should_decline(1, 5, [].into_iter()), "nobody else is there");
        assert!(!pace.should_decline(1, 5, [2].into_iter()), "nobody knows how fast the other is");
    }
}
