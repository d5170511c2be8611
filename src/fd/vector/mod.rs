//! Vectors of the processor: the operations that a CPU kernel is written with, for each instruction
//! set.

pub mod isa;
pub mod lanes;
#[cfg(target_arch = "x86_64")]
pub mod x86;
