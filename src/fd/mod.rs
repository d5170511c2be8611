//! Finite differences: from a model and a shot to a gather.
//!
//! Axes are named x, y, z and given in this order; fields lie in memory as
//! `[iy][ix][iz]`, z fastest, which is Fortran's `(nz,nx,ny)`.

pub mod bench;
pub mod equation;
pub mod exact_time;
pub mod grid;
pub mod model;
pub mod plan;
pub mod pml;
pub mod shot;
pub mod stencil;
pub mod storage;
pub mod survey;
pub mod verify;
mod warp;
pub mod wavelet;
