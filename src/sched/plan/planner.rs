//! The planner: a struct that holds all planned tasks and devices. One lock guards it.
//!
//! The planner knows no clock, thread or file. A method that changes it takes the time from
//! [`Effects`] and adds the actions that the driver has to apply. The worker threads and the
//! simulation in virtual time are its two drivers.
//!
//! [`TaskState`] has the states of a task. A task ends in two steps, because its job is the
//! caller's code and may do anything when it is dropped: `end_task` takes the job out, the driver
//! drops it without the lock, and [`Planner::publish`] publishes the end. So a thread that sees
//! that a task has ended knows that its job is dropped, unless another copy of an idempotent task
//! still runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{DeviceState, Effects, EndedTask, Rank, ReadyQueue, TaskRecord, TaskState, WORK, task_name};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result, human};
use crate::memory::Bytes;
use crate::sched::base::{
    Completion, DeviceMask, Policy, Role, Task, TaskCounts, TaskId, TaskStatus, TaskTable, WaitResult,
};
use crate::sched::estimate::Estimator;
use crate::sched::observe::Trace;

/// The most completions that are kept for new tasks, of some 150 bytes each.
const SPARE_COMPLETIONS: usize = 1024;

#[derive(Default)]
pub struct Planner {
    pub(super) policy: Arc<Policy>,
    pub(super) tasks: TaskTable<TaskRecord>,
    /// Completions of released tasks, for new ones: one thread would allocate them and another free
    /// them.
    pub(super) spare_completions: Vec<Arc<Completion>>,
    pub(super) ready: ReadyQueue,
    pub(super) devices: Vec<DeviceState>,
    pub(super) retired: DeviceMask,
    pub(super) estimator: Estimator,
    pub(super) arrivals: u64,
    /// Number of the period in which tasks arrive now, and when it began.
    pub(super) period: u64,
    pub(super) period_began: Duration,
    /// Tasks that come after one which has not ended, planned or light, by its id.
    pub(super) successors: BTreeMap<TaskId, Vec<TaskId>>,
    /// Counts of all tasks except helpers of ranges.
    pub(super) counts: TaskCounts,
    /// When the last task so far has ended; 0 before.
    pub(super) last_end: Duration,
    /// See [`Progress::work_lost`](super::Progress::work_lost).
    pub(super) work_lost: f64,
    pub(super) stopping: bool,
    /// Ranges whose owners can't go on without helpers.
    pub(super) ranges_in_need: usize,
    /// Tasks that have not ended and must run alone.
    pub(super) exclusive_tasks: usize,
    /// Other processes of the node share its GPUs.
    pub(super) has_peers: bool,
    /// Seconds of a unit of the costs that processes state. `None`: none has measured it.
    pub(super) seconds_per_cost: Option<f64>,
    pub(super) trace: Option<Arc<Trace>>,
    /// When priorities were last raised.
    pub(super) aged_at: Duration,
    /// Steps that its driver has taken.
    pub(super) steps: u64,
}

impl Planner {
    pub fn new(devices: Vec<(DeviceInfo, u32)>, policy: Arc<Policy>) -> Self {
        let priors = devices.iter().map(|(info, _)| info.speed).collect();
        Planner {
            estimator: Estimator::new(priors, policy.clone()),
            policy,
            devices: devices.into_iter().map(|(info, slots)| DeviceState::new(info, slots)).collect(),
            ..Planner::default()
        }
    }

    /// Returns the devices that a task may use, now or later.
    pub(super) fn possible(&self, record: &TaskRecord) -> DeviceMask {
        record.large_enough_devices.without(self.retired)
    }

