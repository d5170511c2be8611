//! Checks before a run: prints the survey in numbers, and whether it fits the devices.

use gpusched::backend::cpu;
use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::error::human;
use gpusched::fd::model::DensityAt;
use gpusched::fd::plan::{Stencil, Storage};
use gpusched::memory::Bytes;
use gpusched::sched::Scheduler;
use gpusched::{Error, Result};
use serde_json::{Value, json};

use crate::devices::describe;
use crate::digits::decimal;
use crate::job::{Job, rounded_down};
use crate::part;
use crate::say::{self, say};
use crate::side::{absorbing_layer, snapshot_steps};
use crate::survey::Accuracy;

/// The fit of a shot in the memory of a device.
#[derive(PartialEq)]
enum Fit {
    Now,
    /// Other processes use memory that it needs.
    Later,
    Never,
    /// The GPU cannot address the fields.
    NotOnGpu,
}

fn fit(job: &Job, takes: Bytes, device: &DeviceInfo) -> Fit {
    let (needed, usable) = (takes.on(device.backend), device.usable_bytes());
    let used = device.total_bytes.saturating_sub(device.free_bytes);
    match needed <= usable {
        false => Fit::Never,
        true if device.backend == BackendKind::Cuda && job.plan.needs_cpu("").is_some() => Fit::NotOnGpu,
        true if needed > usable.saturating_sub(used) => Fit::Later,
        true => Fit::Now,
    }
}

/// Returns a warning if a shot does not fit a device now, and whether it fits none.
pub fn memory_now(job: &Job, takes: Bytes, devices: &[DeviceInfo]) -> Option<(String, bool)> {
    let labels = |wanted: Fit| {
        let all = devices.iter().filter(|device| fit(job, takes, device) == wanted);
        all.map(|device| device.label()).collect::<Vec<_>>().join(", ")
    };
    let (full, free) = (labels(Fit::Later), labels(Fit::Now));
    if full.is_empty() {
        return None;
    }
    let run = match free.is_empty() {
        true => "waits until they release it, for up to an hour".into(),
        false => format!("uses {free} until they release it"),
    };
    let warning =
        format!("other processes use the memory of {full}, so a shot does not fit now; the run {run}");
    Some((warning, free.is_empty()))
}

/// Returns an error if no device has the memory for a shot.
pub fn memory(job: &Job, takes: Bytes, devices: &[DeviceInfo]) -> Result<()> {
    if devices.is_empty() {
        let why = "the machine has none, or none is selected".into();
        return Err(Error::NoDevice { what: "the survey".into(), why });
    }
    let reason = job.plan.needs_cpu("only GPUs are selected");
    let able = || devices.iter().filter(|device| reason.is_none() || device.backend == BackendKind::Cpu);
    let Some(largest) = able().max_by_key(|device| device.usable_bytes()) else {
        return reason.map_or(Ok(()), Err);
    };
    let needed = |device: &DeviceInfo| takes.on(device.backend);
    if able().any(|device| needed(device) <= device.usable_bytes()) {
        return Ok(());
    }
    let (needed, there) = (needed(largest), largest.usable_bytes());
    Err(job.plan.advise(Error::NoMemory { what: "a shot".into(), needed, place: largest.label(), there }))
}

/// Bytes of address space for everything small: lists of the run, texts, buffers of files, tuning.
const SMALL: u64 = 16 << 20;
/// Bytes of the stack of a thread that is no worker, and of the page before it.
const THREAD: u64 = (2 << 20) + (64 << 10);

/// Returns an error if the limit of the process's address space leaves too little for a run: the
/// stacks of its threads, and one shot on the device that takes the least of it.
pub fn address_space(job: &Job, scheduler: &Scheduler) -> Result<()> {
    let (limit, left) = cpu::address_space();
    if limit == u64::MAX {
        return Ok(());
    }
    let mut shot = u64::MAX;
    // The timer, and the thread that watches other processes or reads standard input.
    let mut stacks = 3 * THREAD;
    let takes = job.cpu_bytes(scheduler.cpu_threads());
    for one in scheduler.stats()?.devices {
        let slots = u64::from(one.slots).min(job.numbers.len().max(1) as u64);
        stacks += slots * scheduler.stack_bytes();
        let needed = match one.device.backend {
            BackendKind::Cpu => {
                stacks += slots * u64::from(scheduler.cpu_threads()).saturating_sub(1) * THREAD;
                takes.on(BackendKind::Cpu)
            }
            _ => takes.host,
        };
        shot = shot.min(needed);
    }
    let needed = shot.saturating_add(stacks + SMALL);
    if needed <= left {
        return Ok(());
    }
    let what =
        format!("a run ({} for a shot, {} for stacks and buffers)", human(shot), human(stacks + SMALL));
    Err(Error::ProcessLimit { what, needed, left, limit })
}

/// Returns a warning if the file system of the output folder is too small. `present`: bytes of
/// results that the run keeps or replaces. Space may become free during a run, so this is no error.
pub fn space(job: &Job, present: u64, free: Option<u64>) -> Option<String> {
    let needed = output_bytes(job).saturating_sub(present);
    let free = free.filter(|&free| free < needed)?;
    let sizes =
        format!("the output needs {} more, and its file system has {} free", human(needed), human(free));
    Some(format!(
        "{sizes}; once it is full, running shots fail and others wait: free space, or change output.folder"
    ))
}

