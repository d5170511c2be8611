//! Sources with a unit against the solution of the wave equation in a homogeneous medium: absolute
//! pressures.

use std::f64::consts::PI;

use gpusched::fd::equation::by_name;
use gpusched::fd::model::Property;
use gpusched::fd::plan::Options;
use gpusched::fd::survey::{Shot, SourceKind};

use testkit::Random;
use testmodels::norms::relative_l2;
use testmodels::shots::{World, fire_with, model_for, plain_shot, try_fire};

const SPEED: f64 = 2000.0;
/// Frequency in Hz of the source's Gaussian. At twice this, the spectrum of its derivative is a
/// tenth of its peak.
const FREQUENCY: f64 = 10.0;
const DELAY: f64 = 0.125;
const DT: f32 = 0.00125;

fn gauss(t: f64) -> f64 {
    (-(PI * FREQUENCY * (t - DELAY)).powi(2)).exp()
}

fn rate(t: f64) -> f64 {
    -2.0 * (PI * FREQUENCY).powi(2) * (t - DELAY) * gauss(t)
}

/// Returns the pressure in Pa of a source in a medium of density `rho`, whose wavelet is
/// `amplitude` times [`gauss`].
fn truth(kind: &SourceKind, rho: f64, amplitude: f64, from_source: [f64; 3], t: f64) -> f64 {
    let r = from_source.iter().map(|x| x * x).sum::<f64>().sqrt();
    let late = t - r / SPEED;
    let force = |axis: usize| from_source[axis] / r * (rate(late) / SPEED + gauss(late) / r);
    let field = match kind {
        SourceKind::Monopole => rho * rate(late),
        SourceKind::ForceX => force(0),
        SourceKind::ForceY => force(1),
        SourceKind::ForceZ => force(2),
        _ => panic!("no unit"),
    };
    amplitude * field / (4.0 * PI * r)
}

/// Returns the relative error of all traces of a shot. Its cells are 12.5 m divided by `fine`: at
/// least 8 cells per wavelength at twice [`FREQUENCY`].
fn error(equation: &str, kind: &SourceKind, fine: usize, options: Options, dt: f32) -> f64 {
    let equation = by_name(equation).unwrap();
    let h = 12.5 / fine as f32;
    // An odd spacing in z, so that a wrong power of a spacing changes the result.
    let spacing = [h, h, 0.9 * h];
    // No reflection from the thin layer arrives in time.
    let (n, nt) = ([48 * fine; 3], (0.26 / dt) as usize);
    let source = [23 * fine, 24 * fine, 25 * fine];
    let offsets: [[isize; 3]; 5] = [[9, 0, 0], [0, -8, 2], [-4, 5, -9], [2, 3, 8], [-7, -6, 5]];
    let receivers = offsets.map(|offset| {
        std::array::from_fn(|axis| source[axis].checked_add_signed(offset[axis] * fine as isize).unwrap())
    });
    let has_density = equation.properties().all().any(|property| property == Property::Rho);
    let rho = if has_density { 1700.0 } else { 1000.0 };
    let model = model_for(equation, n, spacing, |property| {
        match property {
            Property::Vp => SPEED as f32,
            Property::Rho => rho,
            // An isotropic medium: only the coupling of two pressures remains.
            _ => 0.0,
        }
        .into()
    });
    let samples = (0..nt).map(|i| gauss(i as f64 * f64::from(dt)) as f32).collect();
    let amplitude = 3.5e4;
    let shot = Shot { kind: kind.clone(), amplitude, ..plain_shot(source, samples, nt, receivers.to_vec()) };
    let found = fire_with(&model, dt, &shot, Options { equation, pml: 8, ..options }, 2).record;
    let half = |axis: usize| {
        let along = [SourceKind::ForceX, SourceKind::ForceY, SourceKind::ForceZ];
        if along[axis] == *kind { 0.5 } else { 0.0 }
    };
    let expected = offsets.map(|offset| {
        let from_source = std::array::from_fn(|axis| {
            ((offset[axis] * fine as isize) as f64 - half(axis)) * f64::from(spacing[axis])
        });
        let at =
            |i: usize| truth(kind, rho.into(), amplitude.into(), from_source, (i + 1) as f64 * f64::from(dt));
        (0..nt).map(|i| at(i) as f32).collect::<Vec<_>>()
    });
    relative_l2(&found, &expected.concat())
}

