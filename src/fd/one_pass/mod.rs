//! The step of equations with a split PML, in one pass over the grid. An equation adds a
//! [`equation::OnePassEquation`].
//!
//! The velocities are eliminated where nothing is damped; `pass.rs` has the order of operations.

#![allow(unsafe_op_in_unsafe_fn, reason = "all of a kernel is unsafe, by its caller's promise")]

pub mod axis;
pub mod coefficients;
mod cpu;
pub mod cuda;
pub mod equation;
pub mod fields;
mod flux_xy;
pub(crate) mod flux_z;
mod pass;
mod prefetch;
pub(crate) mod rows;
mod scratch;
mod sweep;
mod update;
