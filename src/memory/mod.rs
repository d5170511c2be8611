//! Leases of device memory between the tasks of a process.

mod ledger;

pub use ledger::{Lease, Ledger};

use crate::device::BackendKind;

/// Peak memory of a task, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Memory of the task's device.
    pub device: u64,
    /// Additional host memory, whatever the device.
    pub host: u64,
}

impl Bytes {
    /// Returns the bytes that the task needs on a device of this kind. On the CPU, device memory is
    /// host memory.
    pub fn on(self, backend: BackendKind) -> u64 {
        match backend {
            BackendKind::Cpu => self.device.saturating_add(self.host),
            _ => self.device,
        }
    }

    /// Returns the larger value of each field.
    pub fn max(self, other: Bytes) -> Bytes {
        Bytes { device: self.device.max(other.device), host: self.host.max(other.host) }
    }
}
