//! Runs the shots of a survey and reports how each ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpusched::io::atomic;
use gpusched::sched::{DeviceStats, Scheduler, Stats, TaskId, TaskStatus, WaitResult};
use gpusched::{Error, Result};
use serde_json::json;

use crate::checkpoint::Header;
use crate::collect;
use crate::folder::{OutputFolder, remove};
use crate::incoming::{Arrival, Incoming};
use crate::job::Job;
use crate::manifest::{Earlier, Manifest};
use crate::names;
use crate::output::{Files, Room, all_files};
use crate::picture::Picture;
use crate::progress::{self, Counts, Progress};
use crate::restart::{self, End};
use crate::resume::{self, Found, Strays};
use crate::say;
use crate::side::About;
use crate::stopping::Stop;
use crate::summary::{self, count};
use crate::waiting::{Checked, WaitingShots};

/// Maximum number of shots that one wait watches. Shots start in the order of their numbers. The
/// end of a later shot is reported after earlier ones have ended. The time to wait for all shots at
/// once would grow with the square of their number.
const WATCHED: usize = 256;
/// Interval between progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);
/// Interval while more shots may arrive, so that a busy device can begin them next.
const INCOMING_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which the end of a run reports what it waits for, and interval of its further checks.
/// An attempt that is not needed returns after 32 steps at most.
const SHUTDOWN_INTERVAL: Duration = Duration::from_secs(3);

/// A submitted shot.
pub struct SubmittedShot {
    number: usize,
    id: TaskId,
    files: Files,
}

/// A running survey.
pub struct SurveyRun<'a> {
    pub job: &'a Job,
    pub scheduler: &'a Scheduler,
    pub output: Arc<OutputFolder>,
    pub manifest: Manifest,
    /// Input on which more shots arrive during the run.
    pub incoming: Option<Incoming>,
    /// An incoming list was refused.
    pub refused: bool,
    /// Numbers of the shots of the run.
    pub numbers: BTreeSet<usize>,
    /// Numbers of the shots that an earlier run has finished.
    pub kept: BTreeSet<usize>,
    /// Usable saved states, by shot, of shots that may run on devices of that kind only.
    pub saved: BTreeMap<usize, Header>,
    /// Snapshots of other surveys beside shots that may arrive.
    pub strays: Strays,
    /// Number of shots that earlier processes of the run have computed.
    pub computed: usize,
    /// Numbers of the complete shots: kept, computed, and computed by earlier processes.
    pub complete: BTreeSet<usize>,
    pub earlier: Earlier,
    pub failed: BTreeSet<usize>,
    pub waiting: WaitingShots,
    pub room: Room,
    /// Number of shots that were stopped and have saved their states.
    pub paused: usize,
    /// Number of attempts that ended before they began, by device.
    pub unbegun: BTreeMap<String, u64>,
    pub running: VecDeque<SubmittedShot>,
    /// Labels of the retired devices that are reported.
    pub retired: BTreeSet<String>,
    /// Shots for which no device is left, with the reason.
    pub deviceless: Vec<(usize, String)>,
    /// Restarts since the last shot was computed. `None`: the command can't be started again.
    pub restarts: Option<usize>,
    pub resume: bool,
    pub stop: Stop,
    /// The run is stopping: no more shots begin.
    pub stopping: bool,
    /// Kept shots whose pictures are to be drawn.
    pub undrawn: VecDeque<usize>,
    /// The last reason why the manifest could not be written; "" if it was.
    pub unwritten: String,
}

