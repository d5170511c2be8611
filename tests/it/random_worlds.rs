//! Random worlds in virtual time: every task ends exactly once, and no rule is broken.
//!
//! `GPUSCHED_TEST_WORLDS=FIRST,COUNT` names the seeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpusched::Error;
use gpusched::sched::simulation::{
    Fault, FaultKind, Scenario, SimDevice, SimEventKind, SimReport, SimTask, lower_bound, run,
};
use gpusched::sched::{DeviceMask, TaskStatus};
use testkit::Random;
use testkit::worlds::{World, play};

fn chance(random: &mut Random, share: f64) -> bool {
    random.unit() < share
}

/// Returns a number from `low` to `high`, as often below their geometric mean as above.
fn spread(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.unit())
}

fn device(random: &mut Random, number: usize, quiet: bool) -> SimDevice {
    let speed = spread(random, 0.5, 20.0);
    let prior = match random.below(4) {
        0 => None,
        1 => Some(spread(random, 0.1, 100.0)),
        _ => Some(speed * (0.8 + 0.4 * random.unit())),
    };
    let mut device = SimDevice {
        prior,
        memory_bytes: 1 + random.below(1000) as u64,
        slots: 1 + random.below(3) as u32,
        ..SimDevice::new(&format!("{number}"), speed)
    };
    if quiet {
        return device;
    }
    device.fail_at = chance(random, 0.2).then(|| 300.0 * random.unit());
    while chance(random, 0.3) {
        let seconds = spread(random, 1.0, 200.0);
        let kind = match random.below(6) {
            0 => FaultKind::OutOfMemory { seconds },
            1 => FaultKind::LaunchResources { seconds },
            2 => FaultKind::Poisoned,
            3 => FaultKind::Slow { factor: spread(random, 0.02, 5.0) },
            4 => FaultKind::Wrong { seconds },
            _ => FaultKind::Hang,
        };
        device.faults.push(Fault { at: 200.0 * random.unit(), kind });
    }
    device
}

fn task(random: &mut Random, number: usize, devices: &[SimDevice], quiet: bool) -> SimTask {
    let work = spread(random, 1.0, 200.0);
    let hint = match random.below(5) {
        0 => None,
        1 => Some(spread(random, 0.1, 1000.0)),
        _ => Some(work * (0.8 + 0.4 * random.unit())),
    };
    let most = devices.iter().map(|device| device.memory_bytes).max().unwrap_or(0);
    let mut task = SimTask { hint, idempotent: chance(random, 0.5), ..SimTask::new(work) };
    task.device_bytes = if chance(random, 0.5) { random.below(most as usize + 20) as u64 } else { 0 };
    if chance(random, 0.3) {
        task.devices = DeviceMask(random.below(1 << (devices.len() + 1)) as u64);
    }
    task.priority = if chance(random, 0.3) { random.below(5) as i32 - 2 } else { 0 };
    task.retries = if chance(random, 0.3) { random.below(3) as u32 } else { 0 };
    task.failures = if chance(random, 0.2) { random.below(4) as u32 } else { 0 };
    while number > 0 && chance(random, 0.2) {
        task.after.push(random.below(number));
    }
    task.submit_at = if chance(random, 0.4) { 100.0 * random.unit() } else { 0.0 };
    if quiet {
        return task;
    }
    task.cancel_at = chance(random, 0.15).then(|| 300.0 * random.unit());
    task.deadline = chance(random, 0.1).then(|| spread(random, 1.0, 300.0));
    task.stumble = if chance(random, 0.05) { spread(random, 0.2, 100.0) } else { 1.0 };
    task.poison = chance(random, 0.03);
    task
}

struct Simulated {
    world: Scenario,
    /// No faults except in the tasks' own code, as in a fifth of the worlds.
    quiet: bool,
}

impl Simulated {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed + 1);
        (0..8).for_each(|_| _ = random.unit());
        let quiet = random.below(5) == 0;
        let devices: Vec<SimDevice> =
            (0..1 + random.below(5)).map(|number| device(&mut random, number, quiet)).collect();
        let mut world = Scenario { devices, tasks: Vec::new() };
        for number in 0..1 + random.below(40) {
            let mut task = task(&mut random, number, &world.devices, quiet);
            // A task is submitted after those that it follows.
            let before = task.after.iter().map(|&before| world.tasks[before].submit_at);
            task.submit_at = before.fold(task.submit_at, f64::max);
            world.tasks.push(task);
        }
        Simulated { world, quiet }
    }
}

type Slots = BTreeMap<u32, (usize, u32)>;

/// Replays the diary of a run and checks each event.
struct Reader<'a> {
    world: &'a Scenario,
    report: &'a SimReport,
    slots: Vec<Slots>,
    /// The last attempt of each task that began.
    attempts: Vec<u32>,
    ended: Vec<Option<TaskStatus>>,
    /// Time at which an attempt on a lost device first returned.
    lost: Vec<f64>,
    time: f64,
}

