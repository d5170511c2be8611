//! Reads and checks a survey. Every mistake that can be found before the run is an error here.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpusched::backend::cpu;
use gpusched::fd::equation::{self as equations, EQUATIONS, Equation, by_name};
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{DensityAt, Model, Property};
use gpusched::fd::plan::{self, Options, Plan};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::verify;
use gpusched::fd::warnings::{check_anisotropy, check_units};
use gpusched::fd::wavelet::Wavelet;
use gpusched::memory::Bytes;
use gpusched::{Error, Result};

use crate::devices::check_selection;
use crate::digits::decimal;
use crate::document::{self, Document};
use crate::key::Keys;
use crate::survey::{Absorber, Accuracy, Mute, Spacing, Step, Survey};
use crate::{doubts, model, positions, survey};

/// Fraction of the largest stable step that `dt_s = "auto"` uses at most.
const AUTO: f64 = 0.9;
/// Accepted time limits of a shot, in seconds.
const DEADLINE: RangeInclusive<f64> = 1e-3..=1e9;
const WRITE_RETRY: RangeInclusive<f64> = 0.0..=1e9;

pub struct Job {
    pub survey: Survey,
    pub folder: PathBuf,
    /// The survey file and the files of the model.
    pub inputs: Vec<PathBuf>,
    pub plan: Arc<Plan>,
    pub shots: Vec<Shot>,
    /// Numbers of the shots that this run computes.
    pub numbers: BTreeSet<usize>,
    /// Other runs may compute other shots, or the same, into the same folder.
    pub is_part: bool,
    pub keys: Keys,
    pub dt_max: f64,
    /// Ranges of the properties of the model other than the velocity, for the summary.
    pub ranges: Vec<String>,
    pub cells_per_wavelength: f64,
    pub warnings: Vec<String>,
}

impl Job {
    pub fn load(path: &Path) -> Result<Job> {
        let file = Document::open(path)?;
        let survey: Survey = file.read()?;
        let grid = grid(&file, &survey)?;
        check_plain_values(&file, &survey)?;
        let equation = equation(&file, &survey)?;
        let options = options(equation, &survey.accuracy);
        check_host_memory(&grid, &survey.model, options.storage)?;

        let properties = model::properties(&file, &grid, &survey.model)?;
        // After the model: the file of the model shows a wrong order of the axes in `grid.n`.
        let sources = positions::sources(&file, &grid, &survey.sources)?;
        let receivers = positions::receivers(&file, &grid, &survey.receivers)?;
        let about_property = |error: Error| match Property::ALL.into_iter().find(|one| concerns(&error, *one))
        {
            Some(property) => file.blame(&model::key(property), error),
            None => error,
        };
        let model = Model::of(grid, properties).map_err(about_property)?;
        let model = Arc::new(model.with_density_at(survey.accuracy.density_at));
        options.equation.check_model(&model).map_err(about_property)?;
        let keys = Keys::new(&model);
        if !survey.model.any_values {
            check_units(&model, "model.any_values = true").map_err(|error| {
                file.blame(if is_about(&error, "vp_m_s") { "model.vp" } else { "model.rho" }, error)
            })?;
        }
        let dt_max = options.dt_max(&model);
        let dt_sure = options.dt_sure(&model);
        let dt = time_step(&file, survey.time.dt_s, dt_max, dt_sure)?;
        let nt = steps(&file, &survey, dt)?;
        let frequency = survey.wavelet.frequency_hz as f32;
        let shape = survey.wavelet.shape;
        let wavelet = Wavelet::new(shape, frequency, dt, nt).map_err(|error| {
            file.blame(if is_about(&error, "dt") { "time.dt_s" } else { "wavelet.frequency_hz" }, error)
        })?;
        let ranges = model::ranges(&model);
        // The only cause left is the storage; everything else is checked above.
        let plan = Plan::new(model, dt, options).map_err(|error| file.blame("accuracy.storage", error))?;
        let plan = Arc::new(plan);

        check_shots_memory(&grid, sources.len(), wavelet.samples.len(), &receivers, survey.mute.is_some())?;
        let shots: Vec<Shot> = sources
            .into_iter()
            .map(|source| shot(&survey, source, &wavelet, nt, &receivers, &plan))
            .collect();
        for (at, shot) in shots.iter().enumerate() {
            let checked = plan.check(shot).and_then(|()| check_anisotropy(&plan, shot));
            checked.map_err(|error| name_shot(&file, at + 1, error))?;
        }

        let cells_per_wavelength = verify::cells_per_wavelength(&plan.model, frequency);
        let warnings = doubts::of(&plan, &shots, (shape, frequency), dt_sure);
        let folder = file.resolve(&survey.output.folder);
        let stated = model::stated(&survey.model);
        let files = stated.iter().filter_map(|(_, from)| from.file());
        let inputs = files.map(|model| file.resolve(model)).chain([path.to_owned()]).collect();
        let numbers = (1..=shots.len()).collect();
        Ok(Job {
            survey,
            folder,
            inputs,
            plan,
            shots,
            numbers,
            is_part: false,
            keys,
            dt_max,
            ranges,
            cells_per_wavelength,
            warnings,
        })
    }

