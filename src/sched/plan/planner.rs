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
use crate::sched::base::policy::{Rank, WORK};
use crate::sched::base::registry::{LIGHT, TaskTable};
use crate::sched::base::task::{DeviceMask, Role, Task, TaskId, TaskStatus, WaitResult};
use crate::sched::estimate::estimator::Estimator;

pub struct Planner {
    pub tasks: TaskTable<TaskRecord>,
    pub ready: ReadyQueue,
    /// Tasks that pause, by the time when they become ready again; and those of which only an attempt is left that was
    /// given up, by the time when it should have returned.
    pub pausing: BTreeSet<(Duration, TaskId)>,
    pub devices: Vec<DeviceState>,
    pub rates: Estimator,
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
    pub renewed: Vec<usize>,
    /// Ranges whose hosts can't go on without guests.
    pub needy: usize,
    /// Tasks that have not ended and are to run alone.
    pub alone: usize,
    /// There are other processes on the node that share its cards.
    pub neighbours: bool,
    /// Attempts that were given up, and whose threads nobody waits for any more; with the seconds that each had.
    pub given_up: Vec<(TaskId, u32, f64)>,
    /// What is to be logged once the lock is free: the log may be the caller's code.
    pub notes: Vec<(Level, String)>,
    /// What is told of all this while it goes on and at the end.
    pub seen: PlannerObserver,
    /// When the waiting times of the ready tasks were last looked at.
    pub aged: Duration,
}

impl Planner {
    pub fn new(devices: Vec<(DeviceInfo, u32)>) -> Self {
        let rates = Estimator::new(devices.iter().map(|(info, _)| info.speed).collect());
        Planner {
            tasks: TaskTable::new(),
            ready: ReadyQueue::default(),
            pausing: BTreeSet::new(),
            devices: devices.into_iter().map(|(info, slots)| DeviceState::new(info, slots)).collect(),
            rates,
            arrivals: 0,
            unended: BTreeSet::new(),
            counts: TaskCounts::default(),
            closed: false,
            stopping: false,
            ended: Vec::new(),
            renewed: Vec::new(),
            needy: 0,
            alone: 0,
            neighbours: false,
            given_up: Vec::new(),
            notes: Vec::new(),
            seen: PlannerObserver::default(),
            aged: Duration::ZERO,
        }
    }

