//! Devices behind one trait: a [`Backend`] finds them and opens a [`Queue`] for
//! each slot; a worker of the scheduler owns that queue and runs tasks on its lane.

pub mod cpu;
pub mod cuda;
mod lane;
pub mod thread;

pub use lane::Lane;

use crate::device::{BackendKind, DeviceInfo};
use crate::error::Result;

/// One kind of device. Shared by all threads.
pub trait Backend: Send + Sync {
    fn kind(&self) -> BackendKind;

    /// Looks for devices without touching any of them.
    fn devices(&self) -> Result<Vec<DeviceInfo>>;

    /// What people have to know of the last look: what was missing or can't be used, why, and what to do.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What could be allocated on the device now.
    fn free_bytes(&self, ordinal: u32) -> Result<u64>;

    /// Opens slot `slot` of `slots` on a device. Called on the worker's own thread,
    /// when the first task for that slot arrives and not before.
    ///
    /// [`Error::Busy`](crate::Error::Busy), and being short of memory, say that it may be possible later.
    fn open(&self, ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>>;

    /// The device was poisoned: queues that are opened from now on are to have nothing to do with those
    /// that were. Must not wait.
    fn renew(&self, _ordinal: u32) {}
}

/// One slot of one device. Made, used and dropped on its worker's thread.
pub trait Queue {
    /// Makes the device current on this thread. Called before every task, because the task before may have changed it,
    /// also before one that runs on top of another in the same queue.
    fn enter(&self) -> Result<()>;

    /// Waits until all that the task put on the queue is done. Called once for each [`enter`](Queue::enter) that
    /// went well: after the last of them nobody is inside.
    fn finish(&self) -> Result<()>;

    /// A task goes on below one that has ended, and that may have changed what is current on the thread.
    fn resume(&self) {}

    /// What a task's code works with.
    fn lane(&self) -> Lane<'_>;

    /// Memory was short: gives back what is kept for reuse.
    fn relieve(&self) {}
}