    /// Moves a task to its next state. The ready queue, the counts and the task's times follow.
    pub(super) fn change_state(&mut self, now: Duration, id: TaskId, new: TaskState) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let old = std::mem::replace(&mut record.state, new);
        debug_assert!(old.allows(new), "no transition from {old:?} to {new:?}");
        match (old.is_ready(), new.is_ready()) {
            (false, true) => self.ready.insert(record, id),
            (true, false) => self.ready.remove(record),
            _ => {}
        }
        if (old.is_queued(), old.is_running()) == (new.is_queued(), new.is_running()) {
            return;
        }
        let sum = if old.is_queued() { &mut record.queued } else { &mut record.ran };
        *sum += now.saturating_sub(record.since);
        record.since = now;
        if !record.role.is_helper() {
            let TaskCounts { queued, running, .. } = &mut self.counts;
            *queued = *queued + u64::from(new.is_queued()) - u64::from(old.is_queued());
            *running = *running + u64::from(new.is_running()) - u64::from(old.is_running());
        }
    }

    /// Makes a task ready that nothing holds back. Without a device it ends.
    pub(super) fn make_ready(&mut self, id: TaskId, effects: &mut Effects) {
        let Ok(record) = self.tasks.get(id) else { return };
        match record.role {
            _ if !record.state.is_open() => {}
            Role::EmptyRange => self.end_task(id, Ok(()), effects),
            _ if self.possible(record) == DeviceMask::NONE => self.end_without_device(id, effects),
            _ => self.change_state(effects.now, id, TaskState::Ready),
        }
    }

    pub(super) fn end_without_device(&mut self, id: TaskId, effects: &mut Effects) {
        let Ok(record) = self.tasks.get(id) else { return };
        let error = match record.large_enough_devices {
            DeviceMask::NONE => self.too_large(record.name(), record.bytes, record.devices, &record.backends),
            _ => self.no_device(record.name(), record.devices, &record.backends),
        };
        self.end_task(id, Err(error), effects);
    }

    /// Fails a task whose predecessor did not end well. All tasks of a chain name the first that
    /// failed: messages that named each would grow with the chain.
    fn fail_dependent(&mut self, id: TaskId, name: &str, why: &Error, effects: &mut Effects) {
        let Ok(record) = self.tasks.get(id) else { return };
        let (before, why) = match why {
            Error::Dependency { before, why, .. } => (before.clone(), why.clone()),
            error => (name.into(), error.to_string()),
        };
        let error = Error::Dependency { what: record.name(), before, why };
        self.end_task(id, Err(error), effects);
    }

    /// A task has ended: those that come after it are ready or fail. `failure`: its name and why,
    /// unless it ended well.
    fn predecessor_ended(&mut self, before: TaskId, failure: Option<(String, Error)>, effects: &mut Effects) {
        for id in self.successors.remove(&before).unwrap_or_default() {
            if let Some((name, why)) = &failure {
                self.fail_dependent(id, name, why, effects);
            } else if let Ok(record) = self.tasks.get_mut(id) {
                record.predecessors.remove(&before);
                if record.predecessors.is_empty() {
                    self.make_ready(id, effects);
                }
            }
        }
    }

    /// A light task has ended. `Err(Cancelled)` is no failure. Tasks that come after it are ready
    /// or fail.
    pub fn light_task_ended(&mut self, id: TaskId, outcome: &Result<()>, effects: &mut Effects) {
        let failure = outcome.as_ref().err().map(|why| (task_name(""), why.clone()));
        self.predecessor_ended(id, failure, effects);
    }

    /// The first step of a task's end: it leaves every list, and the driver drops its job. Has no
    /// effect on a task that is ending.
    pub fn end_task(&mut self, id: TaskId, outcome: Result<()>, effects: &mut Effects) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let job = record.job.take();
        if job.is_none() {
            return;
        }
        if outcome.is_err() {
            // Attempts that still run count no more.
            record.signal.cancel();
        }
        let (known_as, epoch) = (record.known_as(id), record.epoch);
        let ending = TaskState::Ending { ran: record.state.is_running() };
        self.change_state(effects.now, id, ending);
        self.release_reservations(id);
        effects.ended.push(EndedTask { id, known_as, epoch, job, outcome });
    }

    /// The second step: publishes the end of a task whose job has been dropped. `Err(Cancelled)` is
    /// no failure. Returns true if threads may wait for the task.
    pub fn publish(&mut self, id: TaskId, outcome: Result<()>, effects: &mut Effects) -> bool {
        self.change_state(effects.now, id, TaskState::Ended);
        let Ok(record) = self.tasks.get_mut(id) else { return false };
        let (awaited, detached) = (record.awaited, record.detached);
        let failure = outcome.as_ref().err().map(|why| (record.name(), why.clone()));
        let counts = &mut self.counts;
        let (state, count, outcome) = match outcome {
            Ok(()) => (TaskStatus::Done, &mut counts.done, Ok(WaitResult::Done)),
            Err(Error::Cancelled) => {
                (TaskStatus::Cancelled, &mut counts.cancelled, Ok(WaitResult::Cancelled))
            }
            Err(error) => (TaskStatus::Failed, &mut counts.failed, Err(error)),
        };
        *count += u64::from(!record.role.is_helper());
        self.exclusive_tasks -= usize::from(record.exclusive);
        if state == TaskStatus::Done {
            record.signal.report(1.0);
        }
        let _ = record.signal.outcome.set(outcome);
        self.last_end = self.last_end.max(effects.now);
        if record.role == Role::Task {
            self.estimator.table.task_ended(record.class, record.work);
            self.work_lost += record.work.filter(|_| state != TaskStatus::Done).unwrap_or(0.0);
        }
        self.predecessor_ended(id, failure, effects);
        if detached {
            self.forget(id);
        }
        awaited
    }

    /// Removes the record of an ended task.
    pub(super) fn forget(&mut self, id: TaskId) {
        let Ok(TaskRecord { mut signal, .. }) = self.tasks.remove(id) else { return };
        if self.spare_completions.len() < SPARE_COMPLETIONS
            && let Some(completion) = Arc::get_mut(&mut signal)
        {
            *completion = Completion::default();
            self.spare_completions.push(signal);
        }
    }

    /// Cancels a task that has not committed. Its attempts are asked to stop; without any, it ends.
    pub fn cancel(&mut self, id: TaskId, effects: &mut Effects) -> Result<()> {
        let record = self.tasks.get_mut(id)?;
        record.cancel_requested = true;
        record.signal.cancel();
        match record.state {
            TaskState::Running { .. } => {
                // Its attempts are asked to stop, and no copy begins.
                self.change_state(effects.now, id, TaskState::Running { speculate: false });
                self.release_reservations(id);
            }
            _ => self.end_task(id, Err(Error::Cancelled), effects),
        }
        Ok(())
    }

    /// Cancels all tasks. The driver submits no others.
    pub fn stop(&mut self, effects: &mut Effects) {
        self.stopping = true;
        for id in self.tasks.ids() {
            let _ = self.cancel(id, effects);
        }
    }

    /// The backend has measured the device's context, and tasks have the rest of the memory. Ready
    /// tasks that are too large for it run elsewhere, or end.
    pub fn set_context_bytes(&mut self, index: usize, bytes: u64, effects: &mut Effects) {
        let device = &mut self.devices[index];
        device.info.context_bytes = bytes;
        let limit = device.info.usable_bytes();
        if limit == device.ledger.limit() {
            return;
        }
        device.ledger.set_limit(limit);
        for id in self.tasks.ids() {
            let Ok(record) = self.tasks.get(id) else { continue };
            let possible = self.possible_devices(record.devices, &record.backends, record.bytes);
            let Ok(record) = self.tasks.get_mut(id) else { continue };
            if possible == record.large_enough_devices {
                continue;
            }
            let ready = record.state.is_ready();
            if ready {
                self.ready.remove(record);
            }
            record.large_enough_devices = possible;
            if ready {
                self.ready.insert(record, id);
            }
            self.devices[index].reserved_for.take_if(|held| *held == id);
        }
        self.end_deviceless(effects);
    }

    pub(super) fn release_reservations(&mut self, id: TaskId) {
        for device in &mut self.devices {
            device.reserved_for.take_if(|held| *held == id);
        }
    }
}

