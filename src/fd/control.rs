//! How a running shot reports to its caller, and how the caller stops and resumes it.

use super::pause::State;
use crate::error::Result;

/// Called by a running shot on the thread that runs it.
pub trait Control {
    /// After step `step` of `nt`; an error ends the shot with it. With exact time the last comes again, for each step
    /// after the end.
    fn step(&self, _step: usize, _nt: usize) -> Result<()> {
        Ok(())
    }
    /// The pressure over the model's grid after `step + 1` steps.
    fn snapshot(&self, _step: usize, _field: &[f32]) -> Result<()> {
        Ok(())
    }
    /// Before the first step: how many steps are done already, with the state of then taken. Nothing may be taken of one
    /// that is of another kind or size.
    fn resume(&self, _state: &mut dyn State) -> Result<usize> {
        Ok(0)
    }
    /// After each step, on a card after each few: whether the shot is to stop.
    fn pauses(&self) -> bool {
        false
    }
    /// What earlier shots have found out about something on devices like this one. It may be any text.
    fn finding(&self, _subject: &str) -> Option<String> {
        None
    }
    /// What this shot has found out, for those after it.
    fn found(&self, _subject: &str, _finding: &str) {}
    /// It has stopped after so many steps, and ends with [`Error::Cancelled`].
    fn pause(&self, _done: usize, _state: &mut dyn State) -> Result<()> {
        Ok(())
    }
}

/// Nobody looks on.
pub struct Silent;

impl Control for Silent {}
