//! Records of tasks, attempts and devices.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::TaskState;
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, plain};
use crate::memory::{Bytes, Lease, Ledger};
use crate::sched::base::{Completion, DeviceMask, Epoch, Job, Role, Task, TaskId, TaskStatus, WaitResult};
use crate::sched::estimate::{AUTO_SLOTS, ConcurrencyTuner};

/// Accepted work of a task. Sums and products of such numbers stay finite.
pub const WORK: RangeInclusive<f64> = 1e-100..=1e100;

/// A task's place in the ready queue: higher priority first; then the earlier period of arrival, so
/// that no task waits for all that come later; then more work first, tasks that state none last;
/// then the earlier arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    priority: Reverse<i32>,
    period: u64,
    work: Reverse<u64>,
    pub(super) arrival: u64,
}

impl Rank {
    /// `work` is checked at submit: in [`WORK`], so its bits order as it does.
    pub fn new(priority: i32, period: u64, work: Option<f64>, arrival: u64) -> Self {
        let work = Reverse(work.map_or(0, |work| work.to_bits()));
        Rank { priority: Reverse(priority), period, work, arrival }
    }

    pub fn priority(self) -> i32 {
        self.priority.0
    }

    /// Returns the rank with a priority that is higher by so much.
    pub fn raised(self, by: u32) -> Self {
        Rank { priority: Reverse(self.priority.0.saturating_add_unsigned(by)), ..self }
    }
}

#[derive(Default)]
pub struct DeviceState {
    pub info: DeviceInfo,
    pub ledger: Arc<Ledger>,
    pub slots: u32,
    /// Tunes the number of slots. `None`: it is fixed.
    pub(super) tuner: Option<ConcurrencyTuner>,
    /// At most so many attempts run until then: fewer after a shortage, none after a refused thread.
    pub(super) throttles: Vec<(u32, Duration)>,
    /// Attempts that wait inside their code: as many others may run meanwhile.
    pub(super) waiting_slots: u32,
    /// Slots that this process owns. All processes together own no more than the device has.
    pub(super) owned_slots: usize,
    /// Slots leased for light tasks, and those of them whose task waits inside its code.
    pub(super) light_slots: usize,
    pub(super) waiting_light_slots: usize,
    pub attempts: Vec<Attempt>,
    pub peer_load: PeerLoad,
    /// Light tasks may be running here.
    pub runs_light: bool,
    /// Light tasks that wait inside their code, besides those inside planned ones.
    pub(super) waiting_light: usize,
    /// No other task begins here, so that this one gets its memory.
    pub(super) reserved_for: Option<TaskId>,
    pub(super) backoff: Option<Backoff>,
    /// See [`DeviceStats::refusal`](super::DeviceStats::refusal).
    pub(super) refusal: Option<&'static str>,
    /// The last assignment left a task out for memory that other processes have.
    pub(super) shortage: Option<MemoryShortage>,
    /// Number of the context. A queue of an older one is useless.
    pub context: u32,
    /// The first context since the last poisoned one.
    pub first_sound_context: u32,
    /// Nothing begins until all tasks have left the context.
    pub poisoned: bool,
    /// Nothing begins until the backend has retired the context.
    pub(super) renewing: bool,
    /// Tasks that poisoned a context once.
    pub(super) suspects: Vec<TaskId>,
    /// Tasks that were inside the last poisoned context. Empty once its cause is known.
    pub(super) poisoned_tasks: Vec<TaskId>,
    /// Tasks that poisoned a context for the second time, and did so here, since a task ended well.
    pub(super) fault_count: u32,
    /// Tasks whose result was wrong here and right when computed again.
    pub(super) wrong_result_tasks: Vec<String>,
    pub retired: Option<String>,
    /// When an attempt last began.
    pub(super) last_start: Duration,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) busy: Duration,
}

