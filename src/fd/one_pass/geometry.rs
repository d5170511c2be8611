//! What a pass needs beside the coefficients: the zones of the axes, the tiles, and tables that are cut to vectors.

use super::coefficients::Coefficients;
use super::partition::Partition;
use super::tuning::tuning_steps;
use crate::fd::grid::zones::{Ends, Zones};

/// What all shots of a plan share beside the coefficients.
pub struct Geometry {
    pub partition: Partition,
    /// (dt / h)² of x and y.
    pub square: [f32; 2],
    /// The same along a row, 0 where the term is not eliminated.
    pub squares: Vec<f32>,
    pub near_and_far: [EndTables; 2],
}

/// Rows along x of the tiles that are tried, the default first. Fewer rows leave more of a core's own cache to each, and
/// mean more rows beside the tile.
pub const ROWS: [usize; 4] = [32, 48, 24, 96];
/// Steps after which any shot has found its tile size.
pub const TUNING_STEPS: usize = tuning_steps(ROWS.len());
/// Planes along y of a tile, at most. A tile computes seven planes of fluxes more, so it is long if there are tiles enough
/// for all threads.
const PLANES: usize = 512;

/// An end of the rows along z, as long as what is kept there: tables as those of an axis, 0 where there is nothing.
pub struct EndTables {
    pub keep: Vec<f32>,
    pub velocity_rate: Vec<f32>,
    pub loss: Vec<f32>,
    pub pressure_rate: Vec<f32>,
}

impl Geometry {
    /// For so many threads.
    pub fn new(c: &Coefficients, threads: usize) -> Geometry {
        Geometry::in_tiles(c, threads, &ROWS.map(|rows| [rows, PLANES]))
    }

    /// In tiles of at most so many rows along x and planes along y. Sizes that give the tiles of an earlier one are left out.
    pub fn in_tiles(c: &Coefficients, threads: usize, sizes: &[[usize; 2]]) -> Geometry {
        let layout = &c.layout;
        let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let ends = Ends::new(layout, &zones[2]);
        let z = &c.axes[2];
        let square = [0, 1].map(|axis: usize| c.axes[axis].rate * c.axes[axis].rate);
        let active = layout.active(2);
        let middle = |at: usize| zones[2].middle.contains(&(active.start + at));
        let squares = (0..ends.len).map(|at| if middle(at) { z.rate * z.rate } else { 0.0 }).collect();
        let near_and_far = [0, 1].map(|end| {
            // Beyond the updated cells nothing moves.
            let of = |values: &[f32], only: &dyn Fn(usize) -> bool| -> Vec<f32> {
                let value = |at: usize| {
                    let moves = only(at) && active.contains(&(active.start + at));
                    if moves { values[active.start + at] } else { 0.0 }
                };
                ends.pml(end).map(value).collect()
            };
            // The middle's cells in these vectors have no such term.
            let split = |at: usize| !middle(at);
            EndTables {
                keep: of(&z.keep, &|_| true),
                velocity_rate: of(&z.velocity_rate, &|_| true),
                loss: of(&z.loss, &split),
                pressure_rate: of(&z.pressure_rate, &split),
            }
        });
        let partition = Partition::new(zones, ends, threads, sizes);
        Geometry { partition, square, squares, near_and_far }
    }
}
