//! Interface of a shot's steps to the time loop on a GPU.

use super::field_kernels::PTX;
use super::launch::Address;
use crate::backend::cuda::{DeviceBuffer, Launches, Ptx};

/// Most steps of a batch.
pub const BATCH_STEPS: usize = 16;

/// A single static, because contexts know loaded kernels by the address of their text.
pub static KERNELS: Ptx = Ptx { name: "field", text: PTX };

/// Properties of a step that its launches depend on, besides its place in the batch.
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

    /// Returns all fields that a step passes to the next.
    fn fields(&self) -> &[DeviceBuffer<f32>];

    /// Returns the counter of the cells that the steps so far have skipped, one value.
    fn skipped(&self) -> &DeviceBuffer<u64>;

    /// Returns the field that has the pressure after a step.
    fn pressure(&self, step: usize) -> &DeviceBuffer<f32>;
}

/// Addresses of a batch's amplitudes, and of the rows of its samples.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub amplitudes: Address,
    pub samples: Address,
}
