//! The queue of a slot: a stream of its card, with what a propagator does on it.
//!
//! What is put on it happens in order, later; failures of kernels are told by any later call, by
//! [`finish`](Stream::finish) at the latest.

use std::any::Any;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUstream;

use super::card::Card;
use super::context::Context;
use super::event::{Download, Event};
use super::function::{Function, Params};
use super::memory::Block;
use super::module::Ptx;
use super::pinned::{Number, Pinned};
use super::primary::PrimaryContext;
use crate::error::{DeviceFault, Error, Result};

/// It does not wait for the stream 0 of others, nor that for it.
const NON_BLOCKING: c_uint = 1;
/// Contexts that are tried for a new queue, should each be poisoned before it is there.
const TRIES: u32 = 3;

pub struct Stream {
    pub(super) context: Arc<Context>,
    pub(super) handle: CUstream,
    /// Which of the context's.
    number: u64,
}

// SAFETY: a stream's handle may be used by any thread; what one puts there is in order with the rest.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn open(primary: &PrimaryContext) -> Result<Stream> {
        let mut spent = Vec::new();
        for _ in 0..TRIES {
            let context = primary.context()?;
            match context.inside(|| context.enter().and_then(|()| Stream::of(&context))) {
                // By another queue since it was asked for, or by another library before. Held, so that it is buried
                // when the next one is asked for, and not just let go.
                Err(Error::Device { fault: DeviceFault::Poisoned, .. }) => spent.push(context),
                made => return made,
            }
        }
        let what = format!(
            "{TRIES} contexts of it in a row were poisoned at once; the kernel log (dmesg) may have an Xid that says why"
        );
        Err(Error::Busy { device: primary.card().label(), what })
    }

    /// The context is current.
    fn of(context: &Arc<Context>) -> Result<Stream> {
        let mut handle = null_mut();
        // SAFETY: the place is ours; destroyed in `drop`.
        let made = unsafe { context.driver().stream_create(&mut handle, NON_BLOCKING) };
        context.judge(made, || "to make a stream".into())?;
        context.opened(handle);
        let number = context.numbers.fetch_add(1, Ordering::SeqCst);
        Ok(Stream { context: context.clone(), handle, number })
    }

    pub fn card(&self) -> &Card {
        self.context.card()
    }

    /// Returns the bytes of the card that could be allocated now, those kept for reuse included.
    pub fn free_bytes(&self) -> u64 {
        self.context.free_bytes()
    }

    /// The newest CUDA that the card's driver knows: `12.9`.
    pub fn driver(&self) -> String {
        self.context.driver().version()
    }

    /// The `CUstream`, for code that is not ours. It stays this queue's.
    pub fn handle(&self) -> *mut c_void {
        self.handle.cast()
    }

    /// What all queues of the card share, made by the first that asks while the others wait, and kept until `owner`
    /// is dropped. The owner has to live until the work on it is done; `make` has to wait for its own.
    pub fn shared<O: Any + Send + Sync, T: Any + Send + Sync>(
        &self,
        owner: &Arc<O>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.context.shared.get(owner, make)
    }

    /// Room for `len` values, which are undefined. `what` names them in the error if there is no memory.
    pub fn alloc<T: Copy + 'static>(&self, len: usize, what: &str) -> Result<Block<T>> {
        self.context.enter()?;
        Block::new(&self.context, self.number, len, what)
    }

    /// The same, all bits zero.
    pub fn zeroed<T: Copy + 'static>(&self, len: usize, what: &str) -> Result<Block<T>> {
        let block = self.alloc(len, what)?;
        self.zero(&block)?;
        Ok(block)
    }

    /// The values themselves, there when this returns.
    pub fn uploaded<T: Copy + 'static>(&self, values: &[T], what: &str) -> Result<Block<T>> {
        let block = self.alloc(values.len(), what)?;
        self.upload(&block, 0, values)?;
        Ok(block)
    }

    /// All bits of a block become zero.
    pub fn zero<T: Copy + 'static>(&self, block: &Block<T>) -> Result<()> {
        self.check(block, &(0..block.len()))?;
        self.context.enter()?;
        let bytes = block.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: within the block.
        let done = unsafe { self.context.driver().fill(block.address(), 0, bytes, self.handle) };
        self.context.judge(done, || "to fill memory".into())
    }

    /// Copies all values of a block to another of the same length.
    pub fn copy<T: Copy + 'static>(&self, from: &Block<T>, to: &Block<T>) -> Result<()> {
        self.check(from, &(0..to.len()))?;
        self.check(to, &(0..from.len()))?;
        self.context.enter()?;
        let bytes = from.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: within the blocks.
        let done = unsafe { self.context.driver().copy(to.address(), from.address(), bytes, self.handle) };
        self.context.judge(done, || "to copy on the card".into())
    }

    /// Copies some values of a block to the beginning of another.
    pub fn copy_part<T: Copy + 'static>(
        &self,
        from: &Block<T>,
        range: Range<usize>,
        to: &Block<T>,
    ) -> Result<()> {
        self.check(from, &range)?;
        self.check(to, &(0..range.len()))?;
        if range.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        let (begin, bytes) = ((range.start * size_of::<T>()) as u64, range.len() * size_of::<T>());
        let driver = self.context.driver();
        // SAFETY: within the blocks.
        let done = unsafe { driver.copy(to.address(), from.address() + begin, bytes, self.handle) };
        self.context.judge(done, || "to copy on the card".into())
    }

    /// Copies values to position `at` and the following. They are there when this returns.
    pub fn upload<T: Copy + 'static>(&self, to: &Block<T>, at: usize, values: &[T]) -> Result<()> {
        self.check(to, &(at..at.saturating_add(values.len())))?;
        self.context.enter()?;
        if values.is_empty() {
            return Ok(());
        }
        let address = to.address() + (at * size_of::<T>()) as u64;
        let driver = self.context.driver();
        // SAFETY: both ranges are there, and this waits for the copy.
        let done = unsafe {
            driver
                .upload(address, values.as_ptr().cast(), size_of_val(values), self.handle)
                .and_then(|()| driver.stream_synchronize(self.handle))
        };
        self.context.judge(done, || "to copy to the card".into())
    }

    /// Starts a copy of values to the host, in order with what is on the queue.
    pub fn download<T: Number>(&self, from: &Block<T>, range: Range<usize>) -> Result<Download<T>> {
        self.check(from, &range)?;
        self.context.enter()?;
        let values = Pinned::new(&self.context, range.len(), "values on their way from a card")?;
        let done = Event::new(&self.context, false)?;
        let address = from.address() + (range.start * size_of::<T>()) as u64;
        let driver = self.context.driver();
        let begun = match range.is_empty() {
            true => Ok(()),
            // SAFETY: both ranges are there, until the copy is done: `Download` holds the one, and what
            // would use the other again comes later on the queue.
            false => unsafe {
                driver.download(values.start(), address, range.len() * size_of::<T>(), self.handle)
            },
        };
        // SAFETY: the event and the queue are there.
        let begun = begun.and_then(|()| unsafe { driver.event_record(done.handle, self.handle) });
        match self.context.judge(begun, || "to copy from the card".into()) {
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

    /// The kernel `name` of `ptx`, which is loaded once a card. See [`Ptx`].
    pub fn function(&self, ptx: Ptx, name: &'static str) -> Result<Function> {
        self.context.enter()?;
        self.context.function(ptx, name)
    }

    /// Puts a kernel on the queue: blocks along x, y, z and threads of a block. The blocks of memory that
    /// `params` name have to live until it is done, or are dropped and used again on this queue only.
    pub fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        mut params: Params,
    ) -> Result<()> {
        if !function.is_of(&self.context) {
            return Err(Error::Internal(format!("{} is not of this card", function.name())));
        }
        let mut size = 0;
        let Some(mut told) = params.told(&mut size) else {
            return Err(Error::Internal(format!("too many parameters for {}", function.name())));
        };
        self.context.enter()?;
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        // SAFETY: the function and the queue are there; the buffer and its size are read before this returns. What
        // the kernel does with its parameters happens in memory of the card, which reports what is not there.
        let done = unsafe {
            let (driver, params) = (self.context.driver(), null_mut());
            let extra = told.as_mut_ptr();
            driver.launch(function.handle, gx, gy, gz, bx, by, bz, 0, self.handle, params, extra)
        };
        self.context.judge(done, || format!("to launch {}", function.name()))
    }

    /// A mark on the queue, to wait for.
    pub fn record(&self) -> Result<Event> {
        self.mark(false)
    }

    /// A mark that has the time.
    pub fn stamp(&self) -> Result<Event> {
        self.mark(true)
    }

    fn mark(&self, timed: bool) -> Result<Event> {
        self.context.enter()?;
        let event = Event::new(&self.context, timed)?;
        // SAFETY: the event and the queue are there.
        let recorded = unsafe { self.context.driver().event_record(event.handle, self.handle) };
        self.context.judge(recorded, || "to record an event".into())?;
        Ok(event)
    }

    /// Waits until all is done that was put on the queue.
    pub fn finish(&self) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the queue is there.
        let done = unsafe { self.context.driver().stream_synchronize(self.handle) };
        self.context.judge(done, || "to wait for the work on it".into())?;
        self.context.pool().settle(self.number);
        Ok(())
    }

    /// Gives back what is kept for reuse. Counted as inside: the task is over, and nobody else keeps the context from
    /// being buried meanwhile.
    pub fn relieve(&self) {
        self.context.inside(|| {
            if self.context.enter().is_ok() {
                self.context.give_back();
            }
        });
    }

    fn check<T: Copy + 'static>(&self, block: &Block<T>, range: &Range<usize>) -> Result<()> {
        if !block.is_of(&self.context) || range.start > range.end || range.end > block.len() {
            let (Range { start, end }, len) = (range, block.len());
            return Err(Error::Internal(format!("values {start} to {end} of a block of {len}")));
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.close(self.handle);
        self.context.leave();
    }
}
