//! Finite differences: from a model and a shot to a gather.
//!
//! Axes are named x, y, z and given in this order; fields lie in memory as
//! `[iy][ix][iz]`, z fastest, which is Fortran's `(nz,nx,ny)`.

pub mod bench;
pub mod check;
pub mod control;
pub mod edge_field;
pub mod equation;
pub mod exact_time;
pub mod grid;
mod host_memory;
pub mod inject;
pub mod model;
pub mod pause;
pub mod plan;
pub mod pml;
pub mod record;
pub mod shot;
pub mod stencil;
pub mod storage;
pub mod survey;
pub mod time_loop;
pub mod vector;
pub mod verify;
pub mod warnings;
mod warp;
pub mod wavelet;

/// Raised with every change after which some shot's record or snapshots differ by a bit from what they were.
/// Who keeps results compares it, to know whether they are still what would be computed.
pub const NUMERICS: u32 = 2;
