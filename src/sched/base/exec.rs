//! The job of a task, and the context in which the scheduler calls it: its signal, with stop
//! requests, commit and progress, and its lease.

use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use log::Level;

use super::{TaskId, WaitResult, lock};
use crate::backend::Lane;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::node::{LockedTable, SlotLease};
use crate::store::findings::Findings;

/// The code of a task. The scheduler calls it once an attempt, on several devices at the same time
/// if the task is [idempotent](super::task::Task::idempotent).
pub trait Job: Send + Sync {
    fn run(&self, exec: &Exec<'_>) -> Result<()>;

    /// Returns true if dropping the job runs code of the caller, or code that takes locks. Such a
    /// job is dropped without the planner lock.
    fn has_drop(&self) -> bool {
        std::mem::needs_drop::<Self>()
    }
}

impl<F: Fn(&Exec<'_>) -> Result<()> + Send + Sync> Job for F {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        self(exec)
    }
}

/// Bit of the stop flags of light tasks: those that run are asked to stop.
pub const STOPPING: u8 = 2;

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
    /// The scheduler's, in an attempt at a light task, which counts as cancelled once [`STOPPING`]
    /// is set.
    pub(crate) stop_flags: Option<&'a AtomicU8>,
    pub(crate) lease: Option<&'a DeviceLease>,
    pub(crate) findings: Option<&'a Findings>,
}

impl Exec<'_> {
    /// Returns true if this attempt should stop: the task was cancelled, another copy of it won, or
    /// the attempt is over its deadline. Long jobs poll it and return
    /// [`Error::Cancelled`].
    pub fn cancelled(&self) -> bool {
        self.cancel_if_stopping();
        self.signal.is_stopped(self.attempt)
    }

    /// Cancels a light task if all are to stop.
    fn cancel_if_stopping(&self) {
        if self.stop_flags.is_some_and(|flags| flags.load(Ordering::SeqCst) & STOPPING != 0) {
            self.signal.cancel();
        }
    }

    /// Reports which part of this attempt is done, from 0 to 1; NaN is ignored. The first report
    /// above 0 says that the job has allocated its device memory: other processes then trust the
    /// device's own count and reserve nothing on top.
    pub fn report(&self, done: f64) {
        if done > 0.0 {
            self.count_allocated(u64::MAX);
        }
        self.signal.report(done);
    }

    /// Reports that the job has allocated so many more bytes of its device memory: other processes
    /// count them as used, not also as reserved.
    pub fn count_allocated(&self, more: u64) {
        if let Some(lease) = self.lease {
            lease.count_allocated(more);
        }
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
    /// be cancelled and no other copy of it counts. Returns [`Error::Cancelled`] if the task was
    /// cancelled before, another copy has committed, or this attempt was abandoned.
    pub fn commit(&self) -> Result<()> {
        self.cancel_if_stopping();
        self.signal.commit(self.attempt)
    }
}

/// Leases a slot of a device until it is dropped.
pub struct DeviceLease {
    lease: SlotLease,
    pub bytes: u64,
    /// Bytes of them that peers know as allocated.
    allocated: Mutex<u64>,
}

impl DeviceLease {
    /// Takes a lease. `None`: the lease could not be written; `log` says so.
    pub fn new(
        table: &mut LockedTable<'_>,
        device: usize,
        cost: Option<f64>,
        bytes: u64,
        log: &mut Vec<(Level, String)>,
    ) -> Option<DeviceLease> {
        let unseen = |error: &Error| {
            let text = format!("a task begins without a lease, so other processes do not see it: {error}");
            log.push((Level::Warn, text));
        };
        let lease = table.lease(device, cost, bytes).inspect_err(unseen).ok()?;
        Some(DeviceLease { lease, bytes, allocated: Mutex::new(0) })
    }

    /// Reports that the task has allocated so many more of its reserved bytes: from then on they are
    /// missing from the free memory that the device itself reports, and count no longer as reserved.
    fn count_allocated(&self, more: u64) {
        let mut allocated = lock(&self.allocated);
        let sum = allocated.saturating_add(more).min(self.bytes);
        if sum > std::mem::replace(&mut allocated, sum) {
            self.lease.set_used_bytes(sum);
        }
    }
}

