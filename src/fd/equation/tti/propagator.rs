//! The equation in a tilted medium, with either operators.

use std::sync::Arc;

use super::material::{TiltedMedium, TtiMaterial};
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::{EdgeField, EdgeRow};
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::layout::Layout;
use crate::fd::inject::SourceMedium;
use crate::fd::model::{Outline, WATER};
use crate::fd::tiled::describe::describe_cell;

/// Coefficients of one time step. All shots of a plan share them. `O`: those of the operators, whose rotation has `N` numbers.
pub struct TiltedCoefficients<const N: usize, O> {
    pub layout: Layout,
    pub medium: Arc<TiltedMedium<N>>,
    pub operators: O,
    /// Metres from cell to cell.
    pub spacing: [f32; 3],
    /// Whether the medium is isotropic around the source.
    pub isotropic_source: bool,
    /// The CFL number of a velocity of 1 m/s.
    pub cfl: f64,
}

/// The equation in a medium, with a time step.
pub struct TiltedPropagator<const N: usize, O> {
    pub c: Arc<TiltedCoefficients<N, O>>,
    /// The medium around a shot's source.
    pub ball: Option<IsotropicBall>,
}

impl<const N: usize, O> TiltedPropagator<N, O> {
    /// Returns the equation with steps of `dt` seconds. `courant`: that of the operators.
    pub fn new(material: &TtiMaterial<N>, dt: f32, scheme: Scheme, courant: f64, operators: O) -> Self {
        let TtiMaterial { layout, model: Outline { grid, .. }, .. } = *material;
        let c = TiltedCoefficients {
            layout,
            medium: Arc::clone(&material.medium),
            operators,
            spacing: grid.h,
            isotropic_source: scheme.isotropic_source,
            cfl: 1.0 / grid.stable_step(courant, 1.0 / f64::from(dt)),
        };
        TiltedPropagator { c: Arc::new(c), ball: None }
    }

    /// Returns the equation for a shot whose source is at a padded cell.
    pub fn around(&self, source: [usize; 3]) -> Self {
        let c = &self.c;
        let ball = c.isotropic_source.then(|| c.medium.anisotropy.ball(&c.layout, source));
        TiltedPropagator { c: Arc::clone(c), ball }
    }
}

impl<const N: usize, O> TiltedCoefficients<N, O> {
    /// Returns the values of a property in a row, from the first updated cell on.
    #[inline(always)]
    pub fn row(&self, field: &EdgeField, [x, y]: [usize; 2]) -> *const f32 {
        match field.onward(&self.layout, [x, y, self.layout.active(2).start]) {
            EdgeRow::Values(values) => values.as_ptr(),
            // Not made by `TtiMaterial::of`.
            EdgeRow::Numbers(..) => std::ptr::null(),
        }
    }

    /// Returns the words for a padded cell: the user's cell and metres, its medium, and the CFL number there. `angles`: returns
    /// theta and phi.
    pub fn describe_cell(&self, padded: [usize; 3], angles: impl Fn([f64; N]) -> [f64; 2]) -> String {
        let TiltedCoefficients { layout, medium, spacing, cfl, .. } = self;
        describe_cell(layout, *spacing, padded, |inside| {
            let at = |field: &EdgeField| field.value(layout, inside);
            let vp = at(&medium.modulus).sqrt();
            let [epsilon, delta] = medium.anisotropy.parameters(layout, inside);
            let [theta, phi] = angles(medium.rotation.each_ref().map(at));
            let angles = format!("theta_rad {theta:.3}, phi_rad {phi:.3}");
            let others = format!(", epsilon {epsilon:.3}, delta {delta:.3}, {angles}");
            (vp, others, cfl * vp * (1.0 + 2.0 * epsilon).max(1.0).sqrt())
        })
    }
}

impl<const N: usize, O> SourceMedium for TiltedPropagator<N, O> {
    fn layout(&self) -> &Layout {
        &self.c.layout
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        f64::from(WATER) * self.c.medium.modulus.value(&self.c.layout, cell)
    }
}
