//! Plan of the shots in a model: coefficients, time step, memory, and the devices that can run
//! them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::control::Control;
use super::equation::{Absorber, EQUATIONS, Equation, LAYER_CELLS, Material, Propagator, Scheme};
use super::exact_time;
use super::grid::AXES;
use super::grid::layout::Layout;
use super::inject::DIPOLE;
use super::model::{Model, Outline, Property};
use super::record::Record;
use super::source;
pub use super::stencil::Stencil;
pub use super::storage::Storage;
use super::survey::{Effort, Gather, Receivers, Shot, SourceKind};
use crate::backend::Lane;
use crate::error::{Error, Result, human};
use crate::memory::Bytes;

/// Coefficients of an equation in a model with a time step, shared by all shots and threads. The
/// plan does not hold the model's fields.
pub struct Plan {
    pub model: Outline,
    /// Time step in s.
    pub dt: f32,
    pub options: Options,
    propagator: Box<dyn Propagator>,
}

/// Options of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub equation: &'static dyn Equation,
    /// Cells of the absorbing layer on each side; 0 selects the equation's default. The options in
    /// a plan have the number.
    pub pml: usize,
    /// Accepts a `dt` beyond the stable limit, as the old kernel did.
    pub allow_unstable: bool,
    /// Coefficients of the derivatives in space.
    pub stencil: Stencil,
    /// See [`Scheme::old_rules`].
    pub old_rules: bool,
    /// Corrects the error of time steps in records. Shots with snapshots are refused.
    pub exact_time: bool,
    /// Number format of the coefficients.
    pub storage: Storage,
    /// Reduces epsilon and delta around the source, as the old kernels do. Equations without them
    /// ignore it.
    pub isotropic_source: bool,
}

impl Options {
    /// Returns the largest stable time step in s.
    pub fn dt_max(&self, model: &Outline) -> f64 {
        self.equation.dt_max(model, self.stencil) * self.storage.stable(self.equation.speed_factors())
    }

    /// Returns the cells of the absorbing layer on each side.
    ///
    /// # Errors
    /// A number that is not accepted.
    pub fn absorbing_layer(&self) -> Result<usize> {
        if self.pml == 0 {
            return Ok(self.equation.default_layer());
        }
        check_count("the absorbing layer", self.pml, LAYER_CELLS, "cells")?;
        Ok(self.pml)
    }

    /// Computes the material of a model, which plans with different time steps share.
    ///
    /// # Errors
    /// Properties or a layer that the equation does not accept; no memory for the coefficients;
    /// values that 16 bits cannot represent well enough.
    pub fn material(&self, model: &Model) -> Result<Material> {
        self.equation.check_model(model)?;
        let Options { equation, storage, .. } = *self;
        let pml = self.absorbing_layer()?;
        let factory = equation.propagator_factory(model, pml, storage)?;
        Ok(Material { equation, model: model.outline, pml, storage, factory })
    }

    /// Returns the choices of the discretization.
    pub fn scheme(&self) -> Scheme {
        let Options { stencil, isotropic_source, old_rules, .. } = *self;
        Scheme { stencil, isotropic_source, old_rules }
    }

    /// Returns these options with the equation, layer and storage of a material.
    pub fn with_material(self, material: &Material) -> Options {
        let Material { equation, pml, storage, .. } = *material;
        Options { equation, pml, storage, ..self }
    }

    /// Returns a time step in s that is certainly stable.
    pub fn dt_sure(&self, model: &Model) -> f64 {
        self.equation.dt_sure(model, self.stencil) * self.storage.stable(self.equation.speed_factors())
    }

    /// Returns true if no step is certainly stable: the operators of the old equation with an axis
    /// of symmetry do not bear angles that vary.
    pub(super) fn bears_no_angles(&self, model: &Outline) -> bool {
        model.angles_vary && self.equation.absorber() == Absorber::Pml
    }

    /// Returns the options that lower the largest stable time step, and the limit without them, in
    /// words; empty if none does.
    fn lowered(&self, model: &Outline) -> String {
        let by = match (self.stencil, self.storage) {
            (Stencil::Taylor, Storage::Float32) => return String::new(),
            (Stencil::Optimised, Storage::Float32) => "the optimised stencil",
            (Stencil::Taylor, Storage::Bits16) => "coefficients in 16 bits",
            (Stencil::Optimised, Storage::Bits16) => "the optimised stencil and coefficients in 16 bits",
        };
        format!("; without {by} {} s", rounded_down(self.equation.dt_max(model, Stencil::Taylor)))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            equation: EQUATIONS[0],
            pml: 0,
            allow_unstable: false,
            stencil: Stencil::Taylor,
            old_rules: false,
            exact_time: false,
            storage: Storage::Float32,
            isotropic_source: true,
        }
    }
}

