//! Copies and fills, in stream order. The caller's bytes are staged where a driver stages them.

use std::ffi::c_void;

use fakecuda::driver::{Answer, Driver, Stream, code};

use crate::{Handle, cuda, enter};

/// Returns the host's bytes behind a range of device memory. The range is checked when the copy is
/// queued.
fn device(address: u64, bytes: usize) -> Answer<usize> {
    let gpu = Driver::get().gpu_of(address).ok_or(code::INVALID_VALUE)?;
    Ok(gpu.host(address, bytes as u64)? as usize)
}

/// Copies when the stream reaches the copy.
fn later(stream: &Stream, to: usize, from: usize, bytes: usize) {
    stream.push(false, move || {
        // SAFETY: device ranges were checked when the copy was given and live until they are
        // freed, which a caller orders behind it; host ranges are the caller's.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    });
}

cuda! {
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        enter("copy")?;
        if bytes == 0 { return Ok(()) }
        let target = device(to, bytes)?;
        if from.is_null() { return Err(code::INVALID_VALUE) }
        let queue = Driver::get().stream(stream)?;
        if Driver::get().is_pinned(from as usize, bytes) {
            later(&queue, target, from as usize, bytes);
            return Ok(());
        }
        // Pageable memory is read before the call returns; the caller vouches for `bytes` at
        // `from`.
        let staged = std::slice::from_raw_parts(from.cast::<u8>(), bytes).to_vec();
        queue.push(false, move || {
            // SAFETY: as in `later`.
            unsafe { std::ptr::copy_nonoverlapping(staged.as_ptr(), target as *mut u8, staged.len()) };
            Ok(())
        });
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        enter("copy")?;
        if bytes == 0 { return Ok(()) }
        let source = device(from, bytes)?;
        if to.is_null() { return Err(code::INVALID_VALUE) }
        let queue = Driver::get().stream(stream)?;
        later(&queue, to as usize, source, bytes);
        if !Driver::get().is_pinned(to as usize, bytes) { queue.synchronize()? }
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        enter("copy")?;
        if bytes == 0 { return Ok(()) }
        let (target, source) = (device(to, bytes)?, device(from, bytes)?);
        later(&*Driver::get().stream(stream)?, target, source, bytes);
    }
    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: Handle) {
        enter("copy")?;
        if bytes == 0 { return Ok(()) }
        let target = device(to, bytes)?;
        Driver::get().stream(stream)?.push(false, move || {
            // SAFETY: as in `later`.
            unsafe { (target as *mut u8).write_bytes(value, bytes) };
            Ok(())
        });
    }
}
