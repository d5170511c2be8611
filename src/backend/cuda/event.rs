//! Events of a queue, and copies to the host in progress.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUevent;

use super::context::Context;
use super::pinned::Pinned;
use crate::backend::cpu::PlainNumber;
use crate::error::Result;

/// A thread that waits for the event sleeps.
const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

/// A position on a queue: complete when all earlier work of the queue is done.
pub struct Event {
    context: Arc<Context>,
    pub(super) handle: CUevent,
}

// SAFETY: any thread may use an event's handle.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that is not recorded yet. The context is current.
    pub(super) fn new(context: &Arc<Context>, timed: bool) -> Result<Event> {
        let mut handle = null_mut();
        let flags = BLOCKING_SYNC | if timed { 0 } else { DISABLE_TIMING };
        // SAFETY: a valid place; the event is destroyed in `drop`.
        let made = unsafe { context.driver().event_create(&mut handle, flags) };
        context.check(made, || "creating an event".into())?;
        Ok(Event { context: context.clone(), handle })
    }

    pub fn wait(&self) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the event exists until `self` is dropped.
        let waited = unsafe { self.context.driver().event_synchronize(self.handle) };
        self.context.check(waited, || "waiting for an event".into())
    }

    /// Returns the seconds since an earlier event. Both record the time and are complete.
    pub fn seconds_since(&self, earlier: &Event) -> Result<f64> {
        self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events exist, and the place for the number is valid.
        let elapsed =
            unsafe { self.context.driver().event_elapsed(&mut milliseconds, earlier.handle, self.handle) };
        self.context.check(elapsed, || "reading the time between two events".into())?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        self.context.destroy(|driver| unsafe { driver.event_destroy(self.handle) });
    }
}

/// A copy from the GPU in progress. Dropping it waits for the copy.
pub struct Download<T: PlainNumber> {
    done: Event,
    values: Option<Pinned<T>>,
}

impl<T: PlainNumber> Download<T> {
    pub(super) fn new(done: Event, values: Pinned<T>) -> Self {
        Download { done, values: Some(values) }
    }

    /// Waits for the copy and returns the values.
    pub fn wait(mut self) -> Result<Pinned<T>> {
        self.done.wait()?;
        self.values.take().ok_or_else(|| crate::Error::Internal("a copy was waited for twice".into()))
    }
}

impl<T: PlainNumber> Drop for Download<T> {
    fn drop(&mut self) {
        if let Some(values) = self.values.take()
            && self.done.wait().is_err()
        {
            values.leak();
        }
    }
}
