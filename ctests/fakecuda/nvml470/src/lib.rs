//! `libnvidia-ml.so.1` as the 470 driver has it, the last for Kepler: without
//! `nvmlDeviceGetMemoryInfo_v2` and `nvmlDeviceGetComputeRunningProcesses_v3`.

#[path = "../../nvml/src/base.rs"]
mod base;

pub use base::*;
