//! The numbers that a step multiplies with.

use crate::error::Result;
use crate::fd::equation::traits::Scheme;
use crate::fd::equation::tti::material::{Rotation, TtiMaterial};
use crate::fd::equation::tti::propagator::TiltedPropagator;
use crate::fd::model::{Model, Outline, Property};
use crate::fd::one_pass::axis::Axis;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Storage;

/// Cosine and sine of theta, then of phi.
const ANGLES: [Rotation; 4] = [
    (&[Property::Theta], |theta, _| theta.cos() as f32),
    (&[Property::Theta], |theta, _| theta.sin() as f32),
    (&[Property::Phi], |_, phi| phi.cos() as f32),
    (&[Property::Phi], |_, phi| phi.sin() as f32),
];

/// The numbers of the old operators.
pub struct OldOperators {
    /// The coefficients of the derivatives along x, y, z, times the spacing of `axes`' rates over that of the axis.
    pub stencils: [[f32; HALF_WIDTH]; 3],
    /// For the fluxes and split pressures of x, y, z.
    pub axes: [Axis; 3],
}

impl TtiMaterial<4> {
    pub fn old(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        TtiMaterial::of(model, pml, storage, ANGLES)
    }

    /// Returns the equation with steps of `dt` seconds.
    pub fn old_coefficients(&self, dt: f32, scheme: Scheme) -> TiltedPropagator<4, OldOperators> {
        let (layout, Outline { grid, .. }) = (self.layout, self.model);
        // All derivatives of a flux scale by the spacing along it (oddity B23 of docs/legacy.md).
        let h = if scheme.old_rules { grid.h } else { [grid.h[0]; 3] };
        let axes = Axis::of_model(&self.model, layout.pml, dt, h, self.reference, scheme.old_rules);
        let stencil = scheme.stencil.coefficients();
        let stencils = [0, 1, 2].map(|axis| stencil.map(|c| c * (h[axis] / grid.h[axis])));
        TiltedPropagator::new(self, dt, scheme, scheme.stencil.courant(), OldOperators { stencils, axes })
    }
}
