//! Leases of device memory between the tasks of a process.

mod ledger;

pub use ledger::{Lease, Ledger};

use unit_prefix::NumberPrefix;

use crate::device::BackendKind;

/// Formats a number of bytes for people, such as `1.50 GiB`.
pub fn human(bytes: u64) -> String {
    match NumberPrefix::binary(bytes as f64) {
        NumberPrefix::Standalone(_) => format!("{bytes} B"),
        NumberPrefix::Prefixed(prefix, number) => format!("{number:.2} {prefix}B"),
    }
}

/// Peak memory of a task, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Memory of the task's device.
    pub device: u64,
    /// Additional host memory, whatever the device.
    pub host: u64,
}

impl Bytes {
    /// Returns the bytes that the task needs on a device of that kind. The CPU's memory is the
    /// host's.
    pub fn on(self, backend: BackendKind) -> u64 {
        match backend {
            BackendKind::Cpu => self.device.saturating_add(self.host),
            _ => self.device,
        }
    }

    /// Returns the larger of each.
    pub fn max(self, other: Bytes) -> Bytes {
        Bytes { device: self.device.max(other.device), host: self.host.max(other.host) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_in_the_largest_unit_below_them() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536 << 10, "1.50 MiB"),
            (5 << 50, "5.00 PiB"),
        ] {
            assert_eq!(human(count), text);
        }
    }
}
