//! Finite differences: compute the gather of a shot in a model.
//!
//! Axes are named x, y, z and given in this order; fields lie in memory as `[iy][ix][iz]`, z
//! fastest, which is Fortran's `(nz,nx,ny)`.
//!
//! A file imports from its own row and from rows above it:
//!
//! | row | contents |
//! | --- | --- |
//! | `host_memory` | allocations that report a shortage |
//! | `stencil` | coefficients of the derivative |
//! | `storage` | 16-bit numbers that stand for float32 values |
//! | `wavelet` | source time functions |
//! | `vector` | vectors of the CPU, for each instruction set |
//! | `grid` | grid, its layout with absorbing layers, PML zones of an axis, tile table of a GPU |
//! | `model` | the medium |
//! | `centred` | derivatives on a collocated grid; stable time steps with the second |
//! | `survey` | shots and gathers |
//! | `pml` | profiles of the absorbing layer |
//! | `control` | callbacks of a running shot, its state between two steps |
//! | `edge_field` | a property of the medium, continued beyond the grid's edges |
//! | `anisotropy` | E and S of a medium, and around a source, for `vti` and `tti` |
//! | `inject` | the source's pressure at each step |
//! | `record` | samples at the receivers, snapshots |
//! | `time_loop` | steps of a shot on a team of threads and on a GPU; knows no equation |
//! | `tiled` | the step on the CPU, tile by tile; knows no equation |
//! | `march` | the step on a GPU as one launch over tiles or two; knows no equation |
//! | `one_pass` | the step of equations with a split PML |
//! | `equation` | traits of an equation, the list of all, a folder for each |
//! | `source` | sources with a unit |
//! | `verify` | sampling, mute of the direct wave |
//! | `warp` | the spectrum between the frequencies of a Fourier transform |
//! | `exact_time` | correction of the error of time steps in records |
//! | `plan` | an equation in a model with a time step; names no equation |
//! | `warnings` | likely mistakes in models and shots |
//! | `shot` | a shot as a task |
//! | `check` | check shots of devices |

pub mod anisotropy;
pub mod centred;
pub mod check;
pub mod control;
pub mod edge_field;
pub mod equation;
pub mod exact_time;
pub mod grid;
pub(crate) mod host_memory;
pub mod inject;
pub mod march;
pub mod model;
pub mod one_pass;
pub mod plan;
pub mod pml;
pub mod record;
pub mod shot;
mod source;
pub mod stencil;
pub mod storage;
pub mod survey;
pub mod tiled;
pub mod time_loop;
pub mod vector;
pub mod verify;
pub mod warnings;
mod warp;
pub mod wavelet;

/// Version of the results. It is raised with every change that alters a bit of any shot's record or
/// snapshots. A caller that keeps results compares it to detect stale ones.
pub const NUMERICS: u32 = 11;
