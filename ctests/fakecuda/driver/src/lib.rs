//! `libcuda.so.1`: the C symbols of CUDA's driver API, those that a driver of 11.4 has, over
//! [`fakecuda::driver`].

#![allow(non_snake_case)] // the names are CUDA's

mod attributes;
mod copies;
mod graphs;
mod launches;
mod memory;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fakecuda::driver::{Answer, Context, Current, Driver, Event, Object, Record, Stream, code, lock};
use fakecuda::faults::Operation;

/// Writes a result through a pointer that a caller gave.
///
/// # Safety
/// `to` is null or may be written.
pub(crate) unsafe fn out<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// The end of every call. `Err(0)` is a call that fails later.
pub(crate) fn status(answer: Answer) -> c_int {
    match answer {
        Ok(()) => 0,
        Err(code) => code,
    }
}

/// Counts a call.
pub(crate) fn called() {
    Driver::get().calls.fetch_add(1, Ordering::Relaxed);
}

/// Exports functions of the driver API; each body is an `Answer`.
macro_rules! cuda {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block )*) => { $(
        $(#[$doc])*
        /// # Safety
        /// As CUDA's driver API asks of its callers.
        #[allow(clippy::too_many_arguments)] // CUDA's own
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            // SAFETY: what the caller gives is as the driver API asks; handles are looked up
            // and not followed.
            #[allow(unused_unsafe)]
            let run = || -> fakecuda::driver::Answer { unsafe { $body } };
            crate::called();
            crate::status(run())
        }
    )* };
}
pub(crate) use cuda;

/// The current context for a call, and what the script says of it counted.
pub(crate) fn enter(operation: Operation) -> Answer<Arc<Context>> {
    Current::enter(operation).map(|(context, _)| context)
}

type Handle = usize;

cuda! {
    fn cuInit(flags: c_uint) {
        if flags != 0 { return Err(code::INVALID_VALUE) }
        Driver::get().init()
    }
    fn cuDriverGetVersion(version: *mut c_int) {
        let config = &Driver::get().config;
        if config.init == code::STUB_LIBRARY { Err(config.init) } else { out(version, config.driver) }
    }
    fn cuDeviceGetCount(count: *mut c_int) { out(count, Driver::get().visible()?.len() as c_int) }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        Driver::get().card(ordinal)?;
        out(device, ordinal)
    }
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        let driver = Driver::get();
        out(context, driver.retain(driver.card(device)?)?)
    }
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let driver = Driver::get();
        driver.release(driver.card(device)?)
    }
    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        let driver = Driver::get();
        driver.reset(driver.card(device)?)
    }
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        let card = Driver::get().card(device)?;
        let state = lock(&card.state);
        out(flags, state.flags)?;
        out(active, state.context.is_some().into())
    }
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        let card = Driver::get().card(device)?;
        lock(&card.state).flags = flags;
        Ok(())
    }
    fn cuCtxGetCurrent(context: *mut Handle) {
        Driver::get().visible()?;
        out(context, Current::get())
    }
    fn cuCtxSetCurrent(context: Handle) {
        Driver::get().visible()?;
        if context != 0 { Driver::get().context(context)?; }
        Current::set(context);
        Ok(())
    }
    fn cuCtxPushCurrent_v2(context: Handle) {
        Driver::get().visible()?;
        Driver::get().context(context)?;
        Current::push(context);
        Ok(())
    }
    fn cuCtxPopCurrent_v2(context: *mut Handle) {
        let old = Current::pop()?;
        if context.is_null() { Ok(()) } else { out(context, old) }
    }
    fn cuCtxGetDevice(device: *mut c_int) {
        let context = Driver::get().context(Current::get())?;
        let place = Driver::get().visible()?.iter().position(|card| *card == context.card);
        out(device, place.ok_or(code::INVALID_DEVICE)? as c_int)
    }
    fn cuCtxGetApiVersion(context: Handle, version: *mut c_uint) {
        let _ = context;
        out(version, 3020)
    }
    fn cuCtxGetFlags(flags: *mut c_uint) {
        let context = Driver::get().context(Current::get())?;
        let flags_now = lock(&context.card().state).flags;
        out(flags, flags_now)
    }
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        out(least, 0)?;
        out(greatest, -5)
    }
    fn cuCtxGetLimit(value: *mut usize, limit: c_uint) { let _ = limit; out(value, 1 << 20) }
    fn cuCtxSetLimit(limit: c_uint, value: usize) { let _ = (limit, value); Ok(()) }
    fn cuCtxGetCacheConfig(config: *mut c_uint) { out(config, 0) }
    fn cuCtxSetCacheConfig(config: c_uint) { let _ = config; Ok(()) }
    fn cuCtxSynchronize() {
        let context = enter(Operation::Sync)?;
        fakecuda::driver::wait_all(&context.all_streams());
        context.check()
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        Driver::get().card(device)?;
        Driver::get().card(peer)?;
        out(can, 0)
    }
    fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) {
        let _ = (Driver::get().context(peer)?, flags);
        // PEER_ACCESS_UNSUPPORTED
        Err(217)
    }

    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) { create_stream(stream, flags) }
    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        let _ = priority;
        create_stream(stream, flags)
    }
    fn cuStreamDestroy_v2(stream: Handle) {
        let driver = Driver::get();
        driver.visible()?;
        let context = Current::get();
        let stream = driver.stream(stream, &*driver.context(context)?)?;
        if stream.handle == 0 { return Err(code::INVALID_HANDLE) }
        stream.close();
        driver.remove(stream.handle);
        stream.context.check()
    }
    fn cuStreamSynchronize(stream: Handle) {
        let context = enter(Operation::Sync)?;
        Driver::get().stream(stream, &context)?.synchronize()
    }
    fn cuStreamQuery(stream: Handle) {
        let context = enter(Operation::Sync)?;
        Driver::get().stream(stream, &context)?.query()
    }
    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) {
        let context = Driver::get().context(Current::get())?;
        out(flags, Driver::get().stream(stream, &context)?.flags)
    }
    fn cuStreamGetCtx(stream: Handle, context: *mut Handle) {
        let current = Driver::get().context(Current::get())?;
        out(context, Driver::get().stream(stream, &current)?.context.handle)
    }
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        let _ = mode;
        let context = enter(Operation::Stream)?;
        Driver::get().stream(stream, &context)?.captured.store(true, Ordering::Relaxed);
        Ok(())
    }
    fn cuStreamIsCapturing(stream: Handle, state: *mut c_uint) {
        let context = enter(Operation::Stream)?;
        out(state, Driver::get().stream(stream, &context)?.captured.load(Ordering::Relaxed).into())
    }
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        let _ = flags;
        let context = enter(Operation::Event)?;
        let stream = Driver::get().stream(stream, &context)?;
        // Bound to the recording of now; a later one is not waited for.
        if let Some(record) = Driver::get().event(event)?.current() {
            let waiter = stream.context.clone();
            stream.push(true, move || { Record::wait(&record, &waiter); Ok(()) });
        }
        Ok(())
    }
    fn cuLaunchHostFunc(stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let context = enter(Operation::Launch)?;
        let (function, data) = (function.ok_or(code::INVALID_VALUE)?, data as usize);
        Driver::get().stream(stream, &context)?.push(false, move || {
            // SAFETY: the caller gave the function and its datum for this.
            unsafe { function(data as *mut c_void) };
            Ok(())
        });
        Ok(())
    }

    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        let context = enter(Operation::Event)?;
        let handle = Driver::get().handle();
        Driver::get().insert(handle, Object::Event(Arc::new(Event::new(context, flags))));
        out(event, handle)
    }
    fn cuEventDestroy_v2(event: Handle) {
        Driver::get().visible()?;
        Driver::get().event(event)?;
        Driver::get().remove(event);
        Ok(())
    }
    fn cuEventRecord(event: Handle, stream: Handle) {
        let context = enter(Operation::Event)?;
        let event = Driver::get().event(event)?;
        let stream = Driver::get().stream(stream, &context)?;
        if event.context.handle != stream.context.handle { return Err(code::INVALID_HANDLE) }
        event.record(&stream);
        Ok(())
    }
    fn cuEventQuery(event: Handle) { Driver::get().visible()?; Driver::get().event(event)?.query() }
    fn cuEventSynchronize(event: Handle) {
        enter(Operation::Sync)?;
        Driver::get().event(event)?.synchronize()
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        Driver::get().visible()?;
        let elapsed = Driver::get().event(start)?.elapsed(&*Driver::get().event(end)?)?;
        out(milliseconds, elapsed)
    }
    fn cuProfilerStart() { Ok(()) }
    fn cuProfilerStop() { Ok(()) }
}

