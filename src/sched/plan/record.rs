//! What the state of the planned tasks is made of: tasks, attempts, devices.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::task_state::TaskState;
use crate::device::{BackendKind, DeviceInfo};
use crate::error::Error;
use crate::memory::{Bytes, Lease, Ledger};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::Job;
use crate::sched::base::outcome::{TaskStatus, WaitResult};
use crate::sched::base::policy::{BACKOFF, Rank};
use crate::sched::base::signal::Completion;
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;
use crate::sched::estimate::concurrency_tuner::{AUTO_SLOTS, ConcurrencyTuner};

#[derive(Debug, Clone, Copy, Default)]
pub struct HelperCounts {
    pub(super) submitted: u64,
    pub(super) queued: u64,
    pub(super) running: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct TaskCounts {
    /// Invitations to ranges among the submitted, the queued and the running; in no other number.
    pub(super) guests: HelperCounts,
    pub(super) queued: u64,
    pub(super) running: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) retried: u64,
    pub(super) copies: u64,
}

pub struct DeviceState {
    pub(super) info: DeviceInfo,
    pub(super) ledger: Arc<Ledger>,
    pub(super) slots: u32,
    /// Looks for the best number of slots, if nobody has told one.
    pub(super) tuner: Option<ConcurrencyTuner>,
    /// No more than this many start until then: it was short of something.
    pub(super) throttle: Option<(u32, Duration)>,
    /// Slots whose tasks wait for other tasks: as many others may run meanwhile.
    pub(super) waiting_slots: u32,
    pub(super) attempts: Vec<Attempt>,
    pub(super) peer_load: PeerLoad,
    /// Tasks that are not planned may run here now; told by who asks for a task.
    pub(super) runs_light: bool,
    /// Nothing but this task starts here, so that it gets its memory at last.
    pub(super) reserved_for: Option<TaskId>,
    pub(super) backoff: Option<Backoff>,
    /// A task was last left out here for memory that other processes have taken.
    pub(super) shortage: Option<MemoryShortage>,
    /// How often its context was made; a queue of an older one is to be opened again.
    pub(super) context: u32,
    /// The first context since the last poisoned one.
    pub(super) first_sound_context: u32,
    /// Nothing starts until what runs has left the context.
    pub(super) poisoned: bool,
    /// Nothing starts until the backend knows that the context is to be made anew.
    pub(super) renewing: bool,
    /// Tasks that have poisoned it and were not found guilty.
    pub(super) suspects: Vec<TaskId>,
    /// Tasks found guilty here since one ended well.
    pub(super) fault_count: u32,
    /// Names of tasks whose result was wrong here, and right when it was computed again.
    pub(super) wrong_result_tasks: Vec<String>,
    pub(super) retired: Option<String>,
    /// When a task last began here.
    pub(super) last_start: Duration,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) busy: Duration,
}

/// The share of a device that other processes hold.
#[derive(Debug, Default)]
pub struct PeerLoad {
    /// When each slot that they hold, or will take before us, should be free.
    pub(super) ends: Vec<Duration>,
    /// Bytes that they have reserved and not yet taken.
    pub(super) pending_bytes: u64,
}

/// An attempt that runs on a device.
pub struct Attempt {
    pub(super) id: TaskId,
    pub(super) number: u32,
    pub(super) slot: u32,
    /// Of the device, in which it began.
    pub(super) context: u32,
    pub(super) label: String,
    pub(super) bytes: u64,
    pub(super) started: Duration,
    pub(super) class: u32,
    pub(super) role: Role,
    pub(super) work: Option<f64>,
    /// Given back when this is dropped.
    pub(super) lease: Lease,
    /// Something else of ours has run on the device meanwhile.
    pub(super) shared_device: bool,
    /// The task has asked to be alone.
    pub(super) exclusive: bool,
    pub(super) deadline_state: DeadlineState,
}

