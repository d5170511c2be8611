//! The step on a GPU, one launch of a CUDA kernel.

pub mod kernel;
mod kernels;
mod medium;
mod size;
mod steps;
pub mod tables;

use std::sync::Arc;

pub use self::medium::{shape, shared_bytes};
pub use self::size::{bytes, bytes_of_cells};

use self::medium::Medium;
use self::steps::CudaOnePass;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;
use crate::fd::time_loop::block_shape::BlockShape;

/// Runs a shot that fits the coefficients' grid. `shape`: that of its blocks; `None`: autotuned.
pub fn run(
    c: &Arc<Coefficients>,
    shot: &Shot,
    shape: Option<BlockShape>,
    stream: &Stream,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let medium = stream.shared(c, || Medium::new(c, shape, stream, control))?;
    let steps = CudaOnePass::new(c, &medium, shot, stream)?;
    time_loop::cuda::run(&medium.tables.layout, shot, &steps, stream, control)
}
