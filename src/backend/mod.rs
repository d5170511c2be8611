//! Devices behind one trait. A [`Backend`] finds devices and opens a [`Queue`] for each slot. A
//! worker of the scheduler owns that queue and runs tasks on its [`Lane`].
//!
//! | file | contents |
//! |---|---|
//! | `float_mode`, `callback_mode` | floating-point modes of the library and of its callers |
//! | `thread` | the library's threads: signal mask, floating-point mode, cancellation, forks |
//! | `search` | result of a search for devices |
//! | `cpu`, `cuda`, `lane` | the host as a device; NVIDIA GPUs; the queue of a slot, by kind |

pub mod callback_mode;
pub mod cpu;
pub mod cuda;
pub mod float_mode;
mod lane;
mod search;
pub mod thread;

pub use lane::Lane;
pub use search::{CpuFallback, DeviceSearch};

use std::time::Duration;

use crate::device::BackendKind;
use crate::error::Result;

/// A kind of device. All threads share the object.
pub trait Backend: Send + Sync {
    fn kind(&self) -> BackendKind;

    /// Searches for the devices of this kind. Creates no context on any of them.
    fn search(&self) -> Result<DeviceSearch>;

    /// Returns the bytes that could be allocated on the device now.
    fn free_bytes(&self, ordinal: u32) -> Result<u64>;

    /// Returns the bytes that the device's context takes, as measured at its creation. 0: not
    /// known.
    fn context_bytes(&self, _ordinal: u32) -> u64 {
        0
    }

    /// Returns how long ago a thread last created the device's context or compiled kernels for it.
    /// Zero while a thread does; `None` if none has. Must not block.
    fn since_preparation(&self, _ordinal: u32) -> Option<Duration> {
        None
    }

    /// Opens slot `slot` of `slots` on a device. The worker's own thread calls it when the first
    /// task for that slot arrives.
    ///
    /// [`Error::Busy`](crate::Error::Busy), and errors for lack of memory, mean that a later
    /// attempt may succeed.
    fn open(&self, ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>>;

    /// Retires the context of a poisoned device: queues that are opened from now on use a new one.
    /// Must not block.
    fn renew(&self, _ordinal: u32) {}

    /// Ends the context of a device, unless a task uses it, for other processes that wait for
    /// memory. Idle queues can't be entered afterwards; queues that are opened use a new context.
    /// Must not panic.
    fn end_context_if_idle(&self, _ordinal: u32) {}
}

/// The queue of one slot of one device. Created, used and dropped on its worker's thread. Only
/// [`enter`](Queue::enter) and [`finish`](Queue::finish) may panic.
pub trait Queue {
    /// Makes the device current on this thread. Called before every task, also before a nested one,
    /// because the previous task may have made another device current.
    fn enter(&self) -> Result<()>;

    /// Waits until all work of the task is done. Called once for each successful
    /// [`enter`](Queue::enter); after the last of them no task uses the device.
    fn finish(&self) -> Result<()>;

    /// Returns true if the next task must have another queue, because the device's context is
    /// retired.
    fn is_stale(&self) -> bool {
        false
    }

    /// Makes the device current again for a task that continues after a nested one.
    fn resume(&self) {}

    /// Returns the queue as the code of a task uses it.
    fn lane(&self) -> Lane<'_>;

    /// Frees the memory that is cached for reuse, after an allocation failed. May wait for all work
    /// on the device.
    fn relieve(&self) {}

    /// Frees the cached memory if no task uses the device. Never waits for work on the device: the
    /// caller is in no attempt, so no deadline ends a wait for work that hangs.
    fn relieve_if_idle(&self) {}
}
