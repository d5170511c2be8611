//! Files: raw float32, NPY, and outputs that are either complete or absent.
//!
//! Paths are used as given. Every error names the file and its cause.

pub mod atomic;
pub mod kept;
pub mod leftovers;
pub mod npy;
pub mod raw;
pub mod space;

mod floats;
mod owner;
#[cfg(test)]
mod tests;
