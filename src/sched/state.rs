//! The state of a scheduler: one struct under one mutex, changed only by the methods here.
//!
//! **A task** is `Queued` (in the ready list, its job in its entry), then `Running` (its job with a
//! worker), then perhaps `Queued` again, and at last `Done`, `Failed` or `Cancelled`, for good. Its end has
//! two steps, because its job belongs to the caller and may do anything when it is dropped: it is
//! taken out under the lock, dropped without it, and only then is the end published under the lock.
//! So whoever sees that a task has ended also knows that its job is gone.
//!
//! **Sleeping and waking.** Workers sleep on their device's condition variable, waiters on `ended`. Every
//! change that could let a sleeper go on is made under the mutex, and followed by a notification
//! before the mutex is next released; a sleeper checks and falls asleep under that same mutex. So no
//! wake-up is lost.
//!
//! | change | who is woken |
//! |---|---|
//! | a task becomes ready | one worker of each device that may run it |
//! | a worker gives a lease back | all workers of that device |
//! | a task ends, or begins to wait for another | all waiters |
//! | shut down, a device retired, a substitute not needed any more | all workers concerned, all waiters |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::Level;

use super::policy::{PATIENCE, Rank};
use super::registry::Registry;
use super::task::{DeviceMask, Job, Signal, State, Task, TaskId, TaskInfo};
use crate::device::{BackendKind, DeviceInfo, Health};
use crate::error::{Error, Result};
use crate::memory::{Lease, Ledger};

pub struct Core {
    pub tasks: Registry<Entry>,
    ready: BTreeMap<Rank, TaskId>,
    pub devices: Vec<Device>,
    arrivals: u64,
    /// Arrival numbers of the tasks that have not ended.
    unended: BTreeSet<u64>,
    /// Tasks that wait, without a time limit, for other tasks.
    pub blocked: u64,
    pub counts: Counts,
    pub closed: bool,
    pub stopping: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub retried: u64,
}

pub struct Device {
    pub info: DeviceInfo,
    pub ledger: Arc<Ledger>,
    pub slots: u32,
    pub workers: u32,
    pub idle: u32,
    /// Substitutes that are not needed any more: so many workers end when they have nothing in hand.
    pub surplus: u32,
    running: u32,
    /// The task that runs here has asked to be alone.
    alone: bool,
    /// Nothing but this task starts here, so that it gets its memory at last.
    hold: Option<TaskId>,
    retired: Option<String>,
    done: u64,
    failed: u64,
    busy: Duration,
}

pub struct Entry {
    job: Option<Box<dyn Job>>,
    label: String,
    pub device_bytes: u64,
    devices: DeviceMask,
    backends: Vec<BackendKind>,
    pub detached: bool,
    pub signal: Arc<Signal>,
    rank: Rank,
    arrival: u64,
    pub state: State,
    retries: u32,
    attempts: u32,
    device: Option<usize>,
    slot: u32,
    passed: u32,
    losses: u32,
    alone: bool,
    since: Instant,
    queued: Duration,
    ran: Duration,
    pub error: Option<Error>,
}

impl Entry {
    fn may_run_on(&self, index: usize, device: &Device) -> bool {
        device.retired.is_none()
            && self.devices.contains(index)
            && (self.backends.is_empty() || self.backends.contains(&device.info.backend))
    }

    fn name(&self) -> String {
        if self.label.is_empty() { "the task".into() } else { format!("task '{}'", self.label) }
    }
}

/// What a worker takes away to run.
pub struct Assignment {
    pub id: TaskId,
    pub job: Box<dyn Job>,
    pub signal: Arc<Signal>,
    pub attempt: u32,
    pub lease: Lease,
    /// Nothing else of ours ran on the device when this began.
    pub alone: bool,
}

/// What becomes of a task after an attempt.
pub enum Verdict {
    /// It is over: drop the job, then publish this.
    End(State, Option<Error>, Box<dyn Job>),
    /// It is ready again.
    Again,
    /// The device is to be retired; the task is ready again.
    Retire(String),
    /// Both.
    EndAndRetire(Option<Error>, Box<dyn Job>, String),
}

/// A line for the log.
pub type Note = (Level, String);

/// A queued task that no device is left for, and its job.
pub type Homeless = (TaskId, Box<dyn Job>, Error);

/// What a scheduler has done and is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that were followed by another.
    pub retried: u64,
    pub devices: Vec<DeviceStats>,
}

