//! `cuda_3dfd_1order` of `acoustic1order.so`: the isotropic kernel of first order.

use std::path::PathBuf;
use std::sync::Arc;

use super::files::{Files, ShotFiles};
use super::{calls, device};
use crate::error::{Error, Result};
use crate::fd::grid::Grid;
use crate::fd::model::{Model, Outline};
use crate::fd::plan::{Options, Plan};
use crate::fd::survey::{Receivers, Shot};
use crate::fd::wavelet::{Shape, Wavelet};
use crate::fd::{shot, verify};
use crate::io::raw;
use crate::sched::{Scheduler, Task, TaskId, WaitResult};

/// The factor on the wavelet that the old kernel has built in.
const AMPLITUDE: f32 = 10_000.0;

/// Shots of one call.
const MOST_SHOTS: i32 = 100_000;
/// Steps of a shot, as a plan takes them.
const MOST_STEPS: i32 = 10_000_000;

/// The arguments of the old function, in its order and with its types.
#[derive(Debug, Clone, PartialEq)]
pub struct Args {
    /// P velocity in m/s: raw float32 `[iy][ix][iz]`, as all files here.
    pub vel: PathBuf,
    /// Density in kg/m³.
    pub rho: PathBuf,
    /// What the names of snapshots begin with: `<snap>ishot_<shot>it_<step>.bin`.
    pub snap: PathBuf,
    /// The record: shot `s` begins at byte `4 s nt nx ny`, as `[iy][ix][it]`, decimated.
    pub shot: PathBuf,
    /// Ignored, as it always was: the shots are 0 to `ns - 1`.
    pub is: i32,
    /// Shots, 1 to 100 000.
    pub ns: i32,
    /// Cells, the absorbing layer not included.
    pub nx: i32,
    pub ny: i32,
    pub nz: i32,
    /// Metres between cells.
    pub dx: f32,
    pub dy: f32,
    pub dz: f32,
    /// Cell of the first source, counted from 1.
    pub sxbeg: i32,
    pub sybeg: i32,
    pub szbeg: i32,
    /// Cells in x from one source to the next.
    pub jsx: i32,
    /// Ignored, as is `jsz`: only x moves.
    pub jsy: i32,
    pub jsz: i32,
    /// Metres between receivers; every `int(dgx / dx)`-th cell records, the quotient taken in
    /// float32 and cut off: 0.005 over 0.001 is 4.
    pub dgx: f32,
    pub dgy: f32,
    /// Seconds between samples, likewise over `dt`.
    pub dgt: f32,
    /// Steps to compute.
    pub nt: i32,
    /// Seconds a step.
    pub dt: f32,
    /// Number of the [`Shape`].
    pub wtype: i32,
    /// Peak frequency in Hz.
    pub fm: f32,
    pub show_snapshot: bool,
    /// Zero the first arrivals.
    pub cut_directwave: bool,
    /// Steps between snapshots, from step 0; looked at only with `show_snapshot`.
    pub snap_interval: i32,
    /// Number of a GPU; ignored unless `GPUSCHED_LEGACY_DEVICE` is "strict".
    pub device: i32,
}

