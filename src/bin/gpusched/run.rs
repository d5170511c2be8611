//! `gpusched run`: a survey from its file to its records.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpusched::io::atomic;
use gpusched::io::kept::Kept;
use gpusched::sched::{Scheduler, TaskId, Wait};
use gpusched::{Error, Result};
use serde_json::json;

use crate::checks;
use crate::job::Job;
use crate::manifest::Manifest;
use crate::output::Files;
use crate::progress::Progress;
use crate::say::say;
use crate::summing_up;

/// How often progress is looked at.
const GLANCE: Duration = Duration::from_millis(250);
/// Some 150 MB.
const TRACE_EVENTS: usize = 1_000_000;

pub struct Wanted<'a> {
    pub survey: &'a Path,
    pub devices: Option<String>,
    pub dry_run: bool,
    pub as_json: bool,
    pub trace: Option<PathBuf>,
    /// Use and keep what is known of the devices' speeds.
    pub remember: bool,
}

/// A shot on its way.
struct Running {
    number: usize,
    id: TaskId,
    files: Files,
}

/// `true`: every shot is written. An error: nothing was run.
pub fn run(wanted: Wanted<'_>) -> Result<bool> {
    let job = Job::load(wanted.survey)?;
    let scheduler = {
        let mut builder = Scheduler::builder();
        builder.devices = wanted.devices.or_else(|| job.survey.run.devices.clone());
        builder.slots = job.survey.run.slots;
        builder.trace_events = if wanted.trace.is_some() { TRACE_EVENTS } else { 0 };
        if wanted.remember && !wanted.dry_run {
            builder.rates = rates_file().map(|path| Arc::new(Kept::new(path)) as _);
        }
        builder.build()?
    };
    let devices = scheduler.devices();
    checks::memory(&job, devices)?;
    let _claim = if wanted.dry_run { None } else { checks::folder(&job)? };
    if let Some(trace) = wanted.trace.as_ref().filter(|_| !wanted.dry_run) {
        // Dropped without a commit, it goes again.
        atomic::Output::create(trace)?;
    }
    let summary = checks::summary(&job, devices);
    if wanted.as_json {
        say!("{}", json!({ "event": "survey", "dry_run": wanted.dry_run, "survey": summary }));
    } else {
        checks::print(&job, devices, &summary);
    }
    if wanted.dry_run {
        if !wanted.as_json {
            say!("dry run: all checks passed, nothing was computed or written");
        }
        return Ok(true);
    }
    let mut manifest = Manifest::new(&job, summary);
    manifest.write()?;
    let survey = Survey { job: &job, scheduler: &scheduler, manifest, failed: 0 };
    Ok(survey.run(wanted.as_json, wanted.trace.as_deref()))
}

/// Where the speeds of devices are kept, by the rules of the XDG base directories. `None`: nobody's home.
fn rates_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("gpusched").join("rates"))
}

struct Survey<'a> {
    job: &'a Job,
    scheduler: &'a Scheduler,
    manifest: Manifest,
    failed: usize,
}

