//! The policy of the step on a GPU.

use super::cpu::VtiShot;
use crate::fd::isotropic_ball::IsotropicBall;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::one_pass::cuda::params::MixingCube;
use crate::fd::one_pass::cuda::policy::CudaPolicy;

/// The kernels of `kernels/vti_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("vti");

impl CudaPolicy for VtiShot<'_> {
    const CUBE_BYTES: u64 = IsotropicBall::BYTES;

    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }

    fn cube(&self) -> Option<MixingCube<'_>> {
        self.ball.as_ref().map(IsotropicBall::cube)
    }
}
