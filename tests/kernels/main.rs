//! The CUDA kernels without a GPU.

mod large_grids;
mod ptx;
mod reciprocal;
mod shots;
