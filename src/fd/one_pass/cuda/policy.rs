//! The part of an equation in the step on a GPU.

use std::ops::Range;
use std::sync::Arc;

use super::kernel_set::KernelSet;
use crate::fd::edge_field::EdgeField;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::one_pass::policy::Policy;

/// An equation in a medium, for one shot on a GPU.
pub trait CudaPolicy: Policy {
    /// Bytes of the largest [`MixingCube`].
    const CUBE_BYTES: u64 = 0;

    /// Returns the kernels of the equation.
    fn kernels() -> &'static KernelSet;

    /// Returns the coefficients that identify a plan, whose shots share memory on a GPU.
    fn shared(&self) -> &Arc<Coefficients>;

    /// Returns the shot's own mixing coefficients.
    fn cube(&self) -> Option<MixingCube<'_>> {
        None
    }

    /// Returns all coefficients of a step: 1/rho, rho vp², and those of the mixing.
    fn fields(&self) -> Vec<&EdgeField> {
        let c = self.coefficients();
        let mixing = (0..Self::MIXING).map(|number| self.mixing(number));
        [&*c.b, &*c.kappa].into_iter().chain(mixing).collect()
    }
}

/// Mixing coefficients in the cells around the source of a shot.
pub struct MixingCube<'a> {
    /// Padded indices along x, y and z.
    pub cells: [Range<usize>; 3],
    /// Of each coefficient, `[iy][ix][iz]`.
    pub values: [&'a [f32]; 2],
}
