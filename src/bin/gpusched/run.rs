//! `gpusched run`: checks a survey and its devices, then runs the shots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpusched::Result;
use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::io::kept::Kept;
use gpusched::io::{atomic, leftovers};
use gpusched::sched::{Scheduler, discover_all};
use serde_json::json;

use crate::args::RunOptions;
use crate::checks;
use crate::device_check;
use crate::devices::check_selection;
use crate::folder::{self, OutputFolder, check_inputs, check_results};
use crate::incoming::Incoming;
use crate::job::Job;
use crate::manifest::{Earlier, Manifest};
use crate::output::{Room, all_files};
use crate::part::Part;
use crate::restart::End;
use crate::resume::{self, Found, Strays};
use crate::say::{self, say};
use crate::shots::SurveyRun;
use crate::stopping::Stop;
use crate::summary::count;
use crate::waiting::{Start, WaitingShots};

/// Maximum number of events of a trace: about 150 MB.
const TRACE_EVENTS: usize = 1_000_000;

/// Runs a survey. An error means that no shot has run.
pub fn run(options: &RunOptions) -> Result<End> {
    // Restarts since the last shot was computed.
    let restarts = options.restart.unwrap_or(0);
    let end = options.stop_after.and_then(|time| Instant::now().checked_add(time));
    let is_stream = options.shots_from.as_deref() == Some(Path::new("-"));
    // A new process reads the list again, so the list must be a file.
    let can_restart = !is_stream && options.shots_from.as_deref().is_none_or(Path::is_file);
    let stop = (restarts > 0).then(|| Stop::new(end)).transpose()?;
    let mut start = Start::new(stop, &options.survey);
    let mut job = start.repeat(|| load(options, is_stream))?;
    let selection = options.devices.clone().or_else(|| job.survey.run.devices.clone());
    let scheduler = build_scheduler(options, selection.clone(), job.survey.run.slots)?;
    let devices = scheduler.devices();
    let takes = job.shot_bytes(scheduler.cpu_threads());
    // A client of nodes with devices of their own checks the survey and the output folder only.
    let without_devices = options.dry_run && options.devices.is_some() && devices.is_empty();
    if !without_devices {
        checks::memory(&job, takes, devices)?;
        checks::address_space(&job, &scheduler)?;
    }
    check_inputs(&job, options.trace.as_deref())?;
    let mut earlier = match restarts {
        0 => Earlier::default(),
        _ => start.repeat(|| Earlier::read(&job))?,
    };
    let claimed = start.repeat(|| claim(&job, options.dry_run));
    let (output, free) = match claimed {
        Err(_) if options.resume && !is_stream && options.trace.is_none() && is_complete(&job)? => {
            report_complete(&job);
            return Ok(End::Whole);
        }
        claimed => claimed?,
    };
    job.warnings.extend(checks::space(&job, check_results(&job)?, free));
    let (full, must_wait) = checks::memory_now(&job, takes, devices).unzip();
    job.warnings.extend(full);
    if let Some(trace) = &options.trace {
        // The file is removed, because it is dropped without a commit.
        start.repeat(|| atomic::Output::create(trace).map(drop))?;
    }
    let slots: u32 = scheduler.stats()?.devices.iter().map(|device| device.slots).sum();
    let summary = checks::summary(&job, takes, devices, slots);
    if options.json {
        say!("{}", json!({ "event": "survey", "dry_run": options.dry_run, "survey": summary }));
    } else if restarts == 0 {
        checks::print(&job, takes, devices, &summary);
    }
    report_notes(devices)?;
    if options.check_devices && !retire_unfit(&scheduler, selection.as_deref())? {
        return Ok(End::Incomplete);
    }
    if output.as_ref().is_some_and(|output| output.is_exclusive()) {
        remove_leftovers(&job.folder);
    }
    let found = match options.resume {
        true => start.repeat(|| resume::examine(&job, &earlier.written, !options.dry_run))?,
        false => BTreeMap::new(),
    };
    let saved = if options.resume { resume::saved_states(&job, &found) } else { BTreeMap::new() };
    // The first process has reported the kept shots.
    if options.resume && !is_stream && restarts == 0 {
        resume::report(&found, saved.len());
    }
    let Some(output) = output else {
        let fits = match must_wait {
            _ if without_devices => "no memory was checked",
            Some(true) => "it will fit once other processes release memory",
            _ => "it fits",
        };
        say::for_people(&format!(
            "dry run: the survey is valid, {fits}, and the output folder can be written; nothing was computed"
        ));
        return Ok(End::Whole);
    };
    let strays = match output.is_exclusive() || job.is_part {
        true => resume::remove_strays(&job, options.resume).unwrap_or_else(|error| {
            log::warn!("{}: not searched for snapshots without a description: {error}", job.folder.display());
            Strays::new()
        }),
        false => Strays::new(),
    };
    let mut manifest = start.repeat(|| Manifest::new(&job, summary.clone(), &earlier))?;
    let (mut complete, mut kept, mut computed) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (number, _) in found.into_iter().filter(|(_, found)| *found == Found::Whole) {
        match earlier.shots.remove(&number) {
            Some(entry) => {
                manifest.computed(number, entry);
                computed += 1;
            }
            None => {
                manifest.kept(number, all_files(number, &job.shots[number - 1]));
                kept.insert(number);
            }
        }
        complete.insert(number);
    }
    let stop = start.into_stop().map_or_else(|| Stop::new(end), Ok)?;
    let incoming = if is_stream { Some(Incoming::open(job.shots.len())?) } else { None };
    let survey = SurveyRun {
        job: &job,
        scheduler: &scheduler,
        output,
        manifest,
        incoming,
        refused: false,
        numbers: job.numbers.clone(),
        kept,
        complete,
        saved,
        strays,
        computed,
        earlier,
        failed: BTreeSet::new(),
        room: Room::default(),
        waiting: WaitingShots::new(job.survey.run.write_retry_s),
        paused: 0,
        unbegun: BTreeMap::new(),
        running: VecDeque::new(),
        retired: BTreeSet::new(),
        deviceless: Vec::new(),
        restarts: can_restart.then_some(restarts),
        resume: options.resume,
        stop,
        stopping: false,
        undrawn: VecDeque::new(),
        unwritten: String::new(),
    };
    Ok(survey.run(options.trace.as_deref()))
}

