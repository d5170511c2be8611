//! A run: devices, threads, and what they do to a scheduler.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use gpusched::sched::{Exec, Range, Scheduler, Stats, Task, TaskId, Wait};
use gpusched::{Error, Result};

use super::faults::FaultyDevices;
use super::job::{Job, Patience};
use super::record::{Held, Record};
use crate::scripted::LONG;
use testkit::Random;

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Calm,
    Drain,
    /// Destroyed in the middle, by a thread or by two, at once or again and again.
    Shutdown,
    Impatient,
}

pub struct World {
    pub seed: u64,
    /// Devices and tasks may fail for no reason of the caller's.
    pub bad: bool,
    devices: u32,
    slots: u32,
    threads: usize,
    steps: usize,
    end: End,
    scheduler: Mutex<Weak<Scheduler>>,
    records: Mutex<Vec<Arc<Record>>>,
    /// Those that were submitted as ordered, in that order; the lock is held while one is submitted.
    line: Mutex<Vec<Arc<Record>>>,
    accepted: AtomicU64,
    stopping: AtomicBool,
    clients: AtomicUsize,
    /// By device: bytes that the code there should have.
    leased: Vec<AtomicU64>,
    wrong: Mutex<Vec<String>>,
}

/// A client counts itself out even if it panics: that is no hang.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl World {
    pub fn new(seed: u64) -> Arc<Self> {
        let mut random = Random::new(seed + 1);
        (0..8).for_each(|_| _ = random.unit());
        let bad = random.below(2) == 0;
        let devices = 1 + random.below(4) as u32;
        let ends = [End::Calm, End::Calm, End::Drain, End::Shutdown, End::Impatient];
        Arc::new(World {
            seed,
            bad,
            devices,
            slots: 1 + random.below(3) as u32,
            threads: 1 + random.below(4),
            steps: 10 + random.below(60),
            end: ends[random.below(ends.len())],
            scheduler: Mutex::default(),
            records: Mutex::default(),
            line: Mutex::default(),
            accepted: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            clients: AtomicUsize::new(0),
            leased: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            wrong: Mutex::default(),
        })
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn complain(&self, record: &Record, what: &str) {
        self.wrong.lock().unwrap().push(format!("{what}: {}", record.describe()));
    }

    fn object(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    pub fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }

    /// How many are known to be done, failed and cancelled.
    pub fn told(&self) -> [u64; 3] {
        let mut told = [0; 3];
        for record in self.records() {
            match record.outcome() {
                Some(Ok(Wait::Done)) => told[0] += 1,
                Some(Err(_)) => told[1] += 1,
                Some(Ok(_)) => told[2] += 1,
                None => {}
            }
        }
        told
    }

    fn records(&self) -> Vec<Arc<Record>> {
        self.records.lock().unwrap().clone()
    }

    pub fn describe(&self) -> String {
        let World { seed, bad, devices, slots, threads, steps, end, .. } = self;
        let mut text = format!(
            "run {seed}: bad {bad}, {devices} devices with {slots} slots, {threads} threads with {steps} steps, {end:?}\n"
        );
        if let Some(scheduler) = self.scheduler.lock().unwrap().upgrade() {
            text += &format!("{:?}\n", scheduler.stats());
            for record in self.records().iter().filter(|record| record.outcome().is_none()) {
                if let Some(&id) = record.id.get()
                    && let Ok(info) = scheduler.info(id)
                    && !info.state.is_ended()
                {
                    text += &format!("{}: {info:?}\n", record.describe());
                }
            }
        }
        text
    }

    pub fn play(self: &Arc<Self>) {
        let mut random = Random::new(self.seed + 1_000_003);
        let mut builder = Scheduler::builder();
        builder.devices = Some("all".into());
        builder.slots = Some(self.slots);
        builder.trace_events = if random.below(4) == 0 { 500 } else { 0 };
        builder.backends = Some(vec![Arc::new(FaultyDevices::new(self.devices, self.bad, &mut random))]);
        let scheduler = Arc::new(builder.build().unwrap());
        *self.scheduler.lock().unwrap() = Arc::downgrade(&scheduler);
        self.clients.store(self.threads, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let mut random = Random::new(self.seed * 64 + thread as u64 + 7);
                let scheduler = &scheduler;
                scope.spawn(move || self.client(scheduler, &mut random));
            }
            for _ in 0..1 + random.below(2) {
                scope.spawn(|| self.stack(&scheduler));
            }
            let moment = Duration::from_micros(random.below(20_000) as u64);
            if self.end == End::Shutdown || self.end == End::Impatient {
                for _ in 0..1 + random.below(2) {
                    let scheduler = &scheduler;
                    scope.spawn(move || {
                        std::thread::sleep(moment);
                        self.destroy(scheduler);
                    });
                }
            }
        });
        self.conclude(&scheduler);
    }

    fn destroy(&self, scheduler: &Scheduler) {
        self.stopping.store(true, Ordering::SeqCst);
        if self.end == End::Impatient {
            while scheduler.shutdown_within(Some(Duration::from_micros(300))).unwrap().is_none() {}
        }
        scheduler.shutdown().unwrap();
    }

    /// Hands out in order what was submitted as ordered, until nobody submits any more.
    fn stack(&self, scheduler: &Scheduler) {
        let mut last = None;
        loop {
            let idle = self.clients.load(Ordering::SeqCst) == 0;
            match scheduler.wait_next(Some(Duration::from_millis(if idle { 20_000 } else { 2 }))) {
                Ok(Some(id)) => {
                    let line = self.line.lock().unwrap();
                    let place = line.iter().position(|record| record.id.get() == Some(&id));
                    let Some(record) = place.map(|place| line[place].clone()) else {
                        return self.object(format!("{id:x?} was not submitted as ordered"));
                    };
                    drop(line);
                    if last >= place {
                        self.complain(&record, &format!("comes out of order: {place:?} after {last:?}"));
                    }
                    last = place;
                    let outcome = scheduler.wait(id, Some(Duration::ZERO));
                    if outcome == Ok(Wait::Pending) {
                        self.complain(&record, "is handed out before its end");
                    }
                    record.saw(self, outcome);
                }
                Ok(None) if idle => return self.object("the line does not end".into()),
                Ok(None) => {}
                Err(Error::Argument { .. }) if idle => return,
                Err(Error::Argument { .. }) => std::thread::sleep(Duration::from_micros(200)),
                Err(error) => return self.object(format!("wait_next: {error}")),
            }
        }
    }

    fn client(self: &Arc<Self>, scheduler: &Arc<Scheduler>, random: &mut Random) {
        let _leaving = Leaving(&self.clients);
        let mut own: Vec<Arc<Record>> = Vec::new();
        for _ in 0..self.steps {
            let any = self.any(random);
            let mine = own.get(random.below(own.len().max(1))).cloned();
            match (random.below(20), any, mine) {
                (0, Some(any), _) => self.cancel(scheduler, &any),
                (1, _, Some(mine)) => self.cancel(scheduler, &mine),
                (2, Some(any), _) => self.wait(scheduler, &any, Some(Duration::ZERO)),
                (3, Some(any), _) => self.wait(scheduler, &any, Some(Duration::from_micros(500))),
                (4, _, Some(mine)) => self.wait(scheduler, &mine, LONG),
                (5, Some(any), _) => self.wait(scheduler, &any, None),
                (6, _, Some(mine)) => self.release(scheduler, &mine),
                (7, Some(any), Some(mine)) => self.wait_any(scheduler, &[any, mine]),
                (8, _, _) => {
                    let limit = Duration::from_micros(random.below(1000) as u64);
                    scheduler.wait_all(Some(limit)).unwrap();
                }
                (9, Some(any), _) => self.look(scheduler, &any),
                (10, _, _) if random.below(4) == 0 => self.map(scheduler),
                (11, _, _) => own.extend(self.submit_many(scheduler, random)),
                _ => {
                    let job = Job::random(random, self.devices, self.bad, 2);
                    own.extend(self.submit(scheduler, job, random).ok());
                }
            }
        }
    }

    fn any(&self, random: &mut Random) -> Option<Arc<Record>> {
        let records = self.records.lock().unwrap();
        let any = records.get(random.below(records.len().max(1)))?;
        any.id.get().map(|_| any.clone())
    }

    fn id(record: &Record) -> TaskId {
        *record.id.get().expect("only those that were accepted")
    }

    fn cancel(&self, scheduler: &Scheduler, record: &Record) {
        record.cancelled.store(true, Ordering::SeqCst);
        match scheduler.cancel(Self::id(record)) {
            Ok(()) => {}
            Err(Error::Stale { .. }) if record.is_loose() => {}
            Err(error) => self.complain(record, &format!("cancel: {error}")),
        }
    }

    fn release(&self, scheduler: &Scheduler, record: &Record) {
        if !record.released.swap(true, Ordering::SeqCst) {
            match scheduler.release(Self::id(record)) {
                Err(error) if !record.job.detached => self.complain(record, &format!("release: {error}")),
                _ => {}
            }
        }
    }

    fn wait(&self, scheduler: &Scheduler, record: &Record, limit: Option<Duration>) {
        let seen = scheduler.wait(Self::id(record), limit);
        if limit == LONG && seen == Ok(Wait::Pending) {
            self.complain(record, "does not end");
        }
        record.saw(self, seen);
    }

    fn wait_any(&self, scheduler: &Scheduler, records: &[Arc<Record>]) {
        let ids: Vec<TaskId> = records.iter().map(|record| Self::id(record)).collect();
        match scheduler.wait_any(&ids, LONG) {
            Ok(Some(which)) => self.wait(scheduler, &records[which], Some(Duration::ZERO)),
            Err(Error::Stale { .. } | Error::Argument { .. })
                if records.iter().any(|record| record.is_loose()) => {}
            other => self.complain(&records[0], &format!("wait_any: {other:?}")),
        }
    }

    fn look(&self, scheduler: &Scheduler, record: &Record) {
        match scheduler.info(Self::id(record)) {
            Ok(info) if info.state.is_ended() => self.wait(scheduler, record, Some(Duration::ZERO)),
            Ok(_) => {}
            Err(Error::Stale { .. }) if record.is_loose() => {}
            Err(error) => self.complain(record, &format!("info: {error}")),
        }
        let stats = scheduler.stats().unwrap();
        if stats.done + stats.failed + stats.cancelled > stats.submitted + 64 {
            self.object(format!("more have ended than were submitted: {stats:?}"));
        }
        let _ = scheduler.progress().unwrap();
    }

    fn map(&self, scheduler: &Scheduler) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        match scheduler.map_range(3..40, |_, element| Ok(element * element)) {
            Ok(squares) if squares.iter().copied().eq((3..40).map(|element: u64| element * element)) => {}
            Err(Error::Shutdown { .. }) if self.is_stopping() => {
                _ = self.accepted.fetch_sub(1, Ordering::SeqCst)
            }
            // Refused, or ended: nobody can tell here, so it is not counted below either.
            Err(_) if self.bad || self.is_stopping() => {}
            other => self.object(format!("map_range: {other:?}")),
        }
    }

    /// Whether the scheduler may say so instead of taking a task.
    fn may_refuse(&self, record: &Record, error: &Error) -> bool {
        match error {
            Error::Shutdown { .. } => self.is_stopping() || self.end == End::Drain,
            Error::NoDevice { .. } | Error::NoMemory { .. } => self.bad,
            Error::Stale { .. } => record.after.iter().any(|before| before.is_loose()),
            _ => false,
        }
    }

    fn record(&self, job: Job, random: &mut Random) -> Arc<Record> {
        let after = (0..job.after).filter_map(|_| self.any(random)).collect();
        let mut records = self.records.lock().unwrap();
        let record = Record::new(records.len(), job, after);
        records.push(record.clone());
        record
    }

    fn submit(
        self: &Arc<Self>,
        scheduler: &Arc<Scheduler>,
        job: Job,
        random: &mut Random,
    ) -> Result<Arc<Record>> {
        let record = self.record(job, random);
        let mut line = record.job.ordered.then(|| self.line.lock().unwrap());
        let id = match record.job.elements {
            Some(_) => scheduler.submit_range(self.range(&record)),
            None => scheduler.submit(self.task(scheduler, &record)),
        };
        if let Ok(id) = id {
            self.accept(&record, id);
            line.iter_mut().for_each(|line| line.push(record.clone()));
        }
        drop(line);
        match id {
            Ok(_) => Ok(record),
            Err(error) => {
                if !self.may_refuse(&record, &error) {
                    self.complain(&record, &format!("refused: {error}"));
                }
                Err(error)
            }
        }
    }

    fn submit_many(self: &Arc<Self>, scheduler: &Arc<Scheduler>, random: &mut Random) -> Vec<Arc<Record>> {
        let jobs = (0..1 + random.below(8)).map(|_| Job::random(random, self.devices, self.bad, 2));
        let jobs: Vec<Job> = jobs.filter(|job| !job.is_range()).collect();
        let records: Vec<Arc<Record>> = jobs.into_iter().map(|job| self.record(job, random)).collect();
        let mut line = self.line.lock().unwrap();
        match scheduler.submit_many(records.iter().map(|record| self.task(scheduler, record)).collect()) {
            Ok(ids) => {
                for (record, id) in records.iter().zip(ids) {
                    self.accept(record, id);
                    if record.job.ordered {
                        line.push(record.clone());
                    }
                }
                records
            }
            Err(error) => {
                if !records.is_empty() && !records.iter().any(|record| self.may_refuse(record, &error)) {
                    self.object(format!("a list refused: {error}"));
                }
                Vec::new()
            }
        }
    }

    fn accept(&self, record: &Record, id: TaskId) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        let _ = record.id.set(id);
    }

    fn task(self: &Arc<Self>, scheduler: &Arc<Scheduler>, record: &Arc<Record>) -> Task {
        let (held, weak, world) = (Held(record.clone()), Arc::downgrade(scheduler), self.clone());
        let code = move |exec: &Exec<'_>| {
            let record = &held.0;
            let began = record.begin(&world, exec);
            let mine = &world.leased[exec.device_index];
            let bytes = record.job.device_bytes;
            if mine.fetch_add(bytes, Ordering::SeqCst) + bytes > 1000 {
                world.complain(record, "runs without its memory");
            }
            let outcome = caught(|| world.code(&weak, record, exec, began));
            mine.fetch_sub(bytes, Ordering::SeqCst);
            record.end(matches!(outcome, Ok(Ok(()))));
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        };
        let job = &record.job;
        Task {
            detached: job.detached,
            ordered: job.ordered,
            idempotent: job.idempotent,
            work: job.work,
            class: job.class,
            priority: job.priority,
            retries: job.retries,
            device_bytes: job.device_bytes,
            devices: job.devices,
            deadline: job.deadline,
            after: record.after.iter().map(|before| Self::id(before)).collect(),
            ..Task::new(code)
        }
    }

    fn code(
        self: &Arc<Self>,
        weak: &Weak<Scheduler>,
        record: &Record,
        exec: &Exec<'_>,
        began: u32,
    ) -> Result<()> {
        let job = &record.job;
        job.pass(exec)?;
        let mut random = Random::new(self.seed * 4096 + record.number as u64 * 8 + u64::from(began));
        if !job.children.is_empty() || job.stranger {
            let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
            let mut children = Vec::new();
            for child in &job.children {
                let taken = self.submit(&scheduler, child.job.clone(), &mut random).ok();
                children.extend(taken.map(|record| (record, child.patience)));
            }
            if job.stranger {
                children.extend(self.any(&mut random).map(|any| (any, Patience::Endless)));
            }
            for (child, patience) in children {
                let limit = match patience {
                    Patience::None => continue,
                    Patience::Little => Some(Duration::from_micros(300)),
                    Patience::Endless => None,
                };
                let known = child.outcome();
                match scheduler.wait(Self::id(&child), limit) {
                    // Of this wait, not of what is waited for, which may have ended in another way meanwhile.
                    Err(error @ Error::Deadlock { .. })
                        if known.is_none() && child.outcome() != Some(Err(error.clone())) =>
                    {
                        return Err(error);
                    }
                    seen => child.saw(self, seen),
                }
            }
        }
        if began <= job.fails { job.blow(exec) } else { Ok(()) }
    }

    fn range(self: &Arc<Self>, record: &Arc<Record>) -> Range {
        let (held, world) = (Held(record.clone()), self.clone());
        let (end, grain) = record.job.elements.unwrap_or_default();
        let times: Vec<AtomicU32> = (0..end).map(|_| AtomicU32::new(0)).collect();
        let blows = AtomicU32::new(0);
        let code = move |exec: &Exec<'_>, piece: std::ops::Range<u64>| {
            let record = &held.0;
            record.begin(&world, exec);
            let outcome = caught(|| {
                record.job.pass(exec)?;
                let blows = piece.start == 0 && blows.fetch_add(1, Ordering::SeqCst) < record.job.fails;
                if blows { record.job.blow(exec) } else { Ok(()) }
            });
            if matches!(outcome, Ok(Ok(()))) {
                for element in piece {
                    let before = times[element as usize].fetch_add(1, Ordering::SeqCst);
                    // A piece that did well counts unless its device failed as it ended.
                    if before > 0 && !world.bad {
                        world.complain(record, &format!("element {element} is done twice"));
                    }
                }
            }
            record.end(matches!(outcome, Ok(Ok(()))));
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        };
        let job = &record.job;
        Range {
            grain,
            device_bytes: job.device_bytes,
            priority: job.priority,
            devices: job.devices,
            deadline: job.deadline,
            detached: job.detached,
            after: record.after.iter().map(|before| Self::id(before)).collect(),
            ordered: job.ordered,
            ..Range::new(0..end, code)
        }
    }

    /// When nobody submits any more.
    fn conclude(&self, scheduler: &Arc<Scheduler>) {
        let waited = match self.end {
            End::Calm => scheduler.wait_all(LONG),
            End::Drain => scheduler.drain(LONG),
            End::Shutdown | End::Impatient => Ok(Wait::Done),
        };
        if waited != Ok(Wait::Done) {
            self.object(format!("all do not end: {waited:?}"));
        }
        for record in self.records().iter().filter(|record| record.id.get().is_some()) {
            if !record.is_loose() {
                for _ in 0..2 {
                    self.wait(scheduler, record, LONG);
                }
            }
        }
        let known = self.records().into_iter().filter(|record| record.outcome().is_some());
        let known: HashSet<usize> = known.map(|record| record.number).collect();
        if self.wrong().is_empty() {
            self.stopping.store(true, Ordering::SeqCst);
            scheduler.shutdown().unwrap();
            // A copy that was too late may have gone on submitting meanwhile.
            for record in self.records().into_iter().filter(|record| !known.contains(&record.number)) {
                record.cancelled.store(true, Ordering::SeqCst);
                if record.id.get().is_some() {
                    self.wait(scheduler, &record, Some(Duration::ZERO));
                }
            }
            self.stopping.store(matches!(self.end, End::Shutdown | End::Impatient), Ordering::SeqCst);
            self.records().iter().for_each(|record| record.conclude(self));
            self.count(&scheduler.stats().unwrap());
        }
    }

    fn count(&self, stats: &Stats) {
        let told = self.told();
        let ended = [stats.done, stats.failed, stats.cancelled];
        let accepted = self.accepted.load(Ordering::SeqCst);
        let all = ended.iter().sum::<u64>();
        if stats.submitted != all || (stats.queued, stats.running) != (0, 0) {
            self.object(format!("the counts do not add up: {stats:?}"));
        }
        // Of ranges by map_range nobody knows whether they were refused.
        if all > accepted
            || !self.bad && !matches!(self.end, End::Shutdown | End::Impatient) && all != accepted
        {
            self.object(format!("{accepted} were accepted, {all} have ended: {stats:?}"));
        }
        let loose = accepted - told.iter().sum::<u64>().min(accepted);
        if ended.iter().zip(told).any(|(&ended, told)| ended < told || ended > told + loose) {
            self.object(format!("{told:?} and {loose} others have ended: {stats:?}"));
        }
        for device in &stats.devices {
            if device.leased_bytes != 0 || device.peak_bytes > 1000 {
                self.object(format!("memory is lent: {device:?}"));
            }
        }
        let mut twice = HashMap::new();
        for record in self.records() {
            if let Some(&id) = record.id.get()
                && let Some(other) = twice.insert(id, record.number)
            {
                self.complain(&record, &format!("has the id of task {other}"));
            }
        }
    }
}

fn caught(code: impl FnOnce() -> Result<()>) -> std::thread::Result<Result<()>> {
    catch_unwind(AssertUnwindSafe(code))
}