impl Attempt {
    pub fn new(
        id: TaskId,
        record: &TaskRecord,
        context: u32,
        now: Duration,
        lease: Lease,
        company: bool,
        watched: DeadlineState,
    ) -> Self {
        Attempt {
            id,
            number: record.attempts_begun,
            slot: record.slot,
            context,
            label: record.label.clone(),
            bytes: lease.bytes(),
            started: now,
            class: record.class,
            role: record.role,
            work: record.work,
            lease,
            shared_device: company,
            exclusive: record.exclusive,
            deadline_state: watched,
        }
    }
}

/// What was free on a device when that was too little for a task.
#[derive(Debug, Clone, Copy)]
pub struct MemoryShortage {
    pub(super) free: u64,
    /// Ours then. Once that has changed, so has what is free.
    pub(super) leased: u64,
    pub(super) until: Duration,
}

/// A device that refused tasks, because another process has it or its memory, and is asked again later.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub(super) until: Duration,
    /// Tasks that need fewer bytes may begin meanwhile. 0: none may.
    pub(super) least_bytes: u64,
    /// Refusals in a row before the last one.
    refusals: usize,
}

/// How late an attempt is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeadlineState {
    /// Until this moment it is in time. `None`: nobody can tell.
    InTime(Option<Duration>),
    /// It was reported late, and left in peace.
    Late,
    /// It was asked to stop, and has until then to return.
    Stopping(Duration),
    /// It does not return. Its device is retired, and nobody waits for it.
    Lost,
}

pub struct TaskRecord {
    pub(super) job: Option<Arc<dyn Job>>,
    pub(super) label: String,
    pub(super) bytes: Bytes,
    pub(super) work: Option<f64>,
    /// So many times longer than its work tells it seems to take; 1 until it is late.
    pub(super) slowdown: f64,
    /// It was late where no other device comes near, and was asked to begin anew.
    pub(super) restarted: bool,
    pub(super) class: u32,
    pub(super) role: Role,
    pub(super) deadline: Option<Duration>,
    pub(super) devices: DeviceMask,
    pub(super) backends: Vec<BackendKind>,
    /// The devices of those that are large enough for it.
    pub(super) large_enough_devices: DeviceMask,
    pub(super) detached: bool,
    pub(super) idempotent: bool,
    pub(super) signal: Arc<Completion>,
    pub(super) rank: Rank,
    pub(super) arrival: u64,
    pub(super) state: TaskState,
    /// Tasks that have to end well first.
    pub(super) predecessors: BTreeSet<TaskId>,
    /// Tasks that come after this one.
    pub(super) successors: Vec<TaskId>,
    pub(super) retries: u32,
    pub(super) attempts_begun: u32,
    /// Attempts that run now.
    pub(super) live_attempts: u32,
    pub(super) device: Option<usize>,
    pub(super) slot: u32,
    pub(super) times_passed: u32,
    /// Priorities gained by waiting.
    pub(super) priority_gain: u32,
    /// Contexts that it may have poisoned.
    pub(super) poisonings: u32,
    /// Devices that were lost while it ran there.
    pub(super) devices_lost: u32,
    /// Attempts whose result was wrong, and the devices where they ran.
    pub(super) wrong_results: u32,
    pub(super) suspect_devices: DeviceMask,
    /// Devices without memory enough for it, lately.
    pub(super) refused_devices: DeviceMask,
    /// Devices where an attempt failed: another is better, if there is one.
    pub(super) avoided_devices: DeviceMask,
    /// How often all devices in turn have refused it.
    pub(super) refused_rounds: usize,
    /// Bytes of an allocation that a device has refused it.
    pub(super) refused_bytes: u64,
    pub(super) exclusive: bool,
    /// How a copy failed while another was still running.
    pub(super) copy_failure: Option<Error>,
    pub(super) since: Duration,
    pub(super) queued: Duration,
    pub(super) ran: Duration,
}

