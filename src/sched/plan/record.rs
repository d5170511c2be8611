//! What the state of the planned tasks is made of: tasks, attempts, devices.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use log::Level;

use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};
use crate::memory::{Bytes, Lease, Ledger};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::Job;
use crate::sched::base::outcome::TaskStatus;
use crate::sched::base::policy::Rank;
use crate::sched::base::signal::Completion;
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;
use crate::sched::estimate::concurrency_tuner::{AUTO_SLOTS, ConcurrencyTuner};

#[derive(Debug, Clone, Copy, Default)]
pub struct HelperCounts {
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct TaskCounts {
    /// Invitations to ranges among the submitted, the queued and the running; in no other number.
    pub guests: HelperCounts,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub retried: u64,
    pub copies: u64,
}

pub struct DeviceState {
    pub info: DeviceInfo,
    pub ledger: Arc<Ledger>,
    pub slots: u32,
    /// Looks for the best number of slots, if nobody has told one.
    pub tuner: Option<ConcurrencyTuner>,
    /// No more than this many start until then: it was short of something.
    pub throttle: Option<(u32, Duration)>,
    /// Slots whose tasks wait for other tasks: as many others may run meanwhile.
    pub waiting_slots: u32,
    pub attempts: Vec<Attempt>,
    pub peer_load: PeerLoad,
    /// Tasks that are not planned may run here now; told by who asks for a task.
    pub runs_light: bool,
    /// Nothing but this task starts here, so that it gets its memory at last.
    pub reserved_for: Option<TaskId>,
    /// A task was last left out here for memory that other processes have taken.
    pub shortage: Option<MemoryShortage>,
    /// How often its context was made; a queue of an older one is to be opened again.
    pub context: u32,
    /// The first context since the last poisoned one.
    pub first_sound_context: u32,
    /// Nothing starts until what runs has left the context.
    pub poisoned: bool,
    /// Nothing starts until the backend knows that the context is to be made anew.
    pub renewing: bool,
    /// Tasks that have poisoned it and were not found guilty.
    pub suspects: Vec<TaskId>,
    /// Tasks found guilty here since one ended well.
    pub fault_count: u32,
    /// Names of tasks whose result was wrong here, and right when it was computed again.
    pub wrong_result_tasks: Vec<String>,
    pub retired: Option<String>,
    /// When a task last began here.
    pub last_start: Duration,
    pub done: u64,
    pub failed: u64,
    pub busy: Duration,
}

/// The share of a device that other processes hold.
#[derive(Debug, Default)]
pub struct PeerLoad {
    /// When each slot that they hold, or will take before us, should be free.
    pub ends: Vec<Duration>,
    /// Bytes that they have reserved and not yet taken.
    pub pending_bytes: u64,
}

/// An attempt that runs on a device.
pub struct Attempt {
    pub id: TaskId,
    pub number: u32,
    pub slot: u32,
    /// Of the device, in which it began.
    pub context: u32,
    pub label: String,
    pub bytes: u64,
    pub started: Duration,
    pub class: u32,
    pub role: Role,
    pub work: Option<f64>,
    /// Given back when this is dropped.
    pub lease: Lease,
    /// Something else of ours has run on the device meanwhile.
    pub shared_device: bool,
    /// The task has asked to be alone.
    pub exclusive: bool,
    pub deadline_state: DeadlineState,
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
    pub free: u64,
    /// Ours then. Once that has changed, so has what is free.
    pub leased: u64,
    pub until: Duration,
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
    pub job: Option<Arc<dyn Job>>,
    pub label: String,
    pub bytes: Bytes,
    pub work: Option<f64>,
    /// So many times longer than its work tells it seems to take; 1 until it is late.
    pub slowdown: f64,
    /// It was late where no other device comes near, and was asked to begin anew.
    pub restarted: bool,
    pub class: u32,
    pub role: Role,
    pub deadline: Option<Duration>,
    pub devices: DeviceMask,
    pub backends: Vec<BackendKind>,
    /// The devices of those that are large enough for it.
    pub large_enough_devices: DeviceMask,
    pub detached: bool,
    pub idempotent: bool,
    pub signal: Arc<Completion>,
    pub rank: Rank,
    pub arrival: u64,
    pub status: TaskStatus,
    /// Tasks that have to end well first.
    pub predecessors: BTreeSet<TaskId>,
    /// Tasks that come after this one.
    pub successors: Vec<TaskId>,
    pub retries: u32,
    pub attempts_begun: u32,
    /// Attempts that run now.
    pub live_attempts: u32,
    pub device: Option<usize>,
    pub slot: u32,
    pub times_passed: u32,
    /// Priorities gained by waiting.
    pub priority_gain: u32,
    /// Contexts that it may have poisoned.
    pub poisonings: u32,
    /// Devices that were lost while it ran there.
    pub devices_lost: u32,
    /// Attempts whose result was wrong, and the devices where they ran.
    pub wrong_results: u32,
    pub suspect_devices: DeviceMask,
    /// Devices without memory enough for it, lately.
    pub refused_devices: DeviceMask,
    /// Devices where an attempt failed: another is better, if there is one.
    pub avoided_devices: DeviceMask,
    pub delays: u32,
    /// The time under which it stands in [`Planner::pausing`](super::planner::Planner::pausing).
    pub delayed_until: Option<Duration>,
    pub exclusive: bool,
    /// How a copy failed while another was still running.
    pub copy_failure: Option<Error>,
    pub since: Duration,
    pub queued: Duration,
    pub ran: Duration,
}

/// A task that is over, and whose job is to be dropped before anybody may know.
pub struct EndedTask {
    pub id: TaskId,
    pub job: Arc<dyn Job>,
    pub outcome: Result<()>,
}

/// Work that the timer thread defers to the thread that runs callers' code.
#[derive(Default)]
pub struct Deferred {
    pub ended: Vec<EndedTask>,
    pub notes: Vec<(Level, String)>,
    /// The thread that runs callers' code exists.
    pub served: bool,
}

impl TaskRecord {
    pub fn name(&self) -> String {
        if self.label.is_empty() { "the task".into() } else { format!("task '{}'", self.label) }
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
            ledger: Ledger::new(info.usable_bytes()),
            info,
            slots,
            tuner: search,
            throttle: None,
            waiting_slots: 0,
            attempts: Vec::new(),
            peer_load: PeerLoad::default(),
            runs_light: false,
            reserved_for: None,
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
