//! The medium: P velocity and density on a grid.

use super::grid::Grid;
use crate::error::{Error, Result};

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

/// kg/m³, where a model has no density of its own.
pub const WATER: f32 = 1000.0;

impl Model {
    /// Fields over `grid` in the order `[iy][ix][iz]`. Refused: another number of values, and any
    /// value that is not positive and finite (the first one is named with its cell).
    pub fn new(grid: Grid, vp: Vec<f32>, rho: Option<Vec<f32>>) -> Result<Self> {
        let grid = Grid::new(grid.n, grid.h)?;
        check(&grid, "velocity", "m/s", &vp)?;
        if let Some(rho) = &rho {
            check(&grid, "density", "kg/m³", rho)?;
        }
        let slowest = vp.iter().copied().fold(f32::INFINITY, f32::min);
        let fastest = vp.iter().copied().fold(0.0, f32::max);
        Ok(Model { grid, vp, rho, vp_range: [slowest, fastest] })
    }

    /// Bytes of its fields.
    pub fn bytes(&self) -> u64 {
        let values = self.vp.len() + self.rho.as_ref().map_or(0, Vec::len);
        (values * size_of::<f32>()) as u64
    }
}

fn check(grid: &Grid, what: &str, unit: &str, values: &[f32]) -> Result<()> {
    let [nx, ny, nz] = grid.n;
    if values.len() != grid.cells() {
        return Err(Error::argument(
            format!("the number of {what} values"),
            values.len(),
            format!("{}, which is nx {nx} times ny {ny} times nz {nz}", grid.cells()),
        ));
    }
    let Some(bad) = values.iter().position(|v| !(v.is_finite() && *v > 0.0)) else {
        return Ok(());
    };
    let (ix, iy, iz) = (bad / nz % nx, bad / nz / nx, bad % nz);
    Err(Error::argument(
        format!("the {what} of cell ({ix}, {iy}, {iz})"),
        values[bad],
        format!("positive, finite {unit}"),
    ))
}
