//! A run: devices, threads, and their calls of a scheduler.

use std::collections::HashSet;
use std::ops;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use gpusched::error::DeviceFault;
use gpusched::sched::{Exec, Range, Scheduler, Stats, Task, TaskId, WaitResult};
use gpusched::{Error, Result};

use super::job::Job;
use super::record::Record;
use crate::scripted::{Fate, LONG, OnDrop, Scripted, builder};
use testkit::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Calm,
    Drain,
    /// Destroyed during the run, by one thread or two, at the same time or repeatedly.
    Shutdown,
    Impatient,
}

const NOW: Option<Duration> = Some(Duration::ZERO);

pub struct World {
    seed: u64,
    /// Devices and tasks may fail without a fault of the caller.
    pub bad: bool,
    devices: u32,
    slots: u32,
    threads: usize,
    steps: usize,
    end: End,
    scheduler: Mutex<Weak<Scheduler>>,
    records: Mutex<Vec<Arc<Record>>>,
    /// The ordered tasks in the order of submission; a thread holds the lock while it submits one.
    line: Mutex<Vec<Arc<Record>>>,
    accepted: AtomicU64,
    stopping: AtomicBool,
    clients: AtomicUsize,
    /// For each device: bytes that its running code should hold.
    leased: Vec<AtomicU64>,
    wrong: Mutex<Vec<String>>,
}

/// Returns the faults of a device in a bad world, and when they occur.
fn fate(random: &mut Random) -> Arc<Fate> {
    let usual = Fate::default();
    let mut moment = |chance: f64, within: usize, never: AtomicI64| {
        let moment = random.below(within) as i64;
        if random.unit() < chance { AtomicI64::new(moment) } else { never }
    };
    let open = moment(0.1, 3, usual.open);
    let enter = moment(0.15, 80, usual.enter);
    let finish = moment(0.3, 80, usual.finish);
    let fault = if random.unit() < 0.3 { DeviceFault::Lost } else { DeviceFault::Poisoned };
    // 601 is a prime, so that it is never 0.
    let context = AtomicU64::new(random.below(3) as u64 * 150);
    Arc::new(Fate { open, context, enter, finish, fault, ..Fate::default() })
}

