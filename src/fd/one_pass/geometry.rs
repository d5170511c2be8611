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
    pub fn new(c: &Coefficients, Partition { zones, ends, .. }: &Partition) -> Geometry {
        let layout = &c.layout;
        let z = &c.axes[2];
        let active = layout.active(2);
        let middle = |at: usize| zones[2].middle.contains(&(active.start + at));
        let squares = (0..ends.len).map(|at| if middle(at) { z.rate * z.rate } else { 0.0 }).collect();
        let near_and_far = [0, 1].map(|end| {
            // Beyond the updated cells all factors are 0.
            let of = |values: &[f32], only: &dyn Fn(usize) -> bool| -> Vec<f32> {
                let value = |at: usize| {
                    let moves = only(at) && active.contains(&(active.start + at));
                    if moves { values[active.start + at] } else { 0.0 }
                };
                ends.pml(end).map(value).collect()
            };
            // Cells of the middle in these vectors have no such term.
            let split = |at: usize| !middle(at);
            AxisFactors {
                keep: of(&z.factors.keep, &|_| true),
                velocity_rate: of(&z.factors.velocity_rate, &|_| true),
                loss: of(&z.factors.loss, &split),
                pressure_rate: of(&z.factors.pressure_rate, &split),
            }
        });
        Geometry { square: Axis::squares(&c.axes), squares, near_and_far }
    }
}
