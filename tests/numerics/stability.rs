//! The largest stable step where density jumps from cell to cell.

use std::ops::Range;
use std::sync::Arc;

use gpusched::Error;
use gpusched::fd::equation::{Equation, acoustic1::Acoustic1, by_name};
use gpusched::fd::model::{DensityAt, Model, Property};
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
        wavelet: Wavelet::new(Shape::Ricker, 0.04 / dt, dt, nt).unwrap(),
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
        for words in ["has blown up", ": dt is ", "whose density does not jump"] {
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
