//! The propagator, which runs shots.

use super::cpu::VtiShot;
use super::material::VtiPropagator;
use crate::fd::equation::propagator::TiledPropagator;
use crate::fd::grid::layout::Layout;

impl TiledPropagator for VtiPropagator {
    type Shot<'a> = VtiShot<'a>;

    fn shot(&self, source: Option<[usize; 3]>) -> VtiShot<'_> {
        let source = source.filter(|_| self.isotropic_source);
        let ball = source.map(|source| self.anisotropy.ball(&self.bulk.layout, source));
        VtiShot { propagator: self, ball }
    }

    fn layout(&self) -> &Layout {
        &self.bulk.layout
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        self.bulk.kappa.value(&self.bulk.layout, cell)
    }

    fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        self.bulk.buoyancy(cell, axis)
    }
}
