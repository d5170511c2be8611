//! How a running shot reports to its caller, and how the caller stops and resumes it.
//!
//! A shot that stops between two steps leaves its [`State`], to go on later with the same bits: its fields and what it has
//! recorded, as float32 values in an order that depends on the kind of device and the sizes. Threads and tiles may be others.

use crate::error::Result;

/// The state of a shot between two steps. It is of use to a shot of the same plan, with the same kind and number of values.
pub trait State {
    /// Returns the kind of device on which the values were computed.
    fn kind(&self) -> String;
    /// Returns how many values there are.
    fn values(&self) -> u64;
    /// Gives all values in their order, in pieces.
    fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()>;
    /// Asks for all values in the same order.
    fn take(&mut self, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()>;
}

/// Callbacks of a running shot, on the thread that runs it.
pub trait Control {
    /// Called after step `step` of `nt`; an error ends the shot with it. With exact time, `nt` includes the steps after
    /// the end of the record.
    fn step(&self, _step: usize, _nt: usize) -> Result<()> {
        Ok(())
    }
    /// Takes the pressure over the model's grid after `step + 1` steps.
    fn snapshot(&self, _step: usize, _field: &[f32]) -> Result<()> {
        Ok(())
    }
    /// Called before the first step. Returns how many steps are done already, after it has loaded the fields of then
    /// into `state`. A kept state of another kind or size must not be loaded.
    fn resume(&self, _state: &mut dyn State) -> Result<usize> {
        Ok(0)
    }
    /// Returns whether the shot is to stop. Called after each step, on a GPU after every few.
    fn pauses(&self) -> bool {
        false
    }
    /// Returns what earlier shots found out about a subject on devices like this one. It may be any text.
    fn finding(&self, _subject: &str) -> Option<String> {
        None
    }
    /// Keeps what this shot found out, for later shots.
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
