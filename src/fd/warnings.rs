//! Checks for likely mistakes: refuses models that seem to be in other units and shots without
//! anisotropy, and warns of shots whose results are probably useless.

use super::anisotropy::{is_mostly_reduced, is_reduced_everywhere};
use super::equation::Absorber;
use super::model::{Model, Property};
use super::plan::{ANGLES_VARY, Plan, rounded_down};
use super::survey::{Shot, SourceKind};
use super::verify::cells_per_wavelength;
use super::wavelet::Shape;
use crate::error::{Error, Result};

/// Speed in m/s below the fastest of every real medium, and above the fastest of one in km/s.
pub const SLOWEST: f32 = 100.0;
/// Density in kg/m³ below the largest of every real medium, and above the largest of one in g/cm³.
pub const LIGHTEST: f32 = 30.0;
/// Least cells per shortest wavelength. Fewer show as dispersion after some tens of wavelengths.
const ENOUGH_CELLS: f64 = 3.0;
/// Share of its peak below which a wavelet counts as ended.
const ENDED: f32 = 1e-3;
/// Angle of the symmetry axis from the vertical, in radians, beyond which a PML reflects more than
/// a few percent.
const TILTED: f32 = 0.8;
/// Largest theta in radians that is certainly an angle of a tilt: pi, rounded up.
const HALF_TURN: f32 = 3.15;
/// Least cells between a force and the border along its axis. Nearer forces are partly in the PML.
const BESIDE_BORDER: usize = 2;

/// Refuses a model whose values seem to be in km/s or g/cm³. The error is about `vp_m_s` or
/// `rho_kg_m3`. `permit`: how the caller permits such values, for the message.
pub fn check_units(model: &Model, permit: &str) -> Result<()> {
    let densest = model.get(Property::Rho).map(|rho| rho.range()[1]);
    let properties = [
        ("vp_m_s", Some(model.vp_range[1]), SLOWEST, "m/s", "km/s"),
        ("rho_kg_m3", densest, LIGHTEST, "kg/m³", "g/cm³"),
    ];
    for (name, largest, least, unit, suspect) in properties {
        if let Some(largest) = largest.filter(|&largest| largest < least) {
            let accepted = format!(
                "a largest value of {least} {unit} or more ({largest} looks like {suspect}), or any with {permit}"
            );
            return Err(Error::argument(name, format!("at most {largest} {unit}"), accepted));
        }
    }
    Ok(())
}

/// Refuses a shot that reduces the anisotropy of its model in every cell. The old entry points do
/// not call it.
pub fn check_anisotropy(plan: &Plan, shot: &Shot) -> Result<()> {
    let n = plan.model.grid.n;
    if !(reduces_anisotropy(plan) && is_reduced_everywhere(n, shot.source)) {
        return Ok(());
    }
    let ([nx, ny, nz], [ix, iy, iz]) = (n, shot.source);
    let value = format!(
        "{nx} x {ny} x {nz} cells, all nearer than 15 cells to the source ({ix}, {iy}, {iz}), so none keeps its epsilon \
         and delta"
    );
    let accepted = "a larger grid, or anisotropic_source, for a source of kind pressure";
    Err(Error::argument("the grid", value, accepted))
}

/// Returns true if a plan reduces the anisotropy of its model around sources.
fn reduces_anisotropy(plan: &Plan) -> bool {
    let has_epsilon = plan.options.equation.properties().all().any(|one| one == Property::Epsilon);
    has_epsilon && plan.options.isotropic_source && plan.model.is_anisotropic
}

