//! Callbacks by which a running shot reports to its caller, and by which the caller stops and
//! resumes it.
//!
//! A shot that stops between two steps writes its [`State`]: its fields and its record so far, as
//! float32 values. A shot that resumes from it computes the same bits. The order of the values
//! depends on the kind of device and the sizes, not on the numbers of threads and tiles.

use crate::error::Result;

/// Version of the values of [`State`]s: their number, order and meaning. It is raised with every
/// change of these. A caller that keeps states compares it.
pub const STATE_LAYOUT: u32 = 3;

/// State of a shot between two steps. Only a shot of the same plan, with the same kind and number
/// of values, can resume from it.
pub trait State {
    /// Returns the kind of device on which the values were computed.
    fn kind(&self) -> String;
    /// Returns the number of values.
    fn values(&self) -> u64;
    /// Passes all values in their order, in pieces, to `to`.
    fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()>;
    /// Loads all values of a state after `done` steps in the same order, in pieces that `from` fills.
    fn take(&mut self, done: usize, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()>;
}

/// Callbacks of a running shot, on the thread that runs it.
pub trait Control {
    /// Called after step `step` of `nt`; an error ends the shot with it. With exact time, `nt`
    /// includes the steps after the end of the record.
    fn step(&self, _step: usize, _nt: usize) -> Result<()> {
        Ok(())
    }
    /// Called with the pressure over the model's grid after `step + 1` steps.
    fn snapshot(&self, _step: usize, _field: &[f32]) -> Result<()> {
        Ok(())
    }
    /// Called before the first step. To resume, loads the fields of an earlier state into `state`,
    /// and returns the number of steps done until then. It must not load a state of another kind or
    /// size.
    fn resume(&self, _state: &mut dyn State) -> Result<usize> {
        Ok(0)
    }
    /// Returns true if the shot is to stop. Called after each step, on a GPU after every few.
    fn pauses(&self) -> bool {
        false
    }
    /// Returns the finding of earlier shots about a subject on devices like this one. It may be any
    /// text.
    fn finding(&self, _subject: &str) -> Option<String> {
        None
    }
    /// Stores a finding of this shot for later shots.
    fn found(&self, _subject: &str, _finding: &str) {}
    /// Called when the shot has stopped after `done` steps; it ends with
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    fn pause(&self, _done: usize, _state: &mut dyn State) -> Result<()> {
        Ok(())
    }
}

/// Ignores all callbacks.
pub struct Silent;

impl Control for Silent {}
