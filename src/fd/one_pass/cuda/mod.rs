//! The step on a GPU, one launch of a CUDA kernel (`kernels/one_pass.cuh`). An equation adds a
//! [`CudaPolicy`] and a kernel file.

pub mod kernel_set;
mod medium;
pub mod params;
mod plan_kernels;
pub mod policy;
mod size;
mod steps;
pub mod tables;
pub mod tile_plan;

pub use self::medium::{shape, shared_bytes};
pub use self::size::{bytes, bytes_of_cells};

use self::medium::Medium;
use self::policy::CudaPolicy;
use self::steps::CudaOnePass;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;
use crate::fd::time_loop::block_shape::BlockShape;

/// Runs a shot that fits the policy's grid. `shape`: that of its blocks; `None`: autotuned.
pub fn run(
    policy: &impl CudaPolicy,
    shot: &Shot,
    shape: Option<BlockShape>,
    stream: &Stream,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let medium = stream.shared(policy.shared(), || Medium::new(policy, shape, stream, control))?;
    let steps = CudaOnePass::new(policy, &medium, shot, stream)?;
    time_loop::cuda::run(&medium.tables.layout, shot, &steps, stream, control)
}