impl<'a> Reader<'a> {
    fn read(world: &'a Scenario, report: &'a SimReport) -> Self {
        let (devices, tasks) = (world.devices.len(), world.tasks.len());
        let mut reader = Reader {
            world,
            report,
            slots: vec![Slots::new(); devices],
            attempts: vec![0; tasks],
            ended: vec![None; tasks],
            lost: vec![f64::INFINITY; devices],
            time: 0.0,
        };
        for event in &report.events {
            assert!(event.time >= reader.time, "time goes back: {event:?}");
            reader.time = event.time;
            match event.kind {
                SimEventKind::Begin => reader.begin(event.task, event.device, event.slot, event.attempt),
                SimEventKind::Return => {
                    let left = reader.slots[event.device].remove(&event.slot);
                    assert_eq!(left, Some((event.task, event.attempt)), "it has not begun there: {event:?}");
                    reader.feel(event.task, event.device);
                }
                SimEventKind::End(state) => {
                    assert!(state.is_ended(), "{event:?}");
                    assert_eq!(reader.ended[event.task].replace(state), None, "it ends twice: {event:?}");
                }
            }
        }
        reader
    }

    /// An attempt has returned: the scheduler then knows that the device is lost, unless it had
    /// asked the attempt to stop.
    fn feel(&mut self, task: usize, device: usize) {
        let now = self.time;
        let over = |at: Option<f64>| at.is_some_and(|at| at <= now);
        let stopped = self.ended[task].is_some() || over(self.world.tasks[task].cancel_at);
        if over(self.world.devices[device].fail_at) && !stopped {
            self.lost[device] = self.lost[device].min(now);
        }
    }

    fn begin(&mut self, task: usize, device: usize, slot: u32, attempt: u32) {
        let (now, told, gpu) = (self.time, &self.world.tasks[task], &self.world.devices[device]);
        let at = format!("attempt {attempt} of task {task} on {device}.{slot} at {now}");
        assert!(slot < gpu.slots, "no such slot: {at}");
        let runs_here = |slots: &Slots| slots.values().any(|run| run.0 == task);
        assert!(!runs_here(&self.slots[device]), "twice on one device: {at}");
        assert!(told.idempotent || !self.slots.iter().any(runs_here), "it may not run twice: {at}");
        assert_eq!(self.slots[device].insert(slot, (task, attempt)), None, "the slot is taken: {at}");
        let bytes: u64 = self.slots[device].values().map(|run| self.world.tasks[run.0].device_bytes).sum();
        assert!(bytes <= gpu.memory_bytes, "{bytes} of {} bytes: {at}", gpu.memory_bytes);
        assert!(told.devices.contains(device), "masked: {at}");
        assert!(now <= self.lost[device], "the device is lost: {at}");
        assert!(now >= told.submit_at, "not yet submitted: {at}");
        let is_cancelled = told.cancel_at.is_some_and(|time| now > time.max(told.submit_at));
        assert!(!is_cancelled, "cancelled: {at}");
        assert_eq!(self.ended[task], None, "it has ended: {at}");
        assert_eq!(attempt, self.attempts[task] + 1, "attempts are counted: {at}");
        self.attempts[task] = attempt;
        for &before in &told.after {
            assert_eq!(self.ended[before], Some(TaskStatus::Done), "task {before} comes first: {at}");
        }
    }

    /// Checks the outcomes after the run.
    fn conclude(&self, quiet: bool) {
        let Reader { world, report, .. } = self;
        assert_eq!(report.outcomes.len(), world.tasks.len());
        for (task, (state, error)) in report.outcomes.iter().enumerate() {
            if !state.is_ended() {
                assert!(self.is_held_up(task), "task {task} has not ended: {state:?}");
                continue;
            }
            match self.ended[task] {
                Some(ended) => assert_eq!(ended, *state, "task {task}"),
                None => {
                    assert_eq!((*state, self.attempts[task]), (TaskStatus::Failed, 0), "refused: task {task}")
                }
            }
            let told = &world.tasks[task];
            match (state, error) {
                (TaskStatus::Done, None) => assert!(self.attempts[task] > 0, "task {task} never began"),
                (TaskStatus::Cancelled, Some(Error::Cancelled)) if told.cancel_at.is_some() => {}
                (TaskStatus::Failed, Some(error)) => self.explains(task, error),
                other => panic!("task {task}: {other:?}"),
            }
            let first = |before: &usize| report.outcomes[*before].0 == TaskStatus::Done;
            let may_start = self.ended[task].is_some() && told.after.iter().all(first);
            if quiet && may_start && told.failures <= told.retries {
                assert_eq!(*state, TaskStatus::Done, "nothing stood against task {task}: {error:?}");
            }
        }
        let count = |state| report.outcomes.iter().filter(|outcome| outcome.0 == state).count() as u64;
        let counts = [TaskStatus::Done, TaskStatus::Failed, TaskStatus::Cancelled].map(count);
        assert_eq!([report.counts.done, report.counts.failed, report.counts.cancelled], counts);
        assert_eq!(report.devices.iter().map(|device| device.done).sum::<u64>(), report.counts.done);
        for (told, device) in world.devices.iter().zip(&report.devices) {
            assert!(device.peak_bytes <= told.memory_bytes, "{device:?}");
            let busy = device.busy_ns as f64 * 1e-9;
            assert!(busy <= f64::from(told.slots) * self.time + 1e-6, "{device:?} in {} s", self.time);
            assert!(!quiet || device.retired.is_none(), "{device:?}");
        }
        let faster = |fault: &Fault| matches!(fault.kind, FaultKind::Slow { factor } if factor > 1.0);
        let as_told = world.tasks.iter().all(|task| task.stumble >= 1.0)
            && !world.devices.iter().any(|device| device.faults.iter().any(faster));
        if report.counts.done as usize == world.tasks.len() && as_told {
            let bound = lower_bound(world);
            assert!(report.makespan >= bound * (1.0 - 1e-6), "{} < {bound}", report.makespan);
        }
    }