/// The same of one device. `done` and `failed` count attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStats {
    /// As found at the start, with the health of now.
    pub device: DeviceInfo,
    pub slots: u32,
    pub done: u64,
    pub failed: u64,
    pub busy_ns: u64,
    pub leased_bytes: u64,
    pub peak_bytes: u64,
}

impl Core {
    pub fn new(devices: Vec<(DeviceInfo, u32)>) -> Self {
        let devices = devices
            .into_iter()
            .map(|(info, slots)| Device {
                ledger: Ledger::new(info.total_bytes),
                info,
                slots,
                workers: 0,
                idle: 0,
                surplus: 0,
                running: 0,
                alone: false,
                hold: None,
                retired: None,
                done: 0,
                failed: 0,
                busy: Duration::ZERO,
            })
            .collect();
        Core {
            tasks: Registry::new(),
            ready: BTreeMap::new(),
            devices,
            arrivals: 0,
            unended: BTreeSet::new(),
            blocked: 0,
            counts: Counts::default(),
            closed: false,
            stopping: false,
        }
    }

    /// Puts a checked task into the ready list.
    pub fn admit(&mut self, task: Task) -> Result<TaskId> {
        let arrival = self.arrivals;
        let rank = Rank::new(task.priority, task.work, arrival);
        let id = self.tasks.insert(Entry {
            job: Some(task.job),
            label: task.label,
            device_bytes: task.device_bytes,
            devices: task.devices,
            backends: task.backends,
            detached: task.detached,
            signal: Arc::default(),
            rank,
            arrival,
            state: State::Queued,
            retries: task.retries,
            attempts: 0,
            device: None,
            slot: 0,
            passed: 0,
            losses: 0,
            alone: false,
            since: Instant::now(),
            queued: Duration::ZERO,
            ran: Duration::ZERO,
            error: None,
        })?;
        self.arrivals += 1;
        self.unended.insert(arrival);
        self.ready.insert(rank, id);
        self.counts.queued += 1;
        Ok(id)
    }

    /// Refuses, with the numbers, what no device could ever run.
    pub fn check(&self, task: &Task) -> Result<()> {
        if let Some(work) = task.work
            && !(work.is_finite() && work > 0.0)
        {
            return Err(Error::argument("the task's work", work, "a positive, finite number, or none"));
        }
        let what = if task.label.is_empty() { "the task".into() } else { format!("task '{}'", task.label) };
        let mut best: Option<&Device> = None;
        for (index, device) in self.devices.iter().enumerate() {
            let kind = task.backends.is_empty() || task.backends.contains(&device.info.backend);
            if device.retired.is_none()
                && kind
                && task.devices.contains(index)
                && best.is_none_or(|best| best.ledger.limit() < device.ledger.limit())
            {
                best = Some(device);
            }
        }
        let Some(best) = best else { return Err(self.no_device(what, task.devices, &task.backends)) };
        if task.device_bytes > best.ledger.limit() {
            return Err(Error::NoMemory {
                what,
                needed: task.device_bytes,
                place: format!("{} ({})", best.info.label(), best.info.name),
                there: best.ledger.limit(),
            });
        }
        Ok(())
    }

    fn no_device(&self, what: String, mask: DeviceMask, kinds: &[BackendKind]) -> Error {
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
        let why = format!("its mask {:#x} and backend ({kinds}) allow none of: {}", mask.0, there.join(", "));
        Error::NoDevice { what, why }
    }

