//! When a run is to stop before its end: it was asked to by SIGTERM or SIGINT, or its time is up. Shots that run keep
//! their state then, and no other begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpusched::{Error, Result};

/// Shared with the shots.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Heeds the signals from now on; a second one ends the process at once.
    pub fn on_signals() -> Result<Stop> {
        let stop = Stop::default();
        #[cfg(unix)]
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            use signal_hook::flag;
            let heeded = flag::register_conditional_default(signal, stop.0.clone())
                .and_then(|_| flag::register(signal, stop.0.clone()));
            heeded.map_err(|error| Error::Internal(format!("signal {signal} can't be heeded: {error}")))?;
        }
        Ok(stop)
    }

    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file that is larger than the process may write (`ulimit -f`) is an error of that file, not the process's end.
pub fn take_limits_for_errors() {
    // Where that can't be had, it is as it was.
    #[cfg(unix)]
    drop(signal_hook::flag::register(libc::SIGXFSZ, Arc::default()));
}

/// A moment after which nothing goes on.
pub struct Limit(Option<Instant>);

impl Limit {
    pub fn after(time: Option<Duration>) -> Limit {
        Limit(time.and_then(|time| Instant::now().checked_add(time)))
    }

    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Hours, minutes and seconds as people write them: `2h30m`, `90m`, `45s`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let accepted = "a time such as 2h30m, 90m or 45s";
    let (mut seconds, mut number, mut units) = (0u64, String::new(), "hms");
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            number.push(letter);
            continue;
        }
        let place = units.find(letter).ok_or(accepted)?;
        let each = match letter {
            'h' => 3600,
            'm' => 60,
            _ => 1,
        };
        let count: u64 = number.parse().map_err(|_| accepted)?;
        seconds = count.checked_mul(each).and_then(|more| seconds.checked_add(more)).ok_or(accepted)?;
        units = &units[place + 1..];
        number.clear();
    }
    match number.is_empty() && seconds > 0 {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(accepted.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("45s", 45), ("90m", 5400), ("2h30m", 9000), ("1h1m1s", 3661), ("24h", 86400)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "0s",
            "5",
            "h",
            "1m1h",
            "1h1h",
            "-1s",
            "1.5h",
            "1d",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limit_is_over_once_its_time_has_passed() {
        let over =
            [None, Some(Duration::ZERO), Some(Duration::from_secs(3600))].map(|t| Limit::after(t).is_over());
        assert_eq!(over, [false, true, false]);
    }
}