/// A planned task's signal and outcome. Waiting threads hold it beyond the release of the task's
/// id.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    signal: Signal,
    /// Set once, under the planner lock, when the task ends.
    pub outcome: OnceLock<Result<WaitResult>>,
}

impl Deref for Completion {
    type Target = Signal;

    fn deref(&self) -> &Signal {
        &self.signal
    }
}

/// The stop requests to a task's attempts, and the progress that they report.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The high half: 0, [`CANCELLED`], or the attempt that has committed. A cancel and the commits of
    /// the attempts race for it; the first one wins. The low half: attempts up to this one can't
    /// commit.
    claim: AtomicU64,
    /// Attempts up to this one are asked to stop.
    stop: AtomicU32,
    /// From 0 to 1, as the bits of an `f64`.
    progress: AtomicU64,
}

const CANCELLED: u64 = u32::MAX as u64;

impl Signal {
    /// Prepares the signal for another task.
    pub fn reset(&self) {
        self.claim.store(0, Ordering::Release);
        self.stop.store(0, Ordering::Release);
        self.progress.store(0, Ordering::Relaxed);
    }

    /// Returns the high half of `claim`.
    fn winner(&self) -> u64 {
        self.claim.load(Ordering::Acquire) >> 32
    }

    /// Returns true if the whole task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.winner() == CANCELLED
    }

    /// Returns true if the task was cancelled or an attempt has committed.
    pub fn is_decided(&self) -> bool {
        self.winner() != 0
    }

    /// Returns true if this attempt should stop.
    pub fn is_stopped(&self, attempt: u32) -> bool {
        match self.winner() {
            0 => attempt <= self.stop.load(Ordering::Acquire),
            winner => winner != u64::from(attempt),
        }
    }

    /// Returns true if another attempt than this has committed.
    pub fn is_lost(&self, attempt: u32) -> bool {
        ![0, CANCELLED, u64::from(attempt)].contains(&self.winner())
    }

    /// Changes `claim` if `change` returns a value. Returns the former one, as an error if none.
    fn update_claim(&self, change: impl Fn(u64) -> Option<u64>) -> std::result::Result<u64, u64> {
        self.claim.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change)
    }

    pub fn cancel(&self) {
        let _ = self.update_claim(|claim| (claim >> 32 == 0).then_some(claim | CANCELLED << 32));
    }

    /// Asks this attempt and all before it to stop.
    pub fn stop(&self, attempt: u32) {
        self.stop.fetch_max(attempt, Ordering::AcqRel);
    }

    /// Commits an attempt; again is no error. Returns [`Error::Cancelled`] if the task was
    /// cancelled, another attempt has committed or this one is barred.
    pub fn commit(&self, attempt: u32) -> Result<()> {
        let attempt = u64::from(attempt);
        // Smaller than the attempt: nothing is decided, and it is not barred.
        match self.update_claim(|claim| (claim < attempt).then_some(claim | attempt << 32)) {
            Err(claim) if claim >> 32 != attempt => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    /// Bars this attempt and all before it from a commit. Returns true if it has committed already.
    pub fn bar(&self, attempt: u32) -> bool {
        let attempt = u64::from(attempt);
        let former = self.update_claim(|claim| Some(claim.max(claim >> 32 << 32 | attempt)));
        former.is_ok_and(|claim| claim >> 32 == attempt)
    }

    /// Revokes the commit of an attempt that will be retried, and its progress. A cancel stays.
    pub fn reopen(&self, attempt: u32) {
        let attempt = u64::from(attempt);
        let _ = self.update_claim(|claim| (claim >> 32 == attempt).then_some(claim & u64::from(u32::MAX)));
        self.report(0.0);
    }

    /// Sets the progress, clamped to 0 to 1. Ignores NaN.
    pub fn report(&self, done: f64) {
        if !done.is_nan() {
            self.progress.store(done.clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
        }
    }

    pub fn progress(&self) -> f64 {
        f64::from_bits(self.progress.load(Ordering::Relaxed))
    }
}
