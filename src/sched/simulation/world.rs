//! The loop over events, in the place of worker threads, devices and time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use super::{Scenario, SimDevice, SimEvent, SimEventKind, SimReport};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{DeviceFault, Error, Result};
use crate::sched::base::{Completion, Exec, Task, TaskCounts, TaskId, TaskStatus};
use crate::sched::plan::{AttemptEnd, Effects, EndedTask, Planner, Stats};

/// An event that is to come: its time and its kind. Those of the same time happen in the order of
/// their kinds. The time is the bits of an `f64` that is not negative: they have its order.
type PendingEvent = (u64, PendingKind);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PendingKind {
    Lost(usize),
    Fault(usize, usize),
    Submit(usize),
    Cancel(usize),
    /// Number of the attempt, and the version of its plan; an older plan is void.
    Return(usize, u32),
    /// The planner's deadline, which the time of the event may round down.
    Deadline(Duration),
}

/// An attempt that runs on a simulated device.
pub(super) struct SimAttempt {
    pub(super) id: TaskId,
    pub(super) task: usize,
    pub(super) device: usize,
    pub(super) slot: u32,
    pub(super) attempt: u32,
    pub(super) signal: Arc<Completion>,
    /// Remaining work at `since`.
    pub(super) left: f64,
    pub(super) since: f64,
    /// Its result, if nothing intervenes.
    pub(super) fate: Result<()>,
    pub(super) version: u32,
    pub(super) hung: bool,
}

#[derive(Default)]
pub(super) struct SimDeviceState {
    pub(super) speed: f64,
    pub(super) free: Vec<u32>,
    pub(super) memory_short_until: f64,
    pub(super) resources_short_until: f64,
    pub(super) wrong_until: f64,
}

pub struct Simulation<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) planner: Planner,
    pub(super) effects: Effects,
    pub(super) now: f64,
    pub(super) due: BinaryHeap<Reverse<PendingEvent>>,
    pub(super) ids: Vec<Option<TaskId>>,
    pub(super) known: BTreeMap<TaskId, usize>,
    pub(super) ends: Vec<Option<(TaskStatus, Option<Error>)>>,
    pub(super) failures: Vec<u32>,
    pub(super) places: Vec<SimDeviceState>,
    /// Running attempts by number, oldest first.
    pub(super) running: BTreeMap<usize, SimAttempt>,
    /// Number of attempts that have begun.
    pub(super) begun: usize,
    /// Tasks that have not ended.
    pub(super) unended: usize,
    pub(super) events: Vec<SimEvent>,
}

impl<'a> Simulation<'a> {
    pub fn new(scenario: &'a Scenario) -> Self {
        let info = |(index, device): (usize, &SimDevice)| {
            let info = DeviceInfo {
                total_bytes: device.memory_bytes,
                free_bytes: device.memory_bytes,
                speed: device.prior,
                ..DeviceInfo::new(&format!("SIM-{index}"), BackendKind::Simulated, index as u32, &device.name)
            };
            (info, device.slots)
        };
        let place = |device: &SimDevice| SimDeviceState {
            speed: device.speed,
            free: (0..device.slots).rev().collect(),
            ..SimDeviceState::default()
        };
        let count = scenario.tasks.len();
        let mut world = Simulation {
            scenario,
            planner: Planner::new(scenario.devices.iter().enumerate().map(info).collect(), Arc::default()),
            effects: Effects::default(),
            now: 0.0,
            due: BinaryHeap::new(),
            ids: vec![None; count],
            known: BTreeMap::new(),
            ends: vec![None; count],
            failures: scenario.tasks.iter().map(|task| task.failures).collect(),
            places: scenario.devices.iter().map(place).collect(),
            running: BTreeMap::new(),
            begun: 0,
            unended: count,
            events: Vec::new(),
        };
        for (index, device) in scenario.devices.iter().enumerate() {
            if let Some(fail_at) = device.fail_at {
                world.plan(fail_at, PendingKind::Lost(index));
            }
            for (fault, at) in device.faults.iter().enumerate() {
                world.plan(at.at, PendingKind::Fault(index, fault));
            }
        }
        for (index, task) in scenario.tasks.iter().enumerate() {
            world.plan(task.submit_at, PendingKind::Submit(index));
            if let Some(cancel_at) = task.cancel_at {
                world.plan(cancel_at.max(task.submit_at), PendingKind::Cancel(index));
            }
        }
        world
    }

