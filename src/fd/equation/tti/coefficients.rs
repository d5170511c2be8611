//! The numbers that a step multiplies with.

use super::material::{Rotation, TtiMaterial};
use super::propagator::TiltedPropagator;
use super::sponge;
use crate::error::Result;
use crate::fd::centred::{self, FIRST, Weights};
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::layout::with_room;
use crate::fd::model::{Model, Outline, Property};
use crate::fd::stencil::{HALF_WIDTH, Stencil};
use crate::fd::storage::Storage;

/// The unit vector along the symmetry axis.
const AXIS: [Rotation; 3] = [
    (&[Property::Theta, Property::Phi], |theta, phi| towards_zero(theta.sin() * phi.cos())),
    (&[Property::Theta, Property::Phi], |theta, phi| towards_zero(-theta.sin() * phi.sin())),
    (&[Property::Theta], |theta, _| towards_zero(theta.cos())),
];

/// The numbers of the self-adjoint operators.
pub struct SelfAdjoint {
    pub weights: Weights,
    /// The coefficients of the first derivatives along x, y, z, times dt/h.
    pub first: [[f32; HALF_WIDTH]; 3],
    /// Half the damping times dt, of each padded index of x, y, z, [with room](with_room) for whole vectors.
    pub damping: [Vec<f32>; 3],
}

/// Rounds towards zero, so that the axis vector is at most 1 long. (Longer: waves grow.)
pub fn towards_zero(value: f64) -> f32 {
    let rounded = value as f32;
    let is_beyond = f64::from(rounded).abs() > value.abs();
    f32::from_bits(rounded.to_bits() - u32::from(is_beyond))
}

/// Returns the coefficients of the first derivative, scaled so that its square is the second derivative for long waves, and
/// less for others.
pub fn first(stencil: Stencil) -> [f64; HALF_WIDTH] {
    let [_, others @ ..] = centred::coefficients(stencil);
    let square: f64 = others.iter().zip(1..).map(|(c, m)| c * f64::from(m * m)).sum();
    FIRST.map(|k| f64::from(k) * square.sqrt().min(1.0))
}

impl TtiMaterial<3> {
    pub fn new(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        TtiMaterial::of(model, pml, storage, AXIS)
    }

    /// Returns the equation with steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32, scheme: Scheme) -> TiltedPropagator<3, SelfAdjoint> {
        let (layout, Outline { grid, fastest, .. }) = (self.layout, self.model);
        let rates = grid.h.map(|h| f64::from(dt) / f64::from(h));
        let damping = |axis: usize| with_room(sponge::damping(&layout, axis, dt, fastest / grid.h[axis]));
        let operators = SelfAdjoint {
            weights: Weights::new(scheme.stencil, dt, grid.h),
            first: rates.map(|rate| first(scheme.stencil).map(|k| (k * rate) as f32)),
            damping: [0, 1, 2].map(damping),
        };
        TiltedPropagator::new(self, dt, scheme, centred::courant(scheme.stencil), operators)
    }
}
