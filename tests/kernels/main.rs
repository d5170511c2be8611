//! The CUDA kernels without a GPU.

mod flush;
mod large_grids;
mod ptx;
mod reciprocal;
mod shots;
