//! Time in nanoseconds.

use std::time::Duration;

/// Returns a duration in nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
