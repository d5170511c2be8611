//! Physics in any medium: reciprocity, absorption.

use std::sync::Arc;

use gpusched::Error;
use gpusched::fd::equation::{Absorber, EQUATIONS, Equation, WITH_OTHER_LAYER, by_name, with_absorber};
use gpusched::fd::model::{Model, Property, Values};
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::pml::{Profiles, d0};
use gpusched::fd::survey::{Shot, SourceKind};
use gpusched::fd::warnings::warnings;
use gpusched::fd::wavelet::{Shape, Wavelet};

use testkit::Random;
use testmodels::norms::{peak, relative_l2};
use testmodels::shots::{
    fire_with, homogeneous, model_for, plain_shot, rough, rough_for, time_step, try_fire,
};

fn ricker(f: f32, dt: f32) -> Vec<f32> {
    Wavelet::new(Shape::CutRicker, f, dt, 10_000).unwrap().samples
}

/// A volume injected at `a` and recorded at `b` gives the record of one injected at `b` and
/// recorded at `a`. So does a dipole source with a dipole receiver, if each pole of the receiver is
/// divided by `rho vp²` of its cell, like the source term.
#[test]
fn source_and_receiver_may_be_exchanged() {
    let with_density = rough([24, 20, 22], [10.0, 12.0, 9.0], &mut Random::new(21));
    let without =
        Arc::new(Model::of(with_density.grid, [(Property::Vp, with_density.vp().clone())]).unwrap());
    for (equation, model) in [("acoustic1", with_density), ("acoustic2", without)] {
        for kind in [SourceKind::Monopole, SourceKind::Pressure] {
            exchanged(by_name(equation).unwrap(), &model, &kind, 1e-5);
        }
        // With a PML, steps are symmetric except for its reflections.
        let with_pml = with_absorber(by_name(equation).unwrap(), Absorber::Pml).unwrap();
        exchanged(with_pml, &model, &SourceKind::Monopole, if equation == "acoustic1" { 1e-5 } else { 2e-3 });
    }
}

/// `vti` and `tti` have symmetric steps, in any medium and in their layers. The two cells are
/// isotropic, so both pressures are equal there, and the model is the same for both shots.
#[test]
fn source_and_receiver_may_be_exchanged_in_anisotropic_media() {
    for equation in ["vti", "tti"] {
        let equation = by_name(equation).unwrap();
        let rough = rough_for(equation, [24, 20, 22], [10.0, 12.0, 9.0], &mut Random::new(22));
        let model = model_for(equation, rough.grid.n, rough.grid.h, |property| {
            let values = rough.get(property).unwrap();
            let mut values: Vec<f32> = (0..rough.grid.cells()).map(|cell| values.at(cell)).collect();
            if [Property::Epsilon, Property::Delta].contains(&property) {
                let ends = PAIRS.iter().flat_map(|(a, b)| [*a, *b]);
                ends.for_each(|cell| values[rough.grid.index(cell)] = 0.0);
            }
            values.into()
        });
        exchanged(equation, &model, &SourceKind::Pressure, 1e-5);
    }
}

/// Cells that a source and a receiver exchange.
const PAIRS: [([usize; 3], [usize; 3]); 3] =
    [([3, 4, 5], [18, 13, 12]), ([0, 0, 0], [23, 19, 19]), ([12, 0, 10], [5, 10, 1])];

