//! The time of a scheduler.

use std::time::{Duration, Instant};

/// Measures time from an origin. Copies measure the same time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    #[inline]
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    // Read for each light task.
    #[inline]
    pub fn nanoseconds(&self) -> u64 {
        nanoseconds(self.now())
    }
}

impl Default for Clock {
    /// Returns a clock that starts now.
    fn default() -> Self {
        Clock { origin: Instant::now() }
    }
}

/// Returns a duration in nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
