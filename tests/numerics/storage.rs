//! Coefficients of 16 bits against those of float32.

use std::sync::Arc;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::{Model, Property};
use gpusched::fd::plan::{Options, Storage};
use gpusched::fd::wavelet::{Shape, Wavelet};

use testkit::Random;
use testmodels::norms::relative_l2;
use testmodels::shots::{fire_with, plain_shot, rough};

const N: [usize; 3] = [40, 30, 80];

/// Water, sediments whose velocity grows with depth and is rough, a body of salt in them.
fn salt() -> Arc<Model> {
    let grid = Grid::new(N, [10.0; 3]).unwrap();
    let mut random = Random::new(3);
    let (mut vp, mut rho) = (Vec::new(), Vec::new());
    for column in 0..N[0] * N[1] {
        let [x, y] = [column % N[0], column / N[0]];
        for z in 0..N[2] {
            let inside = x.abs_diff(22).pow(2) + y.abs_diff(15).pow(2) + z.abs_diff(52).pow(2) < 120;
            let sediment = (1600.0 + 18.0 * z as f32) * random.between(0.97, 1.03);
            let (v, r) = match z {
                0..20 => (1500.0, 1000.0),
                _ if inside => (4500.0, 2200.0),
                _ => (sediment, 310.0 * sediment.powf(0.25)),
            };
            vp.push(v);
            rho.push(r);
        }
    }
    Arc::new(Model::new(grid, vp, Some(rho)).unwrap())
}

/// The largest part of itself by which a field is off: half a step of its smallest value.
fn off(values: impl Iterator<Item = f32> + Clone) -> f64 {
    let low = values.clone().fold(f32::INFINITY, f32::min);
    f64::from(values.fold(0.0, f32::max) / low - 1.0) / 131_070.0
}

/// A wave of angular frequency `w` that has travelled for `t` with a speed that is off by a part `e` is off by `w t e` at most; by
/// a hundredth of it here, where most values are larger than the smallest and their errors cancel.
#[test]
fn sixteen_bits_cost_no_more_than_their_phase() {
    let (dt, nt, peak) = (9e-4, 780, 15.0);
    for (name, model) in [("rough", rough(N, [10.0; 3], &mut Random::new(2))), ("salt", salt())] {
        let wavelet = Wavelet::new(Shape::Ricker, peak, dt, nt).unwrap();
        let receivers = (0..N[0]).step_by(3).map(|x| [x, 20, 1]).collect();
        let shot = plain_shot([20, 15, 2], wavelet.samples, nt, receivers);
        let [whole, halved] = [Storage::Float32, Storage::Bits16]
            .map(|storage| fire_with(&model, dt, &shot, Options { storage, ..Options::default() }, 2).record);
        let rho = model.get(Property::Rho).unwrap();
        let cells = 0..model.grid.cells();
        let kappa = off(cells.clone().map(|at| rho.at(at) * model.vp().at(at) * model.vp().at(at)));
        let speed = 0.5 * (kappa + off(cells.map(|at| 1.0 / rho.at(at))));
        let bound = 2.0 * std::f64::consts::PI * f64::from(2.5 * peak * dt) * nt as f64 * speed;
        let apart = relative_l2(&halved, &whole);
        println!("{name}: 16 bits {apart:.1e}, speeds within {speed:.1e}, phases within {bound:.1e}");
        assert!(apart > 0.0 && apart < 0.01 * bound, "{name}: {apart:e}, {bound:e}");
    }
}
