//! Copies and fills: in stream order, with the caller's bytes staged where a driver stages them.

use std::ffi::c_void;
use std::sync::Arc;

use fakecuda::driver::{Answer, Driver, Stream, code};
use fakecuda::faults::Operation;

use crate::{Handle, cuda, enter};

/// The host's bytes behind a range of device memory, checked when the copy is given.
fn device(address: u64, bytes: usize) -> Answer<usize> {
    let card = Driver::get().card_of(address).ok_or(code::INVALID_VALUE)?;
    Ok(card.host(address, bytes as u64)? as usize)
}

/// Copies when the stream comes to it.
fn later(stream: &Arc<Stream>, to: usize, from: usize, bytes: usize) {
    stream.push(false, move || {
        // SAFETY: device ranges were checked when the copy was given and live until they are
        // freed, which a caller orders behind it; host ranges are the caller's.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    });
}

unsafe fn to_device(to: u64, from: *const c_void, bytes: usize, stream: Option<Handle>) -> Answer {
    let context = enter(Operation::Copy)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = device(to, bytes)?;
    if from.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let queue = Driver::get().stream(stream.unwrap_or(0), &context)?;
    if stream.is_some() && Driver::get().is_pinned(from as usize, bytes) {
        later(&queue, target, from as usize, bytes);
        return Ok(());
    }
    // Pageable memory is read before the call returns.
    // SAFETY: the caller vouches for `bytes` at `from`.
    let staged = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec();
    queue.push(false, move || {
        // SAFETY: as in `later`.
        unsafe { std::ptr::copy_nonoverlapping(staged.as_ptr(), target as *mut u8, staged.len()) };
        Ok(())
    });
    if stream.is_none() { queue.synchronize() } else { Ok(()) }
}

fn to_host(to: *mut c_void, from: u64, bytes: usize, stream: Option<Handle>) -> Answer {
    let context = enter(Operation::Copy)?;
    if bytes == 0 {
        return Ok(());
    }
    let source = device(from, bytes)?;
    if to.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let queue = Driver::get().stream(stream.unwrap_or(0), &context)?;
    later(&queue, to as usize, source, bytes);
    if stream.is_some() && Driver::get().is_pinned(to as usize, bytes) { Ok(()) } else { queue.synchronize() }
}

fn on_device(to: u64, from: u64, bytes: usize, stream: Handle) -> Answer {
    let context = enter(Operation::Copy)?;
    if bytes == 0 {
        return Ok(());
    }
    let (target, source) = (device(to, bytes)?, device(from, bytes)?);
    later(&Driver::get().stream(stream, &context)?, target, source, bytes);
    Ok(())
}

/// Fills `count` elements of 1, 2 or 4 bytes.
fn fill(to: u64, value: u32, width: usize, count: usize, stream: Handle) -> Answer {
    let context = enter(Operation::Copy)?;
    let bytes = width.checked_mul(count).ok_or(code::INVALID_VALUE)?;
    if bytes == 0 {
        return Ok(());
    }
    if !to.is_multiple_of(width as u64) {
        return Err(code::INVALID_VALUE);
    }
    let target = device(to, bytes)?;
    Driver::get().stream(stream, &context)?.push(false, move || {
        let pattern = value.to_le_bytes();
        // SAFETY: as in `later`.
        let memory = unsafe { std::slice::from_raw_parts_mut(target as *mut u8, bytes) };
        for element in memory.chunks_exact_mut(width) {
            element.copy_from_slice(&pattern[..width]);
        }
        Ok(())
    });
    Ok(())
}

cuda! {
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) { to_device(to, from, bytes, None) }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        to_device(to, from, bytes, Some(stream))
    }
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) { to_host(to, from, bytes, None) }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        to_host(to, from, bytes, Some(stream))
    }
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) { on_device(to, from, bytes, 0) }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) { on_device(to, from, bytes, stream) }
    fn cuMemcpyPeerAsync(to: u64, context: Handle, from: u64, other: Handle, bytes: usize, stream: Handle) {
        Driver::get().context(context)?.check()?;
        Driver::get().context(other)?.check()?;
        on_device(to, from, bytes, stream)
    }
    fn cuMemsetD8_v2(to: u64, value: u8, count: usize) { fill(to, value.into(), 1, count, 0) }
    fn cuMemsetD16_v2(to: u64, value: u16, count: usize) { fill(to, value.into(), 2, count, 0) }
    fn cuMemsetD32_v2(to: u64, value: u32, count: usize) { fill(to, value, 4, count, 0) }
    fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) { fill(to, value.into(), 1, count, stream) }
    fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) { fill(to, value.into(), 2, count, stream) }
    fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) { fill(to, value, 4, count, stream) }
}
