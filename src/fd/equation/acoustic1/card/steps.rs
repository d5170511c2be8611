//! The steps of a shot on a card, as its time loop puts them on the queue.

use super::super::kernel::{self, Address, PTX};
use crate::backend::cuda::{Block, Launches, Ptx};

/// Steps of a leg.
pub const LEG: usize = 16;

/// One, as contexts know what they have loaded by where its text is.
pub static KERNELS: Ptx = Ptx { name: "acoustic1", text: PTX };

/// What a step launches: nothing else makes its launches others than those of any leg's step at its place.
#[derive(Clone, Copy, PartialEq)]
pub struct Step {
    pub odd: bool,
    /// There is a source.
    pub sounds: bool,
    /// A sample is kept.
    pub keeps: bool,
}

/// A form's steps, which there may be several ways to compute.
pub trait Steps {
    /// Which of them the next leg takes, and whether it is to be told how long that took.
    fn next(&self) -> (usize, bool) {
        (0, false)
    }

    /// How long a leg of [`LEG`] steps took.
    fn took(&self, _way: usize, _seconds: f64) {}

    /// The launches of the steps of a leg, whose amplitudes and samples lie there.
    fn launches(&self, way: usize, steps: &[Step], at: Buffers, to: &mut Launches);

    /// What the kernels that look at the pressure after a step are given.
    fn params(&self, step: usize) -> kernel::Params;

    /// All that a step leaves to the next.
    fn fields(&self) -> &[Block<f32>];

    /// The field that has the pressure after a step.
    fn pressure(&self, step: usize) -> &Block<f32>;
}

/// Where a leg has the amplitudes of its steps, and the rows of samples that it leaves.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub sounding: Address,
    pub samples: Address,
}