fn id(record: &Record) -> TaskId {
    *record.id.get().expect("only tasks that were accepted")
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed + 1);
        (0..8).for_each(|_| _ = random.unit());
        let devices = 1 + random.below(4) as u32;
        let ends = [End::Calm, End::Calm, End::Drain, End::Shutdown, End::Impatient];
        World {
            seed,
            bad: random.below(2) == 0,
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
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    fn is_destroyed(&self) -> bool {
        matches!(self.end, End::Shutdown | End::Impatient)
    }

    pub fn check(&self, right: bool, record: &Record, what: &str) {
        if !right {
            self.object(format!("{what}: {}", record.describe()));
        }
    }

    fn object(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    fn known(&self) -> [u64; 3] {
        let mut known = [0; 3];
        for outcome in self.records().iter().filter_map(|record| record.outcome()) {
            known[match outcome {
                Ok(WaitResult::Done) => 0,
                Err(_) => 1,
                Ok(_) => 2,
            }] += 1;
        }
        known
    }

    fn records(&self) -> Vec<Arc<Record>> {
        self.records.lock().unwrap().clone()
    }

    fn destroy(&self, scheduler: &Scheduler) {
        self.stopping.store(true, SeqCst);
        if self.end == End::Impatient {
            while scheduler.shutdown_within(Some(Duration::from_micros(300))).unwrap().is_none() {}
        }
        scheduler.shutdown().unwrap();
    }

    fn take_in_order(&self, scheduler: &Scheduler) {
        let mut last = None;
        loop {
            let idle = self.clients.load(SeqCst) == 0;
            match scheduler.wait_next(Some(Duration::from_millis(if idle { 20_000 } else { 2 }))) {
                Ok(Some(id)) => {
                    let line = self.line.lock().unwrap();
                    let Some(place) = line.iter().position(|record| record.id.get() == Some(&id)) else {
                        return self.object(format!("{id:x?} was not submitted as ordered"));
                    };
                    let record = line[place].clone();
                    drop(line);
                    self.check(last < Some(place), &record, &format!("out of order: {place} after {last:?}"));
                    last = Some(place);
                    let outcome = scheduler.wait(id, NOW);
                    self.check(outcome != Ok(WaitResult::Pending), &record, "is handed out before its end");
                    record.saw(self, outcome);
                }
                Ok(None) if idle => return self.object("the ordered tasks do not end".into()),
                Ok(None) => {}
                Err(Error::Argument { .. }) if idle => return,
                Err(Error::Argument { .. }) => thread::sleep(Duration::from_micros(200)),
                Err(error) => return self.object(format!("wait_next: {error}")),
            }
        }
    }

    fn client(self: &Arc<Self>, scheduler: &Arc<Scheduler>, random: &mut Random) {
        // Counts down also after a panic, which is not a hang.
        let _leaving = OnDrop(|| _ = self.clients.fetch_sub(1, SeqCst));
        let mut own: Vec<Arc<Record>> = Vec::new();
        for _ in 0..self.steps {
            let any = self.any(random);
            let mine = own.get(random.below(own.len().max(1))).cloned();
            match (random.below(20), any, mine) {
                (0, Some(any), _) => self.cancel(scheduler, &any),
                (1, _, Some(mine)) => self.cancel(scheduler, &mine),
                (2, Some(any), _) => self.wait(scheduler, &any, NOW),
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
                (11, _, _) => {
                    let mut jobs = self.jobs(1 + random.below(8), random);
                    jobs.retain(|job| !job.is_range());
                    own.extend(self.submit(scheduler, jobs, random));
                }
                _ => own.extend(self.submit(scheduler, self.jobs(1, random), random)),
            }
        }
    }

    fn jobs(&self, count: usize, random: &mut Random) -> Vec<Arc<Job>> {
        (0..count).map(|_| Arc::new(Job::random(random, self.devices, self.bad, 2))).collect()
    }

    fn any(&self, random: &mut Random) -> Option<Arc<Record>> {
        let records = self.records.lock().unwrap();
        let any = records.get(random.below(records.len().max(1)))?;
        any.id.get().map(|_| any.clone())
    }

    fn cancel(&self, scheduler: &Scheduler, record: &Record) {
        record.cancelled.store(true, SeqCst);
        let cancelled = scheduler.cancel(id(record));
        let right = cancelled.is_ok() || matches!(cancelled, Err(Error::Stale { .. })) && record.is_loose();
        self.check(right, record, &format!("cancel: {cancelled:?}"));
    }

    fn release(&self, scheduler: &Scheduler, record: &Record) {
        if !record.released.swap(true, SeqCst) {
            let released = scheduler.release(id(record));
            self.check(released.is_ok() || record.job.detached, record, &format!("release: {released:?}"));
        }
    }

    fn wait(&self, scheduler: &Scheduler, record: &Record, limit: Option<Duration>) {
        let seen = scheduler.wait(id(record), limit);
        self.check(limit != LONG || seen != Ok(WaitResult::Pending), record, "does not end");
        record.saw(self, seen);
    }

    fn wait_any(&self, scheduler: &Scheduler, records: &[Arc<Record>; 2]) {
        match scheduler.wait_any(&records.each_ref().map(|record| id(record)), LONG) {
            Ok(Some(which)) => self.wait(scheduler, &records[which], NOW),
            // Checked afterwards: another thread may release a task during the call.
            Err(Error::Stale { .. } | Error::Argument { .. })
                if records.iter().any(|record| record.is_loose()) => {}
            other => self.check(false, &records[0], &format!("wait_any: {other:?}")),
        }
    }

    fn look(&self, scheduler: &Scheduler, record: &Record) {
        match scheduler.info(id(record)) {
            Ok(info) if info.state.is_ended() => self.wait(scheduler, record, NOW),
            Ok(_) => {}
            Err(Error::Stale { .. }) if record.is_loose() => {}
            Err(error) => self.check(false, record, &format!("info: {error}")),
        }
        let stats = scheduler.stats().unwrap();
        if stats.counts.ended() > stats.counts.submitted + 64 {
            self.object(format!("more have ended than were submitted: {stats:?}"));
        }
        let _ = scheduler.progress().unwrap();
    }

    fn map(&self, scheduler: &Scheduler) {
        self.accepted.fetch_add(1, SeqCst);
        match scheduler.map_range(3..40, |_, element| Ok(element * element)) {
            Ok(squares) if squares.iter().copied().eq((3..40).map(|element: u64| element * element)) => {}
            Err(Error::Shutdown { .. }) if self.is_stopping() => _ = self.accepted.fetch_sub(1, SeqCst),
            // Refused or ended: the caller cannot know, so the count below does not include it.
            Err(_) if self.bad || self.is_stopping() => {}
            other => self.object(format!("map_range: {other:?}")),
        }
    }

    fn may_refuse(&self, record: &Record, error: &Error) -> bool {
        match error {
            Error::Shutdown { .. } => self.is_stopping() || self.end == End::Drain,
            Error::NoDevice { .. } | Error::NoMemory { .. } => self.bad,
            Error::Stale { .. } => record.after.iter().any(|before| before.is_loose()),
            _ => false,
        }
    }

    fn record(&self, job: Arc<Job>, random: &mut Random) -> Arc<Record> {
        let after = (0..job.after).filter_map(|_| self.any(random)).collect();
        let mut records = self.records.lock().unwrap();
        let record = Arc::new(Record::new(records.len(), job, after));
        records.push(record.clone());
        record
    }

    fn submit(
        self: &Arc<Self>,
        scheduler: &Arc<Scheduler>,
        jobs: Vec<Arc<Job>>,
        random: &mut Random,
    ) -> Vec<Arc<Record>> {
        let records: Vec<_> = jobs.into_iter().map(|job| self.record(job, random)).collect();
        let ordered = records.iter().any(|record| record.job.ordered);
        let mut line = ordered.then(|| self.line.lock().unwrap());
        let task = |record: &Arc<Record>| self.task(scheduler, record);
        let ids = match &records[..] {
            [range] if range.job.is_range() => scheduler.submit_range(self.range(range)).map(|id| vec![id]),
            [one] => scheduler.submit(task(one)).map(|id| vec![id]),
            list => scheduler.submit_many(list.iter().map(task).collect()),
        };
        match ids {
            Ok(ids) => {
                for (record, id) in records.iter().zip(ids) {
                    self.accepted.fetch_add(1, SeqCst);
                    let _ = record.id.set(id);
                    let line = line.iter_mut().filter(|_| record.job.ordered);
                    line.for_each(|line| line.push(record.clone()));
                }
                records
            }
            Err(error) => {
                if !records.is_empty() && !records.iter().any(|record| self.may_refuse(record, &error)) {
                    self.check(false, &records[0], &format!("refused: {error}"));
                }
                Vec::new()
            }
        }
    }

    /// Returns code that runs `code` and records each call and the drop. Passes the number of the
    /// call to `code`.
    fn recorded<T, F: Fn(&Exec<'_>, T, u32) -> Result<()>>(
        self: &Arc<Self>,
        record: &Arc<Record>,
        code: F,
    ) -> impl Fn(&Exec<'_>, T) -> Result<()> + use<T, F> {
        let (world, record, held) = (self.clone(), record.clone(), record.clone());
        let on_drop = OnDrop(move || _ = held.drops.fetch_add(1, SeqCst));
        move |exec: &Exec<'_>, what: T| {
            let _ = &on_drop;
            let began = record.begin(&world, exec);
            let outcome = catch_unwind(AssertUnwindSafe(|| code(exec, what, began)));
            record.end(matches!(outcome, Ok(Ok(()))));
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        }
    }

    fn task(self: &Arc<Self>, scheduler: &Arc<Scheduler>, record: &Arc<Record>) -> Task {
        let (weak, world, own) = (Arc::downgrade(scheduler), self.clone(), record.clone());
        let code = self.recorded(record, move |exec, (), began| {
            let (mine, bytes) = (&world.leased[exec.device_index], own.job.device_bytes);
            let before = mine.fetch_add(bytes, SeqCst);
            let _returned = OnDrop(|| _ = mine.fetch_sub(bytes, SeqCst));
            world.check(before + bytes <= 1000, &own, "runs without its memory");
            world.run(&weak, &own, exec, began)
        });
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
            devices: job.devices(),
            deadline: job.deadline,
            after: record.after.iter().map(|before| id(before)).collect(),
            ..Task::new(move |exec: &Exec<'_>| code(exec, ()))
        }
    }

    fn run(
        self: &Arc<Self>,
        weak: &Weak<Scheduler>,
        record: &Record,
        exec: &Exec<'_>,
        began: u32,
    ) -> Result<()> {
        let job = &record.job;
        job.pass(exec)?;
        if job.may_deadlock() {
            let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
            let mut random = Random::new(self.seed * 4096 + record.number as u64 * 8 + u64::from(began));
            let mut awaited = Vec::new();
            for (child, limit) in &job.children {
                let taken = self.submit(&scheduler, vec![child.clone()], &mut random);
                awaited.extend(taken.into_iter().map(|record| (record, *limit)));
            }
            if job.stranger {
                awaited.extend(self.any(&mut random).map(|any| (any, None)));
            }
            for (task, limit) in awaited {
                let known = task.outcome();
                match scheduler.wait(id(&task), limit) {
                    // The deadlock is an error of this wait, unless it is the outcome of the
                    // awaited task, which may have ended.
                    Err(error @ Error::Deadlock { .. })
                        if known.is_none() && task.outcome() != Some(Err(error.clone())) =>
                    {
                        return Err(error);
                    }
                    seen => task.saw(self, seen),
                }
            }
        }
        if began <= job.fails { job.blow(exec) } else { Ok(()) }
    }

    fn range(self: &Arc<Self>, record: &Arc<Record>) -> Range {
        let (world, own, blows) = (self.clone(), record.clone(), AtomicU32::new(0));
        let code = self.recorded(record, move |exec, piece: ops::Range<u64>, _| {
            own.job.pass(exec)?;
            if piece.start == 0 && blows.fetch_add(1, SeqCst) < own.job.fails {
                own.job.blow(exec)?;
            }
            piece.for_each(|element| own.element(&world, element));
            Ok(())
        });
        let job = &record.job;
        let (end, grain) = job.elements.unwrap_or_default();
        let range = Range::new(0..end, code);
        let task = Task {
            device_bytes: job.device_bytes,
            priority: job.priority,
            devices: job.devices(),
            deadline: job.deadline,
            detached: job.detached,
            after: record.after.iter().map(|before| id(before)).collect(),
            ordered: job.ordered,
            ..range.task
        };
        Range { grain, task, ..range }
    }

    fn conclude(&self, scheduler: &Arc<Scheduler>) {
        let waited = match self.end {
            End::Calm => scheduler.wait_all(LONG),
            End::Drain => scheduler.drain(LONG),
            End::Shutdown | End::Impatient => Ok(WaitResult::Done),
        };
        if waited != Ok(WaitResult::Done) {
            self.object(format!("all do not end: {waited:?}"));
        }
        for record in self.records().iter().filter(|record| record.id.get().is_some() && !record.is_loose()) {
            (0..2).for_each(|_| self.wait(scheduler, record, LONG));
        }
        if !self.wrong.lock().unwrap().is_empty() {
            return;
        }
        let known = self.records().into_iter().filter(|record| record.outcome().is_some());
        let known: HashSet<usize> = known.map(|record| record.number).collect();
        self.stopping.store(true, SeqCst);
        scheduler.shutdown().unwrap();
        // A copy that lost may have continued to submit tasks.
        for record in self.records().into_iter().filter(|record| !known.contains(&record.number)) {
            record.cancelled.store(true, SeqCst);
            if record.id.get().is_some() {
                self.wait(scheduler, &record, NOW);
            }
        }
        self.stopping.store(self.is_destroyed(), SeqCst);
        self.records().iter().for_each(|record| record.conclude(self));
        self.count(&scheduler.stats().unwrap());
    }

    fn count(&self, stats: &Stats) {
        let known = self.known();
        let ended = [stats.counts.done, stats.counts.failed, stats.counts.cancelled];
        let accepted = self.accepted.load(SeqCst);
        let all = ended.iter().sum::<u64>();
        if stats.counts.submitted != all || (stats.counts.queued, stats.counts.running) != (0, 0) {
            self.object(format!("the counts do not add up: {stats:?}"));
        }
        // It is unknown whether ranges of map_range were refused.
        if all > accepted || !self.bad && !self.is_destroyed() && all != accepted {
            self.object(format!("{accepted} were accepted, {all} have ended: {stats:?}"));
        }
        let loose = accepted - known.iter().sum::<u64>().min(accepted);
        if ended.iter().zip(known).any(|(&ended, known)| ended < known || ended > known + loose) {
            self.object(format!("{known:?} and {loose} others have ended: {stats:?}"));
        }
        if stats.devices.iter().any(|device| device.leased_bytes != 0 || device.peak_bytes > 1000) {
            self.object(format!("memory is still lent, or was more than there is: {stats:?}"));
        }
        let mut ids = HashSet::new();
        for record in self.records() {
            let fresh = record.id.get().is_none_or(|&id| ids.insert(id));
            self.check(fresh, &record, "has the id of another");
        }
    }
}

