//! Whole shots on the CPU with 16-bit coefficients; the words for a cell.

use super::{Acoustic1Propagator, BulkMaterial};
use crate::backend::cpu::Team;
use crate::fd::control::Silent;
use crate::fd::equation::traits::Propagator;
use crate::fd::grid::Grid;
use crate::fd::model::Model;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::tiled::equation::TiledEquation;
use crate::fd::vector::isa::Isa;
use crate::fd::wavelet::{Shape, Wavelet};

fn material(n: [usize; 3], storage: Storage) -> BulkMaterial {
    let grid = Grid { n, h: [10.0, 11.0, 9.0] };
    let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
    let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
    BulkMaterial::new(&Model::new(grid, vp, Some(rho)).unwrap(), 9, storage).unwrap()
}

fn propagator(n: [usize; 3]) -> Acoustic1Propagator {
    Acoustic1Propagator(material(n, Storage::Float32).coefficients(1e-3, Stencil::Taylor, false).into())
}

fn shot(n: [usize; 3], nt: usize) -> Shot {
    Shot {
        source: n.map(|n| n / 2),
        wavelet: Wavelet::new(Shape::Ricker, 30.0, 1e-3, nt).unwrap(),
        amplitude: 10_000.0,
        nt,
        receivers: Receivers::Plane { iz: 0, every: [1, 2] },
        ..Shot::default()
    }
}

fn bits(of: &Acoustic1Propagator, shot: &Shot) -> Vec<u32> {
    let (gather, _) = of.run_on_cpu(shot, &Team::new(2).unwrap(), &Silent).unwrap();
    assert!(gather.data.iter().any(|v| *v != 0.0), "nothing arrived");
    gather.data.iter().map(|v| v.to_bits()).collect()
}

/// A processor that can't fuse rounds what they stand for twice.
#[test]
fn sixteen_bits_are_the_values_that_they_stand_for() {
    if Isa::best() == Isa::Baseline && cfg!(not(target_arch = "aarch64")) {
        return;
    }
    let n = [11, 14, 23];
    let shot = shot(n, 75);
    let numbers = material(n, Storage::Bits16).coefficients(1e-3, Stencil::Taylor, false);
    let (values, whole) = (Acoustic1Propagator(numbers.expanded().into()), propagator(n));
    let numbers = Acoustic1Propagator(numbers.into());
    let found = bits(&numbers, &shot);
    assert_eq!(found, bits(&values, &shot));
    assert_ne!(found, bits(&whole, &shot));
}

#[test]
fn description_has_the_medium_of_the_cell() {
    let grid = Grid { n: [3, 4, 5], h: [10.0, 12.5, 8.0] };
    let vp = (0..grid.cells()).map(|i| 1500.0 + i as f32).collect();
    let rho = (0..grid.cells()).map(|i| 1000.0 + 7.0 * i as f32).collect();
    let c = Coefficients::new(&Model::new(grid, vp, Some(rho)).unwrap(), 1e-3, 8).unwrap();
    let equation = Acoustic1Propagator(c.into());
    // Cell (1, 2, 3) is number (2 * 3 + 1) * 5 + 3 = 38.
    let cfl = 1538.0 * 1e-3 * 1.28631 * (0.1_f64.powi(2) + 0.08_f64.powi(2) + 0.125_f64.powi(2)).sqrt();
    let medium = "vp is 1538.0 m/s, rho 1266.0 kg/m³";
    let expected = format!(
        "cell [1, 2, 3] (10 m, 25 m, 24 m), where {medium} and the CFL number {cfl:.3} (stable: up to 1)"
    );
    assert_eq!(equation.describe_cell([9, 10, 11]), expected);
    let beside = "the absorbing layer beside cell [0, 2, 4] (0 m, 25 m, 32 m)";
    assert!(equation.describe_cell([2, 10, 14]).starts_with(beside));
}