/// Submission.
impl Planner {
    /// Returns an error, with the numbers, if no device could ever run the task.
    pub fn check_task(&self, task: &Task) -> Result<()> {
        if let Some(work) = task.work
            && !WORK.contains(&work)
        {
            return Err(Error::argument(
                "the task's work",
                format_args!("{work:e}"),
                "a number from 1e-100 to 1e100, or none",
            ));
        }
        // The light tier checks the others.
        for before in task.after.iter().filter(|before| !before.is_light()) {
            self.tasks.get(*before)?;
        }
        match self.usable_devices(task) {
            DeviceMask::NONE => {
                Err(self.too_large(task_name(&task.label), task.bytes(), task.devices, &task.backends))
            }
            _ => Ok(()),
        }
    }

    /// Returns the devices that could ever run a task of so many bytes.
    pub(super) fn possible_devices(
        &self,
        mask: DeviceMask,
        kinds: &[BackendKind],
        bytes: Bytes,
    ) -> DeviceMask {
        let possible = self.devices.iter().enumerate().filter(|&(index, device)| {
            device.is_allowed(index, mask, kinds) && bytes.on(device.info.backend) <= device.ledger.limit()
        });
        possible.map(|(index, _)| index).collect()
    }

    /// Returns the error of a task that is too large for the devices that it may use, with the
    /// numbers of the largest.
    pub(super) fn too_large(
        &self,
        what: String,
        bytes: Bytes,
        mask: DeviceMask,
        kinds: &[BackendKind],
    ) -> Error {
        let devices = self.devices.iter().enumerate();
        let usable = devices
            .filter(|&(index, device)| device.retired.is_none() && device.is_allowed(index, mask, kinds));
        let Some((_, best)) = usable.min_by_key(|(_, device)| Reverse(device.ledger.limit())) else {
            return self.no_device(what, mask, kinds);
        };
        let (info, there) = (&best.info, best.ledger.limit());
        let context = match info.context_bytes {
            bytes if bytes > 0 && there + bytes >= info.total_bytes => {
                format!(", whose context takes {}", human(bytes))
            }
            _ => String::new(),
        };
        Error::NoMemory {
            what,
            needed: bytes.on(info.backend),
            place: format!("{} ({}{context})", info.label(), info.name),
            there,
        }
    }

