//! Attributes of devices and functions.

use std::ffi::{c_char, c_int};

use fakecuda::driver::{Answer, Driver, code};

use crate::{Handle, cuda, out};

cuda! {
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        text(name, length, &Driver::get().gpu(device)?.spec.name)?
    }
    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) { out(uuid, Driver::get().gpu(device)?.spec.uuid)? }
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        let spec = &Driver::get().gpu(device)?.spec;
        out(uuid, if spec.mig > 0 && !spec.old_parts { spec.mig_uuid(0) } else { spec.uuid })?
    }
    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) {
        text(id, length, &Driver::get().gpu(device)?.spec.pci_text(4))?
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        out(bytes, Driver::get().gpu(device)?.spec.usable() as usize)?
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let spec = &Driver::get().gpu(device)?.spec;
        out(value, match attribute {
            16 => spec.sms,
            18 => spec.integrated.into(),
            20 => spec.mode,
            36 => (2e6 * spec.speed) as c_int,
            37 => 256,
            39 => 2048,
            75 => spec.cc.0,
            76 => spec.cc.1,
            _ => return Err(code::INVALID_VALUE),
        })?
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let function = Driver::get().function(function)?;
        out(value, match attribute {
            1 => function.kernel().shared_bytes as c_int,
            3 => 0,
            4 => function.kernel().registers() as c_int,
            _ => return Err(code::INVALID_VALUE),
        })?
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: Handle, threads: c_int, shared: usize) {
        let function = Driver::get().function(function)?;
        let shared = (shared + function.kernel().shared_bytes).max(1);
        let by_registers = 65536 / (function.kernel().registers() as c_int * threads.max(1));
        out(blocks, (2048 / threads.max(1)).min((96 << 10) / shared as c_int).min(by_registers).min(32))?
    }
}

/// Copies a text with its final zero, cut to the capacity.
pub(crate) unsafe fn text(to: *mut c_char, room: c_int, value: &str) -> Answer {
    if to.is_null() || room <= 0 {
        return Err(code::INVALID_VALUE);
    }
    let length = value.len().min(room as usize - 1);
    // SAFETY: the caller vouches for `room` bytes, of which length + 1 are used.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), length);
        to.add(length).write(0);
    }
    Ok(())
}
