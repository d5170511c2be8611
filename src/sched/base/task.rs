//! What a task is, what its code is given, and what is told of it.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::reservation::DeviceLease;
use crate::backend::Lane;
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};
use crate::memory::Bytes;
use crate::store::findings::Findings;

/// Index and generation: an id that has been released is an error, never another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// A task's code. It may be called more than once: after a failure, if retries were asked for.
pub trait Job: Send + Sync {
    fn run(&self, exec: &Exec<'_>) -> Result<()>;
}

impl<F: Fn(&Exec<'_>) -> Result<()> + Send + Sync> Job for F {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        self(exec)
    }
}

/// The devices of a scheduler, by their position in [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceMask(pub u64);

impl DeviceMask {
    pub const ALL: DeviceMask = DeviceMask(u64::MAX);
    pub const NONE: DeviceMask = DeviceMask(0);

    pub fn contains(self, index: usize) -> bool {
        index < 64 && self.0 >> index & 1 == 1
    }

    /// Returns an empty mask for a position beyond 63.
    pub fn only(index: usize) -> DeviceMask {
        DeviceMask(u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0))
    }

    pub fn add(&mut self, index: usize) {
        self.0 |= DeviceMask::only(index).0;
    }

    pub fn without(self, other: DeviceMask) -> DeviceMask {
        DeviceMask(self.0 & !other.0)
    }
}

/// A job and what the scheduler is told of it. Start from [`Task::new`] and set what matters.
pub struct Task {
    pub job: Box<dyn Job>,
    pub label: String,
    /// Device memory that the job allocates at its peak; reserved while it runs.
    pub device_bytes: u64,
    /// Memory of the host that it takes besides, wherever it runs; on the CPU device both are one.
    pub host_bytes: u64,
    /// How much there is to do, in any unit that all tasks of a scheduler share. `None`: unknown.
    pub work: Option<f64>,
    /// Higher runs earlier.
    pub priority: i32,
    /// How often a failed attempt is followed by another.
    pub retries: u32,
    pub devices: DeviceMask,
    /// Empty: every kind of device.
    pub backends: Vec<BackendKind>,
    /// Nobody will ask for the outcome: the id is released when the task ends.
    pub detached: bool,
    /// Tasks of a class are alike: how fast each device is, and how long a task may take, is learned
    /// for each class. 0 is a class, too.
    pub class: u32,
    /// How long an attempt may take before it is asked to stop. `None`: as long as those of its
    /// class lead to expect, and then only a warning.
    pub deadline: Option<Duration>,
    /// Tasks that have to end well before this one starts; if one does not, this one fails.
    pub after: Vec<TaskId>,
    /// A second copy may be started elsewhere while the first still runs; the first to commit, or
    /// to end well, counts, and the other is asked to stop.
    pub idempotent: bool,
    /// Its outcome is told by [`Scheduler::wait_next`](crate::sched::api::scheduler::Scheduler::wait_next), in the order of submission.
    pub ordered: bool,
    #[doc(hidden)]
    pub role: Role,
}

/// What a task is to the scheduler. Of those that work on a range nobody can tell how long they will be
/// there; they are planned tasks, whatever they state.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    #[default]
    Task,
    /// A range: the worker that has it is its host.
    Range,
    /// A range without elements: done as soon as it is ready.
    Nothing,
    /// An invitation to work on a range; no caller knows of it.
    Guest,
    /// It stands for a task outside of the plan that others come after, and never runs.
    Shadow,
}

impl Task {
    /// Nothing is stated of it: any worker may run it whenever it likes.
    pub(crate) fn is_light(&self) -> bool {
        self.work.is_none()
            && self.class == 0
            && self.bytes() == Bytes::default()
            && self.devices == DeviceMask::ALL
            && self.backends.is_empty()
            && self.priority == 0
            && self.retries == 0
            && self.deadline.is_none()
            && self.after.is_empty()
            && !self.idempotent
            && !self.ordered
            && self.label.is_empty()
            && self.role == Role::Task
    }

    pub(crate) fn bytes(&self) -> Bytes {
        Bytes { device: self.device_bytes, host: self.host_bytes }
    }

    pub fn new(job: impl Job + 'static) -> Self {
        Task {
            job: Box::new(job),
            label: String::new(),
            device_bytes: 0,
            host_bytes: 0,
            work: None,
            priority: 0,
            retries: 0,
            devices: DeviceMask::ALL,
            backends: Vec::new(),
            detached: false,
            class: 0,
            deadline: None,
            after: Vec::new(),
            idempotent: false,
            ordered: false,
            role: Role::Task,
        }
    }
}

/// What a job is given while it runs.
pub struct Exec<'a> {
    pub task: TaskId,
    pub device: &'a DeviceInfo,
    /// The device's position in [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
    pub device_index: usize,
    pub slot: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
    pub lane: Lane<'a>,
    pub(crate) signal: &'a Signal,
    pub(crate) held: Option<&'a DeviceLease>,
    pub(crate) findings: Option<&'a Findings>,
}

