//! Propagators whose shots are computed tile by tile, on CPUs and on GPUs.

use super::traits::Propagator;
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::march;
use crate::fd::march::equation::CudaEquation;
use crate::fd::model::WATER;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::tiled;
use crate::fd::tiled::equation::TiledEquation;

/// An equation in a medium, with a time step.
pub trait TiledPropagator: Send + Sync {
    /// The equation for one shot.
    type Shot<'a>: CudaEquation
    where
        Self: 'a;

    /// Returns the equation for a shot whose source is at a padded cell; `None`: to count bytes.
    fn shot(&self, source: Option<[usize; 3]>) -> Self::Shot<'_>;

    /// See [`Propagator`]; so for all below.
    fn layout(&self) -> &Layout;

    fn modulus(&self, cell: [usize; 3]) -> f64;

    fn buoyancy(&self, _cell: [usize; 3], _axis: usize) -> f64 {
        1.0 / f64::from(WATER)
    }

    fn increment_factor(&self) -> f64 {
        1.0
    }
}

impl<P: TiledPropagator> Propagator for P {
    fn layout(&self) -> &Layout {
        TiledPropagator::layout(self)
    }

    fn bytes(&self) -> u64 {
        self.shot(None).fields().into_iter().map(EdgeField::bytes).sum()
    }

    fn field_bytes(&self) -> u64 {
        self.shot(None).field_bytes().saturating_add(P::Shot::OWN_BYTES)
    }

    fn thread_bytes(&self, threads: usize) -> u64 {
        self.shot(None).thread_bytes(threads)
    }

    fn gpu_bytes(&self, shot: &Shot) -> u64 {
        march::bytes(&self.shot(None), shot)
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        march::shared_bytes(self.shot(None).shared(), stream)
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        TiledPropagator::modulus(self, cell)
    }

    fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        TiledPropagator::buoyancy(self, cell, axis)
    }

    fn increment_factor(&self) -> f64 {
        TiledPropagator::increment_factor(self)
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        tiled::run(&self.shot(Some(shot.padded_source(self.layout().pml))), shot, team, control)
    }

    fn run_on_gpu(&self, shot: &Shot, stream: &Stream, control: &dyn Control) -> Result<(Gather, Effort)> {
        march::run(&self.shot(Some(shot.padded_source(self.layout().pml))), shot, stream, control)
    }
}