impl testkit::worlds::World for World {
    fn play(self: &Arc<Self>) -> [u64; 3] {
        let mut random = Random::new(self.seed + 1_000_003);
        let mut backend = Scripted::new(self.devices);
        if self.bad {
            backend.fates = (0..self.devices).map(|_| fate(&mut random)).collect();
        }
        let inside = backend.inside.clone();
        let mut builder = builder(Arc::new(backend), self.slots);
        builder.trace_events = if random.below(4) == 0 { 500 } else { 0 };
        let scheduler = Arc::new(builder.build().unwrap());
        *self.scheduler.lock().unwrap() = Arc::downgrade(&scheduler);
        self.clients.store(self.threads, SeqCst);
        thread::scope(|scope| {
            let scheduler = &scheduler;
            for thread in 0..self.threads {
                let mut random = Random::new(self.seed * 64 + thread as u64 + 7);
                scope.spawn(move || self.client(scheduler, &mut random));
            }
            for _ in 0..1 + random.below(2) {
                scope.spawn(|| self.take_in_order(scheduler));
            }
            let moment = Duration::from_micros(random.below(20_000) as u64);
            for _ in 0..if self.is_destroyed() { 1 + random.below(2) } else { 0 } {
                scope.spawn(move || {
                    thread::sleep(moment);
                    self.destroy(scheduler);
                });
            }
        });
        self.conclude(&scheduler);
        if !self.bad && inside.load(SeqCst) != 0 {
            self.object("a task has left its queue less often, or more often, than it entered it".into());
        }
        let wrong = self.wrong.lock().unwrap().join("\n");
        assert!(wrong.is_empty(), "{wrong}");
        self.known()
    }

    fn describe(&self) -> String {
        let World { seed, bad, devices, slots, threads, steps, end, .. } = self;
        let mut text = format!(
            "run {seed}: bad {bad}, {devices} devices with {slots} slots, {threads} threads with {steps} steps, {end:?}\n"
        );
        if let Some(scheduler) = self.scheduler.lock().unwrap().upgrade() {
            text += &format!("{:?}\n", scheduler.stats());
            for record in self.records().iter().filter(|record| record.outcome().is_none()) {
                let info = record.id.get().and_then(|&id| scheduler.info(id).ok());
                if let Some(info) = info.filter(|info| !info.state.is_ended()) {
                    text += &format!("{}: {info:?}\n", record.describe());
                }
            }
        }
        text
    }
}
