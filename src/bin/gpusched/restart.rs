//! Restarts the command in a new process image. After a failed kernel, a driver may refuse the old
//! process a context of that GPU, but give one to a new process at once.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gpusched::error::RESTART;
use gpusched::sched::DeviceStats;

use crate::stopping::Stop;

/// Pauses before consecutive restarts without a computed shot in between. After the last one the
/// run ends.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(4)];

/// The end of a run.
pub enum End {
    /// Every file is written.
    Whole,
    Incomplete,
    /// The missing shots need a new process, unless the run has been stopped. The number is that of
    /// consecutive restarts without a computed shot, including this one.
    Restart(usize, Stop),
}

/// Returns the number of the next restart after `before` consecutive ones without a computed shot.
/// `None`: they were too many.
pub fn next(before: usize, computed: bool) -> Option<usize> {
    let in_vain = if computed { 1 } else { before + 1 };
    (in_vain <= PAUSES.len()).then_some(in_vain)
}

/// Replaces the process. Returns the reason if that fails, or if the run has been stopped.
pub fn exec(in_vain: usize, stop: &Stop) -> String {
    let begun = Instant::now();
    while !stop.is_asked() && begun.elapsed() < PAUSES[in_vain - 1] {
        std::thread::sleep(Duration::from_millis(20));
    }
    if stop.is_asked() {
        return "the run was stopped; `gpusched run --resume` computes the missing shots".into();
    }
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut more = vec!["--resume".into(), format!("--restart={in_vain}")];
    more.extend(stop.time_left().map(|left| format!("--stop-after={}ms", left.as_millis())));
    // The last of equal options counts, and after `--` no options are parsed.
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, more.into_iter().map(OsString::from));
    let why = std::env::current_exe().map_or_else(|error| error, |program| replace(&program, &arguments));
    format!("the command could not be started again: {why}")
}

/// Replaces the process. Returns the reason if that fails. A program whose file was removed or
/// replaced, as by an upgrade, is started from the file that this process has open.
fn replace(program: &Path, arguments: &[OsString]) -> io::Error {
    let why = Command::new(program).args(arguments).exec();
    if why.kind() != io::ErrorKind::NotFound {
        return why;
    }
    let name = std::env::args_os().next().unwrap_or_default();
    Command::new("/proc/self/exe").arg0(name).args(arguments).exec()
}

/// Returns true if a new process may use a device that this process has retired.
pub fn helps(devices: &[DeviceStats]) -> bool {
    devices.iter().any(|one| one.retired.as_ref().is_some_and(|why| why.contains(RESTART)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_end_after_three_in_a_row_without_a_shot() {
        assert_eq!([0, 1, 2, 3].map(|before| next(before, false)), [Some(1), Some(2), Some(3), None]);
        assert_eq!(next(3, true), Some(1));
    }
}
