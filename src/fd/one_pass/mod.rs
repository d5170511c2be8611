//! The step of equations with a split PML, in one pass over the grid. An equation adds a
//! [`policy::Policy`].
//!
//! The velocities are eliminated where nothing is damped; `pass.rs` has the order of operations. A
//! file imports from its own row and from rows above it:
//!
//! | row | contents |
//! | --- | --- |
//! | `axis` | factors of an axis |
//! | `coefficients` | rho, rho vp² |
//! | `rows` | operations on rows of cells, a vector at a time |
//! | `geometry` | tables of a plan |
//! | `fields` | the state of a running shot |
//! | `policy` | what an equation adds |
//! | `scratch` | buffers of a thread |
//! | `sweep` | pointers of a sweep through a tile |
//! | `prefetch` | rows that a sweep requests ahead |
//! | `flux_xy`, `flux_z` | fluxes and their terms along an axis |
//! | `update` | the pressures after a step |
//! | `pass` | a sweep through a tile |
//! | `equation` | the step on the CPU |
//! | `cuda` | the step on a GPU |

#![allow(unsafe_op_in_unsafe_fn, reason = "all of a kernel is unsafe, by its caller's promise")]

pub mod axis;
pub mod coefficients;
pub mod cuda;
mod equation;
pub mod fields;
mod flux_xy;
pub(crate) mod flux_z;
pub mod geometry;
mod pass;
pub mod policy;
mod prefetch;
pub(crate) mod rows;
mod scratch;
mod sweep;
mod update;
