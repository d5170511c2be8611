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
    /// Waits until all that was put on it is done.
    pub fn finish(self) -> Result<()> {
        match self {
            // What a team is given is done when the call returns.
            Lane::Cpu(_) => Ok(()),
            Lane::Cuda(stream) => stream.finish(),
        }
    }

    /// Memory was short: gives back what is kept for reuse.
    pub fn relieve(self) {
        match self {
            Lane::Cpu(_) => {}
            Lane::Cuda(stream) => stream.relieve(),
        }
    }
}
