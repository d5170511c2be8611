//! `libcuda.so.1` over [`fakecuda::driver`], and under another name `libnvidia-ml.so.1`, see
//! `nvml`.

#![allow(non_snake_case)] // the names are CUDA's

mod attributes;
mod copies;
mod graphs;
mod launches;
mod memory;
mod nvml;

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fakecuda::driver::{Answer, Context, Current, Driver, Event, Graph, Object, Stream, capture, code, lock};

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

/// Returns the status of a call. `Err(0)` is a call whose failure a later call reports.
pub(crate) fn status(answer: Answer) -> c_int {
    match answer {
        Ok(()) => 0,
        Err(code) => code,
    }
}

/// Calls that are allowed while a stream is captured, in any mode of the thread: those of the
/// captured work, and those that change only the calling thread. CUDA names few of the others; here
/// they are all unsafe.
const SAFE: [&str; 17] = [
    "cuCtxGetCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuDriverGetVersion",
    "cuEventRecord",
    "cuGraphDestroy",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
];

/// Counts a call, and refuses it if the thread's capture mode does not allow it.
pub(crate) fn begin(name: &str) -> Answer {
    Driver::get().calls.fetch_add(1, Ordering::Relaxed);
    if SAFE.contains(&name) { Ok(()) } else { capture::judge_unsafe_call() }
}

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
            let run = || -> fakecuda::driver::Answer { unsafe { $body }; Ok(()) };
            crate::status(crate::begin(stringify!($name)).and_then(|()| run()))
        }
    )* };
}
pub(crate) use cuda;

/// Returns the current context for a call, which is counted for the script's faults.
pub(crate) fn enter(operation: &'static str) -> Answer<Arc<Context>> {
    Current::enter(operation).map(|(context, _)| context)
}

type Handle = usize;

cuda! {
    fn cuInit(flags: c_uint) {
        if flags != 0 { return Err(code::INVALID_VALUE) }
        Driver::get().init()?
    }
    fn cuDriverGetVersion(version: *mut c_int) {
        let config = &Driver::get().config;
        if config.init == code::STUB_LIBRARY { return Err(config.init) }
        out(version, config.driver)?
    }
    fn cuDeviceGetCount(count: *mut c_int) { out(count, Driver::get().visible()?.len() as c_int)? }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        Driver::get().gpu(ordinal)?;
        out(device, ordinal)?
    }
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        let driver = Driver::get();
        out(context, driver.retain(driver.gpu(device)?)?)?
    }
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let driver = Driver::get();
        driver.release(driver.gpu(device)?)?
    }
    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        let driver = Driver::get();
        driver.reset(driver.gpu(device)?)?
    }
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        let gpu = Driver::get().gpu(device)?;
        let state = lock(&gpu.state);
        out(flags, state.flags)?;
        out(active, state.context.is_some().into())?
    }
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        let gpu = Driver::get().gpu(device)?;
        lock(&gpu.state).flags = flags;
    }
    fn cuCtxGetCurrent(context: *mut Handle) {
        Driver::get().visible()?;
        out(context, Current::get())?
    }
    fn cuCtxSetCurrent(context: Handle) {
        Driver::get().visible()?;
        if context != 0 { Driver::get().context(context)?; }
        Current::set(context);
    }
    fn cuCtxPushCurrent_v2(context: Handle) {
        Driver::get().visible()?;
        Driver::get().context(context)?;
        Current::push(context);
    }
    fn cuCtxPopCurrent_v2(context: *mut Handle) {
        let old = Current::pop()?;
        if !context.is_null() { out(context, old)? }
    }

    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        let _ = flags;
        let context = enter("stream")?;
        let handle = Driver::get().handle();
        let made = Stream::start(handle, context.clone())?;
        lock(&context.streams).push(Arc::downgrade(&made));
        Driver::get().insert(handle, Object::Stream(made));
        out(stream, handle)?
    }
    fn cuStreamDestroy_v2(stream: Handle) {
        let driver = Driver::get();
        driver.visible()?;
        let stream = driver.stream(stream)?;
        stream.close();
        driver.remove(stream.handle);
        stream.context.check()?
    }
    fn cuStreamSynchronize(stream: Handle) {
        enter("sync")?;
        Driver::get().stream(stream)?.synchronize()?
    }
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        let _ = flags;
        enter("event")?;
        Driver::get().event(event)?.hold(&*Driver::get().stream(stream)?);
    }
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        enter("stream")?;
        capture::begin(Driver::get().stream(stream)?.handle, mode)?
    }
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        enter("stream")?;
        capture::end(Driver::get().stream(stream)?.handle)?;
        let handle = Driver::get().handle();
        Driver::get().insert(handle, Object::Graph(Arc::new(Graph::default())));
        out(graph, handle)?
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        Driver::get().visible()?;
        if mode.is_null() { return Err(code::INVALID_VALUE) }
        *mode = capture::exchange_mode(*mode)?;
    }

    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        let context = enter("event")?;
        let handle = Driver::get().handle();
        Driver::get().insert(handle, Object::Event(Arc::new(Event::new(context, flags))));
        out(event, handle)?
    }
    fn cuEventDestroy_v2(event: Handle) {
        Driver::get().visible()?;
        Driver::get().event(event)?;
        Driver::get().remove(event);
    }
    fn cuEventRecord(event: Handle, stream: Handle) {
        enter("event")?;
        let (event, stream) = (Driver::get().event(event)?, Driver::get().stream(stream)?);
        if event.context.handle != stream.context.handle { return Err(code::INVALID_HANDLE) }
        event.record(&stream);
    }
    fn cuEventSynchronize(event: Handle) {
        enter("sync")?;
        Driver::get().event(event)?.synchronize()?
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        Driver::get().visible()?;
        let elapsed = Driver::get().event(start)?.elapsed(&*Driver::get().event(end)?)?;
        out(milliseconds, elapsed)?
    }
}

/// Writes a JSON report, at most `capacity` bytes with the final zero. Returns the length of the
/// whole text.
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