/// The share of a device that other processes hold.
#[derive(Debug, Default)]
pub struct PeerLoad {
    /// When each slot should be free that they hold, or take before this process.
    pub(super) ends: Vec<Duration>,
    /// Bytes that they have reserved and not allocated yet.
    pub(super) pending_bytes: u64,
    /// They wait for the device.
    pub is_wanted: bool,
}

pub struct Attempt {
    pub(super) id: TaskId,
    pub(super) device: usize,
    pub(super) number: u32,
    pub(super) slot: u32,
    /// Context of the device in which it began.
    pub(super) context: u32,
    pub(super) label: String,
    pub(super) started: Duration,
    pub(super) class: u32,
    pub(super) role: Role,
    pub(super) work: Option<f64>,
    /// Released when the attempt is dropped.
    pub(super) lease: Lease,
    /// Another attempt or light task of this process has run on the device meanwhile.
    pub(super) shared_device: bool,
    /// Must run alone.
    pub(super) exclusive: bool,
    pub(super) deadline_state: DeadlineState,
    /// It waits for other tasks of the scheduler.
    pub(super) awaits_tasks: bool,
}

/// Free memory of a device when it was too little for a task.
#[derive(Debug, Clone, Copy)]
pub struct MemoryShortage {
    pub(super) free: u64,
    /// Bytes that this process leased then. Once that changes, so does `free`.
    pub(super) leased: u64,
    pub(super) until: Duration,
}

/// A pause of a device that refused tasks: it, or its memory, is in use.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub(super) until: Duration,
    /// Tasks that need fewer bytes may begin meanwhile. 0: none may.
    pub(super) least_bytes: u64,
}

/// State of an attempt with respect to its time limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeadlineState {
    /// In time until this moment. `None`: no limit is known.
    InTime(Option<Duration>),
    /// Reported as late; it may continue.
    Late,
    /// Asked to stop; it must return before this moment.
    Stopping(Duration),
    /// Abandoned: its device is retired, and no thread waits for it.
    Lost,
}

impl DeadlineState {
    /// Returns when the attempt is due.
    pub fn due(self) -> Option<Duration> {
        match self {
            DeadlineState::InTime(until) => until,
            DeadlineState::Stopping(until) => Some(until),
            DeadlineState::Late | DeadlineState::Lost => None,
        }
    }
}

pub struct TaskRecord {
    pub(super) job: Option<Arc<dyn Job>>,
    pub(super) label: String,
    pub(super) bytes: Bytes,
    pub(super) work: Option<f64>,
    /// The task began again because an attempt was abandoned or, without a deadline, was late on
    /// the fastest device by far. Neither happens twice.
    pub(super) restarted: bool,
    pub(super) class: u32,
    pub(super) role: Role,
    pub(super) deadline: Option<Duration>,
    pub(super) devices: DeviceMask,
    pub(super) backends: Vec<BackendKind>,
    /// The allowed devices that are large enough for the task.
    pub(super) large_enough_devices: DeviceMask,
    pub(super) detached: bool,
    /// A cancel was requested. It counts once no attempt has committed.
    pub(super) cancel_requested: bool,
    /// Threads may wait for it.
    pub(super) awaited: bool,
    pub(super) idempotent: bool,
    pub(super) signal: Arc<Completion>,
    pub(super) rank: Rank,
    pub(super) state: TaskState,
    /// The light task that it continues; 0 for one without an id.
    pub(super) light: Option<TaskId>,
    pub(super) epoch: Option<Epoch>,
    /// Tasks that must end well first. Light ones have not reported their end.
    pub(super) predecessors: BTreeSet<TaskId>,
    pub(super) retries: u32,
    pub(super) attempts_begun: u32,
    /// Attempts that run and are not abandoned.
    pub(super) live_attempts: u32,
    pub(super) device: Option<usize>,
    pub(super) slot: u32,
    pub(super) times_passed: u32,
    /// Priorities gained by waiting.
    pub(super) priority_gain: u32,
    /// Poisoned contexts in which it was inside, unless another task is known as the cause.
    pub(super) poisonings: u32,
    /// Devices that were lost while it ran there.
    pub(super) devices_lost: u32,
    /// An owner's or a helper's: elements of the range are the cause of its device faults.
    pub(super) is_cause: bool,
    /// Attempts whose result was wrong, and the devices where they ran.
    pub(super) wrong_results: u32,
    pub(super) suspect_devices: DeviceMask,
    /// Devices that refused it since all did. Each counts until its back-off is over.
    pub(super) refused_devices: DeviceMask,
    /// Devices where an attempt failed; another is preferred.
    pub(super) avoided_devices: DeviceMask,
    /// One of those may be faulty: the task waits for another that is busy.
    pub(super) shuns: bool,
    /// Rounds in which all its devices refused it.
    pub(super) refused_rounds: usize,
    /// The last of those, one after another, in which no device was short because of other
    /// processes.
    pub(super) unexplained_rounds: usize,
    /// Largest allocation that a device refused it. `u64::MAX`: nothing is known of its need.
    pub(super) refused_bytes: u64,
    pub(super) exclusive: bool,
    /// Error of a copy that failed while another ran, and its device.
    pub(super) copy_failure: Option<Box<(usize, Error)>>,
    pub(super) since: Duration,
    pub(super) queued: Duration,
    pub(super) ran: Duration,
}

