//! Device memory and pinned host memory.

use std::ffi::{c_int, c_uint, c_void};

use fakecuda::driver::{Answer, Card, Current, Driver, Pinned, code, lock, wait_all};
use fakecuda::faults::Operation;

use crate::{Handle, cuda, enter, out};

/// The card of an address, which must be that of the current context.
fn own(address: u64) -> Answer<&'static Card> {
    Driver::get().card_of(address).ok_or(code::INVALID_VALUE)
}

cuda! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let context = enter(Operation::Info)?;
        let info = context.card().info();
        out(free, info.0 as usize)?;
        out(total, info.1 as usize)
    }
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        let context = enter(Operation::Alloc)?;
        if bytes == 0 { return Err(code::INVALID_VALUE) }
        out(pointer, context.card().alloc(bytes as u64, false)?)
    }
    fn cuMemFree_v2(pointer: u64) {
        if pointer == 0 { return Ok(()) }
        let context = enter(Operation::Free)?;
        let card = own(pointer)?;
        // As the real one: what still runs may use it.
        wait_all(&context.all_streams());
        context.check()?;
        card.free(pointer)
    }
    fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: Handle) {
        let context = enter(Operation::Alloc)?;
        if Driver::get().config.driver < 11020 || context.card().spec.cc.0 < 6 { return Err(code::NOT_SUPPORTED) }
        if bytes == 0 { return Err(code::INVALID_VALUE) }
        Driver::get().stream(stream, &context)?;
        out(pointer, context.card().alloc(bytes as u64, false)?)
    }
    fn cuMemFreeAsync(pointer: u64, stream: Handle) {
        if pointer == 0 { return Ok(()) }
        let context = enter(Operation::Free)?;
        let card = own(pointer)?;
        if card.piece(pointer).is_none_or(|(start, _)| start != pointer) { return Err(code::INVALID_VALUE) }
        Driver::get().stream(stream, &context)?.push(true, move || { let _ = card.free(pointer); Ok(()) });
        Ok(())
    }
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, pointer: u64) {
        let (start, bytes) = own(pointer)?.piece(pointer).ok_or(code::NOT_FOUND)?;
        if !base.is_null() { out(base, start)?; }
        if size.is_null() { Ok(()) } else { out(size, bytes as usize) }
    }
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let _ = flags;
        let context = enter(Operation::Host)?.handle;
        if bytes == 0 { return Err(code::INVALID_VALUE) }
        let host = libc::aligned_alloc(4096, bytes.next_multiple_of(4096));
        if host.is_null() { return Err(code::OUT_OF_MEMORY) }
        host.cast::<u8>().write_bytes(0xff, bytes);
        lock(&Driver::get().pinned).insert(host as usize, Pinned { bytes, ours: true, context });
        out(pointer, host)
    }
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        let code = cuMemHostAlloc(pointer, bytes, 0);
        if code == 0 { Ok(()) } else { Err(code) }
    }
    fn cuMemFreeHost(pointer: *mut c_void) {
        Driver::get().visible()?;
        let mut pinned = lock(&Driver::get().pinned);
        match pinned.get(&(pointer as usize)) {
            Some(Pinned { ours: true, .. }) => {
                pinned.remove(&(pointer as usize));
                drop(pinned);
                if let Ok(context) = Driver::get().context(Current::get()) { wait_all(&context.all_streams()); }
                libc::free(pointer);
                Ok(())
            }
            _ => Err(code::INVALID_VALUE),
        }
    }
    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        let _ = flags;
        let context = enter(Operation::Host)?.handle;
        if pointer.is_null() || bytes == 0 { return Err(code::INVALID_VALUE) }
        let (begin, mut pinned) = (pointer as usize, lock(&Driver::get().pinned));
        let overlaps = pinned.range(..begin + bytes).next_back().is_some_and(|(b, there)| b + there.bytes > begin);
        if overlaps { return Err(code::ALREADY_REGISTERED) }
        pinned.insert(begin, Pinned { bytes, ours: false, context });
        Ok(())
    }
    fn cuMemHostUnregister(pointer: *mut c_void) {
        Driver::get().visible()?;
        let mut pinned = lock(&Driver::get().pinned);
        match pinned.get(&(pointer as usize)) {
            Some(Pinned { ours: false, .. }) => { pinned.remove(&(pointer as usize)); Ok(()) }
            _ => Err(code::NOT_REGISTERED),
        }
    }
    fn cuMemHostGetDevicePointer_v2(device: *mut u64, pointer: *mut c_void, flags: c_uint) {
        let _ = flags;
        if !Driver::get().is_pinned(pointer as usize, 1) { return Err(code::INVALID_VALUE) }
        out(device, pointer as u64)
    }
    fn cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) {
        if !Driver::get().is_pinned(pointer as usize, 1) { return Err(code::INVALID_VALUE) }
        out(flags, 1)
    }
    /// Context (1), memory type (2), ordinal (9).
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, pointer: u64) {
        let driver = Driver::get();
        let card = driver.card_of(pointer).filter(|card| card.piece(pointer).is_some());
        let pinned = card.is_none() && driver.is_pinned(pointer as usize, 1);
        if card.is_none() && !pinned { return Err(code::INVALID_VALUE) }
        match attribute {
            1 => out(data.cast(), card.and_then(|c| lock(&c.state).context.as_ref().map(|c| c.handle)).unwrap_or(0)),
            2 => out(data.cast::<c_uint>(), if pinned { 1 } else { 2 }),
            9 => {
                let place = driver.visible()?.iter().position(|c| card.is_some_and(|card| card.index == *c));
                out(data.cast::<c_int>(), place.map_or(-1, |p| p as c_int))
            }
            _ => Err(code::INVALID_VALUE),
        }
    }
}
