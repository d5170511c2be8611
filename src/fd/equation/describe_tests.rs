//! The words for a cell in the message of a shot that has become unstable.

use super::acoustic1::Acoustic1;
use super::acoustic2::{Acoustic2Medium, Acoustic2Propagator};
use super::traits::Absorber;
use crate::fd::centred;
use crate::fd::grid::Grid;
use crate::fd::model::Model;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::one_pass::equation::OnePassPropagator;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::tiled::equation::TiledEquation;

#[test]
fn description_has_the_medium_of_the_cell() {
    let grid = Grid { n: [3, 4, 5], h: [10.0, 12.5, 8.0] };
    let rising = |first: f32, step: f32| (0..grid.cells()).map(|i| first + step * i as f32).collect();
    let model = Model::new(grid, rising(1500.0, 1.0), Some(rising(1000.0, 7.0))).unwrap();
    let acoustic1 = OnePassPropagator::<Acoustic1>::new(Coefficients::new(&model, 1e-3, 8).unwrap(), true);
    // Cell (1, 2, 3) is number (2 * 3 + 1) * 5 + 3 = 38.
    let place = "cell [1, 2, 3] (10 m, 25 m, 24 m), where vp is 1538.0 m/s";
    let cfl = 1538.0 * 1e-3 * 1.28631 * (0.1_f64.powi(2) + 0.08_f64.powi(2) + 0.125_f64.powi(2)).sqrt();
    let words = format!("{place}, rho 1266.0 kg/m³ and the CFL number {cfl:.3} (stable: up to 1)");
    assert_eq!(acoustic1.describe_cell([9, 10, 11]), words);
    let beside = "the absorbing layer beside cell [0, 2, 4] (0 m, 25 m, 32 m)";
    assert!(acoustic1.describe_cell([2, 10, 14]).starts_with(beside));
    let medium = Acoustic2Medium::new(&model, 8, Storage::Float32, Absorber::Sponge).unwrap();
    for stencil in Stencil::ALL {
        let acoustic2 = Acoustic2Propagator::<false>(medium.coefficients(1e-3, stencil).into());
        let cfl = 1e-3 / grid.stable_step(centred::courant(stencil), 1538.0);
        let words = format!("{place} and the CFL number {cfl:.3} (stable: up to 1)");
        assert_eq!(acoustic2.describe_cell([9, 10, 11]), words);
    }
}
