//! Devices behind one trait: a [`Backend`] finds them and opens a [`Queue`] for
//! each slot; a worker of the scheduler owns that queue and runs tasks on its lane.

pub mod cpu;
pub mod thread;

use crate::device::{BackendKind, DeviceInfo};
use crate::error::Result;

/// One kind of device. Shared by all threads.
pub trait Backend: Send + Sync {
    fn kind(&self) -> BackendKind;

    /// Looks for devices without touching any of them.
    fn devices(&self) -> Result<Vec<DeviceInfo>>;

    /// What could be allocated on the device now.
    fn free_bytes(&self, ordinal: u32) -> Result<u64>;

    /// Opens slot `slot` of `slots` on a device. Called on the worker's own thread,
    /// when the first task for that slot arrives and not before.
    fn open(&self, ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>>;
}

/// One slot of one device. Made, used and dropped on its worker's thread.
pub trait Queue {
    /// Makes the device current on this thread. Called before every task,
    /// because the task before may have changed it.
    fn enter(&self) -> Result<()>;

    /// Waits until all that the task put on the queue is done.
    fn finish(&self) -> Result<()>;

    /// What a task's code works with.
    fn lane(&self) -> Lane<'_>;
}

/// The concrete queue of a slot: what a propagator needs to launch its kernels.
#[derive(Clone, Copy)]
pub enum Lane<'a> {
    Cpu(&'a cpu::Team),
}

impl Lane<'_> {
    /// Waits until all that was put on it is done.
    pub fn finish(self) -> Result<()> {
        match self {
            // What a team is given is done when the call returns.
            Lane::Cpu(_) => Ok(()),
        }
    }
}