pub(super) const ANGLES_VARY: &str = "theta_rad or phi_rad varies, and with the absorbing layer \"pml\" no step is certainly \
    stable then; use the default layer, a sponge";
/// Most steps of a shot.
const MOST_STEPS: usize = 10_000_000;
/// Most values of a record: 4 TB.
const MOST_SAMPLES: usize = 1 << 40;

impl Plan {
    /// Makes the plan of a model, and releases the model when its coefficients are made.
    ///
    /// # Errors
    /// A `dt` that is not positive, or beyond the stable limit unless that is allowed. See also
    /// [`Options::material`].
    pub fn new(model: Arc<Model>, dt: f32, options: Options) -> Result<Plan> {
        check_step(&model, dt, &options)?;
        Plan::of(&options.material(&model)?, dt, options)
    }

    /// Makes the plan of a material, which other plans may share. The material's equation, layer
    /// and storage replace those of the options.
    ///
    /// # Errors
    /// A `dt` that is not positive, or beyond the stable limit unless that is allowed.
    pub fn of(material: &Material, dt: f32, options: Options) -> Result<Plan> {
        let options = options.with_material(material);
        check_step(&material.model, dt, &options)?;
        Ok(Plan { model: material.model, dt, options, propagator: (material.factory)(dt, options.scheme()) })
    }

    /// Returns the number of cells, with the absorbing layer.
    pub fn padded_cells(&self) -> usize {
        self.layout().cells()
    }

    /// Returns the number of steps that are computed for a shot.
    pub fn steps(&self, shot: &Shot) -> usize {
        if self.options.exact_time { exact_time::steps(shot) } else { shot.nt }
    }

    /// Returns the bytes of one shot at its peak. The device holds fields, buffers of samples, a
    /// snapshot, and the coefficients that all its shots share; the kind of device that takes more
    /// counts. The host holds the record, and the memory of its correction. `threads`: threads of a
    /// shot on the CPU, each of which has its own scratch; 0 if it runs on no CPU.
    pub fn shot_bytes(&self, shot: &Shot, threads: u32) -> Bytes {
        let own = self.cpu_bytes(shot, threads);
        let gpu = self.propagator.gpu_bytes(shot, self.steps(shot));
        Bytes { device: self.propagator.bytes().saturating_add(own.device).max(gpu), ..own }
    }

    /// Returns the bytes of one shot on the CPU, as [`Plan::shot_bytes`] does, without the
    /// coefficients, which exist before it begins.
    pub fn cpu_bytes(&self, shot: &Shot, threads: u32) -> Bytes {
        let moving = if self.options.exact_time { exact_time::bytes(shot) } else { 0 };
        let (layout, nt) = (self.layout(), self.steps(shot));
        let record = Record::gather_bytes(layout, shot, nt);
        let own = self.propagator.thread_bytes(threads as usize);
        let parts = [own, Record::bytes(layout, shot, nt) - record];
        let device = parts.into_iter().fold(self.propagator.field_bytes(), u64::saturating_add);
        Bytes { device, host: record.saturating_add(moving) }
    }

    /// Returns the error of a shot that no device accepts, with the reason and the accepted sizes.
    /// Returns other errors unchanged.
    pub fn advise(&self, error: Error) -> Error {
        match error {
            Error::NoMemory { what, needed, place, there } => self.advised(needed, place, there, what, ""),
            Error::NoDevice { ref why, .. } => self.needs_cpu(why).unwrap_or(error),
            other => other,
        }
    }

    /// Returns the error of a shot on a plan that only a CPU can run, with the reason; `None` if
    /// GPUs run shots of the plan.
    pub fn needs_cpu(&self, why: &str) -> Option<Error> {
        // Kernels compute positions in 32 bits.
        let (values, most) = (self.layout().on_gpu().field_len(), u32::MAX);
        let why = format!(
            "{why}; with its layers a field has {values} values, and on a GPU at most {most}, so select the CPU as well: add \
             cpu to GPUSCHED_DEVICES"
        );
        (values > most as usize).then_some(Error::NoDevice { what: "a shot".into(), why })
    }

