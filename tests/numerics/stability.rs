//! The largest stable step where density jumps from cell to cell.

use std::ops::Range;
use std::sync::Arc;

use gpusched::Error;
use gpusched::fd::equation::{Equation, acoustic1::Acoustic1};
use gpusched::fd::plan::{Options, Stencil};
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::fd::{grid::Grid, model::DensityAt, model::Model, survey::Shot};

use testkit::Random;
use testmodels::norms::peak;
use testmodels::shots::{plain_shot, try_fire};

/// Returns a model in which every cell has its own velocity, and a density of up to twenty times
/// its neighbour's.
fn jumps(n: [usize; 3], density_at: DensityAt) -> Arc<Model> {
    let grid = Grid::new(n, [10.0, 12.0, 8.0]).unwrap();
    let mut random = Random::new(31);
    let mut field = |low, high| (0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>();
    let (vp, rho) = (field(1500.0, 4500.0), field(300.0, 6000.0));
    Arc::new(Model::new(grid, vp, Some(rho)).unwrap().with_density_at(density_at))
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
    let model = jumps([11, 12, 10], density_at);
    for stencil in Stencil::ALL {
        let (most, sure) = (Acoustic1.dt_max(&model, stencil), Acoustic1.dt_sure(&model, stencil));
        println!("{density_at:?}, {stencil:?}: surely stable is {:.3} of what velocity allows", sure / most);
        assert!(expected.contains(&(sure / most)));
        let fire = |dt: f64| {
            let (dt, nt) = (dt as f32, 3000);
            let shot = Shot {
                wavelet: Wavelet::new(Shape::Ricker, 0.04 / dt, dt, nt).unwrap(),
                snapshot_every: Some(20),
                ..plain_shot([4, 6, 3], vec![0.0], nt, vec![[5, 5, 5]])
            };
            try_fire(&model, dt, &shot, Options { pml: 8, stencil, ..Options::default() }, 1)
        };
        // The source is off after 50 steps.
        let peaks: Vec<_> = fire(sure).unwrap().snapshots.iter().map(|(_, field)| peak(field)).collect();
        let most_in = |range: Range<usize>| peaks[range].iter().copied().fold(0.0, f64::max);
        assert!(most_in(120..150) < most_in(0..30), "{stencil:?}: {peaks:?}");
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
