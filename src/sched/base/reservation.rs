//! A slot of a device and bytes of its memory, as far as other processes have to know of them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::node::{LockedTable, SlotLease};

/// A slot of a device, for as long as this lives.
pub struct DeviceLease {
    lease: SlotLease,
    bytes: u64,
    /// The others know that the memory is taken.
    told: AtomicBool,
}

impl DeviceLease {
    /// `None`: the others could not be told.
    pub fn new(
        table: &mut LockedTable<'_>,
        device: usize,
        cost: Option<f64>,
        bytes: u64,
    ) -> Option<DeviceLease> {
        let lease = table.lease(device, cost, bytes);
        let lease = lease.inspect_err(|error| log::warn!("others are not told of a task: {error}")).ok()?;
        Some(DeviceLease { lease, bytes, told: AtomicBool::new(false) })
    }

    /// The task has allocated its reserved bytes: the device itself tells of them from now on.
    pub fn is_allocated(&self) {
        if self.bytes > 0 && !self.told.swap(true, Ordering::Relaxed) {
            self.lease.set_used_bytes(self.bytes);
        }
    }
}
