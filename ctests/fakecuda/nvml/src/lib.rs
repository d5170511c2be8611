//! `libnvidia-ml.so.1` as a driver of 2023 has it.

mod base;
mod newer;

pub use base::*;
pub use newer::*;