/// Returns a sentence for each property of a shot that is probably a mistake. `wavelet`: shape and
/// peak frequency in Hz of its wavelet, if known. `dt_sure`: the [step that is certainly
/// stable](super::plan::Options::dt_sure) in seconds.
pub fn warnings(plan: &Plan, shot: &Shot, wavelet: Option<(Shape, f32)>, dt_sure: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    let dt = f64::from(plan.dt);
    let [slowest, _] = plan.model.vp_range;
    if let Some((shape, frequency)) = wavelet {
        let highest = 2.5 * f64::from(frequency);
        let cells = cells_per_wavelength(&plan.model, frequency);
        if cells < ENOUGH_CELLS {
            warnings.push(format!(
                "{cells:.2} cells per shortest wavelength ({slowest} m/s at {highest} Hz, 2.5 times frequency_hz); \
                 with fewer than {ENOUGH_CELLS} expect dispersion: lower frequency_hz or the spacing"
            ));
        }
        let (centre, end) = (0.5 * shape.periods() / f64::from(frequency), dt * shot.nt as f64);
        if centre > end {
            let [centre, end] = [centre, end].map(four_digits);
            warnings.push(format!(
                "the centre of the wavelet, at {centre} s, is after the end of the record, at {end} s: \
                 raise frequency_hz (it is in Hz) or nt"
            ));
        }
        let nyquist = 0.5 / (dt * shot.record_every as f64);
        if plan.options.exact_time && nyquist < highest {
            warnings.push(format!(
                "with exact time, records lose frequencies above {nyquist:.4} Hz, half their sampling rate, and the \
                 wavelet reaches {highest:.4} Hz, 2.5 times frequency_hz: lower record_every"
            ));
        }
    }
    let samples = &shot.wavelet.samples;
    let peak = samples.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
    if let Some(last) = samples.last().filter(|last| last.abs() > ENDED * peak)
        && plan.options.exact_time
        && (shot.nt..plan.steps(shot)).contains(&samples.len())
    {
        let share = 100.0 * last.abs() / peak;
        let off = if shot.record_every < 3 { "some" } else { "tens of" };
        warnings.push(format!(
            "the samples of the wavelet end with the record, at {share:.1} % of its peak, and exact time has to guess how \
             it goes on: samples before it are wrong by up to {off} percent; raise nt until it has ended, or do without exact time"
        ));
    }
    let forces = [SourceKind::ForceX, SourceKind::ForceY, SourceKind::ForceZ];
    if let Some(axis) = forces.iter().position(|kind| *kind == shot.kind)
        && plan.options.equation.absorber() == Absorber::Pml
    {
        let (index, n) = (shot.source[axis], plan.model.grid.n[axis]);
        if index.min((n - 1).saturating_sub(index)) < BESIDE_BORDER {
            warnings.push(format!(
                "a force at the border along its axis (cell {index} of {n}) is partly in the absorbing layer: records may be \
                 wrong by tens of percent of their largest value; with {BESIDE_BORDER} cells on each side of it by about 0.1 %"
            ));
        }
    }
    // The pressure source of isotropic equations is a dipole. In the equation without density its
    // error begins one plane higher.
    let has = |property| plan.options.equation.properties().all().any(|one| one == property);
    let planes = if has(Property::Rho) { 1 } else { 2 };
    let (iz, nz) = (shot.source[2], plan.model.grid.n[2]);
    if shot.kind == SourceKind::Pressure
        && !has(Property::Epsilon)
        && plan.options.equation.absorber() == Absorber::Pml
        && iz + planes >= nz
    {
        warnings.push(format!(
            "the lower pole of the source, two cells below cell {iz} of {nz} along z, is in the absorbing layer: records may \
             be wrong by some percent of their largest value, with a Gaussian by up to 20 %"
        ));
    }
    if dt > dt_sure {
        warnings.push(format!(
            "properties of the medium jump from cell to cell, so only steps up to {} s are certainly stable, and dt_s is \
             {} s; a shot that becomes unstable fails",
            rounded_down(dt_sure),
            plan.dt
        ));
    }
    if reduces_anisotropy(plan) && is_mostly_reduced(plan.model.grid.n, shot.source) {
        warnings.push(
            "epsilon and delta are reduced in more than half of the model: they are 0 within 4 cells of the source and rise \
             to their values at 15; use more cells, or the model's values at the source (anisotropic_source)"
                .into(),
        );
    }
    if plan.options.bears_no_angles(&plan.model) {
        warnings.push(ANGLES_VARY.into());
    }
    let tilt = plan.model.tilt;
    if tilt > TILTED && plan.options.equation.absorber() == Absorber::Pml {
        warnings.push(format!(
            "the symmetry axis is up to {tilt:.2} rad from the vertical, and the PML reflects waves there: by tens of \
             percent where it is horizontal; use the default absorbing layer, a sponge"
        ));
    }
    let theta = plan.model.largest_theta;
    if theta > HALF_TURN {
        warnings.push(format!(
            "theta_rad is up to {theta} in magnitude, and tilts are -pi to pi radians: it looks like degrees ({theta} degrees \
             are {:.4})",
            theta.to_radians()
        ));
    }
    if let Some(ends) = &shot.mute {
        let last = (shot.samples() - 1) * shot.record_every;
        if ends.iter().all(|&end| end as usize > last) {
            warnings.push(
                "the mute zeroes all samples: end it earlier (its velocity is in m/s, its time in s) or raise nt".into(),
            );
        }
    }
    for (name, &n) in ["nx", "ny", "nz"].iter().zip(&plan.model.grid.n) {
        if n == 1 {
            let pml = plan.options.pml;
            warnings.push(format!(
                "{name} is 1: waves spread in 3-D, through {pml} absorbing planes on each side; 2-D is not supported"
            ));
        }
    }
    if let Some(every) = shot.snapshot_every.filter(|&every| every >= shot.nt) {
        warnings.push(format!(
            "snapshots are {every} steps apart and the shot has {}: the only snapshot is that of step 0, before the wave",
            shot.nt
        ));
    }
    warnings
}