#[test]
fn pressures_are_those_of_the_wave_equation_at_any_spacing() {
    use SourceKind::*;
    let cases = [
        ("acoustic1", &[Monopole, ForceZ][..], &[1, 2][..]),
        ("acoustic1", &[ForceX, ForceY], &[1]),
        ("acoustic2", &[Monopole, ForceX], &[1, 2]),
        ("acoustic2", &[ForceY, ForceZ], &[1]),
        ("vti", &[Monopole, ForceY], &[1, 2]),
        ("vti", &[ForceX, ForceZ], &[1]),
        ("tti", &[Monopole, ForceZ], &[1, 2]),
        ("tti", &[ForceX, ForceY], &[1]),
    ];
    for (equation, kinds, all) in cases {
        for (kind, &fine) in kinds.iter().flat_map(|kind| all.iter().map(move |fine| (kind, fine))) {
            let found = error(equation, kind, fine, Options::default(), DT);
            println!("{equation}, {}, {} m: {found:.2e}", kind.name(), 12.5 / fine as f64);
            assert!(found < 3e-3, "{equation}, {kind:?}, {fine}: {found}");
        }
    }
}

/// The source without a unit stays in the pressure of `acoustic2`: sample `i` over the square of the
/// step acts at `(i - 1) dt`. So its dipole is that of two monopoles with that rate.
#[test]
fn a_sample_that_stays_acts_a_step_before_its_index() {
    let (n, h) = ([20; 3], [12.5f32; 3]);
    let equation = by_name("acoustic2").unwrap();
    let model = model_for(equation, n, h, |_| (SPEED as f32).into());
    let (nt, dt) = (200, f64::from(DT));
    let record = |kind, iz, wavelet: &dyn Fn(f64) -> f64| {
        let samples = (0..nt).map(|i| wavelet(i as f64 * dt) as f32).collect();
        let shot = plain_shot([9, 10, iz], samples, nt, vec![[15, 12, 4], [9, 10, 17], [3, 3, 10]]);
        let shot = Shot { kind, amplitude: 1.0, ..shot };
        fire_with(&model, DT, &shot, Options { equation, pml: 8, ..Options::default() }, 2).record
    };
    let [upper, lower] = [8, 10].map(|iz| record(SourceKind::Monopole, iz, &gauss));
    let truth: Vec<f32> = lower.iter().zip(&upper).map(|(lower, upper)| lower - upper).collect();
    let scale = 1000.0 * SPEED * SPEED * dt / h.iter().map(|&h| f64::from(h)).product::<f64>();
    let step = |t: f64| scale * (gauss(t + 0.5 * dt) - gauss(t - 0.5 * dt));
    let [found, late] =
        [dt, 0.0].map(|before| relative_l2(&record(SourceKind::Pressure, 8, &|t| step(t - before)), &truth));
    println!("acoustic2, pressure against monopoles: {found:.1e}, a step late {late:.1e}");
    assert!(found < 1e-3 && late > 5e-2, "{found:e}, {late:e}");
}

/// Exact time removes the error of time steps for these sources, too.
#[test]
fn exact_time_leaves_the_error_of_space() {
    for kind in [SourceKind::Monopole, SourceKind::ForceZ] {
        let of = |exact_time| error("acoustic1", &kind, 2, Options { exact_time, ..Options::default() }, DT);
        let [with, without] = [true, false].map(of);
        println!("{}, exact time: {with:.1e}, without: {without:.1e}", kind.name());
        assert!(with < 2e-4 && without > 9e-4, "{kind:?}: {with:e}, {without:e}");
    }
}

/// Poles lie in several tiles, and in the layers of a small grid.
#[test]
fn bits_depend_on_no_thread() {
    for equation in ["acoustic1", "acoustic2", "vti", "tti"] {
        for (_, kind) in &SourceKind::NAMED {
            let mut random = Random::new(23);
            let receivers = gpusched::fd::survey::Receivers::Plane { iz: 2, every: [1, 1] };
            let mut world =
                World::rough_for(by_name(equation).unwrap(), [40, 6, 5], 30, receivers, &mut random);
            (world.shot.kind, world.shot.source) = (kind.clone(), [31, 0, 4]);
            let of = |threads| fire_with(&world.model, world.dt, &world.shot, world.options, threads).record;
            let alone = of(1);
            assert!(alone.iter().any(|v| *v != 0.0) && alone.iter().all(|v| v.is_finite()));
            assert!([2, 3, 5, 7].iter().all(|threads| of(*threads) == alone), "{equation}, {kind:?}");
        }
    }
}

/// The medium around the source has to be isotropic.
#[test]
fn units_and_an_anisotropic_source_are_refused_together() {
    let receivers = gpusched::fd::survey::Receivers::List(Vec::new());
    for equation in ["vti", "tti"] {
        let mut random = Random::new(24);
        let mut world =
            World::rough_for(by_name(equation).unwrap(), [5; 3], 3, receivers.clone(), &mut random);
        world.options.isotropic_source = false;
        world.shot.kind = SourceKind::ForceZ;
        let refused =
            try_fire(&world.model, world.dt, &world.shot, world.options, 2).err().expect("a refusal");
        let said = refused.to_string();
        assert!(
            said.starts_with("source_kind is force-z with an anisotropic source; accepted: pressure"),
            "{said}"
        );
    }
}
