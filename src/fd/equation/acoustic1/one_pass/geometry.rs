//! What a pass needs beside the coefficients: the zones of the axes, and tables along z that are cut to vectors.

use super::super::coefficients::Coefficients;
use super::zones::{Ends, Zones};

/// What all shots of a plan share beside the coefficients.
pub struct Geometry {
    pub zones: [Zones; 3],
    pub ends: Ends,
    /// (dt / h)² of x and y.
    pub square: [f32; 2],
    /// The same along a row, 0 where the term is not eliminated.
    pub squares: Vec<f32>,
    pub near_and_far: [End; 2],
}

/// An end of the rows along z.
pub struct End {
    /// Of the velocities that are kept, as the fields of [`Axis`](super::super::coefficients::Axis).
    pub keep: Vec<f32>,
    pub velocity_rate: Vec<f32>,
    /// Of the pressures with a term of theirs; 0 where it is eliminated.
    pub loss: Vec<f32>,
    pub pressure_rate: Vec<f32>,
}

impl Geometry {
    pub fn new(c: &Coefficients) -> Geometry {
        let layout = &c.layout;
        let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let ends = Ends::new(layout, &zones[2]);
        let first = layout.active(2).start;
        let z = &c.axes[2];
        let square = [0, 1].map(|axis: usize| c.axes[axis].rate * c.axes[axis].rate);
        let middle = |at: usize| zones[2].middle.contains(&(first + at));
        let squares = (0..ends.len).map(|at| if middle(at) { z.rate * z.rate } else { 0.0 }).collect();
        let near_and_far = [0, 1].map(|end| {
            let active = layout.active(2);
            // Beyond the updated cells nothing moves.
            let of = |values: &[f32], count: usize, only: &dyn Fn(usize) -> bool| -> Vec<f32> {
                let begin = ends.from(end, count);
                let at = |at: usize| {
                    if only(at) && active.contains(&(first + at)) { values[first + at] } else { 0.0 }
                };
                (begin..begin + count).map(at).collect()
            };
            // In the middle between two ends that are one, a cell belongs to neither.
            let split = |at: usize| !middle(at);
            End {
                keep: of(&z.keep, ends.kept[end], &|_| true),
                velocity_rate: of(&z.velocity_rate, ends.kept[end], &|_| true),
                loss: of(&z.loss, ends.split[end], &split),
                pressure_rate: of(&z.pressure_rate, ends.split[end], &split),
            }
        });
        Geometry { zones, ends, square, squares, near_and_far }
    }
}