/// Reads the survey, and the numbers of the shots to compute.
fn load(options: &RunOptions, is_stream: bool) -> Result<Job> {
    let part = match (&options.shots, &options.shots_from, &options.array_index) {
        (Some(list), ..) => Some(Part::parse("--shots", list)?),
        (_, Some(_), _) if is_stream => Some(Part::none()),
        (_, Some(file), _) => Some(Part::read(file)?),
        (.., Some(index)) => Some(Part::of_array(index)?),
        (None, None, None) => None,
    };
    let mut job = Job::load(&options.survey)?;
    if let Some(part) = part {
        job.numbers = part.numbers(job.shots.len())?;
        job.is_part = true;
    }
    Ok(job)
}

/// Claims the output folder, or only probes it for a dry run. Also returns the free bytes of its file
/// system.
fn claim(job: &Job, dry_run: bool) -> Result<(Option<Arc<OutputFolder>>, Option<u64>)> {
    if dry_run {
        return Ok((None, OutputFolder::probe(&job.folder, job.is_part)?));
    }
    let output = OutputFolder::claim(&job.folder, job.is_part)?;
    let free = output.free_bytes();
    Ok((Some(Arc::new(output)), free))
}

/// Returns true if every shot is complete, in a folder that the run cannot write to. Returns an error
/// if another run holds its lock.
fn is_complete(job: &Job) -> Result<bool> {
    let _claim = folder::lock(&job.folder, job.is_part, Duration::ZERO)?;
    Ok(resume::examine(job, &BTreeSet::new(), false)?.values().all(|found| *found == Found::Whole))
}

/// Reports that every shot is complete and nothing is written.
fn report_complete(job: &Job) {
    let (done, folder) = (job.numbers.len(), job.folder.display());
    if !say::has_events() {
        return say!(
            "{done} of {} are complete; nothing was written, and {folder} cannot be written to",
            count(done as u64, "shot")
        );
    }
    for number in &job.numbers {
        say!("{}", json!({ "event": "shot", "shot": number, "state": "kept" }));
    }
    let folder = job.folder.to_string_lossy();
    say!(
        "{}",
        json!({ "event": "end", "done": done, "kept": done, "failed": 0, "open": 0, "folder": folder })
    );
}

/// Prints the notes of the device search if the run uses a GPU: another GPU may be lost or hidden.
fn report_notes(used: &[DeviceInfo]) -> Result<()> {
    if used.iter().all(|device| device.backend != BackendKind::Cuda) {
        return Ok(());
    }
    for note in discover_all()?.1 {
        say::warn(&note);
    }
    Ok(())
}

/// Retires the devices that fail the check shot. Returns false if none is left.
fn retire_unfit(scheduler: &Scheduler, selection: Option<&str>) -> Result<bool> {
    let unfit = device_check::check_devices(selection)?;
    for (index, device) in scheduler.devices().iter().enumerate() {
        if let Some((_, why)) = unfit.iter().find(|(label, _)| *label == device.label()) {
            scheduler.retire(index, &why.to_string())?;
        }
    }
    let some_are_left = unfit.len() < scheduler.devices().len();
    if !some_are_left {
        say::error("no device passed the check shot; nothing was run");
    }
    Ok(some_are_left)
}

/// Removes temporary files of killed runs. A failure is logged and does not prevent the run.
fn remove_leftovers(folder: &Path) {
    match leftovers::remove(folder) {
        Ok(0) => {}
        Ok(removed) => say::report(
            &format!("removed unfinished files of a killed run: {removed}"),
            &json!({ "event": "leftovers", "removed": removed }),
        ),
        Err(error) => log::warn!("{}: not searched for leftovers: {error}", folder.display()),
    }
}

fn build_scheduler(options: &RunOptions, devices: Option<String>, slots: Option<u32>) -> Result<Scheduler> {
    options.devices.as_deref().map_or(Ok(()), |list| check_selection("--devices", list))?;
    let mut builder = Scheduler::builder();
    builder.devices = devices;
    builder.slots = slots;
    // The command prints each failure and each retired device itself.
    builder.policy.failure_level = log::Level::Info;
    builder.trace_events = if options.trace.is_some() { TRACE_EVENTS } else { 0 };
    if !options.no_rates_cache && !options.dry_run {
        builder.rates = rates_file().map(|path| Arc::new(Kept::new(path)) as _);
    }
    builder.build()
}

/// Returns the path of the file with the device rates, by the XDG base directories. `None`: neither
/// variable is set.
fn rates_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("gpusched").join("rates"))
}