    /// Returns the largest memory of a shot on this number of CPU threads.
    pub fn shot_bytes(&self, threads: u32) -> Bytes {
        let each = self.shots.iter().map(|shot| self.plan.shot_bytes(shot, threads));
        each.fold(Bytes::default(), Bytes::max)
    }

    /// Returns the largest memory that a shot allocates on this number of CPU threads.
    pub fn cpu_bytes(&self, threads: u32) -> Bytes {
        let each = self.shots.iter().map(|shot| self.plan.cpu_bytes(shot, threads));
        each.fold(Bytes::default(), Bytes::max)
    }

    /// Returns the key of the shot with this number.
    pub fn key(&self, number: usize) -> String {
        self.keys.of(self.plan.dt, &self.plan.options, &self.shots[number - 1])
    }

    /// Returns a hash of everything that determines the results of all shots. Shots differ only in
    /// their sources.
    pub fn survey_key(&self) -> String {
        self.keys.of_survey(self.plan.dt, &self.plan.options, &self.shots)
    }

    pub fn grid(&self) -> &Grid {
        &self.plan.model.grid
    }
}

/// Returns true if an error of the library is about the value with this name.
fn is_about(error: &Error, name: &str) -> bool {
    matches!(error, Error::Argument { what, .. } if what == name)
}

/// Returns true if an error of the library is about this property, or about a cell of it.
fn concerns(error: &Error, property: Property) -> bool {
    let Error::Argument { what, .. } = error else { return false };
    what.strip_prefix(property.name()).is_some_and(|rest| rest.is_empty() || rest.starts_with(" of cell"))
}

/// Returns the equation of a survey. Returns an error for options that have no effect with it.
fn equation(file: &Document, survey: &Survey) -> Result<&'static dyn Equation> {
    let named = match &survey.equation {
        None => EQUATIONS[0],
        Some(name) => by_name(name).ok_or_else(|| {
            let names = EQUATIONS.map(|equation| format!("\"{}\"", equation.name()));
            file.refuse("equation", names.join(", "))
        })?,
    };
    let accuracy = &survey.accuracy;
    if accuracy.anisotropic_source && !named.properties().all().any(|one| one == Property::Epsilon) {
        let accepted = format!("false for {}, which has no epsilon", named.name());
        return Err(file.refuse("accuracy.anisotropic_source", accepted));
    }
    if matches!(accuracy.density_at, DensityAt::Cells) && survey.model.rho.is_none() {
        return Err(file.refuse("accuracy.density_at", "\"half-points\" without model.rho"));
    }
    with_absorber(named, accuracy).map_err(|error| file.blame("accuracy.absorbing_layer", error))
}

/// Adds the number of the refused shot to an error. If all shots have the value, adds its key
/// instead.
fn name_shot(file: &Document, number: usize, error: Error) -> Error {
    for (name, key) in [
        ("record_every", "time.record_every"),
        ("snapshot_every", "snapshots.every"),
        ("source_kind", "sources.kind"),
        ("the receivers' step in x", "receivers.every"),
        ("the receivers' step in y", "receivers.every"),
    ] {
        if is_about(&error, name) {
            return file.blame(key, error);
        }
    }
    match error {
        Error::Argument { what, value, accepted } => {
            Error::Argument { what: format!("shot {number}: {what}"), value, accepted }
        }
        other => other,
    }
}

fn grid(file: &Document, survey: &Survey) -> Result<Grid> {
    let n = survey.grid.n.0;
    if n.iter().any(|n| !(1..=100_000).contains(n)) {
        return Err(file.refuse("grid.n", document::CELLS));
    }
    let spacing = match survey.grid.spacing_m {
        Spacing::Cubic(h) => [h; 3],
        Spacing::Axes(h) => h.0,
    };
    if spacing.iter().any(|h| !(1e-6..=1e6).contains(h)) {
        return Err(file.refuse("grid.spacing_m", "0.000001 to 1000000 metres"));
    }
    Grid::new(n, spacing.map(|h| h as f32))
}

