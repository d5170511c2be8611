//! Time loop of a shot, on a team of threads ([`cpu`]) and on a GPU ([`cuda`]). An equation
//! provides the steps.

pub mod cpu;
pub mod cuda;
pub mod field_kernels;
mod instability;
pub mod launch;
