//! Measures the speed of the propagator on a device, and that of a copy of memory.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gpusched::backend::Lane;
use gpusched::backend::cpu::{Buffer, Team, check_free};
use gpusched::backend::cuda::{DeviceBuffer, Stream};
use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::fd::control::{Control, Silent, State};
use gpusched::fd::equation::Equation;
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{Model, Property, Values};
use gpusched::fd::plan::{Options, Plan, Stencil, Storage};
use gpusched::fd::shot;
use gpusched::fd::survey::{Gather, Receivers, Shot};
use gpusched::fd::tiled::tuning::TUNING_STEPS;
use gpusched::fd::wavelet::{self, Wavelet};
use gpusched::{Error, Result};
use serde::Serialize;

/// Case to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    pub equation: &'static dyn Equation,
    /// The user's cells along x, y, z.
    pub n: [usize; 3],
    pub pml: usize,
    pub storage: Storage,
    pub nt: usize,
    /// Rounds of a copy, a shot, and steps in fields with a wave, on a CPU also without one. The
    /// best round of each counts, because other work on the machine only slows them down.
    pub repeats: usize,
}

/// Results of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Fastest tile size on a CPU, in words. `None` on a GPU, and if all sizes give the same tiles.
    pub tiles: Option<String>,
    /// Seconds of the steps in fields that are not at rest.
    pub seconds: f64,
    /// Seconds of the quickest whole shot, with allocations, uploads and zeroing before the time
    /// loop.
    pub shot_seconds: f64,
    /// Millions of padded cells times steps per second, in fields that are nowhere at rest: all
    /// cells are computed.
    pub mcells_per_s: f64,
    /// Millions of the user's cells times steps per second, in the same steps.
    pub interior_mcells_per_s: f64,
    /// `mcells_per_s` divided by that of the same steps on fields that are zero: 1 where the speed
    /// does not depend on the values. `None` on a GPU, which skips tiles of zeros.
    pub rate_to_silent: Option<f64>,
    /// Millions of padded cells times steps per second of a shot from rest. Cells that the wave has
    /// not reached count, and are not computed.
    pub covered_mcells_per_s: f64,
    /// Share of the cells that such a shot computes.
    pub computed: f64,
    /// Bytes of coefficients and fields allocated on the device, per padded cell.
    pub bytes_per_cell_resident: f64,
    /// Copy bandwidth of the same threads in 10⁹ bytes per second; bytes read and bytes written
    /// both count.
    pub copy_gb_per_s: f64,
}

/// Floats of the source and of the target of the copy: 256 MB each, far more than any cache holds.
const COPY: usize = 64 << 20;
/// Copies in each round, of which the fastest counts.
const COPIES: usize = 5;
/// Largest value of fields that are not at rest. No product of a step with it is denormal, and the
/// pressure stays small.
const LARGEST: f32 = 1e-12;

/// A plan and a shot to measure: a layered model with all properties of the equation, with
/// receivers at the surface, one line on a CPU, every cell on a GPU.
pub struct Prepared {
    plan: Plan,
    shot: Shot,
    repeats: usize,
}

impl Prepared {
    /// Makes the plan and the shot for a device. `threads`: those of a shot on the CPU.
    ///
    /// # Errors
    /// A case that is not accepted, or needs more memory than is free.
    pub fn new(case: &Case, device: &DeviceInfo, threads: u32) -> Result<Prepared> {
        let repeats = case.repeats;
        if !(1..=1000).contains(&repeats) {
            return Err(Error::argument("the number of repeats", repeats, "1 to 1000"));
        }
        let grid = Grid::new(case.n, [10.0; 3])?;
        // The properties, and about as many coefficients.
        let fields = case.equation.properties().all().count() * (4 + case.storage.bytes());
        check_free("the model that is measured", (fields * grid.cells()) as u64)?;
        let model = Arc::new(layered(grid, case.equation)?);
        let dt = (0.9 * case.equation.dt_max(&model, Stencil::Taylor)) as f32;
        let options =
            Options { equation: case.equation, pml: case.pml, storage: case.storage, ..Options::default() };
        let material = options.material(&model)?;
        drop(model);
        let on_cpu = device.backend == BackendKind::Cpu;
        let shot = Shot {
            source: case.n.map(|n| n / 2),
            wavelet: Wavelet::new(wavelet::Shape::Ricker, 15.0, dt, case.nt)?,
            amplitude: 10_000.0,
            nt: case.nt,
            receivers: Receivers::Plane { iz: 0, every: [1, if on_cpu { case.n[1] } else { 1 }] },
            ..Shot::default()
        };
        let plan = Plan::of(&material, dt, options)?;
        let copy = 2 * Buffer::bytes_of(COPY);
        let what = "the measurement, a shot and a copy of memory,";
        if on_cpu {
            check_free(what, plan.cpu_bytes(&shot, threads).on(BackendKind::Cpu) + copy)?;
        } else {
            let (needed, there) = (plan.shot_bytes(&shot, 0).device + copy, device.usable_bytes());
            if needed > there {
                let (what, place) = (what.into(), device.label());
                return Err(Error::NoMemory { what, needed, place, there });
            }
        }
        Ok(Prepared { plan, shot, repeats })
    }

