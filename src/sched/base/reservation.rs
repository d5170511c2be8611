//! A lease between processes: a slot of a device and memory there, held for a task.

use std::sync::atomic::{AtomicBool, Ordering};

use log::Level;

use crate::node::{LockedTable, SlotLease};

/// Leases a slot of a device until it is dropped.
pub struct DeviceLease {
    lease: SlotLease,
    bytes: u64,
    /// Peers know that the memory is allocated.
    allocated: AtomicBool,
}

impl DeviceLease {
    /// Takes a lease. `Err`: the lease could not be written; the log record that says so.
    pub fn new(
        table: &mut LockedTable<'_>,
        device: usize,
        cost: Option<f64>,
        bytes: u64,
    ) -> Result<DeviceLease, (Level, String)> {
        match table.lease(device, cost, bytes) {
            Ok(lease) => Ok(DeviceLease { lease, bytes, allocated: AtomicBool::new(false) }),
            Err(error) => {
                let text =
                    format!("a task begins without a lease, so other processes do not see it: {error}");
                Err((Level::Warn, text))
            }
        }
    }

    /// Reports that the task has allocated its reserved bytes: from then on they are missing from
    /// the free memory that the device itself reports, and count no longer as reserved.
    pub fn mark_allocated(&self) {
        if self.bytes > 0 && !self.allocated.swap(true, Ordering::Relaxed) {
            self.lease.set_used_bytes(self.bytes);
        }
    }
}
