//! A regular grid, its memory layout with absorbing layers, and its division into zones and tiles.

pub mod layout;
pub mod tile_table;
pub mod zones;

use crate::error::{Error, Result};

/// Numbers of cells and spacings along x, y and z.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// Cells, without the absorbing layer.
    pub n: [usize; 3],
    /// Cell spacing in m, as float32: the arithmetic of the old kernels depends on it.
    pub h: [f32; 3],
}

pub const AXES: [&str; 3] = ["x", "y", "z"];

/// Smallest spacing in m. With it float32 holds the time step of any accepted velocity.
pub const CLOSEST: f32 = 1e-6;

impl Grid {
    /// Makes a grid of 1 to 100 000 cells along each axis, with finite spacings of at least
    /// [`CLOSEST`].
    ///
    /// # Errors
    /// Any other number of cells or spacing.
    pub fn new(n: [usize; 3], h: [f32; 3]) -> Result<Self> {
        for axis in 0..3 {
            let name = AXES[axis];
            if !(1..=100_000).contains(&n[axis]) {
                return Err(Error::argument(format!("n{name}"), n[axis], "1 to 100000 cells"));
            }
            if !(h[axis].is_finite() && h[axis] >= CLOSEST) {
                let accepted = format!("a finite number of metres, at least {CLOSEST}");
                return Err(Error::argument(format!("d{name}"), h[axis], accepted));
            }
        }
        Ok(Grid { n, h })
    }

    /// Returns the number of cells: at most 10^15, so 64 bits hold every index and every size in
    /// bytes.
    pub fn cells(&self) -> usize {
        self.n[0] * self.n[1] * self.n[2]
    }

    /// Returns the position of cell (x, y, z) in an array over this grid.
    pub fn index(&self, at: [usize; 3]) -> usize {
        (at[1] * self.n[0] + at[0]) * self.n[2] + at[2]
    }

    /// Returns the largest stable time step in seconds, `1 / (c v sqrt(1/dx² + 1/dy² + 1/dz²))`, in double. `courant`: `c`, that
    /// of the derivatives; `velocity`: `v`, the fastest in m/s.
    pub fn stable_step(&self, courant: f64, velocity: f64) -> f64 {
        let inverse: f64 = self.h.iter().map(|&h| f64::from(h).powi(-2)).sum();
        1.0 / (courant * velocity * inverse.sqrt())
    }

    pub fn contains(&self, at: [usize; 3]) -> bool {
        (0..3).all(|axis| at[axis] < self.n[axis])
    }
}