    /// Returns the error of too little memory for a shot. `held`: the reason why the place has less
    /// than when it is empty; may be empty.
    fn advised(&self, needed: u64, place: String, there: u64, what: String, held: &str) -> Error {
        let pml = self.options.pml;
        let fits = |n: [usize; 3]| self.propagator.gpu_bytes_of_cells(n) <= there;
        let n = (0..16).rev().fold(0, |n, bit| if fits([n | 1 << bit; 3]) { n | 1 << bit } else { n });
        let [nx, ny, nz] = self.model.grid.n;
        let fit = match n {
            // The cells fit, so the record or the snapshots are too large.
            _ if fits([nx, ny, nz]) => {
                "whose record or snapshots take the most: fewer receivers, samples or steps would fit".into()
            }
            0 if !held.is_empty() => "when it is empty the shot fits".into(),
            0 => format!("with layers of {pml} not even one cell would fit"),
            _ => format!("with layers of {pml} a cube of up to {n} cells a side would fit"),
        };
        let what = format!("{what}, {nx} x {ny} x {nz} cells ({held}{fit}),");
        Error::NoMemory { what, needed, place, there }
    }

    /// Returns the error of a shot for which a GPU ran out of memory while it ran. The error states
    /// the need of the whole shot and the free memory after the GPU's caches are released. Returns
    /// other errors unchanged.
    pub fn starved(&self, error: Error, shot: &Shot, lane: Lane<'_>) -> Error {
        let (Error::NoMemory { place, .. }, Lane::Cuda(stream)) = (&error, lane) else { return error };
        lane.relieve();
        let shared = self.propagator.gpu_shared_bytes(stream);
        let (needed, there) = (self.shot_bytes(shot, 0).device, stream.free_bytes() + shared);
        // The memory was too fragmented, or short for a moment only: the error's own message fits
        // better.
        if *place != stream.device().label() || needed <= there {
            return error;
        }
        let (total, free) = (human(stream.device().info().total_bytes), human(there));
        let held = format!(
            "others hold all but {free} of the {total} of {place}: wait until they release it, or select another device; "
        );
        self.advised(needed, place.clone(), there, "a shot".into(), &held)
    }

    /// Returns the bytes on the device of coefficients and fields while a shot without snapshots
    /// runs there.
    pub fn resident_bytes(&self, lane: Lane<'_>, shot: &Shot) -> u64 {
        match lane {
            Lane::Cpu(_) => self.propagator.bytes() + self.propagator.field_bytes(),
            Lane::Cuda(_) => self.propagator.gpu_bytes(shot, shot.nt),
        }
    }

    /// Refuses a shot that does not fit this plan. The message names the parameter.
    pub fn check(&self, shot: &Shot) -> Result<()> {
        self.check_cell("the source", shot.source)?;
        self.check_outside(shot.outside)?;
        check_steps(shot.nt)?;
        check_count("record_every", shot.record_every, 1..=MOST_STEPS, "steps")?;
        if self.options.exact_time {
            exact_time::check(shot)?;
        }
        if let Some(every) = shot.snapshot_every {
            check_count("snapshot_every", every, 1..=MOST_STEPS, "steps")?;
        }
        self.check_kind(&shot.kind)?;
        if !shot.amplitude.is_finite() {
            return Err(Error::argument("the amplitude", shot.amplitude, "a finite number"));
        }
        match &shot.receivers {
            Receivers::Plane { iz, every } => {
                self.check_cell("the plane of receivers", [0, 0, *iz])?;
                check_count("the receivers' step in x", every[0], 1..=100_000, "cells")?;
                check_count("the receivers' step in y", every[1], 1..=100_000, "cells")?;
            }
            Receivers::List(cells) => {
                for (number, cell) in cells.iter().enumerate() {
                    self.check_cell(&format!("receiver {number}"), *cell)?;
                }
            }
        }
        let traces = shot.receivers.count(self.model.grid.n);
        if traces.checked_mul(shot.samples()).is_none_or(|values| values > MOST_SAMPLES) {
            return Err(Error::argument(
                "the record",
                format!("{traces} traces of {} samples", shot.samples()),
                format!("at most {MOST_SAMPLES} samples in all"),
            ));
        }
        if let Some(mute) = shot.mute.as_ref().filter(|mute| mute.len() != traces) {
            let accepted = format!("{traces}, one for each trace");
            return Err(Error::argument("the number of mute steps", mute.len(), accepted));
        }
        Ok(())
    }

