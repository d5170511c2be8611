//! Detects a GPU by NVIDIA's libraries, and not by the code under test.

use std::ffi::{c_int, c_uint};

use libloading::Library;

const NO_DEVICE: c_int = 100;

/// Returns evidence of a GPU that a program should be able to use. `None`: no GPU, or the user
/// hides all.
pub fn sign() -> Option<String> {
    // A missing library is no evidence.
    driver().or_else(|| if std::env::var_os("CUDA_VISIBLE_DEVICES").is_some() { None } else { nvml() })
}

fn driver() -> Option<String> {
    // SAFETY: the library is NVIDIA's, or what takes its place; the function has this type.
    let status = unsafe {
        let library = std::mem::ManuallyDrop::new(Library::new("libcuda.so.1").ok()?);
        library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit").ok()?(0)
    };
    (status != NO_DEVICE).then(|| format!("the driver is there, and its cuInit gives {status}"))
}

fn nvml() -> Option<String> {
    let mut count = 0;
    // SAFETY: as above; the number is ours.
    let told = unsafe {
        let library = std::mem::ManuallyDrop::new(Library::new("libnvidia-ml.so.1").ok()?);
        let init = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2").ok()?;
        let ask = library.get::<unsafe extern "C" fn(*mut c_uint) -> c_int>(b"nvmlDeviceGetCount_v2").ok()?;
        init() == 0 && ask(&mut count) == 0
    };
    (told && count > 0).then(|| format!("NVML lists {count}"))
}
