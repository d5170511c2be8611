//! The step of an equation on a GPU as one launch or two, whose blocks march along y through tiles
//! (`kernels/tile.cuh`). An equation adds a [`CudaEquation`] and a kernel file.

pub mod activity;
pub mod equation;
pub mod kernel_set;
mod medium;
mod size;
pub mod source;
mod steps;
pub mod tables;
pub mod tile_plan;

pub use self::medium::shared_bytes;
pub use self::size::{bytes, bytes_of_cells};

use self::equation::CudaEquation;
use self::medium::Medium;
use self::steps::MarchSteps;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;

/// Runs a shot that fits the equation's grid on a GPU.
pub fn run(
    equation: &impl CudaEquation,
    shot: &Shot,
    stream: &Stream,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let medium = stream.shared(equation.shared(), || Medium::new(equation, stream))?;
    let steps = MarchSteps::new(equation, &medium, shot, stream)?;
    time_loop::cuda::run(&medium.tile_plan.tables.layout, shot, &steps, stream, control).inspect_err(|_| {
        // The medium may be freed as soon as no shot uses it, so all kernels that read it must have
        // ended.
        let _ = stream.finish();
    })
}