fn exchanged(equation: &'static dyn Equation, model: &Arc<Model>, kind: &SourceKind, accepted: f64) {
    let options = Options { equation, pml: 12, isotropic_source: false, ..Options::default() };
    // The source without a unit is one cell where epsilon is a property, else a dipole.
    let is_dipole = !equation.properties().all().any(|property| property == Property::Epsilon);
    let dt = time_step(model);
    let heard = |from: [usize; 3], at: [usize; 3]| -> Vec<f32> {
        let below = [at[0], at[1], at[2] + 2];
        let shot = plain_shot(from, ricker(0.04 / dt, dt), 200, vec![at, below]);
        let gather = fire_with(model, dt, &Shot { kind: kind.clone(), ..shot }, options, 2);
        if *kind == SourceKind::Monopole {
            return gather.trace(0).to_vec();
        }
        let softness = |cell| {
            let i = model.grid.index(cell);
            let rho = model.get(Property::Rho).map_or(1000.0, |rho| rho.at(i));
            1.0 / (f64::from(rho) * f64::from(model.vp().at(i)).powi(2))
        };
        let (up, down) = (softness(at), if is_dipole { softness(below) } else { 0.0 });
        let traces = gather.trace(0).iter().zip(gather.trace(1));
        traces.map(|(&p, &q)| (1e10 * (f64::from(q) * down - f64::from(p) * up)) as f32).collect()
    };
    for (a, b) in PAIRS {
        let error = relative_l2(&heard(a, b), &heard(b, a));
        println!("reciprocity, {equation:?}, {kind:?}, {a:?} {b:?}: {error:.1e}");
        assert!(error <= accepted, "{equation:?}, {kind:?}, {a:?} and {b:?}: {error:e}");
    }
}

/// Compares the layer with a grid so much larger that no reflection arrives in time.
#[test]
fn the_layer_absorbs() {
    let (h, c, f) = ([10.0; 3], 2000.0, 15.0);
    let dt = 0.002;
    let run = |equation: &'static dyn Equation, n: usize, off: usize, pml: usize| {
        let grid = homogeneous([n; 3], h, c, 1000.0).grid;
        let model = Arc::new(Model::of(grid, [(Property::Vp, Values::Constant(c))]).unwrap());
        let receivers = [[2, 2, 2], [10, 28, 5], [15, 15, 0], [29, 15, 25], [20, 1, 14]];
        let receivers = receivers.map(|cell| cell.map(|i| i + off)).to_vec();
        let shot = plain_shot([15 + off, 15 + off, 14 + off], ricker(f, dt), 180, receivers);
        fire_with(&model, dt, &shot, Options { equation, pml, ..Options::default() }, 2).record
    };
    let second = by_name("acoustic2").unwrap();
    let with_pml = with_absorber(second, Absorber::Pml).unwrap();
    let tilted = by_name("tti").unwrap();
    let layers = [(EQUATIONS[0], 20, 1e-3), (with_pml, 20, 5e-4), (second, 54, 5e-3), (tilted, 40, 5e-3)];
    for (equation, pml, accepted) in layers {
        let (open, layered) = (run(equation, 91, 30, 8), run(equation, 31, 0, pml));
        let reflected = relative_l2(&layered, &open);
        println!("{equation:?}, {:?} of {pml}: reflected {reflected:.1e}", equation.absorber());
        assert!(reflected <= accepted, "{equation:?}, layer of {pml}: {reflected:e}");
    }
}

/// The largest pressure after 300 steps over the largest of all: what layers return, and in
/// anisotropic media the slow waves that are still on their way.
#[test]
fn the_field_dies_away() {
    let all = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    for (equation, accepted) in all.zip([1e-5, 1e-3, 1e-2, 1e-2, 1e-5, 1e-2]) {
        let model = model_for(equation, [12, 11, 10], [10.0; 3], |property| {
            match property {
                Property::Vp => 2000.0,
                Property::Rho => 1000.0,
                Property::Epsilon => 0.2,
                Property::Delta => 0.05,
                Property::Theta | Property::Phi => 0.4,
            }
            .into()
        });
        let options = Options { equation, pml: 20, isotropic_source: false, ..Options::default() };
        let dt = (0.9 * options.dt_max(&model)) as f32;
        let mut shot = plain_shot([6, 5, 4], ricker(0.04 / dt, dt), 301, vec![[0, 0, 0]]);
        shot.snapshot_every = Some(20);
        let fields = fire_with(&model, dt, &shot, options, 2).snapshots;
        let peaks: Vec<_> = fields.iter().map(|(_, field)| peak(field)).collect();
        let last = peaks[15] / peaks.iter().copied().fold(0.0, f64::max);
        println!("{equation:?}, {:?}: {last:.1e} after 300 steps", equation.absorber());
        assert!(last < accepted, "{equation:?}, {:?}: {last:e}", equation.absorber());
    }
}

