//! The zones and tiles of a sweep, and its factors along z in whole vectors.

use crate::fd::equation::tti::coefficients::TtiCoefficients;
use crate::fd::grid::zones::{Ends, Zones};
use crate::fd::one_pass::partition::Partition;
use crate::fd::one_pass::tuning::tuning_steps;

/// Rows along x of the tiles that are tried, the default first. The queue of fluxes of a tile should fit a core's own cache.
pub const ROWS: [usize; 4] = [16, 24, 32, 12];
/// Steps after which any shot has found its tile size.
pub const TUNING_STEPS: usize = tuning_steps(ROWS.len());
/// Planes along y of a tile, at most.
const PLANES: usize = 512;

pub struct TtiGeometry {
    pub partition: Partition,
    /// (dt / h)² of x and y.
    pub squares: [f32; 2],
    /// The damping along z from the first updated cell on; 0 beyond the last.
    pub keep: Vec<f32>,
    pub velocity_rate: Vec<f32>,
    pub pressure_rate: Vec<f32>,
    pub loss: Vec<f32>,
}

impl TtiGeometry {
    /// For so many threads.
    pub fn new(c: &TtiCoefficients, threads: usize) -> TtiGeometry {
        TtiGeometry::in_tiles(c, threads, &ROWS.map(|rows| [rows, PLANES]))
    }

    /// In tiles of at most so many rows along x and planes along y.
    pub fn in_tiles(c: &TtiCoefficients, threads: usize, sizes: &[[usize; 2]]) -> TtiGeometry {
        let layout = &c.layout;
        let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let ends = Ends::new(layout, &zones[2]);
        let along_z = |values: &[f32]| {
            let mut values = values[layout.active(2)].to_vec();
            values.resize(ends.len, 0.0);
            values
        };
        let z = &c.axes[2];
        TtiGeometry {
            squares: [0, 1].map(|axis: usize| c.axes[axis].rate * c.axes[axis].rate),
            keep: along_z(&z.keep),
            velocity_rate: along_z(&z.velocity_rate),
            pressure_rate: along_z(&z.pressure_rate),
            loss: along_z(&z.loss),
            partition: Partition::new(zones, ends, threads, sizes),
        }
    }
}
