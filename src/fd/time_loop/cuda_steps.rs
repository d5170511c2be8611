//! The steps of a shot on a GPU, as its time loop puts them on the queue.

use super::field_kernels::PTX;
use super::launch::Address;
use crate::backend::cuda::{DeviceBuffer, Launches, Ptx};
use crate::fd::control::Control;

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

/// The steps of a shot, which there may be several candidates to compute.
pub trait CudaSteps {
    /// Returns the candidate that the next batch takes, and whether the batch is to be timed for [`took`](Steps::took).
    fn next(&self) -> (usize, bool) {
        (0, false)
    }

    /// Takes note of how long a batch of [`BATCH_STEPS`] steps took.
    fn took(&self, _candidate: usize, _seconds: f64) {}

    /// Appends the launches of the steps of a batch, whose amplitudes and samples lie at `at`.
    fn launches(&self, candidate: usize, steps: &[StepKind], at: Buffers, to: &mut Launches);

    /// Reports what the batches of the shot have measured.
    fn tell(&self, control: &dyn Control);

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
