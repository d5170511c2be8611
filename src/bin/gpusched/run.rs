//! `gpusched run`: a survey from its file to its records.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::io::kept::Kept;
use gpusched::io::{atomic, leftovers};
use gpusched::sched::{DeviceStats, Scheduler, TaskId, TaskStatus, WaitResult, discover_all};
use gpusched::{Error, Result};
use serde_json::json;

use crate::checks;
use crate::fitness;
use crate::job::Job;
use crate::manifest::Manifest;
use crate::names;
use crate::output::{Files, Room, all_files};
use crate::picture::Picture;
use crate::progress::Progress;
use crate::resume::{self, Found};
use crate::say::say;
use crate::side::About;
use crate::stopping::{Limit, Stop};
use crate::summing_up;

/// How often progress is looked at.
const GLANCE: Duration = Duration::from_millis(250);
/// Some 150 MB.
const TRACE_EVENTS: usize = 1_000_000;

pub struct Wanted<'a> {
    pub survey: &'a Path,
    /// Keep what an earlier run has finished.
    pub resume: bool,
    /// Stop then, and keep the state of what runs.
    pub stop_after: Option<Duration>,
    pub devices: Option<String>,
    /// A check shot on each device first.
    pub check_devices: bool,
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
    let limit = Limit::after(wanted.stop_after);
    let job = Job::load(wanted.survey)?;
    let selection = wanted.devices.or_else(|| job.survey.run.devices.clone());
    let scheduler = {
        let mut builder = Scheduler::builder();
        builder.devices = selection.clone();
        builder.slots = job.survey.run.slots;
        builder.trace_events = if wanted.trace.is_some() { TRACE_EVENTS } else { 0 };
        if wanted.remember && !wanted.dry_run {
            builder.rates = rates_file().map(|path| Arc::new(Kept::new(path)) as _);
        }
        builder.build()?
    };
    let devices = scheduler.devices();
    let takes = job.shot_bytes(scheduler.cpu_threads());
    checks::memory(&job, takes, devices)?;
    let claim = if wanted.dry_run { None } else { checks::folder(&job)? };
    if let Some(trace) = wanted.trace.as_ref().filter(|_| !wanted.dry_run) {
        // Dropped without a commit, it goes again.
        atomic::Output::create(trace)?;
    }
    let summary = checks::summary(&job, takes, devices);
    if wanted.as_json {
        say!("{}", json!({ "event": "survey", "dry_run": wanted.dry_run, "survey": summary }));
    } else {
        checks::print(&job, takes, devices, &summary);
    }
    tell_of_gpus(devices, wanted.as_json)?;
    if wanted.check_devices && !leave_out_unfit(&scheduler, selection.as_deref(), wanted.as_json)? {
        return Ok(false);
    }
    if claim.is_some() {
        sweep(&job.folder, wanted.as_json);
    }
    let found = if wanted.resume { resume::look(&job, !wanted.dry_run) } else { Vec::new() };
    if wanted.resume {
        resume::tell(&job, &found, wanted.as_json);
    }
    if wanted.dry_run {
        if !wanted.as_json {
            say!(
                "dry run: the survey is in order and fits; nothing was computed or written, the output folder was not tried"
            );
        }
        return Ok(true);
    }
    if claim.is_some()
        && let Err(error) = resume::remove_strays(&job, !wanted.resume)
    {
        log::warn!(
            "{}: not looked through for snapshots of shots that are not there: {error}",
            job.folder.display()
        );
    }
    let whole = (1..).zip(found).filter(|(_, found)| *found == Found::Whole);
    let kept: BTreeSet<usize> = whole.map(|(number, _)| number).collect();
    let mut manifest = Manifest::new(&job, summary);
    kept.iter().for_each(|&number| manifest.kept(number, all_files(&About::new(&job, number))));
    manifest.write()?;
    let stop = Stop::on_signals()?;
    let survey = Survey {
        job: &job,
        scheduler: &scheduler,
        manifest,
        kept,
        failed: 0,
        open: 0,
        resume: wanted.resume,
        stop,
        limit,
    };
    Ok(survey.run(wanted.as_json, wanted.trace.as_deref()))
}

/// What there is to know of the machine's GPUs where some are used: one that is lost or hidden is missed.
fn tell_of_gpus(used: &[DeviceInfo], as_json: bool) -> Result<()> {
    if used.iter().all(|device| device.backend != BackendKind::Cuda) {
        return Ok(());
    }
    for note in discover_all()?.1 {
        match as_json {
            true => say!("{}", json!({ "event": "warning", "warning": note })),
            false => say!("note: {note}"),
        }
    }
    Ok(())
}

