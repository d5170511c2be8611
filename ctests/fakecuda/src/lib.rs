//! A test driver: virtual NVIDIA cards on a machine that has none.
//!
//! [`ptx`] executes kernels.

pub mod ptx;