unsafe fn create_stream(stream: *mut Handle, flags: c_uint) -> Answer {
    let context = enter(Operation::Stream)?;
    let handle = Driver::get().handle();
    let made = Stream::start(handle, context.clone(), flags)?;
    lock(&context.streams).push(Arc::downgrade(&made));
    Driver::get().insert(handle, Object::Stream(made));
    // SAFETY: as `out` asks; the caller of the symbol vouches.
    unsafe { out(stream, handle) }
}

/// What was made and what is left, as JSON: writes at most `capacity` bytes with the final
/// zero, returns the length of the whole text without it.
///
/// # Safety
/// `text` has room for `capacity` bytes, or `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_report(text: *mut c_char, capacity: usize) -> usize {
    let report = Driver::get().report();
    if capacity > 0 {
        let length = report.len().min(capacity - 1);
        // SAFETY: the caller vouches for `capacity` bytes; length + 1 <= capacity.
        unsafe {
            text.cast::<u8>().copy_from_nonoverlapping(report.as_ptr(), length);
            text.add(length).write(0);
        }
    }
    report.len()
}

/// What NVML asks of a card, by its place in `FAKECUDA`: bytes in use by this process and by
/// others, whether it is lost, whether it has a context. Returns 0, or 1 for no such card.
///
/// # Safety
/// `view` has room for four numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_card(index: usize, view: *mut [u64; 4]) -> c_int {
    let Some(card) = Driver::get().cards.get(index) else { return 1 };
    let state = lock(&card.state);
    // SAFETY: the caller vouches for it.
    unsafe { view.write([state.used, state.other, card.lost().into(), state.context.is_some().into()]) };
    0
}

/// The next event of a card behind the first `seen`: its Xid, or 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_xid(index: usize, seen: usize) -> u64 {
    let Some(card) = Driver::get().cards.get(index) else { return 0 };
    lock(&card.state).xids.get(seen).copied().unwrap_or(0)
}

/// Loses a card now, as if it fell off the bus: returns 0, or 1 for no such card.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_lose(index: usize) -> c_int {
    let Some(card) = Driver::get().cards.get(index) else { return 1 };
    card.lose();
    0
}
