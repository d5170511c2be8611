//! Stops a run early: on SIGTERM, on SIGINT, or after a time limit. Running shots then save their
//! state, and no other shot begins.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::backend::thread::unblock_signals;
use gpusched::{Error, Result};
use signal_hook::{consts, flag};

/// Time after the first signal in which others do nothing: `timeout` and batch systems signal a
/// process, and then its group.
const GRACE: Duration = Duration::from_secs(1);
/// Interval at which a thread reads the flag of the signals.
const POLL: Duration = Duration::from_millis(100);

/// Stop flag of a run, shared with the shots.
#[derive(Clone, Default)]
pub struct Stop {
    signalled: Arc<AtomicBool>,
    /// Time limit of the run.
    end: Option<Instant>,
}

impl Stop {
    /// Handles SIGTERM and SIGINT from now on. A signal that comes [`GRACE`] or more after the first
    /// ends the process at once. `end`: time at which the run stops without a signal.
    pub fn new(end: Option<Instant>) -> Result<Stop> {
        let stop = Stop { end, ..Stop::default() };
        stop.handle_signals().map_err(|why| Error::Internal(format!("no handlers for signals: {why}")))?;
        Ok(stop)
    }

    fn handle_signals(&self) -> io::Result<()> {
        let (signalled, is_over) = (self.signalled.clone(), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        // The main thread and the shots may block in their writes. A handler cannot wake a thread.
        let wait = move || {
            while !signalled.load(Ordering::Relaxed) {
                thread::sleep(POLL);
            }
            thread::sleep(GRACE);
            over.store(true, Ordering::Relaxed);
        };
        // Without the thread any second signal ends the process.
        let started = thread::Builder::new().name("signals".into()).spawn(wait);
        let ends = if started.is_ok() { is_over } else { self.signalled.clone() };
        for signal in [consts::SIGTERM, consts::SIGINT] {
            flag::register_conditional_default(signal, ends.clone())?;
            flag::register(signal, self.signalled.clone())?;
        }
        // A parent may have blocked them before it started the command.
        unblock_signals(&[consts::SIGTERM, consts::SIGINT]);
        Ok(())
    }

    pub fn is_asked(&self) -> bool {
        self.signalled.load(Ordering::Relaxed) || self.time_left() == Some(Duration::ZERO)
    }

    /// Returns the time before the limit, if the run has one.
    pub fn time_left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// Makes a write beyond the file-size limit (`ulimit -f`) an error of that file. By default it ends
/// the process.
pub fn take_limits_for_errors() {
    // If this fails, the default stays.
    drop(flag::register(libc::SIGXFSZ, Arc::default()));
}

/// Parses a duration such as `2h30m`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "accepted: a time such as 2h30m, 90m or 45s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_is_asked_for_once_the_time_has_passed() {
        let after = |time: u64| Some(Instant::now() + Duration::from_secs(time));
        let asked = [None, after(0), after(3600)].map(|end| Stop { end, ..Stop::default() }.is_asked());
        assert_eq!(asked, [false, true, false]);
    }
}
