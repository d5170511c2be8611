//! The queue of a slot: a CUDA stream, with the operations that a propagator needs.
//!
//! Operations run in order, asynchronously. A later call reports the failure of a kernel, at the
//! latest [`finish`](Stream::finish).

use std::any::Any;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUstream;

use super::context::Context;
use super::cuda_device::CudaDevice;
use super::device_buffer::DeviceBuffer;
use super::event::{Download, Event};
use super::kernel::{Kernel, Params};
use super::module::Ptx;
use super::pinned::Pinned;
use super::primary::PrimaryContext;
use super::shared_objects::SharedObject;
use crate::backend::cpu::PlainNumber;
use crate::error::{DeviceFault, Error, RESTART, Result};

/// The stream does not synchronise with the default stream.
const NON_BLOCKING: c_uint = 1;
/// Maximum number of contexts that are tried for a new queue, if each is poisoned at once.
const TRIES: u32 = 3;

pub struct Stream {
    pub(super) context: Arc<Context>,
    pub(super) handle: CUstream,
    /// Number of the stream within its context.
    number: u64,
    /// The queue of a slot: no context is current once it is closed.
    of_slot: bool,
}

// SAFETY: any thread may use a stream's handle; operations are ordered.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Opens a queue on a worker's thread. From then on the thread makes all calls in the relaxed
    /// capture mode.
    pub(super) fn open(primary: &PrimaryContext) -> Result<Stream> {
        let device = primary.device();
        device.driver.relax_worker();
        let failed_before = device.has_failed_context();
        let (mut spent, mut why) = (Vec::new(), String::new());
        for _ in 0..TRIES {
            let context = primary.context()?;
            match context.in_use_while(|| context.enter().and_then(|()| Stream::of(&context, true))) {
                // Another queue or another library has poisoned the context meanwhile. It is kept
                // alive, so that the next attempt destroys it and does not merely release it.
                Err(Error::Device { what, fault: DeviceFault::Poisoned, .. }) => {
                    spent.push(context);
                    why = what;
                }
                made => return made,
            }
        }
        // As for a context that the driver refuses, see `CudaDevice::retain_error`.
        let mut what = format!(
            "{TRIES} contexts in a row were unusable at once: {why}; look for an Xid in the kernel log (dmesg)"
        );
        if failed_before {
            what += "; ";
            what += RESTART;
        }
        Err(Error::Device { device: device.label(), what, fault: DeviceFault::Lost })
    }

    /// Creates a stream. The context is current.
    fn of(context: &Arc<Context>, of_slot: bool) -> Result<Stream> {
        let mut handle = null_mut();
        // SAFETY: a valid place; the stream is destroyed in `drop`.
        let made = unsafe { context.driver().stream_create(&mut handle, NON_BLOCKING) };
        context.check(made, || "creating a stream".into())?;
        context.add_stream(handle);
        let number = context.next_stream.fetch_add(1, Ordering::SeqCst);
        Ok(Stream { context: context.clone(), handle, number, of_slot })
    }

    /// Opens another queue in the context of this one, for a task that runs in it.
    pub fn beside(&self) -> Result<Stream> {
        self.context.enter()?;
        Stream::of(&self.context, false)
    }

    /// Makes later operations of this queue wait for the current operations of `other`.
    pub fn follow(&self, other: &Stream) -> Result<()> {
        let last = other.record()?;
        // SAFETY: the stream and the event exist. The driver keeps what it needs of the event.
        let waits = unsafe { self.context.driver().stream_wait(self.handle, last.handle, 0) };
        self.context.check(waits, || "waiting for another queue".into())
    }

    pub fn device(&self) -> &CudaDevice {
        self.context.device()
    }

    /// Returns the bytes of the GPU that could be allocated now, cached ones included.
    pub fn free_bytes(&self) -> u64 {
        self.context.free_bytes()
    }

    /// Returns the `CUstream` for the caller's code. This object still owns it.
    pub fn handle(&self) -> *mut c_void {
        self.handle.cast()
    }

    /// Returns an object that all queues of the GPU share. The first caller creates it while the
    /// others wait. It is cached until `owner` is dropped, or until cached memory is freed while no
    /// caller holds it. The caller must hold it until the work on it is done, and `make` must wait
    /// for its own work.
    pub fn shared<O: Any + Send + Sync, T: SharedObject>(
        &self,
        owner: &Arc<O>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.context.shared.get(owner, make)
    }

    /// Allocates `len` undefined values. `what` names them in the error.
    pub fn alloc<T: Copy + 'static>(&self, len: usize, what: &str) -> Result<DeviceBuffer<T>> {
        self.context.enter()?;
        DeviceBuffer::new(&self.context, self.number, len, what)
    }

    /// Allocates `len` values, all bits zero.
    pub fn zeroed<T: Copy + 'static>(&self, len: usize, what: &str) -> Result<DeviceBuffer<T>> {
        let block = self.alloc(len, what)?;
        self.zero(&block)?;
        Ok(block)
    }

    /// Allocates memory and copies the values to it. The copy is complete when this returns.
    pub fn uploaded<T: Copy + 'static>(&self, values: &[T], what: &str) -> Result<DeviceBuffer<T>> {
        let block = self.alloc(values.len(), what)?;
        self.upload(&block, 0, values)?;
        Ok(block)
    }

    /// Sets all bits of a buffer to zero.
    pub fn zero<T: Copy + 'static>(&self, block: &DeviceBuffer<T>) -> Result<()> {
        self.check(block, &(0..block.len()))?;
        self.context.enter()?;
        let bytes = block.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: within the buffer.
        let done = unsafe { self.context.driver().fill(block.address(), 0, bytes, self.handle) };
        self.context.check(done, || "filling memory".into())
    }

    /// Copies all values of a buffer to another of the same length.
    pub fn copy<T: Copy + 'static>(&self, from: &DeviceBuffer<T>, to: &DeviceBuffer<T>) -> Result<()> {
        self.check(from, &(0..to.len()))?;
        self.copy_part(from, 0..from.len(), to)
    }

    /// Copies some values of a buffer to the beginning of another.
    pub fn copy_part<T: Copy + 'static>(
        &self,
        from: &DeviceBuffer<T>,
        range: Range<usize>,
        to: &DeviceBuffer<T>,
    ) -> Result<()> {
        self.check(from, &range)?;
        self.check(to, &(0..range.len()))?;
        if range.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        let (begin, bytes) = ((range.start * size_of::<T>()) as u64, range.len() * size_of::<T>());
        let driver = self.context.driver();
        // SAFETY: within the buffers.
        let done = unsafe { driver.copy(to.address(), from.address() + begin, bytes, self.handle) };
        self.context.check(done, || "copying on the GPU".into())
    }

    /// Copies values to index `at` and the following ones. The copy is complete when this returns.
    pub fn upload<T: Copy + 'static>(&self, to: &DeviceBuffer<T>, at: usize, values: &[T]) -> Result<()> {
        self.check(to, &(at..at.saturating_add(values.len())))?;
        self.context.enter()?;
        if values.is_empty() {
            return Ok(());
        }
        let address = to.address() + (at * size_of::<T>()) as u64;
        let driver = self.context.driver();
        // SAFETY: both ranges are valid, and this waits for the copy.
        let done = unsafe {
            driver
                .upload(address, values.as_ptr().cast(), size_of_val(values), self.handle)
                .and_then(|()| driver.stream_synchronize(self.handle))
        };
        self.context.check(done, || "copying to the GPU".into())
    }

    /// Starts a copy of values to the host, in order with the other operations.
    pub fn download<T: PlainNumber>(
        &self,
        from: &DeviceBuffer<T>,
        range: Range<usize>,
    ) -> Result<Download<T>> {
        self.check(from, &range)?;
        self.context.enter()?;
        let values = Pinned::new(&self.context, range.len(), "values on their way from a GPU")?;
        let done = Event::new(&self.context, false)?;
        let address = from.address() + (range.start * size_of::<T>()) as u64;
        let driver = self.context.driver();
        let begun = match range.is_empty() {
            true => Ok(()),
            // SAFETY: both ranges stay valid until the copy is done: `Download` holds the one, and
            // later uses of the other come later on the stream.
            false => unsafe {
                driver.download(values.start(), address, range.len() * size_of::<T>(), self.handle)
            },
        };
        // SAFETY: the event and the stream exist.
        let begun = begun.and_then(|()| unsafe { driver.event_record(done.handle, self.handle) });
        match self.context.check(begun, || "copying from the GPU".into()) {
            Ok(()) => Ok(Download::new(done, values)),
            Err(error) => {
                // The copy may have begun.
                if self.finish().is_err() {
                    values.leak();
                }
                Err(error)
            }
        }
    }

    /// Returns the kernel `name` of `ptx`, which is loaded once per context. See [`Ptx`].
    pub fn function(&self, ptx: Ptx, name: &'static str) -> Result<Kernel> {
        self.context.enter()?;
        self.context.function(ptx, name)
    }

    /// Launches a kernel: blocks along x, y, z, and threads of a block. Buffers in `params` must
    /// live until it is done; they may be dropped earlier if only this stream uses their memory
    /// again.
    pub fn launch(
        &self,
        function: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        mut params: Params,
    ) -> Result<()> {
        if !function.is_of(&self.context) {
            return Err(Error::Internal(format!("{} is not of this GPU", function.name())));
        }
        let mut size = 0;
        let Some(mut arguments) = params.driver_arguments(&mut size) else {
            return Err(Error::Internal(format!("too many parameters for {}", function.name())));
        };
        self.context.enter()?;
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        // SAFETY: the function and the stream exist, and the call reads the parameters before it
        // returns. The GPU reports accesses to invalid addresses.
        let done = unsafe {
            let (driver, params) = (self.context.driver(), null_mut());
            let extra = arguments.as_mut_ptr();
            driver.launch(function.handle, gx, gy, gz, bx, by, bz, 0, self.handle, params, extra)
        };
        self.context.check(done, || format!("launching {}", function.name()))
    }

    /// Records an event to wait for.
    pub fn record(&self) -> Result<Event> {
        self.mark(false)
    }

    /// Records an event with the time.
    pub fn stamp(&self) -> Result<Event> {
        self.mark(true)
    }

    fn mark(&self, timed: bool) -> Result<Event> {
        self.context.enter()?;
        let event = Event::new(&self.context, timed)?;
        // SAFETY: the event and the stream exist.
        let recorded = unsafe { self.context.driver().event_record(event.handle, self.handle) };
        self.context.check(recorded, || "recording an event".into())?;
        Ok(event)
    }

    /// Waits until all operations are done.
    pub fn finish(&self) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the stream exists.
        let done = unsafe { self.context.driver().stream_synchronize(self.handle) };
        self.context.check(done, || "waiting for its work".into())?;
        self.context.pool().settle(self.number);
        Ok(())
    }

    /// Frees the cached memory. It counts as a use of the context, so that no other thread destroys
    /// the context meanwhile.
    pub fn relieve(&self) {
        self.context.in_use_while(|| {
            if self.context.enter().is_ok() {
                self.context.free_cached();
            }
        });
    }

    fn check<T: Copy + 'static>(&self, block: &DeviceBuffer<T>, range: &Range<usize>) -> Result<()> {
        if !block.is_of(&self.context) || range.start > range.end || range.end > block.len() {
            let (Range { start, end }, len) = (range, block.len());
            return Err(Error::Internal(format!("values {start} to {end} of a block of {len}")));
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.close_stream(self.handle);
        if self.of_slot {
            self.context.clear_current();
        }
    }
}