    /// The next task for a device, in the order of the ready list, if the ledger grants it.
    ///
    /// `free_bytes` is asked only when something of ours runs on the device. When nothing does, a
    /// task starts whatever other processes have taken: waiting for them could last for ever, and
    /// its own error will tell the numbers.
    pub fn take(&mut self, index: usize, slot: u32, free_bytes: &dyn Fn() -> u64) -> Option<Assignment> {
        let device = &self.devices[index];
        if device.retired.is_some() || device.alone {
            return None;
        }
        let mut passed = Vec::new();
        let mut found = None;
        for &id in self.ready.values() {
            let Ok(entry) = self.tasks.get(id) else { continue };
            if !entry.may_run_on(index, device) || device.hold.is_some_and(|held| held != id) {
                continue;
            }
            let fits = device.running == 0
                || !entry.alone && (entry.device_bytes == 0 || entry.device_bytes <= free_bytes());
            match fits.then(|| device.ledger.lease(entry.device_bytes)).flatten() {
                Some(lease) => {
                    found = Some((id, lease));
                    break;
                }
                None => passed.push(id),
            }
        }
        let (id, lease) = found?;
        for other in passed {
            if let Ok(entry) = self.tasks.get_mut(other) {
                entry.passed += 1;
                if entry.passed >= PATIENCE {
                    self.devices[index].hold = Some(other);
                }
            }
        }
        self.release_holds(id);
        let entry = self.tasks.get_mut(id).ok()?;
        let job = entry.job.take()?;
        self.ready.remove(&entry.rank);
        let now = Instant::now();
        entry.queued += now - entry.since;
        entry.since = now;
        entry.state = State::Running;
        entry.attempts += 1;
        entry.device = Some(index);
        entry.slot = slot;
        let device = &mut self.devices[index];
        let alone = device.running == 0;
        device.running += 1;
        device.alone = entry.alone;
        self.counts.queued -= 1;
        self.counts.running += 1;
        Some(Assignment { id, job, signal: entry.signal.clone(), attempt: entry.attempts, lease, alone })
    }

    /// After an attempt: its lease goes back, and what becomes of the task. What is to be logged of
    /// it is for after the lock, for the log may be the caller's code.
    pub fn judge(
        &mut self,
        index: usize,
        assignment: Assignment,
        outcome: Result<()>,
    ) -> (Verdict, Option<Note>) {
        let Assignment { id, job, alone, lease, .. } = assignment;
        drop(lease);
        let device = &mut self.devices[index];
        device.running -= 1;
        device.alone = false;
        match outcome {
            Ok(()) => device.done += 1,
            Err(_) => device.failed += 1,
        }
        let label = device.info.label();
        let stopping = self.stopping;
        let Ok(entry) = self.tasks.get_mut(id) else { return (Verdict::Again, None) };
        let ran = entry.since.elapsed();
        device.busy += ran;
        entry.ran += ran;
        let error = match outcome {
            Ok(()) => return (Verdict::End(State::Done, None, job), None),
            Err(error) => error,
        };
        if entry.signal.is_cancelled() {
            return (Verdict::End(State::Cancelled, None, job), None);
        }
        let lost = matches!(error, Error::Device { .. });
        let again = match &error {
            // The device's fault, unless it happens to the same task twice.
            Error::Device { .. } => {
                entry.losses += 1;
                entry.losses < 2
            }
            // Others had the memory; the next attempt gets the device to itself.
            Error::NoMemory { .. } if !alone && !entry.alone => {
                entry.alone = true;
                true
            }
            _ if entry.retries > 0 => {
                entry.retries -= 1;
                true
            }
            _ => false,
        } && !stopping;
        let why = error.to_string();
        if !again {
            let note = (Level::Warn, format!("{} failed on {label}: {why}", entry.name()));
            let verdict = match lost {
                true => Verdict::EndAndRetire(Some(error), job, why),
                false => Verdict::End(State::Failed, Some(error), job),
            };
            return (verdict, Some(note));
        }
        let attempts = entry.attempts;
        let text = format!("{} is tried again after attempt {attempts} on {label}: {why}", entry.name());
        let note = Some((Level::Info, text));
        entry.signal.renew();
        entry.job = Some(job);
        entry.state = State::Queued;
        entry.since = Instant::now();
        self.ready.insert(entry.rank, id);
        self.counts.running -= 1;
        self.counts.queued += 1;
        self.counts.retried += 1;
        (if lost { Verdict::Retire(why) } else { Verdict::Again }, note)
    }