/// Returns the shot of a small grid with the axis of symmetry tilted.
fn tilted_record(absorber: Absorber, theta: f32) -> Vec<f32> {
    let (grid, dt) = (homogeneous([12; 3], [10.0; 3], 2000.0, 1000.0).grid, 0.002);
    let angle = (Property::Theta, Values::Constant(theta));
    let model = Arc::new(Model::of(grid, [(Property::Vp, Values::Constant(2000.0)), angle]).unwrap());
    let shot = plain_shot([6, 6, 5], ricker(15.0, dt), 300, vec![[1, 1, 1], [6, 11, 5], [11, 2, 6]]);
    let equation = with_absorber(by_name("tti").unwrap(), absorber).unwrap();
    fire_with(&model, dt, &shot, Options { equation, pml: 40, ..Options::default() }, 2).record
}

/// In an isotropic medium the angles change only the layers of the old operators, which damp each
/// rotated flux by the profile of one axis of the grid.
#[test]
fn only_layers_of_the_old_operators_depend_on_the_tilt() {
    let reflected =
        |absorber, theta| relative_l2(&tilted_record(absorber, theta), &tilted_record(absorber, 0.0));
    for theta in [0.5, 1.57] {
        let rounding = reflected(Absorber::Sponge, theta);
        println!("tti, tilt of {theta}: {rounding:.1e}");
        assert!(rounding < 3e-6, "tilt of {theta}: {rounding:e}");
    }
    for (theta, accepted) in [(0.5, 1e-3), (1.57, 0.3)] {
        let reflected = reflected(Absorber::Pml, theta);
        println!("tti, old operators, tilt of {theta}: reflected {reflected:.1e}");
        assert!(reflected <= accepted, "tilt of {theta}: {reflected:e}");
    }
}

/// The angles of neighbouring cells differ by up to 1.5 rad: with the old operators the field grows
/// without limit there.
#[test]
fn tilted_steps_are_stable_for_any_angles() {
    let model = of_random_angles();
    let options = Options { equation: by_name("tti").unwrap(), pml: 8, ..Options::default() };
    let dt = 0.99 * options.dt_sure(&model) as f32;
    let shot = plain_shot([12; 3], ricker(0.05 / dt, dt), 3000, vec![[3, 5, 7], [20, 18, 14]]);
    let record = fire_with(&model, dt, &shot, options, 2).record;
    let (first, last) = (peak(&record[..500]), peak(&record[2500..3000]).max(peak(&record[5500..])));
    println!("tti, random angles: {last:.1e} at last, {first:.1e} at first");
    assert!(last < first, "{last:e} at last, {first:e} at first");

    let equation = with_absorber(options.equation, Absorber::Pml).unwrap();
    let options = Options { equation, ..options };
    let plan = Plan::new(Arc::clone(&model), dt, options).unwrap();
    let warnings = warnings(&plan, &shot, None, options.dt_sure(&model));
    let named = warnings.iter().filter(|warning| warning.contains("theta_rad or phi_rad varies")).count();
    assert_eq!(named, 1, "{warnings:?}");
    let error = try_fire(&model, dt, &shot, options, 2).err().expect("a shot that blows up");
    assert!(matches!(error, Error::Unstable { suspect: false, .. }), "{error}");
    assert!(error.to_string().contains("theta_rad or phi_rad varies"), "{error}");
}

