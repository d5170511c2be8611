//! `gpusched simulate`: runs the scheduler on simulated devices, in virtual time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use gpusched::io::atomic;
use gpusched::sched::TaskStatus;
use gpusched::sched::simulation::{self, Scenario, SimReport};
use gpusched::{Error, Result};
use serde::Serialize;

use crate::say::say;
use crate::scenario;

/// Maximum number of failed tasks whose errors are printed.
const ERRORS: usize = 10;

/// The printed result. The order of the fields is part of the interface.
#[derive(Serialize)]
struct Line<'a> {
    makespan_s: f64,
    /// `null`: no schedule ends, because all devices are lost earlier.
    lower_bound_s: Option<f64>,
    ratio: Option<f64>,
    finished: u64,
    failed: u64,
    retried: u64,
    per_device: Vec<Device<'a>>,
    cancelled: u64,
    copies: u64,
    errors: Vec<Failure>,
}

#[derive(Serialize)]
struct Device<'a> {
    name: &'a str,
    busy_s: f64,
    tasks: u64,
    peak_bytes: u64,
    retired: Option<&'a str>,
}

#[derive(Serialize)]
struct Failure {
    task: usize,
    error: String,
}

/// Runs a scenario. Returns false if a task did not finish.
pub fn run(path: &Path, as_json: bool, trace: Option<&Path>) -> Result<bool> {
    let scenario = scenario::read(path)?;
    let report = match trace {
        None => simulation::run(&scenario),
        Some(trace)
            if fs::canonicalize(trace)
                .is_ok_and(|trace| fs::canonicalize(path).is_ok_and(|path| path == trace)) =>
        {
            return Err(Error::io("overwrite", trace, "it is the scenario; choose another file for --trace"));
        }
        Some(trace) => {
            let mut report = SimReport::default();
            // The file is created first, so that an error is reported before the run.
            atomic::write_with(trace, |out| {
                let timeline;
                (report, timeline) = simulation::run_traced(&scenario);
                timeline.write(out)
            })?;
            report
        }
    };
    let line = describe(&scenario, &report);
    if as_json {
        let line = serde_json::to_string(&line).map_err(|why| Error::Internal(why.to_string()))?;
        say!("{line}");
    } else {
        print(&line, scenario.tasks.len());
    }
    Ok(report.counts.done == scenario.tasks.len() as u64)
}

fn describe<'a>(scenario: &Scenario, report: &'a SimReport) -> Line<'a> {
    let bound = Some(simulation::lower_bound(scenario)).filter(|bound| bound.is_finite());
    let failed = report.outcomes.iter().enumerate().filter(|(_, (state, _))| *state == TaskStatus::Failed);
    Line {
        makespan_s: report.makespan,
        lower_bound_s: bound,
        ratio: bound.map(|bound| report.makespan / bound),
        finished: report.counts.done,
        failed: report.counts.failed,
        retried: report.counts.retried,
        per_device: report
            .devices
            .iter()
            .map(|device| Device {
                name: &device.device.name,
                busy_s: Duration::from_nanos(device.busy_ns).as_secs_f64(),
                tasks: device.done,
                peak_bytes: device.peak_bytes,
                retired: device.retired.as_deref(),
            })
            .collect(),
        cancelled: report.counts.cancelled,
        copies: report.counts.copies,
        errors: failed
            .take(ERRORS)
            .map(|(task, (_, error))| Failure {
                task,
                error: error.as_ref().map_or_else(String::new, ToString::to_string),
            })
            .collect(),
    }
}

fn print(line: &Line<'_>, tasks: usize) {
    let Line { makespan_s, finished, failed, cancelled, retried, copies, .. } = line;
    say!(
        "{finished} of {tasks} tasks finished, {failed} failed, {cancelled} cancelled; {retried} retried, {copies} copies"
    );
    match (line.lower_bound_s, line.ratio) {
        (Some(bound), Some(ratio)) => say!("{makespan_s:.1} s; at least {bound:.1} s, ratio {ratio:.4}"),
        _ => say!("{makespan_s:.1} s; all devices are lost before any schedule ends"),
    }
    say!("{:>12} {:>7}  DEVICE", "BUSY s", "TASKS");
    for Device { name, busy_s, tasks, retired, .. } in &line.per_device {
        say!(
            "{busy_s:>12.1} {tasks:>7}  {name}{}",
            retired.map_or(String::new(), |why| format!(", retired: {why}"))
        );
    }
    for Failure { task, error } in &line.errors {
        say!("task {task}: {error}");
    }
}
