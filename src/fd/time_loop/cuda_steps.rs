//! The steps of a shot on a GPU, as its time loop puts them on the queue.

use super::field_kernels::PTX;
use super::launch::Address;
use crate::backend::cuda::{DeviceBuffer, Launches, Ptx};
use crate::fd::control::Control;

/// Steps of a leg.
pub const LEG: usize = 16;

/// A single static, because contexts know loaded kernels by the address of their text.
pub static KERNELS: Ptx = Ptx { name: "field", text: PTX };

/// The properties of a step that its launches depend on, beside its place in the leg.
#[derive(Clone, Copy, PartialEq)]
pub struct Step {
    pub odd: bool,
    /// It has a source.
    pub sounds: bool,
    /// It records a sample.
    pub keeps: bool,
}

/// The steps of a shot, which there may be several ways to compute.
pub trait Steps {
    /// Returns the way that the next leg takes, and whether the leg is to be timed for [`took`](Steps::took).
    fn next(&self) -> (usize, bool) {
        (0, false)
    }

    /// Takes note of how long a leg of [`LEG`] steps took.
    fn took(&self, _way: usize, _seconds: f64) {}

    /// Appends the launches of the steps of a leg, whose amplitudes and samples lie at `at`.
    fn launches(&self, way: usize, steps: &[Step], at: Buffers, to: &mut Launches);

    /// Reports what the batches of the shot have measured.
    fn tell(&self, control: &dyn Control);

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, cell: [usize; 3]) -> String;

    /// Returns all fields that a step leaves to the next.
    fn fields(&self) -> &[DeviceBuffer<f32>];

    /// Returns the field that has the pressure after a step.
    fn pressure(&self, step: usize) -> &DeviceBuffer<f32>;
}

/// Where a leg has the amplitudes of its steps, and the rows of samples that it leaves.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub sounding: Address,
    pub samples: Address,
}
