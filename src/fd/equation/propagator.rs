//! Propagators whose shots are computed tile by tile, on CPUs and on GPUs.

use super::traits::Propagator;
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::edge_field::EdgeField;
use crate::fd::march;
use crate::fd::march::equation::CudaEquation;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::tiled;
use crate::fd::tiled::equation::TiledEquation;

impl<E: CudaEquation> Propagator for E {
    fn bytes(&self) -> u64 {
        self.fields().into_iter().map(EdgeField::bytes).sum()
    }

    fn field_bytes(&self) -> u64 {
        TiledEquation::field_bytes(self).saturating_add(E::OWN_BYTES)
    }

    fn thread_bytes(&self, threads: usize) -> u64 {
        TiledEquation::thread_bytes(self, threads)
    }

    fn gpu_bytes(&self, shot: &Shot, nt: usize) -> u64 {
        march::bytes(self, shot, nt)
    }

    fn gpu_bytes_of_cells(&self, n: [usize; 3]) -> u64 {
        march::bytes_of_cells(self, n)
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        march::shared_bytes(self.shared(), stream)
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        tiled::run(&self.around(shot.padded_source(self.layout().pml)), shot, team, control)
    }

    fn run_on_gpu(&self, shot: &Shot, stream: &Stream, control: &dyn Control) -> Result<(Gather, Effort)> {
        march::run(&self.around(shot.padded_source(self.layout().pml)), shot, stream, control)
    }
}
