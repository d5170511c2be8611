//! The queue of a slot as the code of a task has it.

use super::cpu::Team;
use super::cuda::Stream;
use crate::error::Result;

/// The concrete queue of a slot: what a propagator needs to launch its kernels.
#[derive(Clone, Copy)]
pub enum Lane<'a> {
    Cpu(&'a Team),
    Cuda(&'a Stream),
}

impl Lane<'_> {
    /// Waits until all work on it is done.
    pub fn finish(self) -> Result<()> {
        match self {
            // A team's work is done when the call returns.
            Lane::Cpu(_) => Ok(()),
            Lane::Cuda(stream) => stream.finish(),
        }
    }

    /// Frees the memory that is kept for reuse, after an allocation failed.
    pub fn relieve(self) {
        match self {
            Lane::Cpu(_) => {}
            Lane::Cuda(stream) => stream.relieve(),
        }
    }
}
