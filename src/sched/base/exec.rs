//! The job of a task, and the context in which the scheduler calls it, with its lease.

use std::sync::atomic::{AtomicBool, Ordering};

use log::Level;

use super::{Signal, TaskId};
use crate::backend::Lane;
use crate::device::DeviceInfo;
use crate::error::Result;
use crate::node::{LockedTable, SlotLease};
use crate::store::findings::Findings;

/// The code of a task. The scheduler calls it once an attempt, on several devices at the same time
/// if the task is [idempotent](super::task::Task::idempotent).
pub trait Job: Send + Sync {
    fn run(&self, exec: &Exec<'_>) -> Result<()>;

    /// Returns true if dropping the job runs code of the caller, or code that takes locks. Such a job
    /// is dropped without the planner lock.
    fn has_drop(&self) -> bool {
        std::mem::needs_drop::<Self>()
    }
}

impl<F: Fn(&Exec<'_>) -> Result<()> + Send + Sync> Job for F {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        self(exec)
    }
}

/// The context of an attempt.
pub struct Exec<'a> {
    pub task: TaskId,
    pub device: &'a DeviceInfo,
    /// The device's position in
    /// [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
    pub device_index: usize,
    pub slot: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
    pub lane: Lane<'a>,
    pub(crate) signal: &'a Signal,
    pub(crate) lease: Option<&'a DeviceLease>,
    pub(crate) findings: Option<&'a Findings>,
}

impl Exec<'_> {
    /// Returns true if this attempt should stop: the task was cancelled, another copy of it won, or
    /// the attempt is over its deadline. Long jobs poll it and return
    /// [`Error::Cancelled`](crate::error::Error::Cancelled).
    pub fn cancelled(&self) -> bool {
        self.signal.is_stopped(self.attempt)
    }

    /// Reports which part of this attempt is done, from 0 to 1; NaN is ignored. The first report
    /// above 0 says that the job has allocated its device memory: other processes then trust the
    /// device's own count and reserve nothing on top.
    pub fn report(&self, done: f64) {
        if let Some(lease) = self.lease.filter(|_| done > 0.0) {
            lease.mark_allocated();
        }
        self.signal.report(done);
    }

    /// Returns the finding that an earlier task, also of an earlier process, has recorded about
    /// `subject` on devices like this one. It comes from a file, so it may be any text. `None` if
    /// there is none or findings are not kept.
    pub fn finding(&self, subject: &str) -> Option<String> {
        self.findings?.get(self.device, subject)
    }

    /// Records a finding for later tasks: short, plain text, a few for each kind of device. The
    /// subject names everything that it depends on except the device and the library's version.
    pub fn record_finding(&self, subject: &str, finding: &str) {
        if let Some(findings) = self.findings {
            findings.record(self.device, subject, finding);
        }
    }

    /// Commits this attempt. Jobs call it before they publish a result: from then on the task can't
    /// be cancelled and no other copy of it counts. Returns
    /// [`Error::Cancelled`](crate::error::Error::Cancelled) if the task was cancelled before, or
    /// another copy has committed.
    pub fn commit(&self) -> Result<()> {
        self.signal.commit(self.attempt)
    }
}

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
    ) -> std::result::Result<DeviceLease, (Level, String)> {
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
