//! The steps of a shot on a GPU, as its time loop puts them on the queue.

use super::field_kernels::PTX;
use super::launch::Address;
use crate::backend::cuda::{DeviceBuffer, Launches, Ptx};

/// Steps of a batch.
pub const BATCH_STEPS: usize = 16;

/// A single static, because contexts know loaded kernels by the address of their text.
pub static KERNELS: Ptx = Ptx { name: "field", text: PTX };

/// The properties of a step that its launches depend on, beside its place in the batch.
#[derive(Clone, Copy, PartialEq)]
pub struct StepKind {
    pub odd: bool,
    /// It has a source.
    pub has_source: bool,
    /// It records a sample.
    pub records: bool,
}

/// The steps of a shot.
pub trait CudaSteps {
    /// Appends the launches of the steps of a batch, whose amplitudes and samples lie at `at`.
    fn launches(&self, steps: &[StepKind], at: Buffers, to: &mut Launches);

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, cell: [usize; 3]) -> String;

    /// Returns all fields that a step leaves to the next.
    fn fields(&self) -> &[DeviceBuffer<f32>];

    /// Returns the field that has the pressure after a step.
    fn pressure(&self, step: usize) -> &DeviceBuffer<f32>;
}

/// Where a batch has the amplitudes of its steps, and the rows of samples that it leaves.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub amplitudes: Address,
    pub samples: Address,
}