    /// Measures on this device.
    ///
    /// # Errors
    /// [`Error::WrongResult`] if a round has another record than the first.
    pub fn measure(&self, lane: Lane<'_>) -> Result<Measured> {
        let Prepared { plan, shot, repeats } = self;
        let mut copy = Copy::new(lane)?;
        let longer = Shot { nt: shot.nt + 1, ..shot.clone() };
        let mut bandwidth = 0.0;
        let [mut shot_seconds, mut loop_seconds] = [f64::INFINITY; 2];
        let mut computed = 0.0;
        let mut of_shot = FirstRecord::default();
        // Fields with a wave, and without one.
        let mut kinds = vec![(LARGEST, f64::INFINITY, FirstRecord::default())];
        let tiles = match lane {
            Lane::Cpu(_) => {
                kinds.push((0.0, f64::INFINITY, FirstRecord::default()));
                tuned(plan, shot, lane)?
            }
            Lane::Cuda(_) => None,
        };
        for _ in 0..*repeats {
            bandwidth = copy.bytes_per_second()?.max(bandwidth);
            let begin = Instant::now();
            let (gather, effort) = shot::run(plan, shot, lane, &Silent)?;
            shot_seconds = begin.elapsed().as_secs_f64().min(shot_seconds);
            loop_seconds = effort.time.as_secs_f64().min(loop_seconds);
            computed = effort.computed;
            of_shot.compare(gather, lane)?;
            for (largest, seconds, record) in &mut kinds {
                let (gather, effort) = shot::run(plan, &longer, lane, &Everywhere { largest: *largest })?;
                *seconds = effort.time.as_secs_f64().min(*seconds);
                record.compare(gather, lane)?;
            }
        }
        let seconds = kinds[0].1;
        bandwidth = copy.bytes_per_second()?.max(bandwidth);
        let rate = |cells: usize, seconds: f64| cells as f64 * shot.nt as f64 / seconds / 1e6;
        let bytes = plan.resident_bytes(lane, shot);
        Ok(Measured {
            tiles,
            seconds,
            shot_seconds,
            mcells_per_s: rate(plan.padded_cells(), seconds),
            interior_mcells_per_s: rate(plan.model.grid.cells(), seconds),
            covered_mcells_per_s: rate(plan.padded_cells(), loop_seconds),
            computed,
            rate_to_silent: kinds.get(1).map(|(_, silent, _)| silent / seconds),
            bytes_per_cell_resident: bytes as f64 / plan.padded_cells() as f64,
            copy_gb_per_s: bandwidth / 1e9,
        })
    }
}

/// The record of the first round, with which those of later rounds are compared.
#[derive(Default)]
struct FirstRecord(Option<Gather>);

impl FirstRecord {
    /// Keeps the first record, and compares later ones with it.
    ///
    /// # Errors
    /// A bit differs.
    fn compare(&mut self, found: Gather, lane: Lane<'_>) -> Result<()> {
        let Some(first) = &self.0 else {
            self.0 = Some(found);
            return Ok(());
        };
        let differs = |at: &usize| first.data[*at].to_bits() != found.data[*at].to_bits();
        let Some(at) = (0..first.data.len()).find(differs) else { return Ok(()) };
        let device = match lane {
            Lane::Cpu(_) => "cpu:0".into(),
            Lane::Cuda(stream) => stream.device().label(),
        };
        let (trace, sample) = (at / first.samples, at % first.samples);
        let what = format!(
            "sample {sample} of trace {trace} is {:e}, in the first round {:e}; accepted: the same bits",
            found.data[at], first.data[at]
        );
        Err(Error::WrongResult { device, what })
    }
}