fn of_random_angles() -> Arc<Model> {
    let (n, random) = ([24; 3], &mut Random::new(5));
    let grid = homogeneous(n, [10.0; 3], 2000.0, 1000.0).grid;
    let mut values =
        |low, high| Values::from((0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>());
    let properties = [
        (Property::Vp, values(1500.0, 4500.0)),
        (Property::Epsilon, values(0.1, 0.4)),
        (Property::Delta, values(-0.2, 0.1)),
        (Property::Theta, values(-1.5, 1.5)),
        (Property::Phi, values(-3.0, 3.0)),
    ];
    Arc::new(Model::of(grid, properties).unwrap())
}

/// Rock below weathered soil, in which the cell of the old rule lies. Compared with a larger grid.
#[test]
fn layer_absorbs_waves_that_are_faster_than_at_the_top() {
    let dt = 8e-4;
    let run = |old_rules: bool, beyond: usize| {
        let n = 40 + 2 * beyond;
        let grid = homogeneous([n; 3], [10.0; 3], 800.0, 1000.0).grid;
        let vp = (0..grid.cells()).map(|i| if i % n < beyond + 3 { 800.0 } else { 5000.0 }).collect();
        let model = Arc::new(Model::of(grid, [(Property::Vp, Values::Volume(vp))]).unwrap());
        let cell = |at: [usize; 3]| at.map(|i| i + beyond);
        let receivers = [[4, 20, 24], [30, 30, 10], [20, 36, 36], [8, 8, 30]].map(cell).to_vec();
        let source = plain_shot(cell([20, 20, 22]), ricker(20.0, dt), 225, receivers);
        let shot = Shot { kind: SourceKind::Monopole, amplitude: 1.0, ..source };
        fire_with(&model, dt, &shot, Options { old_rules, ..Options::default() }, 2).record
    };
    let [new, old] = [false, true].map(|old| relative_l2(&run(old, 0), &run(old, 42)));
    println!("800 over 5000 m/s: reflected {new:.1e}, with the velocity of the top {old:.1e}");
    assert!(new < 5e-3 && old > 1e-2, "{new:e}, {old:e}");
}

/// A layer along a fine axis is thin, and damped accordingly; the old rule takes the mean spacing.
/// Compared with a larger grid along that axis.
#[test]
fn the_layer_absorbs_along_a_finer_axis() {
    let (h, dt, nt) = ([40.0, 40.0, 4.0], 1.4e-3, 400);
    let run = |old_rules: bool, beyond: usize| {
        let model = homogeneous([8, 8, 30 + 2 * beyond], h, 2000.0, 1000.0);
        let cell = |at: [usize; 3]| [at[0], at[1], at[2] + beyond];
        let receivers = [[4, 4, 2], [2, 5, 27], [6, 1, 14]].map(cell).to_vec();
        let shot = plain_shot(cell([4, 4, 12]), ricker(10.0, dt), nt, receivers);
        fire_with(&model, dt, &shot, Options { old_rules, ..Options::default() }, 2).record
    };
    let [new, old] = [false, true].map(|old| relative_l2(&run(old, 0), &run(old, 144)));
    println!("spacings of {h:?}: reflected {new:.1e}, with the mean spacing {old:.1e}");
    assert!(new < 5e-3 && old > 1e-2, "{new:e}, {old:e}");
}

/// A wave at normal incidence crosses the updated cells, turns, and crosses them again. Each cell
/// has a damped pressure and a damped velocity.
#[test]
fn a_layer_of_any_spacings_absorbs_waves_at_normal_incidence() {
    let (pml, vp, dt) = (20, 2000.0, 1e-4);
    for (h, ratio) in [([10.0; 3], 1.0), ([10.0, 10.0, 5.0], 5.0 / 3.0), ([20.0, 20.0, 5.0], 2.0)] {
        let Profiles { velocity, pressure } = Profiles::new(9, pml, dt, d0(vp, pml, h, 2, false));
        let crossed: f64 = (4..pml).map(|i| f64::from(velocity.b[i]) * f64::from(pressure.b[i])).product();
        let returned = crossed.powf(f64::from(h[2] / (vp * dt)));
        let stated = 1e5f64.powf(-1.8 / ratio);
        println!("spacings of {h:?}: {returned:.1e} returns, stated {stated:.1e}");
        assert!((returned / stated - 1.0).abs() < 0.2 && stated < 1e-4, "{h:?}: {returned:e}");
    }
}
