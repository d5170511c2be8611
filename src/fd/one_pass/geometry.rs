//! Tables of a pass for a partition, cut to vectors. The coefficients and tiles are elsewhere.

use super::axis::{Axis, AxisFactors};
use super::coefficients::Coefficients;
use crate::fd::tiled::partition::Partition;

/// Tables that all shots of a plan share, besides the coefficients.
pub struct Geometry {
    /// (dt / h)² of x and y, in (s/m)².
    pub square: [f32; 2],
    /// (dt / h)² of z along a row; 0 where velocities are not eliminated.
    pub squares: Vec<f32>,
    /// Factors of each end of the rows along z; 0 outside the updated cells.
    pub near_and_far: [AxisFactors; 2],
}

impl Geometry {
    pub fn new(c: &Coefficients, partition: &Partition) -> Geometry {
        let (z, Partition { zones, ends, .. }) = (&c.axes[2], partition);
        let middle = |at: usize| zones[2].middle.contains(&(c.layout.active(2).start + at));
        let squares = (0..ends.len).map(|at| if middle(at) { z.rate * z.rate } else { 0.0 }).collect();
        let near_and_far = [0, 1].map(|end| {
            let all = |values: &[f32]| partition.along_z(&c.layout, values)[ends.pml(end)].to_vec();
            // Cells of the middle in these vectors have no such term.
            let split = |values: &[f32]| {
                let values = ends.pml(end).zip(all(values));
                values.map(|(at, value)| if middle(at) { 0.0 } else { value }).collect()
            };
            AxisFactors {
                keep: all(&z.factors.keep),
                velocity_rate: all(&z.factors.velocity_rate),
                loss: split(&z.factors.loss),
                pressure_rate: split(&z.factors.pressure_rate),
            }
        });
        Geometry { square: Axis::squares(&c.axes), squares, near_and_far }
    }
}
