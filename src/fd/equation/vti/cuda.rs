//! The policy of the step on a GPU.

use super::material::VtiPropagator;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::one_pass::cuda::policy::CudaPolicy;

/// The kernels of `kernels/vti_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("vti");

impl CudaPolicy for VtiPropagator {
    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }
}
