//! Virtual NVIDIA GPUs. `testkit::virtual_gpus` gives them to test cases.

pub mod config;
pub mod driver;
pub mod faults;
pub mod node;
pub mod ptx;
