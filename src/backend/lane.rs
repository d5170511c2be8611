//! The queue of a slot, as a task's code uses it.

use super::cpu::{Team, free_bytes};
use super::cuda::Stream;
use crate::error::Result;

/// The queue of a slot, by kind of device. A propagator launches its kernels on it.
#[derive(Clone, Copy)]
pub enum Lane<'a> {
    Cpu(&'a Team),
    Cuda(&'a Stream),
}

impl Lane<'_> {
    /// Waits until all work on the queue is done.
    pub fn finish(self) -> Result<()> {
        match self {
            // A team has done its work when the call returns.
            Lane::Cpu(_) => Ok(()),
            Lane::Cuda(stream) => stream.finish(),
        }
    }

    /// Frees the memory that is cached for reuse, after an allocation failed.
    pub fn relieve(self) {
        match self {
            Lane::Cpu(_) => {}
            Lane::Cuda(stream) => stream.relieve(),
        }
    }

    /// Returns the bytes that could be allocated now.
    pub fn free_bytes(self) -> u64 {
        match self {
            Lane::Cpu(_) => free_bytes(),
            Lane::Cuda(stream) => stream.free_bytes(),
        }
    }
}
