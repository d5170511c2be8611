//! Vectors of the processor: the operations that a CPU kernel is written with, for each instruction
//! set.

#![allow(unsafe_op_in_unsafe_fn, reason = "all of a kernel is unsafe, by its caller's promise")]

pub mod isa;
pub mod lanes;
#[cfg(target_arch = "x86_64")]
pub mod x86;
