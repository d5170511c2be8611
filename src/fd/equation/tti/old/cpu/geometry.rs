//! The factors of a sweep along z in whole vectors.

use crate::fd::equation::tti::old::coefficients::OldOperators;
use crate::fd::equation::tti::propagator::TiltedCoefficients;
use crate::fd::tiled::partition::Partition;

pub struct OldTtiGeometry {
    /// (dt / h)² of x and y.
    pub squares: [f32; 2],
    /// The damping [along z](Partition::along_z).
    pub keep: Vec<f32>,
    pub velocity_rate: Vec<f32>,
    pub pressure_rate: Vec<f32>,
    pub loss: Vec<f32>,
}

impl OldTtiGeometry {
    pub fn new(c: &TiltedCoefficients<4, OldOperators>, partition: &Partition) -> OldTtiGeometry {
        let along_z = |values: &[f32]| partition.along_z(&c.layout, values);
        let OldOperators { axes, .. } = &c.operators;
        let z = &axes[2];
        OldTtiGeometry {
            squares: [0, 1].map(|axis: usize| axes[axis].rate * axes[axis].rate),
            keep: along_z(&z.keep),
            velocity_rate: along_z(&z.velocity_rate),
            pressure_rate: along_z(&z.pressure_rate),
            loss: along_z(&z.loss),
        }
    }
}
