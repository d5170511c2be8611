//! The step on a GPU (`kernels/one_pass.cuh`). An equation adds a [`policy::CudaPolicy`] and a
//! kernel file.

pub mod params;
pub mod policy;