impl TaskRecord {
    /// Returns the record of a new task, which nothing holds back yet. `rank`: its place in the
    /// ready queue. `reach`: devices that are large enough.
    pub fn new(task: Task, rank: Rank, reach: DeviceMask, now: Duration, signal: Arc<Completion>) -> Self {
        TaskRecord {
            bytes: task.bytes(),
            job: Some(task.job),
            label: task.label,
            work: task.work,
            restarted: false,
            class: task.class,
            role: task.role,
            deadline: task.deadline,
            devices: task.devices,
            backends: task.backends,
            large_enough_devices: reach,
            detached: task.detached,
            cancel_requested: false,
            // The owner of a range waits by the id of its task.
            awaited: task.role != Role::Task,
            idempotent: task.idempotent,
            signal,
            rank,
            state: TaskState::Blocked,
            light: None,
            epoch: task.epoch,
            predecessors: BTreeSet::new(),
            retries: task.retries,
            attempts_begun: 0,
            live_attempts: 0,
            device: None,
            slot: 0,
            times_passed: 0,
            priority_gain: 0,
            poisonings: 0,
            devices_lost: 0,
            is_cause: false,
            wrong_results: 0,
            suspect_devices: DeviceMask::NONE,
            refused_devices: DeviceMask::NONE,
            avoided_devices: DeviceMask::NONE,
            shuns: false,
            refused_rounds: 0,
            unexplained_rounds: 0,
            refused_bytes: 0,
            exclusive: false,
            copy_failure: None,
            since: now,
            queued: Duration::ZERO,
            ran: Duration::ZERO,
        }
    }

    /// Returns the priority that the caller set, without that gained by waiting.
    pub fn own_priority(&self) -> i32 {
        self.rank.priority().saturating_sub_unsigned(self.priority_gain)
    }

    /// Counts an attempt that begins. Returns true if it is a copy of one that runs.
    pub fn begin_attempt(&mut self, device: usize, slot: u32) -> bool {
        let is_copy = self.live_attempts > 0;
        if !is_copy {
            // The failure of a copy that ran beside an earlier attempt is not this one's.
            self.copy_failure = None;
        }
        self.attempts_begun += 1;
        self.live_attempts += 1;
        (self.device, self.slot) = (Some(device), slot);
        is_copy
    }

    /// Revokes the commit of an attempt that has failed. A cancel that came after it counts now.
    pub fn reopen(&self, attempt: u32) {
        self.signal.reopen(attempt);
        if self.cancel_requested {
            self.signal.cancel();
        }
    }

    pub fn name(&self) -> String {
        task_name(&self.label)
    }

    /// Returns the id by which callers know the task.
    pub fn known_as(&self, id: TaskId) -> TaskId {
        self.light.unwrap_or(id)
    }

