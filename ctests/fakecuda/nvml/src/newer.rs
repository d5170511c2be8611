//! What drivers before 510 do not have.

use std::ffi::{c_int, c_uint};

use crate::base::{Device, INSUFFICIENT_SIZE, INVALID, Process, memory, processes};

#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// # Safety
/// As NVML asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, info: *mut MemoryV2) -> c_int {
    let (total, used) = match memory(device) {
        Ok(memory) => memory,
        Err(code) => return code,
    };
    // SAFETY: the caller vouches for the structure, whose version is set.
    unsafe {
        if info.is_null() || (*info).version != (size_of::<MemoryV2>() as c_uint | 2 << 24) {
            return INVALID;
        }
        info.write(MemoryV2 { version: (*info).version, total, reserved: 0, free: total - used, used });
    }
    0
}

/// # Safety
/// As NVML asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    list: *mut Process,
) -> c_int {
    // SAFETY: the caller vouches for `count` entries.
    unsafe { processes(device, count, list, INSUFFICIENT_SIZE) }
}
