//! The other processes of the node: the file of leases that they share, and what was last seen of them.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};
use crate::node::{LockedTable, Membership, SharedDevice};
use crate::sched::base::sync::lock;

/// Nanoseconds for which a door that does not open is not tried again.
const SHUT: u64 = 30_000_000_000;

pub struct Peers {
    pub node: Membership,
    /// Bit i: device i is one that processes share.
    shared: u64,
    /// Bit i: others have all of device i, or will have it first.
    pub taken: AtomicU64,
    /// Bit i: others wait for device i.
    pub contended: AtomicU64,
    /// By device: slots held for light tasks.
    pub lit: Vec<AtomicU32>,
    pub line: Mutex<PeerQueue>,
    pub called: Condvar,
    /// The door did not open: nobody is asked before then, in nanoseconds of the scheduler's time.
    shut: AtomicU64,
}

#[derive(Default)]
pub struct PeerQueue {
    pub waits: bool,
    pub watched: bool,
}

/// The node while nobody else decides anything there. `Alone`: the device is not one to share, or nobody can tell.
pub enum NodeAccess<'a> {
    Alone,
    Open(&'a Peers, LockedTable<'a>),
}

impl Peers {
    /// `None`: nothing is shared, or not to be.
    pub fn join(folder: Option<&Path>, devices: &[DeviceInfo], slots: &[u32]) -> Result<Option<Peers>> {
        let is_shared = |device: &DeviceInfo| device.backend == BackendKind::Cuda;
        let shared =
            devices.iter().enumerate().fold(0, |bits, (i, device)| bits | u64::from(is_shared(device)) << i);
        if shared == 0 {
            return Ok(None);
        }
        let told: Vec<Option<SharedDevice<'_>>> = devices
            .iter()
            .zip(slots)
            .map(|(device, &slots)| {
                is_shared(device).then(|| SharedDevice { uuid: device.id.as_str(), slots })
            })
            .collect();
        let Some(node) = Membership::join(folder, &told)? else { return Ok(None) };
        Ok(Some(Peers {
            node,
            shared,
            taken: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            lit: devices.iter().map(|_| AtomicU32::new(0)).collect(),
            line: Mutex::default(),
            called: Condvar::new(),
            shut: AtomicU64::new(0),
        }))
    }

    pub fn shares(&self, device: usize) -> bool {
        self.shared >> device & 1 == 1
    }

    /// A scheduler ends, or has something new to say.
    pub fn call(&self) {
        drop(lock(&self.line));
        self.called.notify_all();
        self.node.wake();
    }

    /// `None`: it can't be told what others have, now and for a while. To work beside them is better than not to work.
    pub fn inside(&self, now: u64) -> Option<LockedTable<'_>> {
        if now < self.shut.load(Ordering::Relaxed) {
            return None;
        }
        self.node.lock().inspect_err(|error| self.shut(now, error)).ok()
    }

    pub fn shut(&self, now: u64, why: &Error) {
        self.shut.store(now.saturating_add(SHUT), Ordering::Relaxed);
        self.taken.store(0, Ordering::SeqCst);
        log::warn!("for half a minute tasks begin without regard to other processes: {why}");
    }
}
