//! Device memory and pinned host memory.

use std::ffi::{c_uint, c_void};

use fakecuda::driver::{Driver, Pinned, code, lock, wait_all};

use crate::{cuda, enter, out};

cuda! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let context = enter("info")?;
        let info = context.gpu().info();
        out(free, info.0 as usize)?;
        out(total, info.1 as usize)?
    }
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        let context = enter("alloc")?;
        if bytes == 0 { return Err(code::INVALID_VALUE) }
        out(pointer, context.gpu().alloc(bytes as u64)?)?
    }
    fn cuMemFree_v2(pointer: u64) {
        if pointer == 0 { return Ok(()) }
        let context = enter("free")?;
        let gpu = Driver::get().gpu_of(pointer).ok_or(code::INVALID_VALUE)?;
        // Like the real driver, this waits for work that may use the memory.
        wait_all(&context.all_streams());
        context.check()?;
        gpu.free(pointer)?
    }
    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        let _ = flags;
        let context = enter("host")?.handle;
        if pointer.is_null() || bytes == 0 { return Err(code::INVALID_VALUE) }
        let (begin, mut pinned) = (pointer as usize, lock(&Driver::get().pinned));
        let overlaps = pinned.range(..begin + bytes).next_back().is_some_and(|(b, there)| b + there.bytes > begin);
        if overlaps { return Err(code::ALREADY_REGISTERED) }
        pinned.insert(begin, Pinned { bytes, context });
    }
    fn cuMemHostUnregister(pointer: *mut c_void) {
        Driver::get().visible()?;
        lock(&Driver::get().pinned).remove(&(pointer as usize)).map(|_| ()).ok_or(code::NOT_REGISTERED)?
    }
}