    fn places(&self, task: usize) -> impl Iterator<Item = usize> {
        let (told, devices) = (&self.world.tasks[task], &self.world.devices);
        let fits = |&index: &usize| told.device_bytes <= devices[index].memory_bytes;
        (0..devices.len()).filter(|&index| told.devices.contains(index)).filter(fits)
    }

    /// Returns true if a task may remain without an end. An attempt that hangs and has no deadline
    /// holds up the tasks after it, and those that can run nowhere else or have failed elsewhere.
    fn is_held_up(&self, task: usize) -> bool {
        let told = &self.world.tasks[task];
        let hangs = |run: &(usize, u32)| self.world.tasks[run.0].deadline.is_none();
        let hung = |device: usize| self.slots[device].values().any(hangs);
        let avoids = self.attempts[task] > 0;
        let runs = |slots: &Slots| slots.values().any(|run| run.0 == task);
        let unended = |before: &usize| !self.report.outcomes[*before].0.is_ended();
        let is_there = |&index: &usize| self.report.devices[index].retired.is_none();
        let mut places = self.places(task).filter(is_there);
        told.deadline.is_none() && self.slots.iter().any(runs)
            || told.after.iter().any(unended)
            || if avoids { places.any(hung) } else { places.all(hung) }
    }

    /// Checks that the world contains a cause of the task's failure.
    fn explains(&self, task: usize, error: &Error) {
        let (world, told) = (self.world, &self.world.tasks[task]);
        let faults = || world.devices.iter().flat_map(|device| &device.faults).map(|fault| &fault.kind);
        let lost = world.devices.iter().any(|device| device.fail_at.is_some());
        let hang = faults().any(|fault| *fault == FaultKind::Hang);
        // A device may already be lost when the task begins.
        let has_poison = faults().any(|fault| *fault == FaultKind::Poisoned);
        let poison = has_poison || world.tasks.iter().any(|task| task.poison);
        let wrong = faults().any(|fault| matches!(fault, FaultKind::Wrong { .. }));
        let no_memory = faults().any(|fault| matches!(fault, FaultKind::OutOfMemory { .. }));
        let no_resources = faults().any(|fault| matches!(fault, FaultKind::LaunchResources { .. }));
        let gone = lost || hang || poison || wrong;
        let fits = self.places(task).next().is_some();
        let before = |state| told.after.iter().any(|&before| state == self.report.outcomes[before].0);
        let reason = match error {
            Error::Callback { .. } => told.failures > told.retries,
            Error::NoDevice { .. } => !fits || gone,
            Error::NoMemory { .. } => !fits || gone || no_memory,
            Error::Resources { .. } => no_resources,
            Error::Device { .. } => lost || poison,
            Error::WrongResult { .. } => wrong,
            Error::Deadline { .. } => told.deadline.is_some() || hang,
            Error::Dependency { .. } => before(TaskStatus::Failed) || before(TaskStatus::Cancelled),
            Error::Stale { .. } => before(TaskStatus::Failed),
            _ => false,
        };
        assert!(reason, "task {task} had no reason to fail with: {error}");
    }
}

impl World for Simulated {
    fn play(self: &Arc<Self>) -> [u64; 3] {
        let report = run(&self.world);
        Reader::read(&self.world, &report).conclude(self.quiet);
        assert_eq!(report, run(&self.world), "the same world, another run");
        [report.counts.done, report.counts.failed, report.counts.cancelled]
    }

    fn describe(&self) -> String {
        format!("{:#?}", self.world)
    }
}

#[test]
fn no_rule_is_broken_in_any_world() {
    play("GPUSCHED_TEST_WORLDS", 6000, 1, Simulated::new);
}
