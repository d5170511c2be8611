//! The state of the planned tasks: one struct under one mutex, changed only by the methods here and in
//! the files beside it. It knows no clock, no thread and no device: every method is told the
//! time, and what has to be done outside is left in [`Core::ended`] and [`Planner::notes`]. So worker threads
//! and a simulation in virtual time drive the same code.
//!
//! | file | what it changes |
//! |---|---|
//! | `plan/planner.rs` | a task comes, becomes ready, ends, is cancelled; a device is retired |
//! | `plan/ready_queue.rs` | the tasks that may begin, in order |
//! | `plan/placement.rs` | a task begins on a device; `plan/schedule.rs` and `plan/speculation.rs` look where it should |
//! | `plan/completion.rs` | an attempt is over: what becomes of the task and of the device |
//! | `plan/timers.rs` | time passes: deadlines, pauses, ageing |
//!
//! **A task** is `Queued` (in the ready list, or behind tasks that it comes after, or pausing), then `Running`
//! (one attempt, or up to three copies if it allows that), then perhaps `Queued` again, and at last `Done`, `Failed` or
//! `Cancelled`, for good. Its end has two steps, because its job belongs to the caller and may do
//! anything when it is dropped: it is taken out under the lock into [`Planner::ended`], dropped without
//! the lock, and only then is the end published, under the lock. So whoever sees that a task has ended
//! also knows that its job is gone, unless another copy of an idempotent task still runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::observed::PlannerObserver;
use super::ready_queue::ReadyQueue;
use super::record::{DeviceState, EndedTask, TaskCounts, TaskRecord};
use crate::device::{BackendKind, DeviceInfo, Health};
use crate::error::{Error, Result};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::outcome::{TaskStatus, WaitResult};
use crate::sched::base::policy::{Rank, WORK};
use crate::sched::base::registry::{LIGHT_BIT, TaskTable};
use crate::sched::base::task::{Role, Task};
use crate::sched::base::task_id::TaskId;
use crate::sched::estimate::estimator::Estimator;

pub struct Planner {
    pub tasks: TaskTable<TaskRecord>,
    pub ready: ReadyQueue,
    /// Tasks that pause, by the time when they become ready again; and those of which only an attempt is left that was
    /// given up, by the time when it should have returned.
    pub delayed: BTreeSet<(Duration, TaskId)>,
    pub devices: Vec<DeviceState>,
    pub estimator: Estimator,
    pub arrivals: u64,
    /// Arrival numbers of the tasks that have not ended.
    pub unended: BTreeSet<u64>,
    pub counts: TaskCounts,
    pub closed: bool,
    pub stopping: bool,
    /// Tasks whose end is to be published, once their jobs have been dropped without the lock.
    pub ended: Vec<EndedTask>,
    /// Devices whose context was poisoned and is to be made anew, now that all have left it.
    /// The backend is to be told without the lock, and then [`Planner::has_renewed`].
    pub contexts_to_renew: Vec<usize>,
    /// Ranges whose hosts can't go on without guests.
    pub ranges_in_need: usize,
    /// Tasks that have not ended and are to run alone.
    pub exclusive_tasks: usize,
    /// There are other processes on the node that share its cards.
    pub has_peers: bool,
    /// Attempts that were given up, and whose threads nobody waits for any more; with the seconds that each had.
    pub abandoned: Vec<(TaskId, u32, f64)>,
    /// What is to be logged once the lock is free: the log may be the caller's code.
    pub log_records: Vec<(Level, String)>,
    /// What is told of all this while it goes on and at the end.
    pub observer: PlannerObserver,
    /// When the waiting times of the ready tasks were last looked at.
    pub aged_at: Duration,
}

impl Planner {
    pub fn new(devices: Vec<(DeviceInfo, u32)>) -> Self {
        let rates = Estimator::new(devices.iter().map(|(info, _)| info.speed).collect());
        Planner {
            tasks: TaskTable::new(),
            ready: ReadyQueue::default(),
            delayed: BTreeSet::new(),
            devices: devices.into_iter().map(|(info, slots)| DeviceState::new(info, slots)).collect(),
            estimator: rates,
            arrivals: 0,
            unended: BTreeSet::new(),
            counts: TaskCounts::default(),
            closed: false,
            stopping: false,
            ended: Vec::new(),
            contexts_to_renew: Vec::new(),
            ranges_in_need: 0,
            exclusive_tasks: 0,
            has_peers: false,
            abandoned: Vec::new(),
            log_records: Vec::new(),
            observer: PlannerObserver::default(),
            aged_at: Duration::ZERO,
        }
    }

