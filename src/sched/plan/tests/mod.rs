//! Tests that call the planner as a driver does: rules that a scenario of the simulation cannot
//! state.

use std::sync::Arc;
use std::time::Duration;

use super::{AssignResult, Assignment, AttemptEnd, Effects, FitCheck, Planner};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{DeviceFault, Error, Result};
use crate::sched::base::{DeviceMask, Exec, Policy, Role, Task, TaskCounts, TaskId, TaskStatus};
use crate::sched::estimate::Estimator;

mod device_faults;
mod endings;
mod peers;
mod placement;
mod report;
mod timers;
mod wrong_results;

const S: fn(u64) -> Duration = Duration::from_secs;

/// A planner, and the effects of its steps that have not been applied yet.
pub struct Driver {
    pub planner: Planner,
    pub effects: Effects,
}

/// So many devices, alike.
pub fn driver(devices: usize) -> Driver {
    driver_of(&vec![1.0; devices])
}

/// A driver of devices with these speeds, one slot each and 1000 bytes for tasks.
fn driver_of(speeds: &[f64]) -> Driver {
    Driver::new(speeds.iter().enumerate().map(|(ordinal, &speed)| (info(ordinal, speed), 1)))
}

/// A driver of one device with this number of slots.
fn with_slots(slots: u32) -> Driver {
    Driver::new([(info(0, 1.0), slots)].into_iter())
}

fn info(ordinal: usize, speed: f64) -> DeviceInfo {
    DeviceInfo {
        // A sixteenth is left for a GPU's context.
        total_bytes: 1000 * 16 / 15,
        free_bytes: 1000,
        speed: Some(speed),
        ..DeviceInfo::new(&format!("GPU-{ordinal}"), BackendKind::Cuda, ordinal as u32, "paper")
    }
}

/// An idempotent task that begins at 10 s, and gets a copy at 18 s.
fn with_a_copy(task: Task) -> (Driver, TaskId, [Assignment; 2]) {
    let mut driver = driver(2).seasoned();
    let (id, first) = driver.begin(10, 0, Task { idempotent: true, ..task });
    let copy = driver.take(18, 1).expect("a copy, for the first is late");
    (driver, id, [first, copy])
}

/// A task that runs on three devices from the 30th second on.
fn with_two_copies() -> (Driver, TaskId, [Assignment; 3]) {
    let mut driver = driver_of(&[1.0, 4.0, 16.0]);
    let busy = [1, 2]
        .map(|device| driver.begin(0, device, Task { devices: DeviceMask::only(device), ..of_work(1e6) }).1);
    let (id, first) = driver.begin(0, 0, Task { idempotent: true, ..task() });
    let [second, third] = [(1, 10), (2, 30)].map(|(device, now)| {
        driver.ends(now, device, &busy[device - 1], Err(Error::Callback { code: 1 }));
        driver.take(now, device).unwrap()
    });
    (driver, id, [first, second, third])
}

pub fn task() -> Task {
    Task { work: Some(1.0), ..Task::new(|_: &Exec<'_>| Ok(())) }
}

fn of_work(work: f64) -> Task {
    Task { work: Some(work), ..task() }
}

fn broken(fault: DeviceFault) -> Result<()> {
    Err(Error::Device { device: "x".into(), what: "y".into(), fault })
}

fn short_of(needed: u64) -> Error {
    Error::NoMemory { what: "x".into(), needed, place: "y".into(), there: 0 }
}

fn busy() -> Error {
    Error::Busy { device: "x".into(), what: "y".into() }
}

fn lacks_resources() -> Error {
    Error::Resources { device: "x".into(), what: "y".into() }
}

fn wrong() -> Result<()> {
    Err(Error::WrongResult { device: "x".into(), what: "y".into() })
}

impl Driver {
    fn new(devices: impl Iterator<Item = (DeviceInfo, u32)>) -> Self {
        Driver { planner: Planner::new(devices.collect(), Arc::default()), effects: Effects::default() }
    }

    /// Takes a step of the planner, and checks it.
    fn step<T>(&mut self, now: Duration, change: impl FnOnce(&mut Planner, &mut Effects) -> T) -> T {
        self.effects.now = now;
        let result = change(&mut self.planner, &mut self.effects);
        self.planner.check_step();
        result
    }

    pub fn submit(&mut self, now: u64, task: Task) -> TaskId {
        self.planner.check_task(&task).unwrap();
        self.step(S(now), |planner, effects| planner.submit(task, effects)).unwrap()
    }

    fn assign(&mut self, now: u64, device: usize, slot: u32, free: Option<u64>) -> AssignResult {
        self.step(S(now), |planner, effects| planner.assign(device, slot, free, effects))
    }

    fn take(&mut self, now: u64, device: usize) -> Option<Assignment> {
        self.assign(now, device, 0, Some(u64::MAX)).begun()
    }

    /// Submits a task and begins it.
    fn begin(&mut self, now: u64, device: usize, task: Task) -> (TaskId, Assignment) {
        let id = self.submit(now, task);
        let run = self.take(now, device).unwrap();
        assert_eq!(run.id, id);
        (id, run)
    }

    /// Begins the next task of a device and ends its attempt.
    fn run_next(&mut self, [begin, end]: [u64; 2], device: usize, outcome: Result<()>) -> TaskId {
        let run = self.take(begin, device).unwrap();
        self.ends(end, device, &run, outcome);
        run.id
    }

    /// Submits a task, begins it and ends its attempt.
    fn attempt(&mut self, times: [u64; 2], device: usize, task: Task, outcome: Result<()>) -> TaskId {
        let id = self.submit(times[0], task);
        assert_eq!(self.run_next(times, device, outcome), id);
        id
    }

    fn judge(&mut self, now: u64, device: usize, run: &Assignment, how: AttemptEnd) {
        self.step(S(now), |planner, effects| {
            planner.on_attempt_end(device, run.id, run.attempt, how, effects)
        });
        self.publish();
    }

    fn ends(&mut self, now: u64, device: usize, run: &Assignment, outcome: Result<()>) {
        self.judge(now, device, run, AttemptEnd::Ran(outcome));
    }

    fn pass(&mut self, now: u64) {
        self.advance(S(now));
        self.publish();
    }

    fn advance(&mut self, now: Duration) {
        self.step(now, Planner::advance);
    }

    fn cancel(&mut self, id: TaskId) -> Result<()> {
        self.step(self.effects.now, |planner, effects| planner.cancel(id, effects))
    }

    fn publish(&mut self) {
        while let Some(ended) = self.effects.ended.pop() {
            self.step(self.effects.now, |planner, effects| planner.publish(ended.id, ended.outcome, effects));
        }
    }

    fn deadline(&self, now: u64) -> Option<Duration> {
        self.planner.next_deadline(S(now))
    }

    fn runnable(&self, now: u64) -> DeviceMask {
        self.planner.runnable_devices(S(now))
    }

    fn is_retired(&self, device: usize) -> bool {
        self.planner.devices[device].retired.is_some()
    }

    fn state(&self, id: TaskId) -> TaskStatus {
        self.planner.tasks.get(id).unwrap().status()
    }

    fn error(&self, id: TaskId) -> Option<Error> {
        self.planner.tasks.get(id).unwrap().signal.outcome.get()?.clone().err()
    }

    /// Three tasks of a second each have ended well, so that it is known what is late.
    fn seasoned(mut self) -> Self {
        for now in 0..8 {
            self.submit(now, task());
            for device in 0..self.planner.devices.len() {
                if let Some(run) = self.take(now, device) {
                    self.ends(now + 1, device, &run, Ok(()));
                }
            }
        }
        self
    }
}
