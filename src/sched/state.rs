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
//! | a task becomes ready | one worker of the least loaded device that could start it now |
//! | a worker gives a lease back | all workers of that device |
//! | a task ends, or begins to wait for another | all waiters |
//! | a task begins to wait for another | a worker for the slot that this frees |
//! | a task has waited enough | the device's workers, one of which may be too many now |
//! | shut down, a device retired | all workers, all waiters |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::Level;

use super::policy::Rank;
use super::registry::Registry;
use super::task::{DeviceMask, Job, Signal, State, Task, TaskId, Wait};
use crate::device::{BackendKind, DeviceInfo, Health};
use crate::error::{Error, Result};
use crate::memory::{Lease, Ledger};

pub struct Core {
    pub tasks: Registry<Entry>,
    pub ready: BTreeMap<Rank, TaskId>,
    pub devices: Vec<Device>,
    pub arrivals: u64,
    /// Arrival numbers of the tasks that have not ended.
    pub unended: BTreeSet<u64>,
    /// Tasks that wait, without a time limit, for other tasks.
    pub blocked: u64,
    pub counts: Counts,
    pub closed: bool,
    pub stopping: bool,
    /// What is to be logged once the lock is free: the log may be the caller's code.
    pub notes: Vec<(Level, String)>,
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
    /// Workers started or woken for a task, which have not looked for it yet.
    pub called: u32,
    /// Workers whose tasks wait for other tasks: as many others may use their slots meanwhile.
    pub waiting: u32,
    pub running: u32,
    /// The task that runs here has asked to be alone.
    pub alone: bool,
    /// Nothing but this task starts here, so that it gets its memory at last.
    pub hold: Option<TaskId>,
    pub retired: Option<String>,
    pub done: u64,
    pub failed: u64,
    pub busy: Duration,
}

pub struct Entry {
    pub job: Option<Box<dyn Job>>,
    pub label: String,
    pub device_bytes: u64,
    pub devices: DeviceMask,
    pub backends: Vec<BackendKind>,
    pub detached: bool,
    pub signal: Arc<Signal>,
    pub rank: Rank,
    pub arrival: u64,
    pub state: State,
    pub retries: u32,
    pub attempts: u32,
    pub device: Option<usize>,
    pub slot: u32,
    pub passed: u32,
    pub losses: u32,
    pub alone: bool,
    pub since: Instant,
    pub queued: Duration,
    pub ran: Duration,
}

impl Entry {
    pub fn may_run_on(&self, index: usize, device: &Device) -> bool {
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

/// How an attempt went.
pub enum Attempt {
    Ran(Result<()>),
    /// The device could not be opened or made current: the task's code was not called.
    NoQueue(String),
}

/// What becomes of a task after an attempt.
pub enum Verdict {
    /// It is over: drop the job, then publish this.
    End(Result<()>, Box<dyn Job>),
    /// It is ready again.
    Again,
    /// It is ready again, and the device is to be retired.
    Retire(String),
    /// It is over, and so is the device.
    EndAndRetire(Result<()>, Box<dyn Job>, String),
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
                called: 0,
                waiting: 0,
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
            notes: Vec::new(),
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

    /// After an attempt: its lease goes back, and what becomes of the task.
    pub fn judge(&mut self, index: usize, assignment: Assignment, attempt: Attempt) -> Verdict {
        let Assignment { id, job, alone, lease, .. } = assignment;
        drop(lease);
        let device = &mut self.devices[index];
        device.running -= 1;
        device.alone = false;
        let label = device.info.label();
        let stopping = self.stopping;
        let Ok(entry) = self.tasks.get_mut(id) else { return Verdict::Again };
        let ran = entry.since.elapsed();
        let outcome = match attempt {
            Attempt::Ran(outcome) => {
                device.busy += ran;
                entry.ran += ran;
                match outcome {
                    Ok(()) => device.done += 1,
                    Err(_) => device.failed += 1,
                }
                outcome
            }
            // The task has nothing to do with it.
            Attempt::NoQueue(why) if entry.signal.is_cancelled() => {
                return Verdict::EndAndRetire(Err(Error::Cancelled), job, why);
            }
            Attempt::NoQueue(why) => {
                entry.attempts -= 1;
                self.requeue(id, job);
                return Verdict::Retire(why);
            }
        };
        let error = match outcome {
            Ok(()) => return Verdict::End(Ok(()), job),
            Err(_) if entry.signal.is_cancelled() => return Verdict::End(Err(Error::Cancelled), job),
            Err(error) => error,
        };
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
            self.notes.push((Level::Warn, format!("{} failed on {label}: {why}", entry.name())));
            return match lost {
                true => Verdict::EndAndRetire(Err(error), job, why),
                false => Verdict::End(Err(error), job),
            };
        }
        let (name, attempts) = (entry.name(), entry.attempts);
        self.notes
            .push((Level::Info, format!("{name} is tried again after attempt {attempts} on {label}: {why}")));
        self.counts.retried += 1;
        if entry.alone {
            // What runs here ends, and nothing else starts before.
            self.devices[index].hold = Some(id);
        }
        self.requeue(id, job);
        if lost { Verdict::Retire(why) } else { Verdict::Again }
    }

    fn requeue(&mut self, id: TaskId, job: Box<dyn Job>) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        entry.signal.renew();
        entry.job = Some(job);
        entry.state = State::Queued;
        entry.since = Instant::now();
        self.ready.insert(entry.rank, id);
        self.counts.running -= 1;
        self.counts.queued += 1;
    }

    /// Publishes the end of a task whose job has been dropped. `Err(Cancelled)` is no failure.
    pub fn end(&mut self, id: TaskId, outcome: Result<()>) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        match entry.state {
            State::Running => self.counts.running -= 1,
            _ => {
                entry.queued += entry.since.elapsed();
                self.counts.queued -= 1;
            }
        }
        let (state, count, outcome) = match outcome {
            Ok(()) => (State::Done, &mut self.counts.done, Ok(Wait::Done)),
            Err(Error::Cancelled) => (State::Cancelled, &mut self.counts.cancelled, Ok(Wait::Cancelled)),
            Err(error) => (State::Failed, &mut self.counts.failed, Err(error)),
        };
        *count += 1;
        entry.state = state;
        if state == State::Done {
            entry.signal.report(1.0);
        }
        let _ = entry.signal.outcome.set(outcome);
        self.unended.remove(&entry.arrival);
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
    /// with their jobs and why.
    pub fn retire(&mut self, index: usize, why: &str) -> Vec<(TaskId, Box<dyn Job>, Error)> {
        let device = &mut self.devices[index];
        if device.retired.is_none() {
            let text = format!("device {} ({}) is retired: {why}", device.info.label(), device.info.id);
            self.notes.push((Level::Warn, text));
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
        homeless
    }

    /// The number that the next task will have; see [`Core::all_ended_before`].
    pub fn mark(&self) -> u64 {
        self.arrivals
    }

    pub fn all_ended_before(&self, mark: u64) -> bool {
        self.unended.first().is_none_or(|&first| first >= mark)
    }
}
