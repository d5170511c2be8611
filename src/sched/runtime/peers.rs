//! The other processes of the node: the file of leases that they share, and what was last read of
//! it.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};

use crate::backend::Backend;
use crate::device::{BackendKind, DeviceInfo};
use crate::error::Result;
use crate::node::{Membership, NodePolicy, SharedDevice};

/// A device, and the backend that drives it.
pub type FoundDevice = (DeviceInfo, Arc<dyn Backend>);

pub struct Peers {
    pub membership: Membership,
    /// Bit i: peers hold all of device i, or are before us in the queue for it.
    pub taken: AtomicU64,
    pub watcher: Mutex<WatcherState>,
    pub watcher_wakeup: Condvar,
    /// The shared table is not locked before this time, in nanoseconds of the scheduler's time.
    pub suspended_until: AtomicU64,
}

/// The state of the thread that watches the queue of the node.
#[derive(Default)]
pub struct WatcherState {
    /// This scheduler waits in the queue.
    pub waiting: bool,
    /// The thread exists.
    pub running: bool,
}

impl Peers {
    /// Joins the node, with so many slots of each device. `None`: there is no device to share, or
    /// sharing is switched off.
    pub fn join(
        folder: Option<&Path>,
        devices: &[FoundDevice],
        slots: u32,
        policy: NodePolicy,
    ) -> Result<Option<Peers>> {
        let share = devices.iter().map(|(device, _)| {
            (device.backend == BackendKind::Cuda).then_some(SharedDevice { uuid: &device.id, slots })
        });
        let joining: Vec<Option<SharedDevice<'_>>> = share.collect();
        if joining.iter().all(Option::is_none) {
            return Ok(None);
        }
        let Some(membership) = Membership::join(folder, &joining, policy)? else { return Ok(None) };
        Ok(Some(Peers {
            membership,
            taken: AtomicU64::new(0),
            watcher: Mutex::default(),
            watcher_wakeup: Condvar::new(),
            suspended_until: AtomicU64::new(0),
        }))
    }
}
