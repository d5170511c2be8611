//! The CUDA kernels without a GPU: their PTX belongs to the source beside it, and the source, compiled
//! for the host, and the PTX, interpreted, compute what the Rust propagator computes, bit for bit.

mod large_grids;
mod ptx;
mod shots;
