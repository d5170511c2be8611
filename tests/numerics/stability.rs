//! The largest stable step where density jumps from cell to cell.

use std::ops::Range;
use std::sync::Arc;

use gpusched::Error;
use gpusched::fd::equation::{Equation, acoustic1::Acoustic1, by_name};
use gpusched::fd::model::{DensityAt, Model, Property, Values};
use gpusched::fd::plan::{Options, Stencil, Storage};
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::fd::{grid::Grid, survey::Shot};

use testkit::Random;
use testmodels::norms::peak;
use testmodels::shots::{Shots, plain_shot, try_fire};

/// Returns a model in which every cell has its own velocity, and a density of up to twenty times
/// its neighbour's.
fn jumps(n: [usize; 3], random: &mut Random) -> Model {
    let grid = Grid::new(n, [10.0, 12.0, 8.0]).unwrap();
    let mut field = |low, high| (0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>();
    let (vp, rho) = (field(1500.0, 4500.0), field(300.0, 6000.0));
    Model::new(grid, vp, Some(rho)).unwrap()
}

/// Returns a shot that is over after 50 steps, with a snapshot of every 20th step.
fn shot(dt: f32, nt: usize) -> Shot {
    Shot {
        wavelet: Wavelet::new(Shape::CutRicker, 0.04 / dt, dt, nt).unwrap(),
        snapshot_every: Some(20),
        ..plain_shot([4, 6, 3], vec![0.0], nt, vec![[5, 5, 5]])
    }
}

/// Checks that the largest pressure of the last snapshots is below that of the first.
fn check_decay(shots: &Shots, what: &str) {
    let peaks: Vec<_> = shots.snapshots.iter().map(|(_, field)| peak(field)).collect();
    let most_in = |range: Range<usize>| peaks[range].iter().copied().fold(0.0, f64::max);
    let last = peaks.len() - 30..peaks.len();
    assert!(most_in(last) < most_in(0..30), "{what}: {peaks:?}");
}

/// The step that is certainly stable is stable. With the density of one cell at half points, almost
/// the largest step by velocity is not.
#[test]
fn jumps_of_density_need_smaller_steps() {
    for (density_at, expected) in [(DensityAt::HalfPoints, 0.79..0.81), (DensityAt::Cells, 0.51..0.52)] {
        check(density_at, expected);
    }
}

fn check(density_at: DensityAt, expected: Range<f64>) {
    let model = Arc::new(jumps([11, 12, 10], &mut Random::new(31)).with_density_at(density_at));
    for stencil in Stencil::ALL {
        let (most, sure) = (Acoustic1.dt_max(&model, stencil), Acoustic1.dt_sure(&model, stencil));
        println!("{density_at:?}, {stencil:?}: surely stable is {:.3} of what velocity allows", sure / most);
        assert!(expected.contains(&(sure / most)));
        let fire = |dt: f64| {
            let dt = dt as f32;
            try_fire(&model, dt, &shot(dt, 3000), Options { pml: 8, stencil, ..Options::default() }, 1)
        };
        check_decay(&fire(sure).unwrap(), &format!("{stencil:?}"));
        if density_at == DensityAt::HalfPoints {
            fire(0.99 * most).unwrap();
            continue;
        }
        let error = fire(0.99 * most).err().expect("a shot that blows up");
        assert!(matches!(error, Error::Unstable { .. }), "{error}");
        for words in ["has blown up", ": dt is ", "in a homogeneous medium"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

/// The step of `vti` that is certainly stable is stable in both storages.
#[test]
fn certain_step_of_vti_is_stable() {
    let equation = by_name("vti").unwrap();
    let mut random = Random::new(7);
    for storage in Storage::ALL {
        let model = jumps([17, 14, 19], &mut random);
        let mut field = |most| (0..model.grid.cells()).map(|_| random.between(0.0, most)).collect::<Vec<_>>();
        let (epsilon, below) = (field(0.5), field(0.3));
        let delta: Vec<_> = epsilon.iter().zip(below).map(|(epsilon, below)| epsilon - below).collect();
        let properties = [
            (Property::Vp, model.vp().clone()),
            (Property::Rho, model.get(Property::Rho).unwrap().clone()),
            (Property::Epsilon, epsilon.into()),
            (Property::Delta, delta.into()),
        ];
        let model = Arc::new(Model::of(model.grid, properties).unwrap());
        for stencil in Stencil::ALL {
            let options = Options { equation, storage, stencil, pml: 8, ..Options::default() };
            let sure = options.dt_sure(&model);
            assert!(sure < 0.999 * options.dt_max(&model), "densities jump");
            let shots = try_fire(&model, sure as f32, &shot(sure as f32, 1500), options, 1).unwrap();
            check_decay(&shots, &format!("{stencil:?}, {storage:?}"));
        }
    }
}

/// Epsilon is 0 beside the source, where a negative one would allow a larger step.
#[test]
fn certain_step_of_vti_is_stable_beside_a_source_in_negative_epsilon() {
    let grid = Grid::new([20; 3], [10.0; 3]).unwrap();
    let mut random = Random::new(1);
    let density = |_| if random.between(0.0, 1.0) < 0.5 { 300.0 } else { 6000.0 };
    let rho: Vec<f32> = (0..grid.cells()).map(density).collect();
    let properties = [
        (Property::Vp, 2000.0.into()),
        (Property::Rho, rho.into()),
        (Property::Epsilon, (-0.45).into()),
        (Property::Delta, (-0.45).into()),
    ];
    let model = Arc::new(Model::of(grid, properties).unwrap().with_density_at(DensityAt::Cells));
    let options = Options { equation: by_name("vti").unwrap(), pml: 8, ..Options::default() };
    let dt = options.dt_sure(&model) as f32;
    let shot = Shot { source: [10; 3], ..shot(dt, 1500) };
    check_decay(&try_fire(&model, dt, &shot, options, 1).unwrap(), "epsilon -0.45");
}

#[test]
fn a_step_is_surely_stable_by_the_densities_around_a_cell() {
    let grid = Grid { n: [3, 4, 20], h: [10.0, 12.0, 8.0] };
    let column = |top: f32, bottom: f32| {
        let of = move |z: usize| if z < 10 { top } else { bottom };
        (0..12).flat_map(|_| (0..20).map(of)).collect::<Vec<_>>()
    };
    let sure_with = |density_at, vp: Vec<f32>, rho: Option<Vec<f32>>| {
        let model = Model::new(grid, vp, rho).unwrap().with_density_at(density_at);
        Stencil::ALL.map(|stencil| Acoustic1.dt_sure(&model, stencil) / Acoustic1.dt_max(&model, stencil))
    };
    let sure = |vp: Vec<f32>, rho: Option<Vec<f32>>| sure_with(DensityAt::HalfPoints, vp, rho);
    // No density, one density, one modulus' worth of contrast: the limit is that of the fastest
    // velocity.
    for (vp, rho) in [
        (column(1500.0, 4000.0), None),
        (column(1500.0, 4000.0), Some(column(2000.0, 2000.0))),
        (column(1500.0, 4000.0), Some(column(2400.0, 2000.0))),
    ] {
        let [taylor, optimised] = sure(vp, rho);
        assert!((taylor - 1.0).abs() < 1e-5 && (optimised - 1.0).abs() < 1e-5, "{taylor} {optimised}");
    }
    // Below the contrast half of the derivative's weights along z meet a density a third as large;
    // at the contrast's half point, which has the largest weight, one of two thirds.
    let inverse = grid.h.map(|h| f64::from(h).powi(-2));
    for density_at in [DensityAt::Cells, DensityAt::HalfPoints] {
        let found = sure_with(density_at, column(1500.0, 4000.0), Some(column(1000.0, 3000.0)));
        for (found, stencil) in found.into_iter().zip(Stencil::ALL) {
            let largest = f64::from(stencil.coefficients()[0]) / stencil.courant();
            let along_z = if density_at == DensityAt::Cells { 2.0 } else { 2.0 - 0.75 * largest };
            let sum = inverse[0] + inverse[1] + along_z * inverse[2];
            let expected = (inverse.iter().sum::<f64>() / sum).sqrt();
            assert!((found - expected).abs() < 1e-5, "{density_at:?}: {found}, should be {expected}");
        }
    }
}

/// Returns both steps as parts of that of a velocity of 2000 m/s.
fn tti_steps(vp: Values, epsilon: Values, delta: Values) -> [f64; 2] {
    let grid = Grid { n: [1, 1, 2], h: [10.0, 12.0, 8.0] };
    let properties = [(Property::Vp, vp), (Property::Epsilon, epsilon), (Property::Delta, delta)];
    let model = Model::of(grid, properties).unwrap();
    let tti = by_name("tti").unwrap();
    let one = grid.stable_step(tti.courant(Stencil::Taylor), 2000.0);
    [tti.dt_max(&model, Stencil::Taylor) / one, tti.dt_sure(&model, Stencil::Taylor) / one]
}

#[test]
fn steps_are_equal_unless_the_anisotropy_jumps() {
    let horizontal = 1.4f64.sqrt().recip();
    for (vp, epsilon, delta, expected) in [
        (Values::from(2000.0), Values::from(0.0), Values::from(0.0), 1.0),
        (vec![1000.0, 2000.0].into(), 0.0.into(), 0.0.into(), 1.0),
        (vec![1000.0, 2000.0].into(), 0.2.into(), 0.1.into(), horizontal),
        (2000.0.into(), (-0.1).into(), (-0.2).into(), 1.0),
    ] {
        let [most, sure] = tti_steps(vp, epsilon, delta);
        assert!((most - expected).abs() < 1e-6 && (sure - expected).abs() < 1e-6, "{most} {sure}");
    }
    // With diagonals t an isotropic cell accepts s from 2 - t to t. At t = 1 + 2 epsilon its
    // neighbour accepts only its own sqrt(1 + 2 delta): 0.77 with 0.2 and -0.2, and the isotropic
    // cell accepts 0.6 to 1.4; 0.32 with 0.1 and -0.45, which is not between 0.8 and 1.2.
    let beside =
        |epsilon, delta| tti_steps(2000.0.into(), vec![0.0, epsilon].into(), vec![0.0, delta].into());
    let [most, sure] = beside(0.2, -0.2);
    assert!((most - horizontal).abs() < 1e-6 && (sure - most).abs() < 1e-6, "{most} {sure}");
    let [most, sure] = beside(0.1, -0.45);
    assert!(sure < 0.99 * most && sure > most / 2f64.sqrt(), "{most} {sure}");
}