    /// Refuses, with the numbers, what no device could ever run.
    pub fn check(&self, task: &Task) -> Result<()> {
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
        for before in task.after.iter().filter(|before| before.0 & LIGHT == 0) {
            self.tasks.get(*before)?;
        }
        let what = if task.label.is_empty() { "the task".into() } else { format!("task '{}'", task.label) };
        let mut best: Option<&DeviceState> = None;
        let mut fits = false;
        let reach = self.reach(task);
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
    fn reach(&self, task: &Task) -> DeviceMask {
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
    pub fn admit(&mut self, now: Duration, task: Task) -> Result<TaskId> {
        let (arrival, bytes, reach) = (self.arrivals, task.bytes(), self.reach(&task));
        let id = self.tasks.insert(TaskRecord {
            job: Some(task.job.into()),
            label: task.label,
            bytes,
            work: task.work,
            excess: 1.0,
            begun_anew: false,
            class: task.class,
            role: task.role,
            deadline: task.deadline,
            devices: task.devices,
            backends: task.backends,
            reach,
            detached: task.detached,
            idempotent: task.idempotent,
            signal: Arc::default(),
            rank: Rank::new(task.priority, task.work, arrival),
            arrival,
            state: TaskStatus::Queued,
            behind: BTreeSet::new(),
            followers: Vec::new(),
            retries: task.retries,
            attempts: 0,
            copies: 0,
            device: None,
            slot: 0,
            passed: 0,
            raised: 0,
            poisoned: 0,
            lost: 0,
            wrong: 0,
            suspects: DeviceMask::NONE,
            refused: DeviceMask::NONE,
            avoided: DeviceMask::NONE,
            pauses: 0,
            paused_until: None,
            alone: false,
            failure: None,
            since: now,
            queued: Duration::ZERO,
            ran: Duration::ZERO,
        })?;
        self.arrivals += 1;
        self.counts.queued += 1;
        match task.role {
            Role::Task | Role::Shadow => {
                self.rates.announce(task.class, task.work);
                self.seen.tally.submitted(now, task.class, task.work);
            }
            Role::Range | Role::Nothing => self.seen.tally.touched(now),
            Role::Guest => {
                self.counts.guests.submitted += 1;
                self.counts.guests.queued += 1;
            }
        }
        if task.role != Role::Guest {
            self.unended.insert(arrival);
        }
        let mut broken = None;
        let mut behind = BTreeSet::new();
        for before in task.after {
            let Ok(entry) = self.tasks.get_mut(before) else { continue };
            match entry.state {
                TaskStatus::Done => {}
                TaskStatus::Failed | TaskStatus::Cancelled => {
                    broken.get_or_insert(before);
                }
                _ if behind.insert(before) => entry.followers.push(id),
                _ => {}
            }
        }
        if let Some(before) = broken {
            self.break_off(id, before);
        } else if behind.is_empty() {
            self.make_ready(id);
        } else if let Ok(entry) = self.tasks.get_mut(id) {
            entry.behind = behind;
        }
        Ok(id)
    }

    /// A task that is none: it stands for one outside of the plan which others come after, and ends with
    /// [`Planner::finish`].
    pub fn admit_shadow(&mut self, now: Duration) -> Result<TaskId> {
        let nothing = Task::new(|_: &crate::sched::base::task::Exec<'_>| Ok(()));
        let id = self.admit(now, Task { role: Role::Shadow, ..nothing })?;
        if let Ok(entry) = self.tasks.get_mut(id) {
            entry.detached = true;
        }
        Ok(id)
    }

    /// Where a task may begin now, were it free: what it allows, less where it lately did not fit, and
    /// less where it has failed unless there is nothing else.
    pub fn eligible(&self, entry: &TaskRecord) -> DeviceMask {
        let mut may = DeviceMask::NONE;
        for (index, device) in self.devices.iter().enumerate() {
            if entry.allows(index, device) && !entry.refused.contains(index) {
                may.add(index);
            }
        }
        let better = may.without(entry.avoided);
        if better == DeviceMask::NONE { may } else { better }
    }

    /// Puts a task that nothing holds back into the ready list; without a device it ends.
    pub fn make_ready(&mut self, id: TaskId) {
        let Ok(entry) = self.tasks.get(id) else { return };
        if entry.job.is_none() {
            return;
        }
        if entry.role == Role::Shadow {
            // Whether a device is left for what it stands for is not known here.
        } else if entry.role == Role::Nothing {
            self.finish(id, Ok(()));
        } else if self.devices.iter().enumerate().any(|(index, device)| entry.allows(index, device)) {
            self.ready.insert(entry, id);
            self.forgive(id);
        } else {
            let error = self.no_device(entry.name(), entry.devices, &entry.backends);
            self.finish(id, Err(error));
        }
    }

    /// Until then a task is not ready, or the attempt that is left of it may return.
    pub fn pause(&mut self, id: TaskId, until: Duration) {
        if let Ok(entry) = self.tasks.get_mut(id) {
            entry.paused_until = Some(until);
            self.pausing.insert((until, id));
        }
    }

    pub fn end_pause(&mut self, id: TaskId) {
        let until = self.tasks.get_mut(id).ok().and_then(|entry| entry.paused_until.take());
        until.map(|until| self.pausing.remove(&(until, id)));
    }

    /// Where it did not fit lately is better than nowhere.
    fn forgive(&mut self, id: TaskId) {
        let nowhere = self.tasks.get(id).is_ok_and(|entry| self.eligible(entry) == DeviceMask::NONE);
        if let Ok(entry) = self.tasks.get_mut(id)
            && nowhere
        {
            entry.refused = DeviceMask::NONE;
        }
    }

    /// A task that came after one that did not end well. In a chain of them all name the first: words that
    /// told the whole way would grow with it.
    fn break_off(&mut self, id: TaskId, before: TaskId) {
        let (Ok(entry), Ok(first)) = (self.tasks.get(id), self.tasks.get(before)) else { return };
        let (before, why) = match first.signal.outcome.get() {
            Some(Err(Error::Dependency { before, why, .. })) => (before.clone(), why.clone()),
            Some(Err(error)) => (first.name(), error.to_string()),
            _ => (first.name(), Error::Cancelled.to_string()),
        };
        let error = Error::Dependency { what: entry.name(), before, why };
        self.finish(id, Err(error));
    }

    /// The first step of a task's end: it is out of every list, and its job is to be dropped.
    pub fn finish(&mut self, id: TaskId, outcome: Result<()>) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        let Some(job) = entry.job.take() else { return };
        if outcome.is_err() {
            // Whatever still runs of it can't count any more.
            entry.signal.cancel();
        }
        self.ready.remove(entry);
        self.end_pause(id);
        self.release_holds(id);
        self.ended.push(EndedTask { id, job, outcome });
    }

    /// The second step: publishes the end of a task whose job has been dropped. `Err(Cancelled)` is no failure.
    pub fn publish(&mut self, now: Duration, id: TaskId, outcome: Result<()>) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        let guest = u64::from(entry.role == Role::Guest);
        match entry.state {
            TaskStatus::Running => {
                self.counts.running -= 1;
                self.counts.guests.running -= guest;
            }
            _ => {
                entry.queued += now.saturating_sub(entry.since);
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
        entry.state = state;
        entry.since = now;
        self.alone -= usize::from(entry.alone);
        if state == TaskStatus::Done {
            entry.signal.report(1.0);
        }
        let _ = entry.signal.outcome.set(outcome);
        self.unended.remove(&entry.arrival);
        match entry.role {
            Role::Task | Role::Shadow => self.seen.tally.ended(now, entry.class, entry.work),
            Role::Range | Role::Nothing | Role::Guest => self.seen.tally.touched(now),
        }
        for follower in std::mem::take(&mut entry.followers) {
            if state != TaskStatus::Done {
                self.break_off(follower, id);
            } else if let Ok(entry) = self.tasks.get_mut(follower) {
                entry.behind.remove(&id);
                if entry.behind.is_empty() {
                    self.make_ready(follower);
                }
            }
        }
        if self.tasks.get(id).is_ok_and(|entry| entry.detached) {
            let _ = self.tasks.remove(id);
        }
    }

    /// Asks a task to stop; one that is not running is over.
    pub fn cancel(&mut self, id: TaskId) -> Result<()> {
        let entry = self.tasks.get(id)?;
        entry.signal.cancel();
        // One that runs may be there for another copy.
        self.ready.remove(entry);
        if !entry.state.is_ended() && entry.copies == 0 {
            self.finish(id, Err(Error::Cancelled));
        }
        Ok(())
    }

    /// Accepts nothing any more, and cancels everything.
    pub fn stop(&mut self) {
        self.closed = true;
        self.stopping = true;
        for id in self.tasks.ids() {
            // What stands for a task outside of the plan ends with that.
            if self.tasks.get(id).is_ok_and(|entry| entry.role != Role::Shadow) {
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
            device.hold = None;
            self.note(Level::Warn, index, text);
        }
        let ready: Vec<TaskId> = self.ready.iter().map(|(_, id)| id).collect();
        for id in ready {
            let homeless = self.tasks.get(id).is_ok_and(|entry| {
                entry.copies == 0
                    && !self.devices.iter().enumerate().any(|(i, device)| entry.allows(i, device))
            });
            if homeless {
                self.make_ready(id);
            } else {
                self.forgive(id);
            }
        }
    }

    /// The backend was told to make the device's context anew.
    pub fn has_renewed(&mut self, index: usize) {
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

    pub fn release_holds(&mut self, id: TaskId) {
        for device in &mut self.devices {
            if device.hold == Some(id) {
                device.hold = None;
            }
        }
    }

    /// The number that the next task will have; see [`Planner::all_ended_before`].
    pub fn mark(&self) -> u64 {
        self.arrivals
    }

    pub fn all_ended_before(&self, mark: u64) -> bool {
        self.unended.first().is_none_or(|&first| first >= mark)
    }
}
