//! An interpreter of the part of PTX that the shipped kernels and the tests use.
//!
//! Arithmetic is IEEE with round-to-nearest and true fused multiply-add, and flushes denormal
//! numbers where it has `.ftz`: a kernel gives the bits that a GPU would. [`parse`] refuses an
//! unknown instruction by its name and line; an error of a kernel ends the launch with a [`Fault`]
//! that names the line, too.

mod body;
mod decode;
pub mod flush;
mod launch;
mod lexer;
mod program;
mod reciprocal;
mod simple;
mod warp;

pub use decode::parse;
pub use launch::Launch;
pub use program::{Kernel, Module, Param, Refused};
pub use reciprocal::reciprocal;
pub use warp::{Fault, FaultKind, Memory, Region};
