//! A test driver: virtual NVIDIA GPUs on a machine that has none.
//!
//! [`config`] says which GPUs there are, [`faults`] what shall go wrong, [`driver`] is what
//! stands behind the C symbols of `libcuda.so.1`, [`ptx`] executes kernels, [`node`]
//! what processes share. `testkit::virtual_gpus` gives test cases such a machine.

pub mod config;
pub mod driver;
pub mod faults;
pub mod node;
pub mod ptx;