fn check_plain_values(file: &Document, survey: &Survey) -> Result<()> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if !positive(survey.wavelet.frequency_hz) {
        return Err(file.refuse("wavelet.frequency_hz", document::FREQUENCIES));
    }
    if !(survey.amplitude() as f32).is_finite() {
        return Err(file.refuse("wavelet.amplitude", "a finite number that float32 can hold"));
    }
    if let Some(mute) = &survey.mute {
        if !positive(mute.velocity_m_s) {
            return Err(file.refuse("mute.velocity_m_s", "a positive, finite number of m/s"));
        }
        if !(mute.after_s.is_finite() && mute.after_s >= 0.0) {
            return Err(file.refuse("mute.after_s", "0 seconds or more"));
        }
    }
    if survey.output.folder.as_os_str().is_empty() {
        return Err(
            file.refuse("output.folder", "a path, such as \"out\"; \".\" is the folder of the survey file")
        );
    }
    if !(50.0..=100.0).contains(&survey.output.clip_percentile) {
        return Err(file.refuse("output.clip_percentile", "50 to 100"));
    }
    if let Some(devices) = &survey.run.devices {
        let named = if devices.trim().is_empty() { "devices" } else { "the device selection" };
        check_selection(named, devices).map_err(|error| file.blame("run.devices", error))?;
    }
    if survey.run.slots.is_some_and(|slots| !(1..=64).contains(&slots)) {
        return Err(file.refuse("run.slots", document::SLOTS));
    }
    if survey.run.deadline_s.is_some_and(|deadline| !DEADLINE.contains(&deadline)) {
        return Err(file.refuse("run.deadline_s", document::DEADLINES));
    }
    if survey.run.write_retry_s.is_some_and(|time| !WRITE_RETRY.contains(&time)) {
        return Err(file.refuse("run.write_retry_s", document::WRITE_RETRIES));
    }
    Ok(())
}

/// Returns an error if the host has no memory for the model, before any of it is allocated.
fn check_host_memory(grid: &Grid, from: &survey::Model, storage: plan::Storage) -> Result<()> {
    // The volumes among the properties, and about as many coefficients.
    let bytes = match model::volumes(from) {
        0 => 0,
        // A file is in memory twice while its cells are checked.
        volumes => (volumes * (4 + storage.bytes())).max(8),
    };
    let needed = bytes as u64 * grid.cells() as u64;
    cpu::check_free(&format!("a model of {} x {} x {} cells", grid.n[0], grid.n[1], grid.n[2]), needed)
}

/// Returns an error if the host has no memory for the list of shots. A short survey file may
/// request a million shots. Each has a copy of the wavelet, the receivers and the mute.
fn check_shots_memory(
    grid: &Grid,
    shots: usize,
    samples: usize,
    receivers: &Receivers,
    muted: bool,
) -> Result<()> {
    // One copy each in the list, in the task, and in the writer of the files.
    const COPIES: u64 = 3;
    const FIXED: u64 = 512;
    let traces = receivers.count(grid.n) as u64;
    let list = if matches!(receivers, Receivers::List(_)) { 24 * traces } else { 0 };
    let one = FIXED + 4 * samples as u64 + list + if muted { 4 * traces } else { 0 };
    let needed = COPIES.saturating_mul(one).saturating_mul(shots as u64);
    let what = format!("the list of {shots} shots of {traces} traces with wavelet, receivers and mute");
    cpu::check_free(&what, needed)
}

fn time_step(file: &Document, from: Step, dt_max: f64, dt_sure: f64) -> Result<f32> {
    let seconds = match from {
        Step::Auto => rounded_down(dt_sure.min(AUTO * dt_max), 2),
        Step::Seconds(seconds) => seconds,
    };
    let dt = seconds as f32;
    if !(dt.is_finite() && dt > 0.0) {
        return Err(file.refuse("time.dt_s", "a positive, finite number of seconds, or \"auto\""));
    }
    if f64::from(dt) > dt_max {
        let largest = rounded_down(dt_max, 5);
        return Err(file.refuse(
            "time.dt_s",
            format!(
                "at most {largest} s, the largest stable step with this model, grid and accuracy; or \"auto\""
            ),
        ));
    }
    Ok(dt)
}

/// Rounds down to this number of digits. With two digits, 0.00168 becomes 0.0016.
pub fn rounded_down(seconds: f64, digits: i32) -> f64 {
    let power = seconds.log10().floor() as i32 + 1 - digits;
    let unit = 10f64.powi(power);
    let digits = (seconds / unit).floor();
    // Converted through text, because 16 times 1e-4 is not the float64 nearest to 0.0016.
    format!("{digits}e{power}").parse().unwrap_or(digits * unit)
}

