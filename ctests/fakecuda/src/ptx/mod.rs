//! An interpreter of PTX, for the subset that a compiler emits for numerical kernels.
//!
//! [`parse`] decodes a text once; [`Launch::run`] runs a kernel of it. Arithmetic is IEEE with
//! round-to-nearest and true fused multiply-add, so a kernel without approximate functions
//! gives the bits that a card would. What it doesn't know it refuses at [`parse`], with the
//! line; what a kernel does wrong ends the launch with a [`Fault`] that names the line too.

mod body;
mod decode;
mod lane;
mod launch;
mod lexer;
mod program;
mod warp;

pub use decode::parse;
pub use launch::{Done, Launch};
pub use program::{Global, Kernel, Module, Param, Refused};
pub use warp::{Fault, FaultKind, Memory, Region};
