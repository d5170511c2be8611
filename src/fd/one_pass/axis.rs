//! Factors that depend on the index along one axis only.

use crate::fd::grid::layout::with_room;
use crate::fd::model::Outline;
use crate::fd::pml::{Profiles, d0};
use crate::fd::vector::lanes::WIDEST;

/// Factors of an axis.
pub struct Axis {
    /// dt / h in s/m, for cells where nothing is damped.
    pub rate: f32,
    /// Factors of each padded index.
    pub factors: AxisFactors,
}

/// Factors of the PML for each index of an axis, [with room](with_room) for whole vectors.
pub struct AxisFactors {
    /// `b` of the velocity's profile: the factor on the old velocity.
    pub keep: Vec<f32>,
    /// `a` of the velocity's profile times dt / h.
    pub velocity_rate: Vec<f32>,
    /// `b - 1` of the pressure's profile: the factor on the old split pressure in its increment.
    pub loss: Vec<f32>,
    /// `a` of the pressure's profile times dt / h.
    pub pressure_rate: Vec<f32>,
}

impl Axis {
    /// Computes the factors of x, y and z. `dt`: time step in s; `h`: metres of the rates;
    /// `reference`: velocity in m/s that sets the damping by the old rules, see [`d0`].
    pub fn of_model(
        model: &Outline,
        pml: usize,
        dt: f32,
        h: [f32; 3],
        reference: f32,
        old_rules: bool,
    ) -> [Axis; 3] {
        let reference = if old_rules { reference } else { model.fastest };
        [0, 1, 2].map(|axis| {
            let d0 = d0(reference, pml, model.grid.h, axis, old_rules);
            let Profiles { velocity, pressure } = Profiles::new(model.grid.n[axis], pml, dt, d0);
            let rate = dt / h[axis];
            let times_rate = |a: Vec<f32>| with_room(a.into_iter().map(|a| a * rate).collect());
            let factors = AxisFactors {
                keep: with_room(velocity.b),
                velocity_rate: times_rate(velocity.a),
                loss: with_room(pressure.b.iter().map(|b| b - 1.0).collect()),
                pressure_rate: times_rate(pressure.a),
            };
            Axis { rate, factors }
        })
    }

    /// Returns the factors of x, then of y, then of z, in the order of the kernels.
    pub fn profiles(axes: &[Axis; 3]) -> Vec<f32> {
        let values = axes.iter().flat_map(|axis| axis.factors.all());
        values.flat_map(|values| &values[..values.len() - WIDEST]).copied().collect()
    }

    /// Returns (dt / h)² of x and y, in (s/m)².
    pub fn squares([x, y, _]: &[Axis; 3]) -> [f32; 2] {
        [x.rate * x.rate, y.rate * y.rate]
    }
}

impl AxisFactors {
    /// Returns keep, velocity rate, loss and pressure rate.
    pub fn all(&self) -> [&Vec<f32>; 4] {
        [&self.keep, &self.velocity_rate, &self.loss, &self.pressure_rate]
    }
}
