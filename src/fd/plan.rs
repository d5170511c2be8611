//! How a model is run with a time step: regions, coefficients, memory. The plan decides
//! the form of the computation; its users do not see it.

use std::sync::Arc;

use super::model::Model;
use super::survey::Shot;
use crate::error::Result;

/// Made once for a model and a time step, shared by all shots and threads.
pub struct Plan {
    pub model: Arc<Model>,
    pub dt: f32,
}

/// What a plan may vary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Cells of absorbing layer on each side; 20 in the old kernel.
    pub pml: usize,
    /// Take a `dt` beyond the stable limit all the same, as the old kernel did.
    pub allow_unstable: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { pml: 20, allow_unstable: false }
    }
}

impl Plan {
    pub fn new(model: Arc<Model>, dt: f32, options: Options) -> Result<Plan> {
        let _ = options;
        Ok(Plan { model, dt })
    }

    /// Cells, the absorbing layer included.
    pub fn padded_cells(&self) -> usize {
        0
    }

    /// Device memory that one shot takes at its peak: fields, record, snapshot; and the coefficients
    /// that all shots on a device share.
    pub fn shot_bytes(&self, shot: &Shot) -> u64 {
        let _ = shot;
        0
    }

    /// Refuses a shot that does not fit this plan's grid, naming what does not.
    pub fn check(&self, shot: &Shot) -> Result<()> {
        let _ = shot;
        Ok(())
    }
}