/// Devices that are out of use, and why.
fn tell_retired(devices: &[DeviceStats], told: &mut BTreeSet<String>, progress: &Progress) {
    for one in devices {
        let device = one.device.label();
        if let Some(why) = &one.retired
            && told.insert(device.clone())
        {
            progress.say(
                &format!("{device} is not used any more: {why}"),
                &json!({ "event": "retired", "device": device, "why": why }),
            );
        }
    }
}

/// False: none is left.
fn leave_out_unfit(scheduler: &Scheduler, selection: Option<&str>, as_json: bool) -> Result<bool> {
    let unfit = fitness::look(selection, as_json)?;
    for (index, device) in scheduler.devices().iter().enumerate() {
        if let Some(found) = unfit.iter().find(|unfit| unfit.device == device.label()) {
            scheduler.retire(index, &found.why.to_string())?;
        }
    }
    let some_are_left = unfit.len() < scheduler.devices().len();
    if !some_are_left {
        let why = "no device has computed the check shot: nothing was run";
        match as_json {
            true => say!("{}", json!({ "event": "error", "error": why })),
            false => say!("error: {why}"),
        }
    }
    Ok(some_are_left)
}

/// Removes what a killed run has left half-written. That it can't is no reason not to run.
fn sweep(folder: &Path, as_json: bool) {
    match leftovers::remove(folder) {
        Ok(0) => {}
        Ok(removed) if as_json => say!("{}", json!({ "event": "leftovers", "removed": removed })),
        Ok(removed) => say!("half-written files of a run that was killed, removed: {removed}"),
        Err(error) => log::warn!("{}: not looked through for leftovers: {error}", folder.display()),
    }
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
    /// Numbers of the shots that an earlier run has finished.
    kept: BTreeSet<usize>,
    failed: usize,
    /// Not begun, or stopped on the way.
    open: usize,
    resume: bool,
    stop: Stop,
    limit: Limit,
}

