//! An interpreter of PTX: the part of the language that the shipped kernels and the tests use.
//!
//! [`parse`] decodes a text once; [`Launch::run`] runs a kernel of it. Arithmetic is IEEE with
//! round-to-nearest and true fused multiply-add, and flushes denormal numbers where it has `.ftz`.
//! So a kernel gives the bits that a GPU would. [`parse`] refuses an instruction that it does not know by its
//! name and line; an error of a kernel ends the launch with a [`Fault`] that names the line, too.

mod body;
mod decode;
mod flush;
mod launch;
mod lexer;
mod program;
mod simple;
mod warp;

pub use decode::parse;
pub use launch::Launch;
pub use program::{Kernel, Module, Param, Refused};
pub use warp::{Fault, FaultKind, Memory, Region};