/// Does what `cuda_3dfd_1order` did, on the devices of [`Scheduler::process_default`]: computes
/// the shots and writes their record, and snapshots if asked for, once all have succeeded. In a child that was
/// forked after that one had been made, on those of a scheduler of the child's own; GPUs are an error there.
///
/// Everything is checked before anything is computed, the outputs for being writable included.
/// After an error none of the call's files is there. May be called from any number of threads; a call that is given
/// the names of another while that runs is refused.
///
/// A `dt` beyond the stable limit is taken, with a warning in the log, as the old library took it;
/// but a result that is not finite is an error.
pub fn acoustic1(args: &Args) -> Result<()> {
    let call = Call::new(args)?;
    raw::check(&args.vel, call.grid.cells())?;
    raw::check(&args.rho, call.grid.cells())?;
    keep_apart(args)?;
    let scheduler = calls::scheduler()?;
    let devices = device::allowed(args.device, scheduler.devices())?;
    let files = Arc::new(Files::begin(&args.shot, call.record_stride, &args.snap, args.show_snapshot)?);

    let vp = raw::read(&args.vel, call.grid.cells())?;
    let rho = raw::read(&args.rho, call.grid.cells())?;
    let model = Arc::new(Model::new(call.grid, vp, Some(rho))?);
    warn_if_unstable(&model, args.dt);
    let plan = Arc::new(Plan::new(model, args.dt, Options { allow_unstable: true, ..Options::default() })?);

    // The plan goes with the last of its shots: what it keeps on a GPU should not outlive them.
    let (shots, written) = (call.shots, files.clone());
    let task = move |index: usize| -> Result<Task> {
        let shot = call.shot(index, &plan.model);
        let output = ShotFiles { files: written.clone(), shot: index };
        let mut task = shot::task(plan.clone(), shot, scheduler.cpu_threads(), output)?;
        task.label = format!("{}, shot {index}", args.shot.display());
        task.devices = devices;
        Ok(task)
    };
    let outcome = run(scheduler, (0..shots).map(task));
    match outcome {
        Ok(()) => files.commit(),
        Err(error) => {
            files.discard();
            Err(error)
        }
    }
}

/// The arguments, checked and in the terms of [`crate::fd`].
struct Call {
    grid: Grid,
    shots: usize,
    nt: usize,
    /// Cell of the first source, from 0.
    source: [usize; 3],
    /// Cells from one source to the next, in x.
    source_step: i64,
    wavelet: Wavelet,
    receivers_every: [usize; 2],
    record_every: usize,
    snapshot_every: Option<usize>,
    /// The peak frequency in Hz, and dt, that the mute is made with.
    mute: Option<(f32, f32)>,
    record_stride: u64,
}

impl Call {
    fn new(args: &Args) -> Result<Call> {
        let cells = |name, n| positive(name, n, 100_000, "cells");
        let n = [cells("nx", args.nx)?, cells("ny", args.ny)?, cells("nz", args.nz)?];
        let grid = Grid::new(n, [args.dx, args.dy, args.dz])?;
        let shots = positive("ns", args.ns, MOST_SHOTS, "shots")?;
        let nt = positive("nt", args.nt, MOST_STEPS, "steps")?;
        let wavelet = Wavelet::new(Shape::try_from(args.wtype)?, args.fm, args.dt, nt)?;
        let receivers_every =
            [every("dgx", args.dgx, "dx", args.dx, n[0])?, every("dgy", args.dgy, "dy", args.dy, n[1])?];
        let record_every = every("dgt", args.dgt, "dt", args.dt, nt)?;
        let snapshot_every = match args.show_snapshot {
            true => Some(positive("snap_interval", args.snap_interval, i32::MAX, "steps")?.min(nt)),
            false => None,
        };
        Ok(Call {
            grid,
            shots,
            nt,
            source: first_source(args, n)?,
            source_step: args.jsx.into(),
            wavelet,
            receivers_every,
            record_every,
            snapshot_every,
            mute: args.cut_directwave.then_some((args.fm, args.dt)),
            record_stride: record_stride(shots, [nt, n[0], n[1]])?,
        })
    }

    fn source_of(&self, shot: usize) -> [usize; 3] {
        let [x, y, z] = self.source;
        // Both ends of the line were found to be in the grid.
        [(x as i64 + shot as i64 * self.source_step) as usize, y, z]
    }

    fn shot(&self, index: usize, model: &Outline) -> Shot {
        let mut shot = Shot {
            source: self.source_of(index),
            wavelet: self.wavelet.clone(),
            amplitude: AMPLITUDE,
            nt: self.nt,
            receivers: Receivers::Plane { iz: 0, every: self.receivers_every },
            record_every: self.record_every,
            snapshot_every: self.snapshot_every,
            mute: None,
        };
        if let Some((frequency, dt)) = self.mute {
            shot.mute = Some(verify::direct_wave_mute(model, &shot, dt, frequency));
        }
        shot
    }
}