impl Survey<'_> {
    fn run(mut self, as_json: bool, trace: Option<&Path>) -> bool {
        let begun = Instant::now();
        let shots = self.job.shots.len();
        let mut progress = Progress::new(shots, as_json);
        let mut running = self.submit(&mut progress);
        while !running.is_empty() {
            let ids: Vec<TaskId> = running.iter().map(|shot| shot.id).collect();
            match self.scheduler.wait_any(&ids, Some(GLANCE)) {
                Ok(Some(at)) => {
                    let shot = running.remove(at);
                    self.end(shot, &mut progress);
                }
                Ok(None) => {}
                Err(error) => {
                    for shot in running.drain(..) {
                        self.fail(shot.number, &error.to_string(), &mut progress);
                    }
                }
            }
            if let Ok(now) = self.scheduler.progress() {
                progress.update(&now, self.failed);
            }
        }
        progress.finish();
        if let Err(error) = self.manifest.finish(self.failed) {
            progress
                .say(&format!("error: {error}"), &json!({ "event": "error", "error": error.to_string() }));
            self.failed = self.failed.max(1);
        }
        let traced = trace.is_none_or(|path| self.write_trace(path, &progress));
        let stats = self.scheduler.stats().ok();
        if let Some(stats) = &stats {
            summing_up::lines(stats).iter().for_each(|line| progress.for_people(line));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (done, folder) = (shots - self.failed, self.job.folder.display());
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        progress.say(
            &format!("{done} of {shots} shots written in {seconds:.1} s{failed}; look in {folder}"),
            &json!({
                "event": "end",
                "done": done,
                "failed": self.failed,
                "seconds": seconds,
                "folder": self.job.folder,
                "schedule": stats.as_ref().map(summing_up::object),
            }),
        );
        self.failed == 0 && traced
    }

    fn write_trace(&self, path: &Path, progress: &Progress) -> bool {
        let written = self.scheduler.timeline().and_then(|timeline| {
            atomic::write_with(path, |out| timeline.write(out))?;
            Ok(timeline.left_out())
        });
        match &written {
            Ok(0) => {}
            Ok(left_out) => progress.say(
                &format!("warning: {left_out} events had no room in {}", path.display()),
                &json!({ "event": "warning", "warning": "the trace is not complete", "left_out": left_out }),
            ),
            Err(error) => progress
                .say(&format!("error: {error}"), &json!({ "event": "error", "error": error.to_string() })),
        }
        written.is_ok()
    }

    fn submit(&mut self, progress: &mut Progress) -> Vec<Running> {
        let mut running = Vec::new();
        for number in 1..=self.job.shots.len() {
            let files = Files::new(self.job, number);
            match files.task().and_then(|task| self.scheduler.submit(task)) {
                Ok(id) => running.push(Running { number, id, files }),
                Err(error) => self.fail(number, &error.to_string(), progress),
            }
        }
        running
    }

    fn end(&mut self, shot: Running, progress: &mut Progress) {
        let outcome = match self.scheduler.wait(shot.id, Some(Duration::ZERO)) {
            Ok(Wait::Done) => Ok(()),
            Ok(_) => Err(Error::Cancelled),
            Err(error) => Err(error),
        };
        // Its outcome is known; if the id is gone already, nothing is lost.
        drop(self.scheduler.release(shot.id));
        match outcome {
            Ok(()) => self.done(&shot, progress),
            Err(error) => self.fail(shot.number, &error.to_string(), progress),
        }
    }

    fn done(&mut self, shot: &Running, progress: &mut Progress) {
        let number = shot.number;
        let mut report = shot.files.report();
        match self.draw(shot) {
            Ok(names) => report.files.extend(names),
            Err(why) => progress.say(
                &format!("warning: shot {number} has no picture: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": why }),
            ),
        }
        self.manifest.done(number, &report);
        let seconds = report.seconds.unwrap_or_default();
        let event = json!({
            "event": "shot",
            "shot": number,
            "state": "done",
            "device": report.device,
            "seconds": report.seconds,
            "files": report.files,
        });
        progress.shot(&format!("shot {number} done in {seconds:.1} s on {}", report.device), &event);
        self.note(progress);
    }

    fn fail(&mut self, number: usize, why: &str, progress: &mut Progress) {
        self.failed += 1;
        self.manifest.failed(number, why);
        let event = json!({ "event": "shot", "shot": number, "state": "failed", "error": why });
        progress.shot(&format!("shot {number} FAILED: {why}"), &event);
        self.note(progress);
    }

    /// A manifest that can't be written now is tried again, and counts at the end.
    fn note(&mut self, progress: &Progress) {
        if let Err(error) = self.manifest.write_now_and_then() {
            let why = error.to_string();
            progress.say(&format!("warning: {why}"), &json!({ "event": "warning", "warning": why }));
        }
    }

    /// Here and not in the task: drawing neither holds a device up nor fails a shot.
    fn draw(&self, shot: &Running) -> std::result::Result<Vec<String>, String> {
        let picture = shot.files.take_picture();
        let title = self.job.survey.title.as_deref().unwrap_or("Survey");
        let percentile = self.job.survey.output.clip_percentile;
        let draw = || picture.draw(&self.job.folder, shot.number, title, percentile);
        match catch_unwind(AssertUnwindSafe(draw)) {
            Ok(drawn) => drawn.map_err(|error| error.to_string()),
            Err(_) => Err("drawing it panicked".into()),
        }
    }
}