impl SurveyRun<'_> {
    /// Runs the shots.
    pub fn run(mut self, trace: Option<&Path>) -> End {
        let begun = self.earlier.begun();
        let mut progress = Progress::new(begun);
        self.note();
        if self.unwritten.is_empty() && self.output.is_exclusive() {
            collect::remove_parts(&self.job.folder);
        }
        let left: Vec<usize> = self.numbers.difference(&self.complete).copied().collect();
        for number in left {
            if self.is_stopping() {
                break;
            }
            self.submit(number);
        }
        // The earlier run may have ended before it drew them, or the title has changed.
        let pictured = self.job.survey.output.pictures.saturating_add(1);
        self.undrawn = self.kept.range(..pictured).copied().collect();
        let retired = self.devices().into_iter().filter(|one| one.retired.is_some());
        self.retired = retired.map(|one| one.device.label()).collect();
        while !self.running.is_empty()
            || self.incoming.is_some()
            || !self.undrawn.is_empty()
            || !self.waiting.is_empty()
        {
            if self.is_stopping() {
                self.undrawn.clear();
                self.waiting.take();
            }
            if let Some(number) = self.undrawn.pop_front() {
                self.draw_kept(number);
            }
            self.check_waiting();
            self.take_incoming();
            if !self.running.is_empty() {
                let interval = match self.incoming {
                    _ if !self.undrawn.is_empty() => Duration::ZERO,
                    Some(_) => INCOMING_INTERVAL,
                    None => REPORT_INTERVAL,
                };
                self.wait(interval);
            } else if !self.waiting.is_empty() && self.undrawn.is_empty() {
                sleep(REPORT_INTERVAL);
            }
            let devices = self.devices();
            self.report_retired(&devices);
            if let Ok(mut now) = self.scheduler.progress() {
                // The running shots stop long before their ends.
                now.eta = now.eta.filter(|_| !self.stopping && self.waiting.is_empty());
                now.counts.retried += self.earlier.schedule["retried"].as_u64().unwrap_or_default();
                progress.update(&now, &self.counts(), &devices);
            }
        }
        let restart = self.restart();
        progress.finish();
        let stats = self.stats();
        let schedule = stats.as_ref().filter(|_| restart.is_some()).map(summary::object);
        let (failed, open) = (self.failed.len(), self.open());
        let listed = self.output.check().and_then(|()| self.manifest.finish(failed, open, schedule));
        if let Err(error) = &listed {
            say::error(&error.to_string());
        }
        if let Some(restart) = restart {
            self.shut_down();
            return End::Restart(restart, self.stop);
        }
        let traced = trace.is_none_or(|path| self.write_trace(path));
        if let Some(stats) = &stats {
            summary::lines(stats).iter().for_each(|line| say::for_people(line));
        }
        let seconds = begun.elapsed().as_secs_f64();
        say::report(
            &self.end_message(seconds),
            &json!({
                "event": "end",
                "done": self.complete.len(),
                "kept": self.kept.len(),
                "failed": failed,
                "open": open,
                "seconds": seconds,
                "folder": self.job.folder.to_string_lossy(),
                "schedule": stats.as_ref().map(summary::object),
            }),
        );
        self.shut_down();
        match failed + open == 0 && !self.refused && listed.is_ok() && traced {
            true => End::Whole,
            false => End::Incomplete,
        }
    }

    /// Returns the number of shots that were stopped or have not begun.
    fn open(&self) -> usize {
        self.numbers.len() - self.complete.len() - self.failed.len()
    }

    fn counts(&self) -> Counts {
        Counts {
            shots: self.numbers.len(),
            kept: self.kept.len(),
            before: self.kept.len() + self.computed,
            done: self.complete.len(),
            failed: self.failed.len(),
            paused: self.paused,
        }
    }

    /// Ends the scheduler. Reports the devices that do not end their attempts, and those that are
    /// retired for that.
    fn shut_down(&mut self) {
        let mut is_reported = false;
        while let Ok(None) = self.scheduler.shutdown_within(Some(SHUTDOWN_INTERVAL)) {
            let devices = self.devices();
            self.report_retired(&devices);
            // A retired device is not waited for.
            let busy = devices.iter().filter(|one| one.leased_bytes > 0 && one.retired.is_none());
            let busy: Vec<_> = busy.map(|one| one.device.label()).collect();
            if !busy.is_empty() && !is_reported {
                is_reported = true;
                say::warn(&format!(
                    "the run waits for {}, where an attempt has not returned: for as long again as that has run, at least 10 s",
                    busy.join(", ")
                ));
            }
        }
        self.report_retired(&self.devices());
    }

    /// Decides about the shots for which no device is left: either a new process may compute them,
    /// or they have failed.
    fn restart(&mut self) -> Option<usize> {
        let deviceless = std::mem::take(&mut self.deviceless);
        if deviceless.is_empty() {
            return None;
        }
        let has_computed = self.complete.len() > self.kept.len() + self.computed;
        let wanted = !self.stop.is_asked() && restart::helps(&self.devices());
        let restart = self.restarts.filter(|_| wanted);
        let restart = restart.and_then(|before| restart::next(before, has_computed));
        let restart = restart.filter(|_| self.manifest.ensure_on_disk() && self.remove_earlier(&deviceless));
        if restart.is_none() {
            deviceless.into_iter().for_each(|(number, why)| self.fail(number, &why));
            return None;
        }
        let (shots, failed) = (deviceless.len(), self.failed.len());
        let again = if failed > 0 {
            format!(", which also computes again {failed} that failed")
        } else {
            String::new()
        };
        let shots_left = count(shots as u64, "shot");
        say::report_problem(
            &format!("warning: no device is left for {shots_left}; the run goes on in a new process{again}"),
            &json!({ "event": "restart", "shots": shots, "failed": failed, "why": deviceless[0].1 }),
        );
        restart
    }

    /// Removes the earlier results of failed shots and of shots without a device, which the next
    /// process would keep. The description is removed first. Returns false after a failure.
    fn remove_earlier(&self, deviceless: &[(usize, String)]) -> bool {
        if self.resume || self.job.is_part || self.output.check().is_err() {
            return true;
        }
        let numbers = self.failed.iter().chain(deviceless.iter().map(|(number, _)| number));
        let mut all = numbers.flat_map(|&n| [names::side(n), names::record(n), names::paused(n)]);
        let removed = all.try_for_each(|name| remove(&self.job.folder.join(name)));
        removed.inspect_err(|error| log::warn!("the run does not start again: {error}")).is_ok()
    }

    /// Waits until a shot ends or the interval is over.
    fn wait(&mut self, interval: Duration) {
        let ids: Vec<TaskId> = self.running.iter().take(WATCHED).map(|shot| shot.id).collect();
        match self.scheduler.wait_any(&ids, Some(interval)) {
            Ok(Some(at)) => {
                // A signal may have stopped the shot; the stop is reported first.
                self.is_stopping();
                if let Some(shot) = self.running.remove(at) {
                    self.end(shot);
                }
            }
            // A busy device may have refused shots that ran when the run was stopped. They are
            // queued again, so they are cancelled here.
            Ok(None) if self.stopping => self.cancel_queued(),
            Ok(None) => {}
            Err(error) => {
                for shot in std::mem::take(&mut self.running) {
                    self.fail(shot.number, &error.to_string());
                }
            }
        }
    }

    fn end_message(&self, seconds: f64) -> String {
        let (shots, kept, folder) = (self.numbers.len(), self.kept.len(), self.job.folder.display());
        let (done, failed, open) = (self.complete.len(), self.failed.len(), self.open());
        let mut message = format!("{done} of {} written", count(shots as u64, "shot"));
        if kept > 0 {
            message += &format!(", {kept} kept and {} computed", done - kept);
        }
        message += &format!(" in {seconds:.1} s");
        for (count, what) in [(failed, "failed"), (open, "stopped or not begun")] {
            if count > 0 {
                message += &format!(", {count} {what}");
            }
        }
        if failed + open > 0 {
            message += "; `gpusched run --resume` computes the missing shots";
        }
        message + &format!("; files in {folder}")
    }

    /// Returns the statistics of all processes of the run.
    fn stats(&self) -> Option<Stats> {
        let mut stats = self.scheduler.stats().ok()?;
        for one in &mut stats.devices {
            let unbegun = self.unbegun.get(&one.device.label()).copied().unwrap_or(0);
            one.failed = one.failed.saturating_sub(unbegun);
        }
        summary::add(&mut stats, self.computed, &self.earlier.schedule);
        Some(stats)
    }

    fn devices(&self) -> Vec<DeviceStats> {
        self.scheduler.stats().map(|stats| stats.devices).unwrap_or_default()
    }

    /// Returns true after a stop signal or the time limit. The first time, also stops the shots.
    fn is_stopping(&mut self) -> bool {
        if !self.stopping && self.stop.is_asked() {
            self.stopping = true;
            self.incoming = None;
            say::report(
                "stopping: running shots save their state, no other shot begins; another signal, a second later, ends the run at once",
                &json!({ "event": "stopping" }),
            );
            self.cancel_queued();
        }
        self.stopping
    }

    fn cancel_queued(&self) {
        for shot in &self.running {
            if self.scheduler.info(shot.id).is_ok_and(|info| info.state == TaskStatus::Queued) {
                drop(self.scheduler.cancel(shot.id));
            }
        }
    }

    fn write_trace(&self, path: &Path) -> bool {
        let written = self.scheduler.timeline().and_then(|timeline| {
            atomic::write_with(path, |out| timeline.write(out))?;
            Ok(timeline.left_out())
        });
        match &written {
            Ok(0) => {}
            Ok(left_out) => say::report_problem(
                &format!("warning: {left_out} events did not fit into the trace {}", path.display()),
                &json!({ "event": "warning", "warning": "the trace is not complete", "left_out": left_out }),
            ),
            Err(error) => say::error(&error.to_string()),
        }
        written.is_ok()
    }

    /// Begins the shots that have arrived, for at most [`INCOMING_INTERVAL`], because other shots may
    /// end. If no shot runs, waits for some.
    fn take_incoming(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < INCOMING_INTERVAL
            && !self.is_stopping()
            && let Some(incoming) = &mut self.incoming
        {
            let wait = if self.running.is_empty() { REPORT_INTERVAL } else { Duration::ZERO };
            match incoming.next(wait) {
                Arrival::Nothing => return,
                Arrival::End => self.incoming = None,
                Arrival::Refused(error) => self.refuse(&error),
                Arrival::Shot(number) => self.arrived(number),
            }
        }
    }

    fn refuse(&mut self, error: &Error) {
        self.refused = true;
        say::error(&error.to_string());
    }

    /// Fails the shots that have arrived, and accepts no more.
    fn fail_incoming(&mut self, why: &str) {
        let Some(mut incoming) = self.incoming.take() else { return };
        loop {
            match incoming.next(Duration::ZERO) {
                Arrival::Nothing | Arrival::End => return,
                Arrival::Refused(error) => self.refuse(&error),
                Arrival::Shot(number) => {
                    if self.numbers.insert(number) {
                        self.manifest.add(self.job, number);
                        self.fail(number, why);
                    }
                }
            }
        }
    }

    /// Begins a shot that has arrived, unless it already runs or is complete.
    fn arrived(&mut self, number: usize) {
        if self.running.iter().any(|shot| shot.number == number) || self.waiting.contains(number) {
            return;
        }
        self.manifest.add(self.job, number);
        self.numbers.insert(number);
        self.failed.remove(&number);
        resume::remove_unlisted(&self.job.folder, number, &mut self.strays);
        let about = About::new(self.job, number);
        let examine = || resume::shot(&self.job.folder, &about, true, true);
        let found = if self.resume { examine() } else { Found::Nothing };
        // Computing the shot would remove its files.
        if let Found::Unread(error) = &found {
            return self.fail(number, &error.to_string());
        }
        if found == Found::Whole {
            self.manifest.kept(number, all_files(number, &about.shot));
            if self.complete.insert(number) {
                self.kept.insert(number);
                if number <= self.job.survey.output.pictures {
                    self.undrawn.push_back(number);
                }
            }
            let event = json!({ "event": "shot", "shot": number, "state": "kept" });
            say::report(&format!("shot {number} kept"), &event);
            return self.note();
        }
        self.complete.remove(&number);
        self.kept.remove(&number);
        self.undrawn.retain(|kept| *kept != number);
        if self.resume
            && let Ok(Some(state)) = resume::saved_state(&self.job.folder, &about)
        {
            self.saved.insert(number, state.header);
        }
        self.submit(number);
    }

    fn submit(&mut self, number: usize) {
        let files = Files::new(self.job, number, self.resume, &self.stop, &self.room, &self.output);
        let task = files.task(self.scheduler.cpu_threads(), self.saved.get(&number));
        match task.and_then(|task| self.scheduler.submit(task)) {
            Ok(id) => self.running.push_back(SubmittedShot { number, id, files }),
            Err(_) if self.saved.remove(&number).is_some() => self.submit(number),
            Err(error @ Error::NoDevice { .. }) => self.without_device(number, &error),
            Err(error) => self.fail(number, &error.to_string()),
        }
    }

    /// Handles a shot for which no device is left. A new process may compute it if the command can
    /// be restarted; otherwise the shot fails, and all that have arrived.
    fn without_device(&mut self, number: usize, why: &Error) {
        if self.restarts.is_some() {
            return self.deviceless.push((number, why.to_string()));
        }
        let why = why.to_string();
        self.fail(number, &why);
        self.fail_incoming(&why);
    }

    fn end(&mut self, shot: SubmittedShot) {
        let outcome = match self.scheduler.wait(shot.id, Some(Duration::ZERO)) {
            Ok(WaitResult::Done) => Ok(()),
            Ok(_) => Err(Error::Cancelled),
            Err(error) => Err(error),
        };
        // The outcome is known, so a stale id is harmless.
        drop(self.scheduler.release(shot.id));
        shot.files.close();
        match outcome {
            Ok(()) => self.done(&shot),
            Err(Error::Cancelled) if self.stop.is_asked() => self.leave(&shot),
            // No device of the kind of the saved state is left, or has the memory.
            Err(error)
                if (matches!(error, Error::NoDevice { .. }) || error.is_shortage())
                    && self.saved.remove(&shot.number).is_some() =>
            {
                self.submit(shot.number);
            }
            Err(error @ Error::NoDevice { .. }) => self.without_device(shot.number, &error),
            Err(error) if self.waiting.accept(&error, &shot.files) => match self.stopping {
                true => self.leave(&shot),
                false => self.postpone(shot, &error),
            },
            Err(error) => self.fail(shot.number, &error.to_string()),
        }
    }

    /// Counts an attempt that ended before it began. It is not a failed one.
    fn count_unbegun(&mut self, files: &Files) {
        if !files.have_begun() {
            *self.unbegun.entry(files.report().device).or_default() += 1;
        }
    }

    /// Lets a shot wait until the output folder can be written.
    fn postpone(&mut self, shot: SubmittedShot, error: &Error) {
        self.count_unbegun(&shot.files);
        let why = error.to_string();
        if let Some(time) = self.waiting.add(shot.number, shot.files, why.clone()) {
            let time = progress::time(time);
            say::warn(&format!(
                "{why}; shots that have not begun wait until that succeeds, for up to {time}"
            ));
        }
    }

    /// Submits the waiting shots if the output folder can be written. Fails them if they have waited
    /// too long.
    fn check_waiting(&mut self) {
        let find_room = |files: &Files| self.output.check().and_then(|()| files.find_room());
        match self.waiting.check(find_room) {
            Checked::Wait => {}
            Checked::Ready(shots, is_first) => {
                if is_first {
                    let begin = count(shots.len() as u64, "shot");
                    let sentence = format!("the output folder can be written again; {begin} can begin");
                    say::report(&sentence, &json!({ "event": "writable", "shots": shots.len() }));
                }
                shots.into_iter().for_each(|shot| self.submit(shot.number));
            }
            Checked::Over(shots) => {
                shots.into_iter().for_each(|shot| self.fail(shot.number, &shot.why));
            }
        }
    }

    fn done(&mut self, shot: &SubmittedShot) {
        let number = shot.number;
        self.waiting.written();
        self.complete.insert(number);
        let mut report = shot.files.report();
        if let Some(why) = &report.unusable {
            let file = names::paused(number);
            say::report_problem(
                &format!("warning: shot {number} started again from step 0; {file} is not usable: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": format!("{file}: {why}") }),
            );
        }
        // An earlier run may have recorded a part of the picture's data.
        let picture = match report.begun_with > 0 && number <= self.job.survey.output.pictures {
            false => Ok(shot.files.take_picture()),
            true => Picture::of_files(&self.job.folder, &About::new(self.job, number)),
        };
        report.files.extend(self.draw(number, picture));
        self.manifest.done(number, &report);
        let seconds = report.seconds.unwrap_or_default();
        let event = json!({
            "event": "shot",
            "shot": number,
            "state": "done",
            "device": report.device,
            "seconds": report.seconds,
            "computed": report.computed,
            "steps_before": report.begun_with,
            "files": report.files,
        });
        let from = match report.begun_with {
            0 => String::new(),
            steps => format!(", from step {steps}, where it was stopped"),
        };
        let share = |share: f64| format!(", {:.0} % of the cells computed", 100.0 * share);
        let share = report.computed.map_or_else(String::new, share);
        let place = report.device;
        say::report(&format!("shot {number} done in {seconds:.1} s on {place}{share}{from}"), &event);
        self.note();
    }

    /// Reports a shot that was stopped or has not begun.
    fn leave(&mut self, shot: &SubmittedShot) {
        let number = shot.number;
        self.count_unbegun(&shot.files);
        match shot.files.paused() {
            Some(Ok(done)) => {
                self.paused += 1;
                self.manifest.paused(number, done);
                let steps = self.job.plan.steps(&self.job.shots[number - 1]);
                let event = json!({ "event": "shot", "shot": number, "state": "paused", "steps_done": done });
                say::report(&format!("shot {number} stopped after {done} of {steps} steps"), &event);
            }
            Some(Err(why)) => say::report_problem(
                &format!("warning: shot {number} stopped, and its state is lost: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": format!("its state is lost: {why}") }),
            ),
            None => {}
        }
        self.note();
    }

    fn fail(&mut self, number: usize, why: &str) {
        self.failed.insert(number);
        self.complete.remove(&number);
        self.kept.remove(&number);
        self.undrawn.retain(|kept| *kept != number);
        self.manifest.failed(number, why);
        let event = json!({ "event": "shot", "shot": number, "state": "failed", "error": why });
        say::report_problem(&format!("error: shot {number} failed: {why}"), &event);
        self.note();
    }

    /// Writes the manifest. A failure is only reported; later calls retry, and the write at the end
    /// decides.
    fn note(&mut self) {
        let noted = self.output.check().and_then(|()| self.manifest.write_now_and_then());
        let why = noted.err().map_or_else(String::new, |error| error.to_string());
        if !why.is_empty() && why != self.unwritten {
            say::warn(&why);
        }
        self.unwritten = why;
    }

    /// Draws the pictures of a kept shot from its files.
    fn draw_kept(&mut self, number: usize) {
        let about = About::new(self.job, number);
        let mut files = all_files(number, &about.shot);
        files.extend(self.draw(number, Picture::of_files(&self.job.folder, &about)));
        self.manifest.kept(number, files);
    }

    /// Draws the pictures of a shot and returns their names. Drawing is not part of the task, so it
    /// neither occupies a device nor fails the shot.
    fn draw(&self, number: usize, picture: Result<Picture>) -> Vec<String> {
        let title = self.job.survey.title.as_deref().unwrap_or("Survey");
        let percentile = self.job.survey.output.clip_percentile;
        let mut names = Vec::new();
        let draw = || {
            self.output.check()?;
            picture?.draw(&self.job.folder, number, title, percentile, &mut names)
        };
        let drawn = match catch_unwind(AssertUnwindSafe(draw)) {
            Ok(drawn) => drawn.map_err(|error| error.to_string()),
            Err(_) => Err("drawing it panicked".into()),
        };
        if let Err(why) = drawn {
            let lacks = if names.is_empty() { "no picture" } else { "only a part of its pictures" };
            say::report_problem(
                &format!("warning: shot {number} has {lacks}: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": why }),
            );
        }
        names
    }

    /// Reports each retired device once, with the reason.
    fn report_retired(&mut self, devices: &[DeviceStats]) {
        for one in devices {
            let device = one.device.label();
            if let Some(why) = &one.retired
                && self.retired.insert(device.clone())
            {
                say::report_problem(
                    &format!("warning: {device} is retired: {why}"),
                    &json!({ "event": "retired", "device": device, "why": why }),
                );
            }
        }
    }
}