/// Rounds to four significant digits.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fd::equation::{by_name, with_absorber};
    use crate::fd::grid::Grid;
    use crate::fd::plan::Options;

    fn model(n: [usize; 3], vp: f32, rho: Option<f32>) -> Model {
        let cells = n.iter().product();
        Model::new(Grid { n, h: [10.0; 3] }, vec![vp; cells], rho.map(|rho| vec![rho; cells])).unwrap()
    }

    #[test]
    fn values_that_look_like_other_units_are_refused() {
        let refused =
            |vp, rho| check_units(&model([2, 2, 2], vp, rho), "a flag").map_err(|why| why.to_string());
        for (vp, rho, named) in
            [(4.5, None, "4.5 looks like km/s"), (1500.0, Some(2.7), "2.7 looks like g/cm³")]
        {
            let why = refused(vp, rho).unwrap_err();
            assert!(why.contains(named) && why.contains("any with a flag"), "{why}");
        }
        // The slowest soils have 100 m/s; a gas at pressure has 30 kg/m³.
        assert_eq!(refused(100.0, Some(30.0)), Ok(()));
        assert_eq!(refused(1500.0, None), Ok(()));
    }

    #[test]
    fn shots_without_anisotropy_are_refused() {
        let refused = |n, equation: &str, epsilon: f32, isotropic_source| {
            let grid = Grid { n, h: [10.0; 3] };
            let properties = [Property::Epsilon, Property::Delta].map(|one| (one, epsilon.into()));
            let properties = properties.into_iter().filter(|_| equation != "acoustic1");
            let model = Model::of(grid, properties.chain([(Property::Vp, 1500.0.into())])).unwrap();
            let options =
                Options { equation: by_name(equation).unwrap(), isotropic_source, ..Options::default() };
            let plan = Plan::new(Arc::new(model), 1e-3, options).unwrap();
            let shot = Shot { source: [5, 4, 3], ..Shot::default() };
            check_anisotropy(&plan, &shot).map_err(|why| why.to_string())
        };
        let why = "the grid is 9 x 8 x 16 cells, all nearer than 15 cells to the source (5, 4, 3), so none keeps its \
                   epsilon and delta; accepted: a larger grid, or anisotropic_source, for a source of kind pressure";
        for equation in ["vti", "tti"] {
            assert_eq!(refused([9, 8, 16], equation, 0.1, true), Err(why.to_owned()));
            assert_eq!(refused([9, 8, 18], equation, 0.1, true), Ok(()));
            assert_eq!(refused([9, 8, 16], equation, 0.1, false), Ok(()));
            assert_eq!(refused([9, 8, 16], equation, 0.0, true), Ok(()));
        }
        assert_eq!(refused([9, 8, 16], "acoustic1", 0.0, true), Ok(()));
    }

    #[test]
    fn each_mistake_has_its_own_warning() {
        type Mistake = fn(&mut Shot, &mut f32, &mut f64, &mut Options);
        let plain: Mistake = |_, _, _, _| {};
        let found = |n, mistake: Mistake| {
            let mut shot = Shot { nt: 200, snapshot_every: Some(10), ..Shot::default() };
            let (mut frequency, mut dt_sure, mut options) = (20.0, 1.1e-3, Options::default());
            mistake(&mut shot, &mut frequency, &mut dt_sure, &mut options);
            let mut model = model(n, 1500.0, None);
            if options.equation.name() == "vti" {
                let (epsilon, delta) = ((Property::Epsilon, 0.1.into()), (Property::Delta, 0.0.into()));
                model = Model::of(model.grid, [(Property::Vp, 1500.0.into()), epsilon, delta]).unwrap();
            }
            let plan = Plan::new(Arc::new(model), 1e-3, options).unwrap();
            warnings(&plan, &shot, Some((Shape::CutRicker, frequency)), dt_sure)
        };
        assert_eq!(found([2, 2, 2], plain), [""; 0]);
        assert_eq!(found([2, 2, 9], |shot, _, _, _| shot.source = [0, 0, 7]), [""; 0]);
        assert_eq!(found([2, 2, 2], |shot, _, _, _| shot.mute = Some(vec![200, 200, 199, 200])), [""; 0]);
        let second_order: Mistake = |shot, _, _, options| {
            options.equation = with_absorber(by_name("acoustic2").unwrap(), Absorber::Pml).unwrap();
            shot.source = [0, 0, 7];
        };
        let vti: Mistake = |shot, _, _, options| {
            options.equation = by_name("vti").unwrap();
            shot.source = [12, 5, 12];
        };
        assert_eq!(found([60, 11, 60], vti), [""; 0]);
        let with_own_values: Mistake = |shot, _, _, options| {
            (options.equation, options.isotropic_source) = (by_name("vti").unwrap(), false);
            shot.source = [12; 3];
        };
        assert_eq!(found([25; 3], with_own_values), [""; 0]);
        let mistakes: [([usize; 3], Mistake, &str); 13] = [
            ([2, 2, 2], |_, frequency, _, _| *frequency = 20.1, "2.99 cells"),
            ([2, 2, 2], |_, frequency, _, _| *frequency = 4.9, "centre of the wavelet, at 0.2041 s"),
            (
                [2, 2, 2],
                |shot, _, _, options| (shot.record_every, options.exact_time) = (11, true),
                "45.4545 Hz",
            ),
            ([2, 2, 2], |_, _, dt_sure, _| *dt_sure = 9e-4, "jump from cell to cell"),
            ([2, 1, 2], plain, "ny is 1"),
            (
                [2, 2, 2],
                |shot, _, _, options| (shot.wavelet.samples, options.exact_time) = (vec![1.0; 200], true),
                "100.0 % of its peak",
            ),
            ([2, 2, 9], |shot, _, _, _| shot.kind = SourceKind::ForceZ, "cell 0 of 9"),
            ([2, 2, 4], |shot, _, _, _| shot.kind = SourceKind::ForceZ, "cell 0 of 4"),
            ([2, 2, 9], |shot, _, _, _| shot.source = [0, 0, 8], "below cell 8 of 9"),
            ([2, 2, 9], second_order, "below cell 7 of 9"),
            ([2, 2, 2], |shot, _, _, _| shot.snapshot_every = Some(200), "before the wave"),
            ([2, 2, 2], |shot, _, _, _| shot.mute = Some(vec![200; 4]), "zeroes all samples"),
            ([25, 11, 25], vti, "epsilon and delta are reduced"),
        ];
        for (n, mistake, named) in mistakes {
            let found = found(n, mistake);
            assert!(found.len() == 1 && found[0].contains(named), "{named}: {found:?}");
        }
    }
}
