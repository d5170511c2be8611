//! The policy of the step: one pressure, whose increments are added to it.

use std::sync::Arc;

use super::Acoustic1Propagator;
use crate::fd::edge_field::EdgeField;
use crate::fd::inject::DIPOLE;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::one_pass::policy::Policy;
use crate::fd::vector::lanes::Lanes;

/// The kernels of `kernels/acoustic1_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("acoustic1_one_pass", None, Some("acoustic1_one_pass_4x2_16_bit"));

impl Policy for Acoustic1Propagator {
    const NAME: &'static str = "acoustic1";
    const PRESSURES: usize = 1;
    const MIXING: usize = 0;
    const SOURCE: &'static [(usize, f32)] = &DIPOLE;

    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }

    fn coefficients(&self) -> &Arc<Coefficients> {
        &self.0
    }

    fn mixing(&self, _number: usize) -> &EdgeField {
        &self.0.kappa
    }

    #[inline(always)]
    unsafe fn advance<L: Lanes>(p: [L::V; 2], increments: [L::V; 2], _mixing: [L::V; 2]) -> [L::V; 2] {
        // SAFETY: by the caller's promise.
        unsafe { [L::add(p[0], increments[0]), p[1]] }
    }
}
