//! The time of a scheduler.

use std::time::{Duration, Instant};

use super::outcome::nanoseconds;

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