impl TaskRecord {
    pub fn name(&self) -> String {
        if self.label.is_empty() { "the task".into() } else { format!("task '{}'", self.label) }
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

    /// Returns the bytes that the task takes on a device of this kind, as it states and as refusals have shown.
    pub fn known_bytes(&self, kind: BackendKind) -> u64 {
        self.bytes.on(kind).max(self.refused_bytes)
    }

    pub fn allows(&self, index: usize, device: &DeviceState) -> bool {
        device.retired.is_none() && self.large_enough_devices.contains(index)
    }
}

impl DeviceState {
    pub fn new(info: DeviceInfo, slots: u32) -> Self {
        let search = (slots == AUTO_SLOTS).then(ConcurrencyTuner::new);
        let slots = if search.is_some() { 1 } else { slots };
        DeviceState {
            ledger: Ledger::new(info.room_bytes()),
            info,
            slots,
            tuner: search,
            throttle: None,
            waiting_slots: 0,
            attempts: Vec::new(),
            peer_load: PeerLoad::default(),
            runs_light: false,
            reserved_for: None,
            backoff: None,
            shortage: None,
            context: 0,
            first_sound_context: 0,
            poisoned: false,
            renewing: false,
            suspects: Vec::new(),
            fault_count: 0,
            wrong_result_tasks: Vec::new(),
            retired: None,
            last_start: Duration::ZERO,
            done: 0,
            failed: 0,
            busy: Duration::ZERO,
        }
    }

    /// How many may run at a time.
    pub fn capacity(&self, now: Duration) -> usize {
        let slots = match self.throttle {
            Some((slots, until)) if now < until => slots.min(self.slots),
            _ => self.slots,
        };
        (slots + self.waiting_slots) as usize
    }

    /// What others have left, as far as that is known without asking.
    pub fn known_free_bytes(&self, now: Duration) -> Option<u64> {
        let short = self.shortage.filter(|short| now < short.until && short.leased == self.ledger.leased());
        short.map(|short| short.free)
    }

    /// Returns true if no task begins now that needs so many bytes, as the device has refused one like it.
    pub fn backs_off(&self, now: Duration, bytes: u64) -> bool {
        self.backoff.is_some_and(|backoff| now < backoff.until && bytes >= backoff.least_bytes)
    }

    /// The device has refused an attempt of so many bytes that began then. Attempts that began before the last back-off
    /// was over say nothing new.
    pub fn refuse(&mut self, now: Duration, began: Duration, bytes: u64) {
        let wait = |refusals: usize| BACKOFF[refusals.min(BACKOFF.len() - 1)];
        let (refusals, least_bytes) = match self.backoff {
            Some(last) if began < last.until => (last.refusals, last.least_bytes.min(bytes)),
            Some(last) if began <= last.until + wait(last.refusals) => (last.refusals + 1, bytes),
            _ => (0, bytes),
        };
        self.backoff = Some(Backoff { until: now.saturating_add(wait(refusals)), least_bytes, refusals });
    }

    /// An attempt of so many bytes that began then was not refused.
    pub fn accept(&mut self, began: Duration, bytes: u64) {
        self.backoff = self.backoff.filter(|backoff| began < backoff.until || bytes < backoff.least_bytes);
    }

    /// Whether a task runs that is to be alone. While one waits inside its code, others may run: what it waits
    /// for may be among them.
    pub fn runs_exclusive(&self) -> bool {
        self.waiting_slots == 0 && self.attempts.iter().any(|run| run.exclusive)
    }

    /// Whether a task that begins here now would be alone, but for those that wait inside their code, perhaps
    /// for it.
    pub fn is_free_for_exclusive(&self) -> bool {
        self.attempts.len() <= self.waiting_slots as usize && !self.runs_light
    }

    /// Whether anything could begin here.
    pub fn has_room(&self, now: Duration) -> bool {
        self.retired.is_none()
            && !self.poisoned
            && !self.renewing
            && !self.runs_exclusive()
            && self.attempts.len() + self.peer_load.ends.len() < self.capacity(now)
    }

    /// Whether others have all of it.
    pub fn is_taken(&self) -> bool {
        self.peer_load.ends.len() >= self.slots as usize
    }

    /// Whether others work on it, or will before us.
    pub fn has_others(&self) -> bool {
        !self.peer_load.ends.is_empty()
    }
}
