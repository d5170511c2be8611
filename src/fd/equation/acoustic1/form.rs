//! How a step is computed on the CPU.

use super::layout::Layout;
use super::{one_pass, two_sweeps};

/// Both give the same records but for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All velocities, then the pressure.
    TwoSweeps,
    /// The pressure alone, its velocities eliminated where nothing is damped.
    OnePass,
}

impl Form {
    pub const ALL: [Form; 2] = [Form::TwoSweeps, Form::OnePass];

    pub fn name(self) -> &'static str {
        match self {
            Form::TwoSweeps => "two-sweeps",
            Form::OnePass => "one-pass",
        }
    }

    /// Bytes of the fields of a shot.
    pub fn field_bytes(self, layout: &Layout) -> u64 {
        match self {
            Form::TwoSweeps => two_sweeps::Fields::bytes(layout),
            Form::OnePass => one_pass::Fields::bytes(layout),
        }
    }
}
