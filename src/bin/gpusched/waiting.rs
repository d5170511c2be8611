//! Shots that wait until the output folder can be written again, as after a full disk or a failure
//! of a file server. The start of a process that continues a run waits in the same way.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpusched::{Error, Result};

use crate::document::Document;
use crate::folder::may_pass;
use crate::output::Files;
use crate::progress;
use crate::say;
use crate::stopping::Stop;
use crate::survey::Survey;

/// Default of `run.write_retry_s`.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Pauses before the checks of the folder, in seconds. The last one repeats.
const PAUSES_S: [u64; 4] = [1, 4, 16, 60];
/// Time after the last check after which another failure has a time limit of its own.
const QUIET: Duration = Duration::from_secs(120);
/// Interval at which a wait reads the stop flag.
const POLL: Duration = Duration::from_millis(20);

pub struct WaitingShots {
    shots: Vec<WaitingShot>,
    /// Maximum time to wait.
    patience: Duration,
    /// Begin of that time: the first failure, or the last shot that was written since.
    since: Option<Instant>,
    /// Number of checks since then.
    checks: usize,
    /// Time of the next check, or of the last one if no shot waits.
    next: Instant,
    /// The end of the failure is reported. It is not the end if the next shots fail, too.
    is_end_reported: bool,
}

pub struct WaitingShot {
    pub number: usize,
    files: Files,
    pub why: String,
}

/// Result of a check.
pub enum Checked {
    /// The shots wait on.
    Wait,
    /// The folder can be written: these shots can begin. True for the first time since the reported
    /// failure.
    Ready(Vec<WaitingShot>, bool),
    /// The time is over: these shots have failed.
    Over(Vec<WaitingShot>),
}

impl WaitingShots {
    /// `patience_s`: `run.write_retry_s` of the survey.
    pub fn new(patience_s: Option<f64>) -> WaitingShots {
        let patience = patience_s.map_or(PATIENCE, Duration::from_secs_f64);
        let next = Instant::now();
        WaitingShots { shots: Vec::new(), patience, since: None, checks: 0, next, is_end_reported: false }
    }

    pub fn is_empty(&self) -> bool {
        self.shots.is_empty()
    }

    pub fn contains(&self, number: usize) -> bool {
        self.shots.iter().any(|shot| shot.number == number)
    }

    /// Returns true if a shot that ended with this error may wait: it has not begun, the error may
    /// pass, and the time is not over.
    pub fn accept(&mut self, error: &Error, files: &Files) -> bool {
        if self.shots.is_empty() && self.next.elapsed() > QUIET {
            (self.since, self.checks) = (None, 0);
        }
        !files.have_begun() && may_pass(error) && self.time_left() > Duration::ZERO
    }

    /// Adds a shot. If the failure is the first, returns the time for which shots wait at most.
    pub fn add(&mut self, number: usize, files: Files, why: String) -> Option<Duration> {
        let is_first = self.since.is_none();
        self.is_end_reported &= !is_first;
        self.since.get_or_insert_with(Instant::now);
        if self.shots.is_empty() {
            self.set_next();
        }
        self.shots.push(WaitingShot { number, files, why });
        is_first.then_some(self.patience)
    }

    /// Records that a shot was written, so the folder can be.
    pub fn written(&mut self) {
        let now = Instant::now();
        (self.since, self.checks, self.next) = ((!self.shots.is_empty()).then_some(now), 0, now);
    }

    /// Checks the folder by the files of the first shot if it is time for that.
    pub fn check(&mut self, find_room: impl Fn(&Files) -> Result<()>) -> Checked {
        let Some(first) = self.shots.first() else { return Checked::Wait };
        if Instant::now() < self.next {
            return Checked::Wait;
        }
        match find_room(&first.files) {
            Ok(()) => {
                self.checks += 1;
                Checked::Ready(self.take(), !std::mem::replace(&mut self.is_end_reported, true))
            }
            Err(error) if !may_pass(&error) => {
                let why = error.to_string();
                Checked::Over(
                    self.take().into_iter().map(|shot| WaitingShot { why: why.clone(), ..shot }).collect(),
                )
            }
            Err(_) if self.time_left() == Duration::ZERO => Checked::Over(self.take()),
            Err(_) => {
                self.checks += 1;
                self.set_next();
                Checked::Wait
            }
        }
    }

    /// Removes and returns all shots.
    pub fn take(&mut self) -> Vec<WaitingShot> {
        std::mem::take(&mut self.shots)
    }

    fn time_left(&self) -> Duration {
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.patience.saturating_sub(waited)
    }

    fn set_next(&mut self) {
        self.next = Instant::now() + pause(self.checks).min(self.time_left());
    }
}

/// Returns the pause after so many checks.
fn pause(checks: usize) -> Duration {
    Duration::from_secs(PAUSES_S[checks.min(PAUSES_S.len() - 1)])
}

/// The start of a process. If the process continues a run, it repeats what fails for a reason that
/// may pass.
pub struct Start {
    /// Ends the wait. `None`: the first process of a run, which repeats nothing.
    stop: Option<Stop>,
    /// Maximum time to wait.
    patience: Duration,
    since: Option<Instant>,
    checks: usize,
}

