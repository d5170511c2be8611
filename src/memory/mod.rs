//! Who has leased how many bytes of which device.

mod ledger;

pub use ledger::{Lease, Ledger};

use crate::device::BackendKind;

/// What a task takes at its peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Of its device.
    pub device: u64,
    /// Of the host besides, wherever it runs.
    pub host: u64,
}

impl Bytes {
    /// Of a device of that kind: the CPU's memory is the host's.
    pub fn on(self, backend: BackendKind) -> u64 {
        match backend {
            BackendKind::Cpu => self.device.saturating_add(self.host),
            _ => self.device,
        }
    }

    /// The larger of each.
    pub fn max(self, other: Bytes) -> Bytes {
        Bytes { device: self.device.max(other.device), host: self.host.max(other.host) }
    }
}
