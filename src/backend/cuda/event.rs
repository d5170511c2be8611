//! Marks on a queue, and copies to the host that are under way.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUevent;

use super::context::Context;
use super::pinned::{Number, Pinned};
use crate::error::Result;

/// Who waits for it sleeps.
const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

/// A place on a queue: done when all that was put there before is.
pub struct Event {
    context: Arc<Context>,
    pub(super) handle: CUevent,
}

// SAFETY: an event's handle may be used by any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Not yet recorded; the context is current.
    pub(super) fn new(context: &Arc<Context>, timed: bool) -> Result<Event> {
        let mut handle = null_mut();
        let flags = BLOCKING_SYNC | if timed { 0 } else { DISABLE_TIMING };
        // SAFETY: the place is ours; destroyed in `drop`.
        let made = unsafe { context.driver().event_create(&mut handle, flags) };
        context.judge(made, || "to make an event".into())?;
        Ok(Event { context: context.clone(), handle })
    }

    pub fn wait(&self) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the event is there until this is dropped.
        let waited = unsafe { self.context.driver().event_synchronize(self.handle) };
        self.context.judge(waited, || "to wait for an event".into())
    }

    /// Seconds since another; both are stamps, and done.
    pub fn seconds_since(&self, earlier: &Event) -> Result<f64> {
        self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are there until they are dropped; the number is ours.
        let told =
            unsafe { self.context.driver().event_elapsed(&mut milliseconds, earlier.handle, self.handle) };
        self.context.judge(told, || "to ask for the time between two events".into())?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        self.context.destroy(|driver| unsafe { driver.event_destroy(self.handle) });
    }
}

/// A copy from the card that is under way. Dropped, it is waited for.
pub struct Download<T: Number> {
    done: Event,
    values: Option<Pinned<T>>,
}

impl<T: Number> Download<T> {
    pub(super) fn new(done: Event, values: Pinned<T>) -> Self {
        Download { done, values: Some(values) }
    }

    /// The values, once they are here.
    pub fn wait(mut self) -> Result<Pinned<T>> {
        self.done.wait()?;
        self.values.take().ok_or_else(|| crate::Error::Internal("a copy was waited for twice".into()))
    }
}

impl<T: Number> Drop for Download<T> {
    fn drop(&mut self) {
        if let Some(values) = self.values.take()
            && self.done.wait().is_err()
        {
            values.leak();
        }
    }
}
