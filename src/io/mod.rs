//! Files: raw float32, NPY, and writing that leaves a file whole or absent.
//!
//! Paths are used as given. Every error names the file and what was wrong with it.

pub mod atomic;
pub mod kept;
pub mod leftovers;
pub mod npy;
pub mod raw;
pub mod space;

mod floats;
#[cfg(test)]
mod tests;