    /// Refuses, with the numbers, what no device could ever run.
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
        // Light ones are known elsewhere.
        for before in task.after.iter().filter(|before| before.0 & LIGHT_BIT == 0) {
            self.tasks.get(*before)?;
        }
        let what = if task.label.is_empty() { "the task".into() } else { format!("task '{}'", task.label) };
        let mut best: Option<&DeviceState> = None;
        let mut fits = false;
        let reach = self.possible_devices(task);
        for (index, device) in self.devices.iter().enumerate() {
            let kind = task.backends.is_empty() || task.backends.contains(&device.info.backend);
            if device.retired.is_some() || !kind || !task.devices.contains(index) {
                continue;
            }
            fits |= reach.contains(index);
            if best.is_none_or(|best| best.ledger.limit() < device.ledger.limit()) {
                best = Some(device);
            }
        }
        let Some(best) = best else { return Err(self.no_device(what, task.devices, &task.backends)) };
        if !fits {
            return Err(Error::NoMemory {
                what,
                needed: task.bytes().on(best.info.backend),
                place: format!("{} ({})", best.info.label(), best.info.name),
                there: best.ledger.limit(),
            });
        }
        Ok(())
    }

    /// The devices that could ever run a task.
    fn possible_devices(&self, task: &Task) -> DeviceMask {
        let mut reach = DeviceMask::NONE;
        for (index, device) in self.devices.iter().enumerate() {
            let kind = device.info.backend;
            if task.devices.contains(index)
                && (task.backends.is_empty() || task.backends.contains(&kind))
                && task.bytes().on(kind) <= device.ledger.limit()
            {
                reach.add(index);
            }
        }
        reach
    }

    /// Takes a checked task.
    pub fn submit(&mut self, now: Duration, task: Task) -> Result<TaskId> {
        let (arrival, bytes, reach) = (self.arrivals, task.bytes(), self.possible_devices(&task));
        let id = self.tasks.insert(TaskRecord {
            job: Some(task.job.into()),
            label: task.label,
            bytes,
            work: task.work,
            slowdown: 1.0,
            restarted: false,
            class: task.class,
            role: task.role,
            deadline: task.deadline,
            devices: task.devices,
            backends: task.backends,
            large_enough_devices: reach,
            detached: task.detached,
            idempotent: task.idempotent,
            signal: Arc::default(),
            rank: Rank::new(task.priority, task.work, arrival),
            arrival,
            status: TaskStatus::Queued,
            predecessors: BTreeSet::new(),
            successors: Vec::new(),
            retries: task.retries,
            attempts_begun: 0,
            live_attempts: 0,
            device: None,
            slot: 0,
            times_passed: 0,
            priority_gain: 0,
            poisonings: 0,
            devices_lost: 0,
            wrong_results: 0,
            suspect_devices: DeviceMask::NONE,
            refused_devices: DeviceMask::NONE,
            avoided_devices: DeviceMask::NONE,
            delays: 0,
            delayed_until: None,
            exclusive: false,
            copy_failure: None,
            since: now,
            queued: Duration::ZERO,
            ran: Duration::ZERO,
        })?;
        self.arrivals += 1;
        self.counts.queued += 1;
        match task.role {
            Role::Task | Role::Proxy => {
                self.estimator.table.task_submitted(now, task.class, task.work);
            }
            Role::Range | Role::EmptyRange => self.estimator.table.touch(now),
            Role::Helper => {
                self.counts.guests.submitted += 1;
                self.counts.guests.queued += 1;
            }
        }
        if task.role != Role::Helper {
            self.unended.insert(arrival);
        }
        let mut broken = None;
        let mut behind = BTreeSet::new();
        for before in task.after {
            let Ok(record) = self.tasks.get_mut(before) else { continue };
            match record.status {
                TaskStatus::Done => {}
                TaskStatus::Failed | TaskStatus::Cancelled => {
                    broken.get_or_insert(before);
                }
                _ if behind.insert(before) => record.successors.push(id),
                _ => {}
            }
        }
        if let Some(before) = broken {
            self.fail_dependent(id, before);
        } else if behind.is_empty() {
            self.make_ready(id);
        } else if let Ok(record) = self.tasks.get_mut(id) {
            record.predecessors = behind;
        }
        Ok(id)
    }

    /// A task that is none: it stands for one outside of the plan which others come after, and ends with
    /// [`Planner::finish`].
    pub fn admit_proxy(&mut self, now: Duration) -> Result<TaskId> {
        let nothing = Task::new(|_: &crate::sched::base::exec::Exec<'_>| Ok(()));
        let id = self.submit(now, Task { role: Role::Proxy, ..nothing })?;
        if let Ok(record) = self.tasks.get_mut(id) {
            record.detached = true;
        }
        Ok(id)
    }

    /// Where a task may begin now, were it free: what it allows, less where it lately did not fit, and
    /// less where it has failed unless there is nothing else.
    pub fn eligible(&self, record: &TaskRecord) -> DeviceMask {
        let mut may = DeviceMask::NONE;
        for (index, device) in self.devices.iter().enumerate() {
            if record.allows(index, device) && !record.refused_devices.contains(index) {
                may.add(index);
            }
        }
        let better = may.without(record.avoided_devices);
        if better == DeviceMask::NONE { may } else { better }
    }

    /// Puts a task that nothing holds back into the ready list; without a device it ends.
    pub fn make_ready(&mut self, id: TaskId) {
        let Ok(record) = self.tasks.get(id) else { return };
        if record.job.is_none() {
            return;
        }
        if record.role == Role::Proxy {
            // Whether a device is left for what it stands for is not known here.
        } else if record.role == Role::EmptyRange {
            self.end_task(id, Ok(()));
        } else if self.devices.iter().enumerate().any(|(index, device)| record.allows(index, device)) {
            self.ready.insert(record, id);
            self.clear_refusals(id);
        } else {
            let error = self.no_device(record.name(), record.devices, &record.backends);
            self.end_task(id, Err(error));
        }
    }

    /// Until then a task is not ready, or the attempt that is left of it may return.
    pub fn pause(&mut self, id: TaskId, until: Duration) {
        if let Ok(record) = self.tasks.get_mut(id) {
            record.delayed_until = Some(until);
            self.delayed.insert((until, id));
        }
    }

    pub fn end_pause(&mut self, id: TaskId) {
        let until = self.tasks.get_mut(id).ok().and_then(|record| record.delayed_until.take());
        until.map(|until| self.delayed.remove(&(until, id)));
    }

    /// Where it did not fit lately is better than nowhere.
    fn clear_refusals(&mut self, id: TaskId) {
        let nowhere = self.tasks.get(id).is_ok_and(|record| self.eligible(record) == DeviceMask::NONE);
        if let Ok(record) = self.tasks.get_mut(id)
            && nowhere
        {
            record.refused_devices = DeviceMask::NONE;
        }
    }

    /// A task that came after one that did not end well. In a chain of them all name the first: words that
    /// told the whole way would grow with it.
    fn fail_dependent(&mut self, id: TaskId, before: TaskId) {
        let (Ok(record), Ok(first)) = (self.tasks.get(id), self.tasks.get(before)) else { return };
        let (before, why) = match first.signal.outcome.get() {
            Some(Err(Error::Dependency { before, why, .. })) => (before.clone(), why.clone()),
            Some(Err(error)) => (first.name(), error.to_string()),
            _ => (first.name(), Error::Cancelled.to_string()),
        };
        let error = Error::Dependency { what: record.name(), before, why };
        self.end_task(id, Err(error));
    }

    /// The first step of a task's end: it is out of every list, and its job is to be dropped.
    pub fn end_task(&mut self, id: TaskId, outcome: Result<()>) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let Some(job) = record.job.take() else { return };
        if outcome.is_err() {
            // Whatever still runs of it can't count any more.
            record.signal.cancel();
        }
        self.ready.remove(record);
        self.end_pause(id);
        self.release_reservations(id);
        self.ended.push(EndedTask { id, job, outcome });
    }

    /// The second step: publishes the end of a task whose job has been dropped. `Err(Cancelled)` is no failure.
    pub fn publish(&mut self, now: Duration, id: TaskId, outcome: Result<()>) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let guest = u64::from(record.role == Role::Helper);
        match record.status {
            TaskStatus::Running => {
                self.counts.running -= 1;
                self.counts.guests.running -= guest;
            }
            _ => {
                record.queued += now.saturating_sub(record.since);
                self.counts.queued -= 1;
                self.counts.guests.queued -= guest;
            }
        }
        let (state, count, outcome) = match outcome {
            Ok(()) => (TaskStatus::Done, &mut self.counts.done, Ok(WaitResult::Done)),
            Err(Error::Cancelled) => {
                (TaskStatus::Cancelled, &mut self.counts.cancelled, Ok(WaitResult::Cancelled))
            }
            Err(error) => (TaskStatus::Failed, &mut self.counts.failed, Err(error)),
        };
        *count += 1 - guest;
        record.status = state;
        record.since = now;
        self.exclusive_tasks -= usize::from(record.exclusive);
        if state == TaskStatus::Done {
            record.signal.report(1.0);
        }
        let _ = record.signal.outcome.set(outcome);
        self.unended.remove(&record.arrival);
        match record.role {
            Role::Task | Role::Proxy => self.estimator.table.task_ended(now, record.class, record.work),
            Role::Range | Role::EmptyRange | Role::Helper => self.estimator.table.touch_end(now),
        }
        for follower in std::mem::take(&mut record.successors) {
            if state != TaskStatus::Done {
                self.fail_dependent(follower, id);
            } else if let Ok(record) = self.tasks.get_mut(follower) {
                record.predecessors.remove(&id);
                if record.predecessors.is_empty() {
                    self.make_ready(follower);
                }
            }
        }
        if self.tasks.get(id).is_ok_and(|record| record.detached) {
            let _ = self.tasks.remove(id);
        }
    }

    /// Asks a task to stop; one that is not running is over.
    pub fn cancel(&mut self, id: TaskId) -> Result<()> {
        let record = self.tasks.get(id)?;
        record.signal.cancel();
        // One that runs may be there for another copy.
        self.ready.remove(record);
        if !record.status.is_ended() && record.live_attempts == 0 {
            self.end_task(id, Err(Error::Cancelled));
        }
        Ok(())
    }

    /// Accepts nothing any more, and cancels everything.
    pub fn stop(&mut self) {
        self.closed = true;
        self.stopping = true;
        for id in self.tasks.ids() {
            // What stands for a task outside of the plan ends with that.
            if self.tasks.get(id).is_ok_and(|record| record.role != Role::Proxy) {
                let _ = self.cancel(id);
            }
        }
    }

    /// Nothing starts on this device any more; queued tasks that now have none end.
    pub fn retire(&mut self, index: usize, why: &str) {
        let device = &mut self.devices[index];
        if device.retired.is_none() {
            let text = format!("device {} ({}) is retired: {why}", device.info.label(), device.info.id);
            device.retired = Some(why.into());
            device.info.health = Health::Retired;
            device.reserved_for = None;
            self.note(Level::Warn, index, text);
        }
        let ready: Vec<TaskId> = self.ready.iter().map(|(_, id)| id).collect();
        for id in ready {
            let homeless = self.tasks.get(id).is_ok_and(|record| {
                record.live_attempts == 0
                    && !self.devices.iter().enumerate().any(|(i, device)| record.allows(i, device))
            });
            if homeless {
                self.make_ready(id);
            } else {
                self.clear_refusals(id);
            }
        }
    }

    /// The backend was told to make the device's context anew.
    pub fn context_renewed(&mut self, index: usize) {
        self.devices[index].renewing = false;
    }

    pub fn no_device(&self, what: String, mask: DeviceMask, kinds: &[BackendKind]) -> Error {
        if self.devices.is_empty() {
            return Error::NoDevice { what, why: "the scheduler has none".into() };
        }
        let there: Vec<String> = self
            .devices
            .iter()
            .map(|device| match &device.retired {
                None => device.info.label(),
                Some(why) => format!("{} (retired: {why})", device.info.label()),
            })
            .collect();
        let kinds = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        let kinds = if kinds.is_empty() { "any".into() } else { kinds };
        let mask = if mask.0 == u64::MAX { "(any)".into() } else { format!("{:#x}", mask.0) };
        let why = format!("its mask {mask} and backend ({kinds}) allow none of: {}", there.join(", "));
        Error::NoDevice { what, why }
    }

    pub fn release_reservations(&mut self, id: TaskId) {
        for device in &mut self.devices {
            if device.reserved_for == Some(id) {
                device.reserved_for = None;
            }
        }
    }

    /// The number that the next task will have; see [`Planner::all_ended_before`].
    pub fn arrival_mark(&self) -> u64 {
        self.arrivals
    }

    pub fn all_ended_before(&self, mark: u64) -> bool {
        self.unended.first().is_none_or(|&first| first >= mark)
    }
}