/// Runs a shot on the CPU that is long enough to find its tile size, and returns that.
fn tuned(plan: &Plan, shot: &Shot, lane: Lane<'_>) -> Result<Option<String>> {
    let tuning = ShapeTuning { fields: Everywhere { largest: LARGEST }, found: RefCell::default() };
    match shot::run(plan, &Shot { nt: 2 * TUNING_STEPS + 2, ..shot.clone() }, lane, &tuning) {
        Ok(_) | Err(Error::Cancelled) => Ok(tuning.found.into_inner()),
        Err(error) => Err(error),
    }
}

/// Control that ends a shot when it has found its tile size.
struct ShapeTuning {
    fields: Everywhere,
    found: RefCell<Option<String>>,
}

impl Control for ShapeTuning {
    fn step(&self, step: usize, _: usize) -> Result<()> {
        if step > TUNING_STEPS { Err(Error::Cancelled) } else { Ok(()) }
    }
    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        self.fields.resume(state)
    }
    fn found(&self, _: &str, finding: &str) {
        *self.found.borrow_mut() = Some(finding.into());
    }
}

/// Control that resumes a shot after one step with pseudo-random values up to `largest` in all
/// fields, the same in each run.
struct Everywhere {
    largest: f32,
}

impl Control for Everywhere {
    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        let mut number = 1u32;
        state.take(1, &mut |values| {
            for value in values {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *value = self.largest * (number as i32 >> 8) as f32 / (1 << 23) as f32;
            }
            Ok(())
        })?;
        Ok(1)
    }
}

/// Makes a model of all properties of an equation. They change with depth, in steps of ten cells,
/// so that rows differ.
fn layered(grid: Grid, equation: &dyn Equation) -> Result<Model> {
    let columns = grid.n[0] * grid.n[1];
    let field = |property: Property| {
        let [top, step] = match property {
            Property::Vp => [1500.0, 125.0],
            Property::Rho => [1000.0, 70.0],
            Property::Epsilon => [0.1, 0.01],
            Property::Delta => [0.05, 0.005],
            Property::Theta => [0.2, 0.03],
            Property::Phi => [0.4, 0.05],
        };
        let column = (0..grid.n[2]).map(|z| top + step * (z / 10 % 20) as f32);
        let values: Vec<f32> = std::iter::repeat_n(column, columns).flatten().collect();
        (property, Values::Volume(values))
    };
    Model::of(grid, equation.properties().all().map(field))
}

/// Large copy, by a team of threads or by a GPU.
enum Copy<'a> {
    Team { team: &'a Team, from: Buffer, to: Buffer },
    Gpu { stream: &'a Stream, from: DeviceBuffer<f32>, to: DeviceBuffer<f32> },
}

const WHAT: &str = "the copy that is measured";

impl<'a> Copy<'a> {
    fn new(lane: Lane<'a>) -> Result<Self> {
        Ok(match lane {
            Lane::Cpu(team) => {
                let mut from = Buffer::zeroed(COPY, WHAT)?;
                from.fill(1.0);
                Copy::Team { team, from, to: Buffer::zeroed(COPY, WHAT)? }
            }
            Lane::Cuda(stream) => {
                Copy::Gpu { stream, from: stream.zeroed(COPY, WHAT)?, to: stream.zeroed(COPY, WHAT)? }
            }
        })
    }

    fn bytes_per_second(&mut self) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..COPIES {
            best = self.once()?.min(best);
        }
        Ok(2.0 * 4.0 * COPY as f64 / best)
    }

    /// Returns the seconds of one copy.
    fn once(&mut self) -> Result<f64> {
        match self {
            Copy::Team { team, from, to } => {
                let len = COPY.div_ceil(team.threads());
                let parts: Vec<_> = from.chunks(len).zip(to.chunks_mut(len)).map(Mutex::new).collect();
                let begin = Instant::now();
                team.run(&(), |member, _| {
                    for part in &parts[member.share(parts.len())] {
                        let (from, to) = &mut *part.lock().unwrap_or_else(PoisonError::into_inner);
                        to.copy_from_slice(from);
                    }
                    Ok(())
                })?;
                Ok(begin.elapsed().as_secs_f64())
            }
            Copy::Gpu { stream, from, to } => {
                let begin = stream.stamp()?;
                stream.copy(from, to)?;
                let end = stream.stamp()?;
                end.wait()?;
                end.seconds_since(&begin)
            }
        }
    }
}
