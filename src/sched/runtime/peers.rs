//! The other processes of the node: the file of leases that they share, and what was last read of
//! it.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use log::Level;

use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};
use crate::node::{LockedTable, Membership, SharedDevice};
use crate::sched::base::{lock, nanoseconds};

pub struct Peers {
    pub membership: Membership,
    /// Bit i: processes share device i.
    shared: u64,
    /// Bit i: peers hold all of device i, or are before us in the queue for it.
    pub taken: AtomicU64,
    /// Bit i: peers wait for device i.
    pub contended: AtomicU64,
    /// By device: slots leased for light tasks.
    pub light_leases: Vec<AtomicU32>,
    pub watcher: Mutex<WatcherState>,
    pub watcher_wakeup: Condvar,
    /// The shared table is not locked before this time, in nanoseconds of the scheduler's time.
    suspended_until: AtomicU64,
    /// See [`Policy::suspension`](crate::sched::base::policy::Policy::suspension).
    suspension: Duration,
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
    /// Joins the node. `None`: there is no device to share, or sharing is switched off.
    pub fn join(
        folder: Option<&Path>,
        devices: &[DeviceInfo],
        slots: &[u32],
        suspension: Duration,
    ) -> Result<Option<Peers>> {
        let is_shared = |device: &DeviceInfo| device.backend == BackendKind::Cuda;
        let shared =
            devices.iter().enumerate().fold(0, |bits, (i, device)| bits | u64::from(is_shared(device)) << i);
        if shared == 0 {
            return Ok(None);
        }
        let joining: Vec<Option<SharedDevice<'_>>> = devices
            .iter()
            .zip(slots)
            .map(|(device, &slots)| {
                is_shared(device).then(|| SharedDevice { uuid: device.id.as_str(), slots })
            })
            .collect();
        let Some(membership) = Membership::join(folder, &joining)? else { return Ok(None) };
        Ok(Some(Peers {
            membership,
            shared,
            taken: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            light_leases: devices.iter().map(|_| AtomicU32::new(0)).collect(),
            watcher: Mutex::default(),
            watcher_wakeup: Condvar::new(),
            suspended_until: AtomicU64::new(0),
            suspension,
        }))
    }

    pub fn shares(&self, device: usize) -> bool {
        self.shared >> device & 1 == 1
    }

    /// Wakes the watcher: the scheduler ends, or its request has changed.
    pub fn wake_watcher(&self) {
        drop(lock(&self.watcher));
        self.watcher_wakeup.notify_all();
        self.membership.wake();
    }

    /// Locks the shared table. If that fails, logs why and returns `None`, also for
    /// a while after that: it is better to run beside the peers than not at all.
    ///
    /// Not to be called with the planner lock held: the log may be the caller's code.
    pub fn lock_table(&self, now: u64) -> Option<LockedTable<'_>> {
        if now < self.suspended_until.load(Ordering::Relaxed) {
            return None;
        }
        let warn = |error: &Error| {
            let (level, text) = self.suspend(now, error);
            log::log!(level, "{text}");
        };
        self.membership.lock().inspect_err(warn).ok()
    }

    /// Ignores peers for a while. Returns the log record that says so.
    pub fn suspend(&self, now: u64, why: &Error) -> (Level, String) {
        let until = now.saturating_add(nanoseconds(self.suspension));
        self.suspended_until.store(until, Ordering::Relaxed);
        self.taken.store(0, Ordering::SeqCst);
        let seconds = self.suspension.as_secs_f64();
        (Level::Warn, format!("tasks begin without regard to other processes for {seconds} s: {why}"))
    }
}
