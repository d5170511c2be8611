//! Result of a search for devices.

use crate::device::DeviceInfo;

/// How the CPU replaces devices that a search did not find.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum CpuFallback {
    /// The machine has none that this process may use.
    #[default]
    Quiet,
    /// The machine may have some, but their driver can't be used.
    Warned,
    /// The machine has some, but not for this process, or not yet.
    Refused,
}

/// Result of a search for devices.
#[derive(Debug, Default)]
pub struct DeviceSearch {
    pub devices: Vec<DeviceInfo>,
    /// Messages for users: which devices are missing or unusable, why, and what to do.
    pub notes: Vec<String>,
    /// How the CPU may replace devices that were not found.
    pub cpu_fallback: CpuFallback,
}
