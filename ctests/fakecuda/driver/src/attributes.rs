//! What a device and a function say of themselves, and the names of errors.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use fakecuda::config::ComputeMode;
use fakecuda::driver::module::most_shared;
use fakecuda::driver::{Answer, Driver, code};

use crate::{Handle, cuda, out};

cuda! {
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        let card = Driver::get().card(device)?;
        text(name, length, &card.spec.name)
    }
    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) { out(uuid, Driver::get().card(device)?.spec.uuid) }
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        let spec = &Driver::get().card(device)?.spec;
        out(uuid, if spec.mig > 0 { spec.mig_uuid(0) } else { spec.uuid })
    }
    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) {
        text(id, length, &Driver::get().card(device)?.spec.pci_text(4))
    }
    fn cuDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) {
        if id.is_null() { return Err(code::INVALID_VALUE) }
        let wanted = std::ffi::CStr::from_ptr(id).to_string_lossy().to_uppercase();
        let driver = Driver::get();
        let found = driver.visible()?.iter().position(|card| driver.cards[*card].spec.pci_text(4) == wanted);
        out(device, found.ok_or(code::INVALID_DEVICE)? as c_int)
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        out(bytes, Driver::get().card(device)?.spec.usable() as usize)
    }
    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) {
        let cc = Driver::get().card(device)?.spec.cc;
        out(major, cc.0)?;
        out(minor, cc.1)
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let driver = Driver::get();
        let spec = &driver.card(device)?.spec;
        let pools = driver.config.driver >= 11020 && spec.cc.0 >= 6;
        out(value, match attribute {
            1..=3 => 1024,
            4 => 64,
            5 => i32::MAX,
            6 | 7 => 65535,
            8 => 48 << 10,
            9 => 64 << 10,
            10 => 32,
            11 => i32::MAX,
            12 | 82 => 65536,
            13 => (1e6 * spec.speed) as c_int,
            14 => 512,
            16 => spec.sms,
            15 | 19 | 31 | 41 | 78 | 79 | 80 | 99 => 1,
            18 => spec.integrated.into(),
            20 => match spec.mode {
                ComputeMode::Default => 0,
                ComputeMode::Prohibited => 2,
                ComputeMode::Exclusive => 3,
            },
            32 => spec.ecc.into(),
            33 => spec.pci.1 as c_int,
            34 => spec.pci.2 as c_int,
            50 => spec.pci.0 as c_int,
            36 => (2e6 * spec.speed) as c_int,
            37 => 256,
            38 => 2 << 20,
            39 => 2048,
            40 => 2,
            75 => spec.cc.0,
            76 => spec.cc.1,
            81 => 96 << 10,
            97 => most_shared(spec.cc),
            106 => 32,
            115 => pools.into(),
            // Not all are known here; those that are not are features a card may lack.
            known if (1..=150).contains(&known) => 0,
            _ => return Err(code::INVALID_VALUE),
        })
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let function = Driver::get().function(function)?;
        let (kernel, module) = (function.kernel(), &function.module);
        let cc = module.context.card().spec.cc;
        out(value, match attribute {
            0 => function.most_threads() as c_int,
            1 => kernel.shared_bytes as c_int,
            2 => module.program.globals.iter().filter(|g| g.constant).map(|g| g.init.len()).sum::<usize>() as c_int,
            3 => kernel.local_bytes as c_int,
            4 => kernel.registers() as c_int,
            5 => module.program.target as c_int,
            6 => 10 * cc.0 + cc.1,
            7 => 0,
            8 => function.dynamic.load(Ordering::Relaxed).max((48 << 10) - kernel.shared_bytes as c_int),
            9 => -1,
            _ => return Err(code::INVALID_VALUE),
        })
    }
    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        let function = Driver::get().function(function)?;
        if attribute == 8 {
            let most = most_shared(function.module.context.card().spec.cc) - function.kernel().shared_bytes as c_int;
            if value < 0 || value > most { return Err(code::INVALID_VALUE) }
            function.dynamic.store(value, Ordering::Relaxed);
        }
        Ok(())
    }
    fn cuFuncSetCacheConfig(function: Handle, config: c_int) {
        let _ = config;
        Driver::get().function(function).map(|_| ())
    }
    fn cuFuncGetModule(module: *mut Handle, function: Handle) {
        out(module, Driver::get().function(function)?.module.handle)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: Handle, threads: c_int, shared: usize) {
        occupancy(blocks, function, threads, shared)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: Handle, threads: c_int, shared: usize, flags: u32,
    ) {
        let _ = flags;
        occupancy(blocks, function, threads, shared)
    }
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: Handle, shared_of: *mut c_void, shared: usize, limit: c_int,
    ) {
        let _ = (shared_of, shared);
        let function = Driver::get().function(function)?;
        let most = function.most_threads() as c_int;
        out(block, if limit > 0 { most.min(limit) } else { most })?;
        out(grid, function.module.context.card().spec.sms)
    }
    fn cuGetErrorName(error: c_int, name: *mut *const c_char) { out(name, known(error)?.0.as_ptr()) }
    fn cuGetErrorString(error: c_int, words: *mut *const c_char) { out(words, known(error)?.1.as_ptr()) }
}

unsafe fn occupancy(blocks: *mut c_int, function: Handle, threads: c_int, shared: usize) -> Answer {
    let function = Driver::get().function(function)?;
    let shared = (shared + function.kernel().shared_bytes).max(1);
    let by_registers = 65536 / (function.kernel().registers() as c_int * threads.max(1));
    let count = (2048 / threads.max(1)).min((96 << 10) / shared as c_int).min(by_registers).min(32);
    // SAFETY: the caller of the symbol vouches.
    unsafe { out(blocks, count) }
}

/// Copies a text with its final zero, cut to the room there is.
unsafe fn text(to: *mut c_char, room: c_int, value: &str) -> Answer {
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

/// Name and words of a code; codes that the driver doesn't know have none.
fn known(error: c_int) -> Answer<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
    Ok(match error {
        0 => (c"CUDA_SUCCESS", c"no error"),
        1 => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        2 => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        3 => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        4 => (c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
        46 => (c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"CUDA-capable device(s) is/are busy or unavailable"),
        100 => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        101 => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        201 => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        209 => (c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device"),
        214 => (c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
        217 => {
            (c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices")
        }
        218 => (c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
        222 => (
            c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            c"the provided PTX was compiled with an unsupported toolchain.",
        ),
        400 => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        500 => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        600 => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        700 => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
        701 => (c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch"),
        702 => (c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
        709 => (c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
        712 => (
            c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
            c"part or all of the requested memory range is already mapped",
        ),
        713 => (
            c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
            c"pointer does not correspond to a registered memory region",
        ),
        714 => (c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error"),
        715 => (c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"an illegal instruction was encountered"),
        716 => (c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
        719 => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        801 => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        999 => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        _ => return Err(code::INVALID_VALUE),
    })
}