impl Survey<'_> {
    fn run(mut self, as_json: bool, trace: Option<&Path>) -> bool {
        let begun = Instant::now();
        let shots = self.job.shots.len();
        let mut progress = Progress::new(shots, self.kept.len(), as_json);
        let mut running = self.submit(&mut progress);
        self.draw_kept(&progress);
        let mut stopped = false;
        let mut retired = self
            .devices()
            .into_iter()
            .filter(|one| one.retired.is_some())
            .map(|one| one.device.label())
            .collect();
        while !running.is_empty() {
            if !stopped && (self.stop.is_asked() || self.limit.is_over()) {
                stopped = true;
                self.stop(&running, &progress);
            }
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
            let devices = self.devices();
            tell_retired(&devices, &mut retired, &progress);
            if let Ok(now) = self.scheduler.progress() {
                let held = devices.iter().filter(|one| one.taken).map(|one| one.device.label());
                progress.update(&now, self.failed, &held.collect::<Vec<_>>());
            }
        }
        progress.finish();
        let listed = self.manifest.finish(self.failed, self.open);
        if let Err(error) = &listed {
            progress
                .say(&format!("error: {error}"), &json!({ "event": "error", "error": error.to_string() }));
        }
        let traced = trace.is_none_or(|path| self.write_trace(path, &progress));
        let stats = self.scheduler.stats().ok();
        if let Some(stats) = &stats {
            summing_up::lines(stats).iter().for_each(|line| progress.for_people(line));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (done, kept, folder) =
            (shots - self.failed - self.open, self.kept.len(), self.job.folder.display());
        let mut sentence = match kept {
            0 => format!("{done} of {shots} shots written in {seconds:.1} s"),
            _ => format!(
                "{done} of {shots} shots written, {kept} kept and {} computed in {seconds:.1} s",
                done - kept
            ),
        };
        for (count, what) in [(self.failed, "failed"), (self.open, "stopped or not begun")] {
            if count > 0 {
                sentence += &format!(", {count} {what}");
            }
        }
        if self.failed + self.open > 0 {
            sentence += "; `gpusched run --resume` computes what is missing";
        }
        progress.say(
            &format!("{sentence}; look in {folder}"),
            &json!({
                "event": "end",
                "done": done,
                "kept": kept,
                "failed": self.failed,
                "open": self.open,
                "seconds": seconds,
                "folder": self.job.folder,
                "schedule": stats.as_ref().map(summing_up::object),
            }),
        );
        self.failed + self.open == 0 && listed.is_ok() && traced
    }

    fn devices(&self) -> Vec<DeviceStats> {
        self.scheduler.stats().map(|stats| stats.devices).unwrap_or_default()
    }

    /// What has not begun does not begin any more; what runs leaves its state.
    fn stop(&self, running: &[Running], progress: &Progress) {
        self.stop.ask();
        progress.say(
            "stopping: shots that run leave their state, no other begins; a second signal ends all at once",
            &json!({ "event": "stopping" }),
        );
        for shot in running {
            if self.scheduler.info(shot.id).is_ok_and(|info| info.state == TaskStatus::Queued) {
                drop(self.scheduler.cancel(shot.id));
            }
        }
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
        let room = Room::default();
        for number in 1..=self.job.shots.len() {
            if self.kept.contains(&number) {
                continue;
            }
            let files = Files::new(self.job, number, self.resume, &self.stop, &room);
            match files.task(self.scheduler.cpu_threads()).and_then(|task| self.scheduler.submit(task)) {
                Ok(id) => running.push(Running { number, id, files }),
                Err(error) => self.fail(number, &error.to_string(), progress),
            }
        }
        running
    }

    fn end(&mut self, shot: Running, progress: &mut Progress) {
        let outcome = match self.scheduler.wait(shot.id, Some(Duration::ZERO)) {
            Ok(WaitResult::Done) => Ok(()),
            Ok(_) => Err(Error::Cancelled),
            Err(error) => Err(error),
        };
        // Its outcome is known; if the id is gone already, nothing is lost.
        drop(self.scheduler.release(shot.id));
        shot.files.close();
        match outcome {
            Ok(()) => self.done(&shot, progress),
            Err(Error::Cancelled) if self.stop.is_asked() => self.leave(&shot, progress),
            Err(error) => self.fail(shot.number, &error.to_string(), progress),
        }
    }

    fn done(&mut self, shot: &Running, progress: &mut Progress) {
        let number = shot.number;
        let mut report = shot.files.report();
        if let Err(why) = &report.begun_with {
            let file = names::paused(number);
            progress.say(
                &format!("shot {number} began anew, {file} was of no use: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": format!("{file}: {why}") }),
            );
        }
        let begun_with = report.begun_with.clone().unwrap_or(0);
        // Part of what is drawn may have been taken by an earlier run.
        let picture = match begun_with > 0 && number <= self.job.survey.output.pictures {
            false => Ok(shot.files.take_picture()),
            true => Picture::of_files(&self.job.folder, &About::new(self.job, number)),
        };
        report.files.extend(self.draw(number, picture, progress));
        self.manifest.done(number, &report);
        let seconds = report.seconds.unwrap_or_default();
        let event = json!({
            "event": "shot",
            "shot": number,
            "state": "done",
            "device": report.device,
            "seconds": report.seconds,
            "steps_before": begun_with,
            "files": report.files,
        });
        let from = match begun_with {
            0 => String::new(),
            steps => format!(", from step {steps}, where it was stopped"),
        };
        progress.shot(&format!("shot {number} done in {seconds:.1} s on {}{from}", report.device), &event);
        self.note(progress);
    }

    /// One that was stopped on the way, or not begun.
    fn leave(&mut self, shot: &Running, progress: &mut Progress) {
        let number = shot.number;
        self.open += 1;
        match shot.files.paused() {
            Some(Ok(done)) => {
                self.manifest.paused(number, done);
                let steps = self.job.shots[number - 1].nt;
                let event = json!({ "event": "shot", "shot": number, "state": "paused", "steps_done": done });
                progress.shot(&format!("shot {number} stopped after {done} of {steps} steps"), &event);
            }
            Some(Err(why)) => progress.say(
                &format!("warning: shot {number} stopped, and its state is lost: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": format!("its state is lost: {why}") }),
            ),
            None => {}
        }
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

    /// From their files: the run that computed them may have ended before it drew them, and titles change.
    fn draw_kept(&mut self, progress: &Progress) {
        let pictured = self.job.survey.output.pictures.saturating_add(1);
        for &number in self.kept.range(..pictured) {
            let about = About::new(self.job, number);
            let mut files = all_files(&about);
            files.extend(self.draw(number, Picture::of_files(&self.job.folder, &about), progress));
            self.manifest.kept(number, files);
        }
    }

    /// The names of the pictures. Here and not in the task: drawing neither holds a device up nor fails a shot.
    fn draw(&self, number: usize, picture: Result<Picture>, progress: &Progress) -> Vec<String> {
        let title = self.job.survey.title.as_deref().unwrap_or("Survey");
        let percentile = self.job.survey.output.clip_percentile;
        let draw = || picture?.draw(&self.job.folder, number, title, percentile);
        let drawn = match catch_unwind(AssertUnwindSafe(draw)) {
            Ok(drawn) => drawn.map_err(|error| error.to_string()),
            Err(_) => Err("drawing it panicked".into()),
        };
        drawn.unwrap_or_else(|why| {
            progress.say(
                &format!("warning: shot {number} has no picture: {why}"),
                &json!({ "event": "warning", "shot": number, "warning": why }),
            );
            Vec::new()
        })
    }
}