    /// Returns the state as callers see it.
    pub fn status(&self) -> TaskStatus {
        match self.signal.outcome.get() {
            None if self.state.is_running() => TaskStatus::Running,
            None => TaskStatus::Queued,
            Some(Ok(WaitResult::Cancelled)) => TaskStatus::Cancelled,
            Some(Ok(_)) => TaskStatus::Done,
            Some(Err(_)) => TaskStatus::Failed,
        }
    }

    /// An attempt failed on a device that may be faulty.
    pub fn shun(&mut self, index: usize) {
        self.avoided_devices.add(index);
        self.shuns = true;
    }

    /// Returns the bytes that the task takes on a device of this kind, as it states and as refusals
    /// have shown.
    pub fn known_bytes(&self, kind: BackendKind) -> u64 {
        self.bytes.on(kind).max(self.refused_bytes)
    }
}

/// Returns a task's name in messages.
pub fn task_name(label: &str) -> String {
    if label.is_empty() { "the task".into() } else { format!("task '{}'", plain(label)) }
}

impl DeviceState {
    pub fn new(info: DeviceInfo, slots: u32) -> Self {
        let search = (slots == AUTO_SLOTS).then(ConcurrencyTuner::new);
        let slots = if search.is_some() { 1 } else { slots };
        DeviceState {
            ledger: Ledger::new(info.usable_bytes()),
            info,
            slots,
            tuner: search,
            ..DeviceState::default()
        }
    }

    /// Returns true if a task may use the device, which has this position.
    pub fn is_allowed(&self, index: usize, devices: DeviceMask, backends: &[BackendKind]) -> bool {
        devices.contains(index) && (backends.is_empty() || backends.contains(&self.info.backend))
    }

    /// Returns the bytes that other processes left, if known without a query.
    pub fn known_free_bytes(&self, now: Duration) -> Option<u64> {
        let short = self.shortage.filter(|short| now < short.until && short.leased == self.ledger.leased());
        short.map(|short| short.free)
    }

    /// Returns true if no task begins now that needs so many bytes, as the device has refused one
    /// like it.
    pub fn backs_off(&self, now: Duration, bytes: u64) -> bool {
        self.backoff.is_some_and(|backoff| now < backoff.until && bytes >= backoff.least_bytes)
    }

    /// The device has refused an attempt of so many bytes: none like it begins before `until`.
    pub fn refuse(&mut self, now: Duration, until: Duration, bytes: u64) {
        let active = self.backoff.filter(|backoff| now < backoff.until);
        let (last, least) = active.map_or((until, bytes), |backoff| (backoff.until, backoff.least_bytes));
        self.backoff = Some(Backoff { until: until.max(last), least_bytes: bytes.min(least) });
    }

    pub fn attempt(&mut self, key: Option<(TaskId, u32)>) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|run| Some((run.id, run.number)) == key)
    }

    /// Returns true if an exclusive task runs. While it waits inside its code, others may run: it
    /// may wait for one of them.
    pub fn runs_exclusive(&self) -> bool {
        self.waiting_slots == 0 && self.attempts.iter().any(|run| run.exclusive)
    }

    /// Returns true if an exclusive task may begin: nothing runs but tasks that wait inside their
    /// code, perhaps for it.
    pub fn is_free_for_exclusive(&self) -> bool {
        self.attempts.len() <= self.waiting_slots as usize && !self.runs_light
    }

    /// Returns true if light tasks may be inside the context.
    pub fn holds_light(&self) -> bool {
        self.runs_light || self.waiting_light > 0
    }

    /// Returns true if attempts of this process run here, or others take memory.
    pub fn has_company(&self) -> bool {
        !self.attempts.is_empty() || self.peer_load.pending_bytes > 0
    }

    /// Returns the bytes that no attempt leases.
    pub fn unleased_bytes(&self) -> u64 {
        self.ledger.limit().saturating_sub(self.ledger.leased())
    }
}