impl Exec<'_> {
    /// Whether this attempt should stop: the task was cancelled, another copy of it was first, or it
    /// takes longer than it may. Long jobs look now and then, and return [`Error::Cancelled`].
    pub fn cancelled(&self) -> bool {
        self.signal.is_stopped(self.attempt)
    }

    /// Tells how much of this attempt is done, from 0 to 1; NaN tells nothing. Whoever reports something has
    /// allocated what it needs: other processes do not leave room for that any more.
    pub fn report(&self, done: f64) {
        if let Some(held) = self.held.filter(|_| done > 0.0) {
            held.is_allocated();
        }
        self.signal.report(done);
    }

    /// What was found out about something on devices like this one, by an earlier task, also of an earlier process. It comes
    /// from a file, so it may be any text. `None`: nothing is known, or kept.
    pub fn finding(&self, subject: &str) -> Option<String> {
        self.findings?.of(self.device, subject)
    }

    /// What this task has found out, for later ones: short, plain text, no more than a few on each kind of device. A subject names
    /// all that it depends on but the device and the library's version.
    pub fn found(&self, subject: &str, finding: &str) {
        if let Some(findings) = self.findings {
            findings.found(self.device, subject, finding);
        }
    }

    /// Called before a result is put where others see it: from here on the task can't be
    /// cancelled any more, and no other copy of it counts. `Err(Cancelled)` if it already was, or one does.
    pub fn commit(&self) -> Result<()> {
        self.signal.commit(self.attempt)
    }
}

/// A planned task's signal and its outcome, without the registry: those who watch the task may hold them
/// longer than its id is known.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    signal: Signal,
    /// Set once, under the scheduler's lock, when the task has ended.
    pub outcome: OnceLock<Result<WaitResult>>,
}

impl Deref for Completion {
    type Target = Signal;

    fn deref(&self) -> &Signal {
        &self.signal
    }
}

/// What passes between the code of a task and those who ask it to stop or how far it is.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Who decides how the task ends: nobody yet, a cancel, or the attempt that committed. They race
    /// for this word, and one wins.
    claim: AtomicU64,
    /// Attempts up to this one are asked to stop.
    stop: AtomicU32,
    progress: AtomicU64,
}

/// What a task has made of its signal.
pub(crate) struct SavedClaim(u64);

const OPEN: u64 = 0;
const CANCELLED: u64 = 1;
/// Plus the attempt.
const COMMITTED: u64 = 1 << 32;

impl Signal {
    /// For another task.
    pub fn reset(&self) {
        self.claim.store(OPEN, Ordering::Release);
        self.stop.store(0, Ordering::Release);
        self.progress.store(0, Ordering::Relaxed);
    }

    /// The whole task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.claim.load(Ordering::Acquire) == CANCELLED
    }

    /// It was cancelled, or an attempt has committed.
    pub fn is_decided(&self) -> bool {
        self.claim.load(Ordering::Acquire) != OPEN
    }

    /// This attempt should stop.
    pub fn is_stopped(&self, attempt: u32) -> bool {
        match self.claim.load(Ordering::Acquire) {
            OPEN => attempt <= self.stop.load(Ordering::Acquire),
            claim => claim != COMMITTED + u64::from(attempt),
        }
    }

    /// Another attempt than this has committed.
    pub fn is_lost(&self, attempt: u32) -> bool {
        let claim = self.claim.load(Ordering::Acquire);
        claim > CANCELLED && claim != COMMITTED + u64::from(attempt)
    }

    pub fn cancel(&self) {
        let _ = self.claim.compare_exchange(OPEN, CANCELLED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A task begins on top of another whose signal this is, too, if there is one: for [`Signal::leave`]. All are
    /// cancelled if `stopping`, which is set before they are.
    pub fn enter(&self, stopping: impl Fn() -> bool) -> SavedClaim {
        let below = self.claim.load(Ordering::Acquire);
        if below > CANCELLED {
            self.turn(OPEN, stopping);
        }
        SavedClaim(below)
    }

    /// It has returned: the signal is the other's again.
    pub fn leave(&self, SavedClaim(below): SavedClaim, stopping: impl Fn() -> bool) {
        if self.claim.load(Ordering::Acquire) != below {
            self.turn(below, stopping);
        }
    }

    fn turn(&self, claim: u64, stopping: impl Fn() -> bool) {
        self.claim.swap(claim, Ordering::SeqCst);
        if stopping() {
            self.cancel();
        }
    }

    /// Asks this attempt and all before it to stop.
    pub fn stop(&self, attempt: u32) {
        self.stop.fetch_max(attempt, Ordering::AcqRel);
    }

    pub fn commit(&self, attempt: u32) -> Result<()> {
        let mine = COMMITTED + u64::from(attempt);
        match self.claim.compare_exchange(OPEN, mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(claim) if claim == mine => Ok(()),
            Err(_) => Err(Error::Cancelled),
        }
    }

    /// Before another attempt: what this one has committed counts no more. A cancel stays.
    pub fn renew(&self, attempt: u32) {
        let mine = COMMITTED + u64::from(attempt);
        let _ = self.claim.compare_exchange(mine, OPEN, Ordering::AcqRel, Ordering::Acquire);
        self.report(0.0);
    }

    pub fn report(&self, done: f64) {
        if !done.is_nan() {
            self.progress.store(done.clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
        }
    }

    pub fn progress(&self) -> f64 {
        f64::from_bits(self.progress.load(Ordering::Relaxed))
    }
}

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub fn is_ended(self) -> bool {
        matches!(self, TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled)
    }
}

/// What is known of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskInfo {
    pub state: TaskStatus,
    pub label: String,
    /// Where it runs or ran last: position in [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
    pub device: Option<usize>,
    pub slot: u32,
    /// Attempts begun.
    pub attempts: u32,
    /// As told by [`Exec::report`], from 0 to 1.
    pub progress: f64,
    pub queued_ns: u64,
    pub running_ns: u64,
    pub error: Option<Error>,
}

/// How a wait ended, if the task did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    Done,
    /// The time was up first.
    Pending,
    Cancelled,
}
