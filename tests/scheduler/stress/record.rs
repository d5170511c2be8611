//! What is known of one task: what it was to do, what became of it, and whether the two go together.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gpusched::sched::{Exec, TaskId, Wait};
use gpusched::{Error, Result};

use super::job::{Fault, Job};
use super::world::World;

pub struct Record {
    pub number: usize,
    pub job: Job,
    pub after: Vec<Arc<Record>>,
    pub id: OnceLock<TaskId>,
    /// Somebody has asked for it, or is about to.
    pub cancelled: AtomicBool,
    pub released: AtomicBool,
    /// Calls of its code, those that are there now, those that ended well, and of its drop.
    began: AtomicU32,
    inside: AtomicU32,
    well: AtomicU32,
    drops: AtomicU32,
    outcome: Mutex<Option<Result<Wait>>>,
}

/// The end of the caller's hold on a task: lives as long as its code.
pub struct Held(pub Arc<Record>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Ordering::SeqCst);
    }
}

impl Record {
    pub fn new(number: usize, job: Job, after: Vec<Arc<Record>>) -> Arc<Self> {
        Arc::new(Record {
            number,
            job,
            after,
            id: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            released: AtomicBool::new(false),
            began: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            well: AtomicU32::new(0),
            drops: AtomicU32::new(0),
            outcome: Mutex::new(None),
        })
    }

    pub fn outcome(&self) -> Option<Result<Wait>> {
        self.outcome.lock().unwrap().clone()
    }

    pub fn drops(&self) -> u32 {
        self.drops.load(Ordering::SeqCst)
    }

    /// Whether nobody may ask for it.
    pub fn is_loose(&self) -> bool {
        self.job.detached || self.released.load(Ordering::SeqCst)
    }

    pub fn describe(&self) -> String {
        let after: Vec<usize> = self.after.iter().map(|before| before.number).collect();
        let counts = [&self.began, &self.inside, &self.well, &self.drops];
        let [began, inside, well, drops] = counts.map(|count| count.load(Ordering::SeqCst));
        let (cancelled, released) =
            (self.cancelled.load(Ordering::SeqCst), self.released.load(Ordering::SeqCst));
        format!(
            "task {} {:x?} after {after:?}: began {began}, inside {inside}, well {well}, dropped {drops}, \
             cancelled {cancelled}, released {released}, {:?}; {}",
            self.number,
            self.id.get(),
            self.outcome.lock().unwrap(),
            self.job.describe(),
        )
    }

    /// The code begins; returns which time this is.
    pub fn begin(&self, world: &World, exec: &Exec<'_>) -> u32 {
        let complain = |what: &str| world.complain(self, what);
        let began = self.began.fetch_add(1, Ordering::SeqCst) + 1;
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        if self.drops() != 0 {
            complain("runs after its drop");
        }
        if !self.job.devices.contains(exec.device_index) {
            complain("runs on a device that it may not use");
        }
        for before in &self.after {
            let well = before.well.load(Ordering::SeqCst) > 0 || before.job.is_empty();
            if !well || !before.job.idempotent && before.drops() == 0 {
                complain(&format!("runs before its end: {}", before.describe()));
            }
        }
        if !self.job.idempotent && !self.job.is_range() {
            if others != 0 {
                complain("runs twice at a time");
            }
            if self.outcome().is_some() {
                complain("runs after its end");
            }
            // An attempt may have been given up while its device was being opened.
            if exec.attempt < began || exec.attempt > began && self.job.deadline.is_none() {
                complain(&format!("attempt {} is the {began}. call", exec.attempt));
            }
        }
        began
    }

    /// The code is about to return.
    pub fn end(&self, well: bool) {
        self.well.fetch_add(u32::from(well), Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Somebody was told how it ended.
    pub fn saw(&self, world: &World, seen: Result<Wait>) {
        let complain = |what: String| world.complain(self, &what);
        let wrong_to_ask = matches!(seen, Err(Error::Stale { .. } | Error::Argument { .. }));
        if seen == Ok(Wait::Pending) || wrong_to_ask && self.is_loose() {
            return;
        }
        let before = self.outcome.lock().unwrap().replace(seen.clone());
        if before.as_ref().is_some_and(|before| *before != seen) {
            complain(format!("ended twice: {before:?}, {seen:?}"));
        }
        let drops = self.drops();
        if drops > 1 || drops == 0 && !self.job.idempotent {
            complain(format!("{drops} drops, and its end is known: {seen:?}"));
        }
        let well = self.well.load(Ordering::SeqCst);
        let explained = match &seen {
            Ok(Wait::Done) => well > 0 || self.job.is_range(),
            Ok(_) => {
                self.cancelled.load(Ordering::SeqCst)
                    || world.is_stopping()
                    || self.job.fault == Fault::Cancelled
            }
            Err(error) => self.explains(world, error),
        };
        if !explained {
            complain(format!("had no reason to end with {seen:?}"));
        }
    }

    fn explains(&self, world: &World, error: &Error) -> bool {
        let job = &self.job;
        let fails = job.fails > 0;
        let one_of = |faults: &[Fault]| fails && faults.contains(&job.fault);
        let before =
            || self.after.iter().any(|before| before.outcome().is_none_or(|end| end != Ok(Wait::Done)));
        match error {
            Error::Elements { why, .. } => self.explains(world, why),
            Error::Callback { .. } => one_of(&[Fault::Code]),
            Error::Panic { .. } => one_of(&[Fault::Panic]),
            Error::NoMemory { .. } => one_of(&[Fault::Memory]) || world.bad && job.device_bytes > 0,
            Error::Resources { .. } => one_of(&[Fault::Resources]),
            Error::Device { .. } => world.bad,
            Error::NoDevice { .. } => world.bad,
            Error::Deadline { .. } => job.deadline.is_some(),
            Error::Dependency { .. } => before(),
            Error::Stale { .. } => !self.after.is_empty(),
            Error::Deadlock { .. } => job.may_deadlock(),
            _ => false,
        }
    }

    /// When all is over.
    pub fn conclude(&self, world: &World) {
        let complain = |what: String| world.complain(self, &what);
        if self.drops() != 1 {
            complain(format!("{} drops", self.drops()));
        }
        if self.inside.load(Ordering::SeqCst) != 0 {
            complain("is still inside".into());
        }
        let Some(outcome) = self.outcome() else {
            if self.id.get().is_some() && !self.is_loose() {
                complain("has no outcome".into());
            }
            return;
        };
        let first = |before: &Arc<Record>| before.outcome() == Some(Ok(Wait::Done));
        let asked = self.cancelled.load(Ordering::SeqCst) || world.is_stopping();
        if !world.bad
            && !asked
            && self.job.is_harmless()
            && self.after.iter().all(first)
            && outcome != Ok(Wait::Done)
        {
            complain(format!("nothing stood against it: {outcome:?}"));
        }
    }
}