    fn plan(&mut self, time: f64, kind: PendingKind) {
        // No negative zero.
        let time = time.max(0.0).to_bits();
        self.due.push(Reverse((time, kind)));
    }

    pub fn run(&mut self) {
        let mut deadline = None;
        while let Some(Reverse((time, kind))) = self.due.pop() {
            let due = if let PendingKind::Deadline(at) = kind { Some(at) } else { None };
            if due.is_some() && due != deadline {
                continue;
            }
            self.now = f64::from_bits(time);
            let now = Duration::from_secs_f64(self.now).max(due.unwrap_or_default());
            self.effects.now = self.effects.now.max(now);
            self.happen(kind);
            self.planner.check_step();
            // Tasks that are submitted at the same time arrive together.
            let next = self.due.peek().filter(|Reverse(next)| next.0 == time);
            if next.is_some_and(|Reverse(next)| next.1 < PendingKind::Cancel(0)) {
                continue;
            }
            self.settle();
            self.dispatch();
            self.planner.check_step();
            let next = self.planner.next_deadline(self.effects.now).filter(|_| self.unended > 0);
            if let Some(at) = next
                && (next != deadline || due.is_some())
            {
                deadline = next;
                self.plan(at.as_secs_f64().max(self.now), PendingKind::Deadline(at));
            }
        }
    }

    fn happen(&mut self, what: PendingKind) {
        match what {
            PendingKind::Submit(index) => self.submit(index),
            PendingKind::Cancel(index) => {
                if let Some(id) = self.ids[index] {
                    let _ = self.planner.cancel(id, &mut self.effects);
                }
            }
            PendingKind::Lost(index) => self.fail_all(index, DeviceFault::Lost, "it has fallen off the bus"),
            PendingKind::Fault(index, fault) => self.fault(index, fault),
            PendingKind::Return(number, version) => {
                let run = self.running.get(&number).filter(|run| run.version == version && !run.hung);
                match run.map(|run| (run.device, &run.fate)) {
                    Some((device, Err(Error::Device { fault: DeviceFault::Poisoned, .. }))) => {
                        self.fail_all(device, DeviceFault::Poisoned, "an illegal address");
                    }
                    Some(_) => self.leave(number),
                    None => {}
                }
            }
            PendingKind::Deadline(_) => self.planner.advance(&mut self.effects),
        }
    }

