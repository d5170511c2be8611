//! What a device is called, what it has, and which devices a caller wants:
//! plain data, nothing here touches a device.

use std::fmt;
use std::sync::Arc;

/// The kinds of device that the library drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackendKind {
    Cpu,
    Cuda,
}

impl BackendKind {
    pub const fn name(self) -> &'static str {
        match self {
            BackendKind::Cpu => "cpu",
            BackendKind::Cuda => "cuda",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that stays with a device across processes and reboots: the UUID that
/// the driver gives a card (`GPU-…`, `MIG-…`), `CPU-0` for the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(Arc<str>);

impl DeviceId {
    pub fn new(uuid: &str) -> Self {
        DeviceId(uuid.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a device may be given work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Good,
    /// Failed often enough, or in such a way, that nothing runs on it any more.
    Retired,
}

/// A device as it was found, without having been touched.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    pub id: DeviceId,
    pub backend: BackendKind,
    /// The backend's own number for the device, in this process only.
    pub ordinal: u32,
    pub name: String,
    pub pci_bus_id: Option<String>,
    pub compute_capability: Option<(u32, u32)>,
    /// Threads that the host gives this process; `None` for a card.
    pub cpu_threads: Option<u32>,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub health: Health,
}

impl DeviceInfo {
    /// `cpu:0`, `cuda:3`: how people name a device on a command line.
    pub fn label(&self) -> String {
        format!("{}:{}", self.backend, self.ordinal)
    }
}