impl Start {
    /// `stop`: `None` for the first process of a run. `survey`: file with the time limit, which is the
    /// default if the file cannot be read.
    pub fn new(stop: Option<Stop>, survey: &Path) -> Start {
        let stated = || Document::open(survey).and_then(|file| file.read::<Survey>()).ok()?.run.write_retry_s;
        let patience = stop.as_ref().and_then(|_| Duration::try_from_secs_f64(stated()?).ok());
        Start { stop, patience: patience.unwrap_or(PATIENCE), since: None, checks: 0 }
    }

    /// Returns the stop flag of a process that continues a run.
    pub fn into_stop(self) -> Option<Stop> {
        self.stop
    }

    /// Calls `attempt` until it succeeds. Returns its error if that can't pass, at the end of the
    /// time, and after a stop request.
    pub fn repeat<T>(&mut self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let error = match (attempt(), &self.stop) {
                (Err(error), Some(_)) if may_pass(&error) => error,
                (ended, _) => return ended,
            };
            let is_first = self.since.is_none();
            let waited = self.since.get_or_insert_with(Instant::now).elapsed();
            let left = self.patience.saturating_sub(waited);
            if left.is_zero() || self.is_stopped() {
                return Err(error);
            }
            if is_first {
                let time = progress::time(self.patience);
                say::warn(&format!("{error}; the run waits until that succeeds, for up to {time}"));
            }
            let (begun, pause) = (Instant::now(), pause(self.checks).min(left));
            self.checks += 1;
            while begun.elapsed() < pause && !self.is_stopped() {
                sleep(POLL);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error as IoError;
    use std::sync::Arc;

    use testkit::command::brief;

    use super::*;
    use crate::folder::OutputFolder;
    use crate::job::Job;
    use crate::output::Room;
    use crate::stopping::Stop;

    fn failure(code: i32) -> Error {
        Error::io("write", "shot_0001.bin".as_ref(), IoError::from_raw_os_error(code))
    }

    #[test]
    fn shots_wait_for_the_folder_until_the_time_is_over() {
        let folder = testkit::Folder::new();
        std::fs::write(folder.at("survey.toml"), brief()).unwrap();
        let job = Job::load(&folder.at("survey.toml")).unwrap();
        let output = Arc::new(OutputFolder::claim(&job.folder, false).unwrap());
        let files = || Files::new(&job, 1, false, &Stop::default(), &Room::default(), &output);
        assert!(!WaitingShots::new(Some(0.0)).accept(&failure(libc::ENOSPC), &files()));
        let mut waiting = WaitingShots::new(None);
        let of_servers = [libc::ESTALE, libc::ESHUTDOWN, libc::EHOSTDOWN, libc::ENOTCONN, libc::EHOSTUNREACH];
        for code in [libc::ENOSPC].into_iter().chain(of_servers) {
            assert!(waiting.accept(&failure(code), &files()), "{code}");
        }
        let accepted = [libc::EACCES, libc::EFBIG].map(|code| waiting.accept(&failure(code), &files()));
        assert_eq!(accepted, [false, false]);
        assert_eq!(waiting.add(1, files(), "full".into()), Some(PATIENCE));
        assert_eq!(waiting.add(2, files(), "full".into()), None);
        assert!(matches!(waiting.check(|_| panic!("the pause is not over")), Checked::Wait));
        let full = |_: &Files| Err(failure(libc::ENOSPC));
        for pause in [4, 16, 60, 60] {
            waiting.next = Instant::now();
            assert!(matches!(waiting.check(full), Checked::Wait));
            let left = waiting.next.saturating_duration_since(Instant::now()).as_secs_f64();
            assert!((pause as f64 - 1.0..=pause as f64).contains(&left), "{left} of {pause} s");
        }
        let ready = |waiting: &mut WaitingShots| match waiting.check(|_| Ok(())) {
            Checked::Ready(shots, is_first) => {
                (shots.into_iter().map(|shot| shot.number).collect(), is_first)
            }
            _ => (Vec::new(), false),
        };
        // A shot that had begun before has been written.
        waiting.written();
        assert_eq!(ready(&mut waiting), (vec![1, 2], true));
        assert_eq!(waiting.add(2, files(), "full".into()), None, "the failure is the same");
        waiting.next = Instant::now();
        assert_eq!(ready(&mut waiting), (vec![2], false));
        assert_eq!(waiting.add(2, files(), "full".into()), None);
        waiting.since = Instant::now().checked_sub(PATIENCE);
        waiting.next = Instant::now();
        assert!(matches!(waiting.check(full), Checked::Over(shots) if shots[0].number == 2));
        assert_eq!(waiting.add(2, files(), "full".into()), None);
        (waiting.since, waiting.next) = (Some(Instant::now()), Instant::now());
        let refused = waiting.check(|_| Err(failure(libc::EACCES)));
        assert!(matches!(refused, Checked::Over(shots) if shots[0].why.contains("(os error 13)")));
        waiting.since = Instant::now().checked_sub(PATIENCE);
        assert!(!waiting.accept(&failure(libc::ENOSPC), &files()));
        waiting.next = Instant::now().checked_sub(2 * QUIET).unwrap();
        assert!(waiting.accept(&failure(libc::ENOSPC), &files()), "a later failure");
        waiting.written();
        assert_eq!(waiting.add(1, files(), "full".into()), Some(PATIENCE));
        waiting.next = Instant::now();
        assert_eq!(ready(&mut waiting), (vec![1], true));
    }
}
