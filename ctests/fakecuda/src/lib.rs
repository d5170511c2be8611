//! A test driver: virtual NVIDIA cards on a machine that has none.
//!
//! [`config`] says which cards there are, [`faults`] what shall go wrong, [`driver`] is what
//! stands behind the C symbols of `libcuda.so.1`, [`ptx`] executes kernels, [`node`] is what processes share, [`harness`] runs test cases, each
//! on a machine of its own.

pub mod config;
pub mod driver;
pub mod faults;
pub mod harness;
pub mod node;
pub mod ptx;