    fn submit(&mut self, index: usize) {
        let wanted = &self.scenario.tasks[index];
        let mut after = Vec::new();
        for &before in &wanted.after {
            match self.ids.get(before).copied().flatten() {
                Some(id) => after.push(id),
                // The predecessor was refused, or is a later task.
                None => {
                    let error = Error::Stale { what: "task", id: before as u64 };
                    return self.end(index, TaskStatus::Failed, Some(error));
                }
            }
        }
        let task = Task {
            device_bytes: wanted.device_bytes,
            work: wanted.hint,
            priority: wanted.priority,
            retries: wanted.retries,
            devices: wanted.devices,
            deadline: wanted.deadline.map(Duration::from_secs_f64),
            after,
            idempotent: wanted.idempotent,
            label: format!("{index}"),
            ..Task::new(|_: &Exec<'_>| Ok(()))
        };
        let admitted = self.planner.check_task(&task);
        let admitted = admitted.and_then(|()| self.planner.submit(task, &mut self.effects));
        match admitted {
            Ok(id) => {
                self.ids[index] = Some(id);
                self.known.insert(id, index);
            }
            Err(error) => self.end(index, TaskStatus::Failed, Some(error)),
        }
    }

    fn end(&mut self, task: usize, state: TaskStatus, error: Option<Error>) {
        self.unended -= usize::from(self.ends[task].is_none());
        self.ends[task] = Some((state, error));
    }

    /// Plans the return of an attempt at the present speed.
    pub(super) fn expect(&mut self, number: usize) {
        let Some(run) = self.running.get_mut(&number) else { return };
        run.version += 1;
        let (seconds, version) = (run.left / self.places[run.device].speed, run.version);
        self.plan(self.now + seconds, PendingKind::Return(number, version));
    }

    pub(super) fn record(&mut self, run: &SimAttempt, kind: SimEventKind) {
        let &SimAttempt { task, device, slot, attempt, .. } = run;
        self.events.push(SimEvent { time: self.now, task, device, slot, attempt, kind });
    }

    /// Returns an attempt.
    pub(super) fn leave(&mut self, number: usize) {
        let Some(run) = self.running.remove(&number) else { return };
        self.record(&run, SimEventKind::Return);
        let SimAttempt { id, device, slot, attempt, signal, fate, .. } = run;
        // As a job does before it publishes its result.
        let fate = match fate {
            Ok(()) => signal.commit(attempt),
            Err(_) if signal.is_stopped(attempt) => Err(Error::Cancelled),
            failed => failed,
        };
        let place = &mut self.places[device];
        place.free.push(slot);
        place.free.sort_unstable_by(|a, b| b.cmp(a));
        self.planner.on_attempt_end(device, id, attempt, AttemptEnd::Ran(fate), &mut self.effects);
        self.settle();
    }

    /// Applies the effects, and returns attempts that were asked to stop.
    fn settle(&mut self) {
        loop {
            while let Some(EndedTask { id, outcome, .. }) = self.effects.ended.pop() {
                let error = outcome.clone().err();
                self.planner.publish(id, outcome, &mut self.effects);
                let task = self.known.get(&id).copied();
                if let (Some(task), Ok(info)) = (task, self.planner.info(self.effects.now, id)) {
                    let (device, slot, attempt) = (info.device.unwrap_or(0), info.slot, info.attempts);
                    let kind = SimEventKind::End(info.state);
                    self.events.push(SimEvent { time: self.now, task, device, slot, attempt, kind });
                    self.end(task, info.state, error);
                }
            }
            self.effects.log.clear();
            self.effects.abandoned.clear();
            for index in std::mem::take(&mut self.effects.renewed) {
                self.planner.context_renewed(index);
            }
            let is_stopped = |run: &SimAttempt| !run.hung && run.signal.is_stopped(run.attempt);
            let Some((&number, run)) = self.running.iter_mut().find(|(_, run)| is_stopped(run)) else {
                return;
            };
            run.fate = Err(Error::Cancelled);
            self.leave(number);
        }
    }

    /// Begins attempts on all devices that have room.
    fn dispatch(&mut self) {
        loop {
            let mut begun = false;
            for index in 0..self.places.len() {
                let Some(&slot) = self.places[index].free.last() else { continue };
                let free = self.planner.devices()[index].unleased_bytes();
                let Some(assignment) =
                    self.planner.assign(index, slot, Some(free), &mut self.effects).begun()
                else {
                    continue;
                };
                begun = true;
                self.places[index].free.pop();
                let Some(&task) = self.known.get(&assignment.id) else { continue };
                let wanted = &self.scenario.tasks[task];
                let times = if assignment.attempt == 1 { wanted.stumble } else { 1.0 };
                self.begin(SimAttempt {
                    id: assignment.id,
                    task,
                    device: index,
                    slot,
                    attempt: assignment.attempt,
                    signal: assignment.signal,
                    left: wanted.work * times,
                    since: self.now,
                    fate: Ok(()),
                    version: 0,
                    hung: false,
                });
            }
            if !begun {
                return;
            }
            self.settle();
        }
    }

    pub fn report(mut self) -> SimReport {
        // A task that has not ended now is a fault of the scheduler, and is reported as queued.
        self.ends.iter_mut().for_each(|end| {
            end.get_or_insert((TaskStatus::Queued, None));
        });
        let Stats { counts, devices, .. } = self.planner.stats();
        let ended =
            |state: TaskStatus| self.ends.iter().flatten().filter(|end| end.0 == state).count() as u64;
        let last = self.events.iter().rfind(|event| matches!(event.kind, SimEventKind::End(_)));
        SimReport {
            makespan: last.map_or(0.0, |last| last.time),
            counts: TaskCounts {
                done: ended(TaskStatus::Done),
                failed: ended(TaskStatus::Failed),
                cancelled: ended(TaskStatus::Cancelled),
                ..counts
            },
            devices,
            outcomes: self.ends.into_iter().flatten().collect(),
            events: self.events,
        }
    }
}