fn positive(name: &str, value: i32, most: i32, unit: &str) -> Result<usize> {
    if !(1..=most).contains(&value) {
        return Err(Error::argument(name, value, format!("1 to {most} {unit}")));
    }
    Ok(value as usize)
}

/// Every how many of the `n` fine steps a coarse one falls: float32 quotients, cut off as the
/// old library cut them, so that 0.005 over 0.001 gives 4.
fn every(coarse_name: &str, coarse: f32, fine_name: &str, fine: f32, n: usize) -> Result<usize> {
    let quotient = coarse / fine;
    if !(quotient >= 1.0 && quotient.is_finite()) {
        let accepted = format!("a finite number, at least {fine_name}, which is {fine}");
        return Err(Error::argument(coarse_name, coarse, accepted));
    }
    Ok((quotient as usize).min(n))
}

/// The first source's cell, from 0. Refused if any shot's source is outside the `n` cells.
fn first_source(args: &Args, n: [usize; 3]) -> Result<[usize; 3]> {
    let last = i64::from(args.sxbeg) + i64::from(args.ns - 1) * i64::from(args.jsx);
    let places = [
        ("sxbeg", "nx", i64::from(args.sxbeg), n[0]),
        ("sxbeg + (ns - 1) jsx", "nx", last, n[0]),
        ("sybeg", "ny", args.sybeg.into(), n[1]),
        ("szbeg", "nz", args.szbeg.into(), n[2]),
    ];
    for (what, limit, place, n) in places {
        if !(1..=n as i64).contains(&place) {
            return Err(Error::argument(
                format!("the source's position {what}"),
                place,
                format!("1 to {limit}, which is {n}"),
            ));
        }
    }
    Ok([args.sxbeg, args.sybeg, args.szbeg].map(|place| place as usize - 1))
}

/// Bytes from one shot to the next in the record: as if it were not decimated.
fn record_stride(shots: usize, [nt, nx, ny]: [usize; 3]) -> Result<u64> {
    let size = nt as u128 * nx as u128 * ny as u128 * 4;
    // Files end at 2^63 - 1 bytes.
    if size * shots as u128 > i64::MAX as u128 {
        return Err(Error::argument(
            "the size of the record file, 4 ns nt nx ny,",
            size * shots as u128,
            "at most 2^63 - 1 bytes",
        ));
    }
    Ok(size as u64)
}

/// Refuses a record that would take the place of what it is computed from.
fn keep_apart(args: &Args) -> Result<()> {
    let Ok(record) = args.shot.canonicalize() else { return Ok(()) };
    let taken =
        [&args.vel, &args.rho].into_iter().any(|model| model.canonicalize().is_ok_and(|m| m == record));
    if taken {
        return Err(Error::argument("shot", args.shot.display(), "another file than vel and rho"));
    }
    Ok(())
}

fn warn_if_unstable(model: &Outline, dt: f32) {
    let most = Options::default().dt_max(model);
    if f64::from(dt) > most {
        log::warn!("dt is {dt} s, and this model is stable up to {most:e} s: the result may be wrong");
    }
}

/// Submits all tasks and waits for them. The first failure cancels the rest.
fn run(scheduler: &Scheduler, tasks: impl Iterator<Item = Result<Task>>) -> Result<()> {
    let mut ids = Vec::new();
    let submitted = tasks
        .map(|task| task.and_then(|task| scheduler.submit(task)))
        .try_for_each(|id| id.map(|id| ids.push(id)));
    let mut failure = submitted.err();
    let cancel = |ids: &[TaskId]| ids.iter().for_each(|&id| drop(scheduler.cancel(id)));
    if failure.is_some() {
        cancel(&ids);
    }
    for &id in &ids {
        let error = match scheduler.wait(id, None) {
            Ok(WaitResult::Done) => continue,
            Ok(WaitResult::Cancelled | WaitResult::Pending) => Error::Cancelled,
            Err(error) => error,
        };
        if failure.is_none() {
            failure = Some(error);
            cancel(&ids);
        }
    }
    for &id in &ids {
        if let Err(error) = scheduler.release(id) {
            log::debug!("release of a shot's task: {error}");
        }
    }
    failure.map_or(Ok(()), Err)
}
