//! The policy of the step on a GPU.

use super::Acoustic1Propagator;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::one_pass::cuda::policy::CudaPolicy;

/// The kernels of `kernels/acoustic1_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("acoustic1");

impl CudaPolicy for Acoustic1Propagator {
    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }
}