    /// Runs a checked shot. Returns its record before the mute, and the cost of the steps.
    pub(super) fn run(&self, shot: &Shot, lane: Lane<'_>, control: &dyn Control) -> Result<(Gather, Effort)> {
        let (stencil, h) = (self.options.stencil.coefficients(), self.model.grid.h);
        let with_poles = source::in_poles(shot, self.dt, h, stencil, &*self.propagator)?;
        let shot = with_poles.as_ref().unwrap_or(shot);
        let done = match lane {
            Lane::Cpu(team) => self.propagator.run_on_cpu(shot, team, control),
            Lane::Cuda(stream) => match self.needs_cpu("the shot was given a GPU") {
                Some(error) => Err(error),
                None => self.propagator.run_on_gpu(shot, stream, control),
            },
        };
        done.map_err(|error| self.with_causes(error))
    }

    /// Adds the probable causes to the error of an unstable shot.
    fn with_causes(&self, error: Error) -> Error {
        let Error::Unstable { what, value, why, .. } = error else { return error };
        let (dt, limit) = (self.dt, self.options.dt_max(&self.model));
        let most = rounded_down(limit);
        let beyond = f64::from(dt) > limit;
        let varies = self.options.bears_no_angles(&self.model);
        let why = if varies {
            format!("{why}: {ANGLES_VARY}")
        } else if beyond {
            format!("{why}: dt is {dt} s; with this grid and these velocities it may be at most {most} s")
        } else {
            format!(
                "{why}: dt is {dt} s, of {most} s that are stable in a homogeneous medium; reduce dt or the amplitude, or \
                 check the model; if all are right, the device may be the cause: test it with gpusched run --check-devices"
            )
        };
        Error::Unstable { what, value, why, suspect: !beyond && !varies }
    }

    fn layout(&self) -> &Layout {
        self.propagator.layout()
    }

    /// Refuses a source with a unit in an anisotropic medium.
    fn check_kind(&self, kind: &SourceKind) -> Result<()> {
        let anisotropic = self.options.equation.properties().all().any(|one| one == Property::Epsilon);
        if *kind == SourceKind::Pressure || !anisotropic || self.options.isotropic_source {
            return Ok(());
        }
        let value = format!("{} with an anisotropic source", kind.name());
        let accepted =
            "pressure with an anisotropic source; or without it, so that the medium is isotropic there";
        Err(Error::argument("source_kind", value, accepted))
    }

    /// Refuses a source, or the deeper pole of a dipole, in cells that are never updated.
    fn check_outside(&self, outside: [isize; 3]) -> Result<()> {
        let [_, (deeper, _)] = DIPOLE;
        let most = self.layout().width().saturating_sub(deeper);
        let beyond = |cells: &isize| cells.unsigned_abs() > most;
        let Some(cells) = outside.into_iter().find(beyond) else { return Ok(()) };
        let accepted = format!("at most {most} cells outside the grid");
        Err(Error::argument("the source's distance from the grid", cells, accepted))
    }

    fn check_cell(&self, what: &str, cell: [usize; 3]) -> Result<()> {
        for (axis, (&index, &n)) in cell.iter().zip(&self.model.grid.n).enumerate() {
            if index >= n {
                let accepted = format!("0 to {}", n - 1);
                return Err(Error::argument(format!("the {} index of {what}", AXES[axis]), index, accepted));
            }
        }
        Ok(())
    }
}

fn check_step(model: &Outline, dt: f32, options: &Options) -> Result<()> {
    if !(dt.is_finite() && dt > 0.0) {
        return Err(Error::argument("dt", dt, "a positive, finite number of seconds"));
    }
    let limit = options.dt_max(model);
    if f64::from(dt) > limit && !options.allow_unstable {
        return Err(Error::Unstable {
            what: "dt".into(),
            value: format!("{dt} s"),
            why: format!(
                "to be stable with this grid and a fastest velocity of {} m/s, dt may be at most {} s{}",
                model.fastest,
                rounded_down(limit),
                options.lowered(model)
            ),
            suspect: false,
        });
    }
    Ok(())
}

/// Refuses a number of time steps that no shot may have.
pub fn check_steps(nt: usize) -> Result<()> {
    check_count("nt", nt, 1..=MOST_STEPS, "steps")
}

fn check_count(what: &str, value: usize, accepted: RangeInclusive<usize>, unit: &str) -> Result<()> {
    if accepted.contains(&value) {
        return Ok(());
    }
    Err(Error::argument(what, value, format!("{} to {} {unit}", accepted.start(), accepted.end())))
}

/// Returns the largest float32 that is not above `limit`, so that users can pass the printed value.
pub fn rounded_down(limit: f64) -> f32 {
    let near = limit as f32;
    if f64::from(near) > limit { near.next_down() } else { near }
}
