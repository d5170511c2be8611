//! The medium: P velocity and density on a grid.

use std::ops::Deref;

use super::grid::Grid;
use crate::error::{Error, Result};

/// Checked when made: every value positive and finite.
#[derive(Debug)]
pub struct Model {
    pub outline: Outline,
    /// m/s, over the grid.
    pub vp: Vec<f32>,
    /// kg/m³ over the grid. `None`: 1000 everywhere.
    pub rho: Option<Vec<f32>>,
}

/// What is still asked of a model when its fields have become coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outline {
    pub grid: Grid,
    /// Slowest and fastest velocity in m/s.
    pub vp_range: [f32; 2],
    /// Of cell (0, 0, 0): the direct wave is muted by it.
    pub vp_first: f32,
}

impl Deref for Model {
    type Target = Outline;

    fn deref(&self) -> &Outline {
        &self.outline
    }
}

/// kg/m³, where a model has no density of its own.
pub const WATER: f32 = 1000.0;

impl Model {
    /// Fields over `grid` in the order `[iy][ix][iz]`. Refused: another number of values, and any
    /// value that is not positive and finite, or so extreme that 1/rho or rho vp² is zero or infinite in
    /// float32 (the first one is named with its cell).
    pub fn new(grid: Grid, vp: Vec<f32>, rho: Option<Vec<f32>>) -> Result<Self> {
        let grid = Grid::new(grid.n, grid.h)?;
        check(&grid, "velocity", "m/s", &vp)?;
        if let Some(rho) = &rho {
            check(&grid, "density", "kg/m³", rho)?;
        }
        let density = |at: usize| rho.as_ref().map_or(WATER, |rho| rho[at]);
        let modulus = |at: usize| density(at) * vp[at] * vp[at];
        let fits = |at: &usize| modulus(*at).is_normal() && (1.0 / density(*at)).is_normal();
        if let Some(bad) = (0..vp.len()).find(|at| !fits(at)) {
            let value = format!("{:e} kg/m³ with {:e} m/s", density(bad), vp[bad]);
            let what = format!("the medium of cell {}", cell(&grid, bad));
            return Err(Error::argument(what, value, "values whose 1/rho and rho vp² float32 can hold"));
        }
        let slowest = vp.iter().copied().fold(f32::INFINITY, f32::min);
        let fastest = vp.iter().copied().fold(0.0, f32::max);
        let outline = Outline { grid, vp_range: [slowest, fastest], vp_first: vp[0] };
        Ok(Model { outline, vp, rho })
    }
}

/// The cell at a position in a field, in words.
fn cell(grid: &Grid, at: usize) -> String {
    let [nx, _, nz] = grid.n;
    format!("({}, {}, {})", at / nz % nx, at / nz / nx, at % nz)
}

fn check(grid: &Grid, what: &str, unit: &str, values: &[f32]) -> Result<()> {
    if values.len() != grid.cells() {
        let [nx, ny, nz] = grid.n;
        return Err(Error::argument(
            format!("the number of {what} values"),
            values.len(),
            format!("{}, which is nx {nx} times ny {ny} times nz {nz}", grid.cells()),
        ));
    }
    let Some(bad) = values.iter().position(|v| !(v.is_finite() && *v > 0.0)) else {
        return Ok(());
    };
    Err(Error::argument(
        format!("the {what} of cell {}", cell(grid, bad)),
        values[bad],
        format!("positive, finite {unit}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A modulus of zero would give a record of zeros, and no error.
    #[test]
    fn a_medium_that_float32_can_not_hold_is_refused_with_its_cell() {
        let grid = Grid { n: [1, 1, 2], h: [10.0; 3] };
        for (vp, rho) in [(1e-30, 1e3), (1e30, 1e3), (1500.0, 1e-40), (1.0, 3e38)] {
            let refused = Model::new(grid, vec![1500.0, vp], Some(vec![1e3, rho]));
            let why = refused.map(drop).unwrap_err().to_string();
            assert!(why.contains("cell (0, 0, 1)") && why.contains("float32"), "{why}");
        }
        assert!(Model::new(grid, vec![1500.0, 1e-30], None).is_err());
        assert!(Model::new(grid, vec![1e-6, 1e6], Some(vec![1e-6, 1e6])).is_ok());
    }
}
