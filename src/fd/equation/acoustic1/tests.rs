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
