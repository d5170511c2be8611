//! Interface of an equation to the step that all equations with a split PML share.

use std::marker::PhantomData;
use std::sync::Arc;

use super::coefficients::Coefficients;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::EdgeField;
use crate::fd::march::kernel_set::KernelSet;
use crate::fd::vector::lanes::Lanes;

/// An equation without a medium.
pub trait OnePassEquation: Send + Sync + 'static {
    /// The name of the equation.
    const NAME: &'static str;
    /// Number of pressures, 1 or 2. The fluxes along x and y are those of the first, the flux along
    /// z is that of the last.
    const PRESSURES: usize;
    /// Number of mixing coefficients, by which increments change the pressures: 0, or 2 for E
    /// and S.
    const MIXING: usize;
    /// Points of the source: cells below the shot's source cell, and the factor on the wavelet. The
    /// source is in all pressures while their fluxes are computed, and in none of them after the
    /// step.
    const SOURCE: &'static [(usize, f32)];

    /// Returns the kernels of the equation for GPUs.
    fn kernel_set() -> &'static KernelSet;

    /// Returns the pressures after a step, from those before it without a source, and the
    /// increments. With one pressure the first increment is that of all axes. With two the first is
    /// that of x and y, the second that of z.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn advance<L: Lanes>(pressures: [L::V; 2], increments: [L::V; 2], mixing: [L::V; 2]) -> [L::V; 2];
}

/// An equation in a medium, with a time step.
pub struct OnePassPropagator<E> {
    pub c: Arc<Coefficients>,
    /// Whether the medium is isotropic around the source.
    isotropic_source: bool,
    /// The medium around a shot's source, if the shot has its own there.
    pub ball: Option<IsotropicBall>,
    equation: PhantomData<E>,
}

impl<E: OnePassEquation> OnePassPropagator<E> {
    pub fn new(c: Coefficients, isotropic_source: bool) -> Self {
        OnePassPropagator { c: Arc::new(c), isotropic_source, ball: None, equation: PhantomData }
    }

    /// Returns the propagator for a shot whose source is at a padded cell.
    pub fn around(&self, source: [usize; 3]) -> Self {
        let anisotropy = self.c.anisotropy.as_ref().filter(|_| self.isotropic_source);
        let ball = anisotropy.map(|anisotropy| anisotropy.ball(&self.c.layout, source));
        OnePassPropagator { c: Arc::clone(&self.c), ball, ..*self }
    }

    /// Returns the mixing coefficients, [`OnePassEquation::MIXING`] fields.
    pub fn mixing(&self) -> impl Iterator<Item = &EdgeField> {
        self.c.anisotropy.iter().flat_map(|anisotropy| [&anisotropy.e, &anisotropy.s])
    }
}
