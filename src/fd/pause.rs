//! What a shot leaves when it stops between two steps, to go on later with the same bits.
//!
//! That is its fields and what it has recorded so far: a row of float32 values, in an order that depends on the kind of
//! device and the sizes. All that is told by [`State::kind`]: a state is of use to a shot of the same plan, with the same
//! kind and number of values. Threads and tiles may be others.

use crate::error::Result;

/// The state of a shot between two steps.
pub trait State {
    /// Returns the kind of device on which the values were computed.
    fn kind(&self) -> String;
    /// How many values there are.
    fn values(&self) -> u64;
    /// Gives all values in their order, in pieces.
    fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()>;
    /// Asks for all values in the same order.
    fn take(&mut self, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()>;
}