    /// Publishes the end of a task whose job has been dropped.
    pub fn end(&mut self, id: TaskId, state: State, error: Option<Error>) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        match entry.state {
            State::Running => self.counts.running -= 1,
            _ => {
                entry.queued += entry.since.elapsed();
                self.counts.queued -= 1;
            }
        }
        entry.state = state;
        entry.error = error;
        self.unended.remove(&entry.arrival);
        match state {
            State::Done => {
                entry.signal.report(1.0);
                self.counts.done += 1;
            }
            State::Failed => self.counts.failed += 1,
            _ => self.counts.cancelled += 1,
        }
        if entry.detached {
            let _ = self.tasks.remove(id);
        }
        self.release_holds(id);
    }

    /// Takes a queued task out of the ready list, with its job; `None` if it is not there.
    pub fn withdraw(&mut self, id: TaskId) -> Option<Box<dyn Job>> {
        let entry = self.tasks.get_mut(id).ok()?;
        self.ready.remove(&entry.rank)?;
        entry.job.take()
    }

    pub fn ready_ids(&self) -> Vec<TaskId> {
        self.ready.values().copied().collect()
    }

    /// Nothing starts on this device any more. Returns the queued tasks that now have no device,
    /// with their jobs and why; and what is to be logged, if it is news.
    pub fn retire(&mut self, index: usize, why: &str) -> (Vec<Homeless>, Option<Note>) {
        let device = &mut self.devices[index];
        let mut note = None;
        if device.retired.is_none() {
            let text = format!("device {} ({}) is retired: {why}", device.info.label(), device.info.id);
            note = Some((Level::Warn, text));
            device.retired = Some(why.into());
            device.info.health = Health::Retired;
        }
        let mut homeless = Vec::new();
        for id in self.ready_ids() {
            let Ok(entry) = self.tasks.get(id) else { continue };
            let here = |(index, device)| entry.may_run_on(index, device);
            if !self.devices.iter().enumerate().any(here) {
                let error = self.no_device(entry.name(), entry.devices, &entry.backends);
                homeless.extend(self.withdraw(id).map(|job| (id, job, error)));
            }
        }
        (homeless, note)
    }

    /// Devices that could run a task, as positions.
    pub fn candidates(&self, id: TaskId) -> Vec<usize> {
        let Ok(entry) = self.tasks.get(id) else { return Vec::new() };
        (0..self.devices.len()).filter(|&index| entry.may_run_on(index, &self.devices[index])).collect()
    }

    /// Whether another worker would be of use on a device.
    pub fn wants_worker(&self, index: usize) -> bool {
        let device = &self.devices[index];
        device.workers - device.surplus.min(device.workers) < device.slots
            && self.ready.len() > device.idle as usize
    }

    /// Nothing can go on: all that runs waits for tasks, and no ready task can start beside it.
    pub fn stuck(&self) -> bool {
        self.counts.running == self.blocked
            && self.ready.values().all(|&id| {
                let Ok(entry) = self.tasks.get(id) else { return true };
                !self.devices.iter().enumerate().any(|(index, device)| {
                    entry.may_run_on(index, device)
                        && device.hold.is_none_or(|held| held == id)
                        && !device.alone
                        && (device.running == 0 || !entry.alone)
                        && device.ledger.limit() - device.ledger.leased() >= entry.device_bytes
                })
            })
    }

    /// The number that the next task will have; see [`Core::all_ended_before`].
    pub fn mark(&self) -> u64 {
        self.arrivals
    }

    pub fn all_ended_before(&self, mark: u64) -> bool {
        self.unended.first().is_none_or(|&first| first >= mark)
    }

    pub fn info(&self, id: TaskId) -> Result<TaskInfo> {
        let entry = self.tasks.get(id)?;
        let now = if entry.state.is_ended() { Duration::ZERO } else { entry.since.elapsed() };
        let (queued, running) = match entry.state {
            State::Queued => (now, Duration::ZERO),
            _ => (Duration::ZERO, now),
        };
        Ok(TaskInfo {
            state: entry.state,
            label: entry.label.clone(),
            device: entry.device,
            slot: entry.slot,
            attempts: entry.attempts,
            progress: entry.signal.progress(),
            queued_ns: nanoseconds(entry.queued + queued),
            running_ns: nanoseconds(entry.ran + running),
            error: entry.error.clone(),
        })
    }

    pub fn stats(&self) -> Stats {
        let Counts { queued, running, done, failed, cancelled, retried } = self.counts;
        let devices = self.devices.iter().map(|device| DeviceStats {
            device: device.info.clone(),
            slots: device.slots,
            done: device.done,
            failed: device.failed,
            busy_ns: nanoseconds(device.busy),
            leased_bytes: device.ledger.leased(),
            peak_bytes: device.ledger.peak(),
        });
        let devices = devices.collect();
        Stats { submitted: self.arrivals, queued, running, done, failed, cancelled, retried, devices }
    }

    fn release_holds(&mut self, id: TaskId) {
        for device in &mut self.devices {
            if device.hold == Some(id) {
                device.hold = None;
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