    /// Submits a checked task.
    ///
    /// Light tasks that it comes after count as not ended: the caller asks each to report its end,
    /// under the same lock ([`Planner::light_task_ended`]).
    pub fn submit(&mut self, mut task: Task, effects: &mut Effects) -> Result<TaskId> {
        let after = std::mem::take(&mut task.after);
        let id = self.add(task, effects.now)?;
        let mut failure = None;
        let mut behind = BTreeSet::new();
        for before in after {
            // The planner has no record of a light task, which reports its end later.
            let record = self.tasks.get(before).ok();
            let ended = record.and_then(|record| Some((record, record.signal.outcome.get()?)));
            match ended {
                Some((_, Ok(WaitResult::Done))) => {}
                Some((record, outcome)) => {
                    let why = outcome.clone().err().unwrap_or(Error::Cancelled);
                    failure.get_or_insert_with(|| (record.name(), why));
                }
                None if behind.insert(before) => self.successors.entry(before).or_default().push(id),
                None => {}
            }
        }
        if let Some((name, why)) = failure {
            self.fail_dependent(id, &name, &why, effects);
        } else if behind.is_empty() {
            self.make_ready(id, effects);
        } else if let Ok(record) = self.tasks.get_mut(id) {
            record.predecessors = behind;
        }
        Ok(id)
    }

    /// Adds a blocked task.
    pub(super) fn add(&mut self, task: Task, now: Duration) -> Result<TaskId> {
        let (role, class, work) = (task.role, task.class, task.work);
        let step = self.ageing_step();
        if !step.is_zero() && now.saturating_sub(self.period_began) >= step {
            self.period += 1;
            self.period_began = now;
        }
        let rank = Rank::new(task.priority, self.period, work, self.arrivals);
        let reach = self.possible_devices(task.devices, &task.backends, task.bytes());
        let signal = self.spare_completions.pop().unwrap_or_default();
        let id = self.tasks.insert(TaskRecord::new(task, rank, reach, now, signal))?;
        self.arrivals += 1;
        if !role.is_helper() {
            self.counts.submitted += 1;
            self.counts.queued += 1;
        }
        if role == Role::Task {
            self.estimator.table.task_submitted(class, work);
        }
        Ok(id)
    }

    pub fn no_device(&self, what: String, mask: DeviceMask, kinds: &[BackendKind]) -> Error {
        if self.devices.is_empty() {
            let why = "the scheduler has none; see GPUSCHED_DEVICES and GPUSCHED_CPU_FALLBACK".into();
            return Error::NoDevice { what, why };
        }
        let there = self.devices.iter().map(|device| match &device.retired {
            None => device.info.label(),
            Some(why) => format!("{} (retired: {why})", device.info.label()),
        });
        let there = there.collect::<Vec<_>>().join(", ");
        let kinds = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        let kinds = if kinds.is_empty() { "any".into() } else { kinds };
        let mask = if mask.0 == u64::MAX { "(any)".into() } else { format!("{:#x}", mask.0) };
        let why = format!("device_mask {mask} and backend ({kinds}) exclude all of: {there}");
        Error::NoDevice { what, why }
    }
}
