//! Starts the command again in a new process image. After a kernel has failed, a driver may give the old process no
//! context of that GPU, and the new one may use it at once.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use gpusched::error::RESTART;
use gpusched::sched::DeviceStats;

use crate::stopping::Stop;

/// Pauses before restarts in a row between which no shot was computed. After the last of them the run ends.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(4)];

/// The end of a run.
pub enum End {
    /// Every file is written.
    Whole,
    Incomplete,
    /// A new process has not begun.
    Failed(String),
    /// The missing shots need a new process, unless the run is to stop.
    Restart(Restart, Stop),
}

pub struct Restart {
    /// Restarts since a shot was computed, this one included.
    in_vain: usize,
    /// Time that is left of `--stop-after`.
    time_left: Option<Duration>,
}

impl Restart {
    /// `None`: too many restarts in a row were in vain. `before`: the number of them.
    pub fn after(before: usize, computed: bool, time_left: Option<Duration>) -> Option<Restart> {
        let in_vain = if computed { 1 } else { before + 1 };
        (in_vain <= PAUSES.len()).then_some(Restart { in_vain, time_left })
    }

    /// Returns only if the run is to stop, or if it fails, with the reason.
    pub fn exec(self, stop: &Stop) -> String {
        let begun = Instant::now();
        while !stop.is_asked() && begun.elapsed() < PAUSES[self.in_vain - 1] {
            std::thread::sleep(Duration::from_millis(20));
        }
        if stop.is_asked() {
            return "the run was stopped; `gpusched run --resume` computes the missing shots".into();
        }
        let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let mut more = vec!["--resume".into(), format!("--restart={}", self.in_vain)];
        more.extend(self.time_left.map(|left| format!("--stop-after={}ms", left.as_millis())));
        // The last of equal options counts, and after `--` there are none.
        let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        arguments.splice(end..end, more.into_iter().map(OsString::from));
        #[cfg(unix)]
        let why = std::env::current_exe().map_or_else(
            |error| error.to_string(),
            |program| {
                use std::os::unix::process::CommandExt;
                std::process::Command::new(program).args(arguments).exec().to_string()
            },
        );
        #[cfg(not(unix))]
        let why = "this system can't replace a process".to_owned();
        format!("the command could not be started again: {why}")
    }
}

/// Returns true if a new process may use a device that this one has retired.
pub fn helps(devices: &[DeviceStats]) -> bool {
    devices.iter().any(|one| one.retired.as_ref().is_some_and(|why| why.contains(RESTART)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_end_after_three_in_a_row_without_a_shot() {
        let next = |before, computed| Restart::after(before, computed, None).map(|restart| restart.in_vain);
        assert_eq!([0, 1, 2, 3].map(|before| next(before, false)), [Some(1), Some(2), Some(3), None]);
        assert_eq!(next(3, true), Some(1));
    }
}