fn steps(file: &Document, survey: &Survey, dt: f32) -> Result<usize> {
    const MOST: usize = 10_000_000;
    let accepted = format!("1 to {MOST} steps");
    match (survey.time.nt, survey.time.duration_s) {
        (Some(nt), None) if (1..=MOST).contains(&nt) => Ok(nt),
        (Some(_), None) => Err(file.refuse("time.nt", accepted)),
        (None, Some(duration)) => {
            let nt = (duration / f64::from(dt)).round();
            if nt >= 1.0 && nt <= MOST as f64 {
                return Ok(nt as usize);
            }
            Err(file.refuse("time.duration_s", format!("seconds that make {accepted} of {dt} s")))
        }
        (nt, _) => Err(file.refuse_choice("time", nt.is_some(), ["`nt`", "`duration_s`"])),
    }
}

/// Returns the number of muted steps of each trace. A sample is taken after its step. It is muted
/// if that time is before the travel time from the source plus `mute.after_s`.
fn mute_steps(shot: &Shot, mute: &Mute, grid: &Grid, dt: f32) -> Vec<u32> {
    // Tolerance in steps for the rounding error of float64.
    const ROUNDING: f64 = 1e-6;
    let (h, dt) = (grid.h.map(decimal), decimal(dt));
    let count = |cell: [usize; 3]| {
        let apart = |axis: usize| cell[axis].abs_diff(shot.source[axis]) as f64 * h[axis];
        let distance = (0..3).map(|axis| apart(axis).powi(2)).sum::<f64>().sqrt();
        let end = distance / mute.velocity_m_s + mute.after_s;
        ((end / dt - ROUNDING).ceil() as u32).saturating_sub(1)
    };
    shot.receivers.cells(grid.n).map(count).collect()
}

/// Returns the shot with this source.
fn shot(
    survey: &Survey,
    source: [usize; 3],
    wavelet: &Wavelet,
    nt: usize,
    receivers: &Receivers,
    plan: &Plan,
) -> Shot {
    let shot = Shot {
        source,
        kind: survey.sources.kind.clone(),
        wavelet: wavelet.clone(),
        amplitude: survey.amplitude() as f32,
        nt,
        receivers: receivers.clone(),
        record_every: survey.time.record_every,
        snapshot_every: survey.snapshots.as_ref().map(|snapshots| snapshots.every),
        ..Shot::default()
    };
    let mute = survey.mute.as_ref().map(|mute| mute_steps(&shot, mute, &plan.model.grid, plan.dt));
    Shot { mute, ..shot }
}

fn with_absorber(named: &'static dyn Equation, accuracy: &Accuracy) -> Result<&'static dyn Equation> {
    match accuracy.absorbing_layer {
        None => Ok(named),
        Some(Absorber::Pml) => equations::with_absorber(named, equations::Absorber::Pml),
        Some(Absorber::Sponge) => equations::with_absorber(named, equations::Absorber::Sponge),
    }
}

fn options(equation: &'static dyn Equation, accuracy: &Accuracy) -> Options {
    Options {
        equation,
        stencil: accuracy.stencil,
        exact_time: accuracy.exact_time,
        storage: accuracy.storage,
        isotropic_source: !accuracy.anisotropic_source,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::tidy;

    #[test]
    fn time_step_is_rounded_down_to_some_digits() {
        for (seconds, digits, rounded) in
            [(0.00168, 2, 0.0016), (0.000_999, 2, 0.000_99), (0.001_234_56, 5, 0.001_234_5), (12.3, 2, 12.0)]
        {
            assert_eq!(rounded_down(seconds, digits), rounded);
        }
    }

    /// A sample at the time of the mute is kept, also if `dt` as a float32 is below or above its
    /// decimal.
    #[test]
    fn samples_whose_stated_time_is_before_the_mute_are_muted() {
        let grid = Grid { n: [8; 3], h: [10.0, 20.0, 5.0] };
        let shot = Shot {
            source: [1, 1, 1],
            nt: 1,
            receivers: Receivers::List(vec![[1, 1, 1], [4, 3, 1], [1, 1, 7]]),
            ..Shot::default()
        };
        for (dt, after_s) in
            [(0.001, 0.0105), (0.001, 0.011), (0.0007, 0.007), (0.0003, 0.0006), (0.002, 0.0)]
        {
            let ends = [0.0, 50.0, 30.0].map(|metres| tidy(metres / 1000.0 + after_s));
            let time = |step: u32| tidy(decimal(dt) * f64::from(step + 1));
            let counts = ends.map(|end| (0..).find(|&step| time(step) >= end).unwrap());
            let mute = Mute { velocity_m_s: 1000.0, after_s };
            assert_eq!(mute_steps(&shot, &mute, &grid, dt), counts, "{dt} s, {after_s} s");
        }
    }
}
