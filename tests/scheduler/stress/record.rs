//! The record of one task: its description, its events, and checks that they agree.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

use gpusched::sched::{Exec, TaskId, WaitResult};
use gpusched::{Error, Result};

use super::job::{Fault, Job};
use super::world::World;

#[derive(Default)]
pub struct Record {
    pub number: usize,
    pub job: Arc<Job>,
    pub after: Vec<Arc<Record>>,
    pub id: OnceLock<TaskId>,
    pub cancelled: AtomicBool,
    pub released: AtomicBool,
    /// Numbers of calls of the code, of those that run, of those that succeeded, and of the drop.
    began: AtomicU32,
    inside: AtomicU32,
    well: AtomicU32,
    pub drops: AtomicU32,
    times: Vec<AtomicU32>,
    outcome: Mutex<Option<Result<WaitResult>>>,
}

impl Record {
    pub fn new(number: usize, job: Arc<Job>, after: Vec<Arc<Record>>) -> Self {
        let times = (0..job.elements.map_or(0, |(end, _)| end)).map(|_| AtomicU32::new(0)).collect();
        Record { number, job, after, times, ..Record::default() }
    }

    pub fn outcome(&self) -> Option<Result<WaitResult>> {
        self.outcome.lock().unwrap().clone()
    }

    pub fn is_loose(&self) -> bool {
        self.job.detached || self.released.load(SeqCst)
    }

    pub fn describe(&self) -> String {
        let after: Vec<usize> = self.after.iter().map(|before| before.number).collect();
        let counts = [&self.began, &self.inside, &self.well, &self.drops];
        let [began, inside, well, drops] = counts.map(|count| count.load(SeqCst));
        let [cancelled, released] = [&self.cancelled, &self.released].map(|flag| flag.load(SeqCst));
        format!(
            "task {} {:x?} after {after:?}: began {began}, inside {inside}, well {well}, dropped {drops}, \
             cancelled {cancelled}, released {released}, {:?}; {}",
            self.number,
            self.id.get(),
            self.outcome(),
            self.job.describe(),
        )
    }

    /// Records that the code begins. Returns the number of the call, from 1.
    pub fn begin(&self, world: &World, exec: &Exec<'_>) -> u32 {
        let check = |right: bool, what: &str| world.check(right, self, what);
        let began = self.began.fetch_add(1, SeqCst) + 1;
        let others = self.inside.fetch_add(1, SeqCst);
        check(self.drops.load(SeqCst) == 0, "runs after its drop");
        check(self.job.devices().contains(exec.device_index), "runs on a device that it may not use");
        for before in &self.after {
            let well = before.well.load(SeqCst) > 0 || before.job.is_empty();
            let dropped = before.job.idempotent || before.drops.load(SeqCst) > 0;
            check(well && dropped, &format!("runs before the end of task {}", before.number));
        }
        if !self.job.idempotent && !self.job.is_range() {
            check(others == 0, "runs twice at a time");
            check(self.outcome().is_none(), "runs after its end");
            // An attempt may have been abandoned while its device was opening.
            let counted = exec.attempt == began || exec.attempt > began && self.job.deadline.is_some();
            check(counted, &format!("attempt {} is the {began}. call", exec.attempt));
        }
        began
    }

    pub fn end(&self, well: bool) {
        self.well.fetch_add(u32::from(well), SeqCst);
        self.inside.fetch_sub(1, SeqCst);
    }

    /// Records that an element of a range has succeeded, which counts unless its device fails when
    /// the piece ends.
    pub fn element(&self, world: &World, element: u64) {
        let before = self.times[element as usize].fetch_add(1, SeqCst);
        world.check(before == 0 || world.bad, self, &format!("element {element} is done twice"));
    }

    pub fn saw(&self, world: &World, seen: Result<WaitResult>) {
        let check = |right: bool, what: &str| world.check(right, self, &format!("{what}: {seen:?}"));
        let stale = matches!(seen, Err(Error::Stale { .. } | Error::Argument { .. }));
        if seen == Ok(WaitResult::Pending) || stale && self.is_loose() {
            return;
        }
        let before = self.outcome.lock().unwrap().replace(seen.clone());
        check(before.is_none() || before == Some(seen.clone()), &format!("ended twice: {before:?}"));
        let drops = self.drops.load(SeqCst);
        check(drops == 1 || drops == 0 && self.job.idempotent, &format!("{drops} drops at its end"));
        let explained = match &seen {
            Ok(WaitResult::Done) => {
                let times = |times: &AtomicU32| times.load(SeqCst) > 0;
                if self.job.is_range() { self.times.iter().all(times) } else { self.well.load(SeqCst) > 0 }
            }
            Ok(_) => self.is_asked_to_stop(world) || self.job.fault == Fault::Cancelled,
            Err(error) => self.explains(world, error),
        };
        check(explained, "had no reason to end so");
    }

    fn is_asked_to_stop(&self, world: &World) -> bool {
        self.cancelled.load(SeqCst) || world.is_stopping()
    }

    fn explains(&self, world: &World, error: &Error) -> bool {
        let job = &self.job;
        let fails_by = |fault: Fault| job.fails > 0 && job.fault == fault;
        match error {
            Error::Elements { why, .. } => self.explains(world, why),
            Error::Callback { .. } => fails_by(Fault::Code),
            Error::Panic { .. } => fails_by(Fault::Panic),
            Error::NoMemory { .. } => fails_by(Fault::Memory) || world.bad && job.device_bytes > 0,
            Error::Resources { .. } => fails_by(Fault::Resources),
            Error::Device { .. } | Error::NoDevice { .. } => world.bad,
            Error::Deadline { .. } => job.deadline.is_some(),
            Error::Dependency { .. } => {
                self.after.iter().any(|before| before.outcome() != Some(Ok(WaitResult::Done)))
            }
            Error::Stale { .. } => !self.after.is_empty(),
            Error::Deadlock { .. } => job.may_deadlock(),
            _ => false,
        }
    }

    pub fn conclude(&self, world: &World) {
        let check = |right: bool, what: &str| world.check(right, self, what);
        check(self.drops.load(SeqCst) == 1, "is not dropped once");
        check(self.inside.load(SeqCst) == 0, "is still inside");
        let done = |record: &Arc<Record>| record.outcome() == Some(Ok(WaitResult::Done));
        match self.outcome() {
            None => check(self.id.get().is_none() || self.is_loose(), "has no outcome"),
            Some(outcome) => {
                let free = !world.bad && !self.is_asked_to_stop(world) && self.job.is_harmless();
                let hindered = !free || !self.after.iter().all(done);
                check(hindered || outcome == Ok(WaitResult::Done), "had nothing against it");
            }
        }
    }
}
