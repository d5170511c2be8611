//! Whole shots on the CPU with 16-bit coefficients.

use super::{Acoustic1Propagator, BulkMaterial};
use crate::backend::cpu::Team;
use crate::fd::control::Silent;
use crate::fd::equation::traits::Propagator;
use crate::fd::grid::Grid;
use crate::fd::model::Model;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::vector::isa::Isa;
use crate::fd::wavelet::{Shape, Wavelet};

/// A processor that can't fuse rounds what they stand for twice.
#[test]
fn sixteen_bits_are_the_values_that_they_stand_for() {
    if Isa::best() == Isa::Baseline && cfg!(not(target_arch = "aarch64")) {
        return;
    }
    let grid = Grid { n: [11, 14, 23], h: [10.0, 11.0, 9.0] };
    let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
    let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
    let model = Model::new(grid, vp, Some(rho)).unwrap();
    let [whole, numbers] = Storage::ALL
        .map(|storage| BulkMaterial::new(&model, 9, storage).unwrap())
        .map(|material| material.coefficients(1e-3, Stencil::Taylor, false));
    let shot = Shot {
        source: [5, 7, 11],
        wavelet: Wavelet::new(Shape::Ricker, 30.0, 1e-3, 75).unwrap(),
        amplitude: 10_000.0,
        nt: 75,
        receivers: Receivers::Plane { iz: 0, every: [1, 2] },
        ..Shot::default()
    };
    let values = numbers.expanded();
    let [found, values, whole] = [numbers, values, whole].map(|c| {
        let (propagator, team) = (Acoustic1Propagator(c.into()), Team::new(2).unwrap());
        let (gather, _) = propagator.run_on_cpu(&shot, &team, &Silent).unwrap();
        gather.data.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    });
    assert!(found.iter().any(|v| *v != 0), "nothing arrived");
    assert_eq!(found, values);
    assert_ne!(found, whole);
}