/// Returns the bytes of all records and snapshots of a run.
fn output_bytes(job: &Job) -> u64 {
    let (grid, shot) = (job.grid(), &job.shots[0]);
    let floats = shot.receivers.count(grid.n) * shot.samples() + snapshot_steps(shot).count() * grid.cells();
    (4 * floats as u64).saturating_mul(job.numbers.len() as u64)
}

pub fn summary(job: &Job, takes: Bytes, devices: &[DeviceInfo], slots: u32) -> Value {
    let grid = job.grid();
    let model = &job.plan.model;
    let shot = &job.shots[0];
    let traces = shot.receivers.count(grid.n);
    json!({
        "title": job.survey.title,
        "shots": job.shots.len(),
        "part": job.is_part.then(|| part::list(job.numbers.iter().copied())),
        "grid": { "n": grid.n, "spacing_m": grid.h.map(decimal), "padded_cells": job.plan.padded_cells() },
        "equation": job.plan.options.equation.name(),
        "absorbing_layer": absorbing_layer(&job.plan),
        "vp_m_s": model.vp_range.map(decimal),
        "time": {
            "dt_s": decimal(job.plan.dt),
            "dt_max_s": job.dt_max,
            "nt": shot.nt,
            "record_every": shot.record_every,
            "samples": shot.samples(),
        },
        "accuracy": job.survey.accuracy,
        "cells_per_wavelength": job.cells_per_wavelength,
        "traces": traces,
        "snapshots": snapshot_steps(shot).count(),
        "shot_bytes": takes.device,
        "shot_host_bytes": takes.host,
        "output_bytes": output_bytes(job),
        "folder": job.folder.to_string_lossy(),
        "slots": slots,
        "devices": devices.iter().map(describe).collect::<Vec<_>>(),
        "warnings": job.warnings,
    })
}

pub fn print(job: &Job, takes: Bytes, devices: &[DeviceInfo], summary: &Value) {
    let grid = job.grid();
    let ([nx, ny, nz], [dx, dy, dz]) = (grid.n, grid.h);
    let shot = &job.shots[0];
    let dt = job.plan.dt;
    let [slowest, fastest] = job.plan.model.vp_range;
    if let Some(title) = &job.survey.title {
        say!("{title}");
    }
    let part = if job.is_part { format!("{} of ", job.numbers.len()) } else { String::new() };
    say!(
        "  shots       {part}{}, of {} traces with {} samples",
        job.shots.len(),
        summary["traces"],
        shot.samples()
    );
    say!("  grid        {nx} x {ny} x {nz} cells of {dx} x {dy} x {dz} m (x, y, z)");
    let options = &job.plan.options;
    let layer = options.equation.absorber().name();
    say!(
        "  equation    {}, in an absorbing layer of {} cells ({layer})",
        options.equation.name(),
        options.pml
    );
    say!("  velocity    {slowest} to {fastest} m/s");
    for range in &job.ranges {
        say!("  {range}");
    }
    say!(
        "  time        {} steps of {dt} s ({:.0} % of the largest stable step, {} s)",
        shot.nt,
        100.0 * f64::from(dt) / job.dt_max,
        rounded_down(job.dt_max, 5)
    );
    if let Some(options) = accuracy(job.survey.accuracy) {
        say!("  accuracy    {options}");
    }
    say!("  sampling    {:.2} cells per shortest wavelength", job.cells_per_wavelength);
    say!(
        "  memory      {} of the device and {} of the host for a shot",
        human(takes.device),
        human(takes.host)
    );
    for device in devices {
        let small = match fit(job, takes, device) {
            Fit::Now => "",
            Fit::Later => ", too little for a shot now",
            Fit::Never => ", too little for a shot: not used",
            Fit::NotOnGpu => ", whose fields have too few values: not used",
        };
        say!(
            "  device      {}, {}: {} free of {}{small}",
            device.label(),
            device.name,
            human(device.free_bytes),
            human(device.total_bytes)
        );
    }
    let size = summary["output_bytes"].as_u64().map_or(String::new(), human);
    say!("  output      {size} in {}", job.folder.display());
    for warning in &job.warnings {
        say::alert(&format!("warning: {warning}"));
    }
}

/// Returns the options that are not the default.
fn accuracy(options: Accuracy) -> Option<String> {
    let Accuracy { exact_time, stencil, storage, density_at, anisotropic_source, absorbing_layer: _ } =
        options;
    let options = [
        (exact_time, "exact time"),
        (matches!(stencil, Stencil::Optimised), "optimised stencil"),
        (matches!(storage, Storage::Bits16), "16-bit storage"),
        (matches!(density_at, DensityAt::Cells), "density at cells"),
        (anisotropic_source, "anisotropic source"),
    ];
    let asked: Vec<_> = options.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
    (!asked.is_empty()).then(|| asked.join(", "))
}
