//! What the threads of a scheduler share, and what each does after a change of the plan.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use log::Level;

use super::observability::Observability;
use super::peers::Peers;
use super::worker_pool::WorkerPool;
use crate::backend::Backend;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::sched::base::fork::ProcessMark;
use crate::sched::base::sync::lock;
use crate::sched::base::task::{DeviceMask, TaskId, WaitResult};
use crate::sched::estimate::concurrency_tuner::AUTO_SLOTS;
use crate::sched::light::epochs::Epoch;
use crate::sched::light::queues::{LightItem, LocalQueue, WorkerShared};
use crate::sched::light::task::{EndActions, LightTask, nanoseconds};
use crate::sched::light::{CLOSED, LightTasks, NO_DEVICE, STOPPING};
use crate::sched::plan::planner::Planner;
use crate::sched::plan::record::{Deferred, EndedTask};
use crate::sched::plan::stats::Stats;
use crate::sched::sleep::wait_graph::WaitGraph;
use crate::sched::sleep::wait_queues::{ALL, NEEDY, WaitQueues};
use crate::store::rate_store::Store;

pub struct Runtime {
    pub born: ProcessMark,
    /// The scheduler's time begins here.
    pub begin: Instant,
    pub devices: Vec<DeviceInfo>,
    /// By device.
    pub backends: Vec<Arc<dyn Backend>>,
    pub book: Mutex<PlannerGuarded>,
    pub light: LightTasks,
    pub crew: WorkerPool,
    pub rooms: WaitQueues,
    pub graph: WaitGraph,
    /// Jobs of tasks that have not begun or are over, which are being dropped before anybody may see the end.
    pub ending: AtomicUsize,
    /// Threads that wait for the whole scheduler.
    pub waiting_for_all: AtomicUsize,
    /// By device: in which of its contexts a queue is of use.
    pub contexts: Vec<AtomicU32>,
    /// Bit i: no light task begins on device i for now, a planned one needs it to itself.
    pub quiet: AtomicU64,
    /// Bit i: device i's context is poisoned, and made anew when all have left it.
    pub poisoned: AtomicU64,
    /// Some task is to run alone, and may wait for the light ones of any device to end.
    pub alone: AtomicBool,
    /// Threads that look around before they sleep.
    pub spinning: AtomicUsize,
    processors: u64,
    /// That a task has on the CPU device, at most.
    pub cpu_threads: u32,
    /// Where the thread sleeps that watches the time.
    pub time: Condvar,
    /// The system gave no such thread: workers without work look after the time.
    pub unwatched: AtomicBool,
    pub seeing: Observability,
    pub neighbours: Option<Peers>,
    /// The function that a worker's thread runs; it gets the number of the worker's seat.
    work: fn(&Arc<Runtime>, usize),
}

/// What stands under the one lock: the planned tasks.
pub struct PlannerGuarded {
    pub core: Planner,
    /// By device: a worker was called, and has not looked yet.
    pub called: Vec<bool>,
    /// A thread watches the time, and sleeps until then if nobody tells it of something that is earlier.
    pub watched: Option<Duration>,
    pub deferred: Deferred,
}

impl PlannerGuarded {
    /// Whether who watches the time has to be woken for an alarm.
    pub fn is_news(&mut self, alarm: Duration) -> bool {
        let news = self.watched.is_some_and(|until| alarm < until);
        if news {
            self.watched = Some(alarm);
        }
        news
    }
}

impl Deref for PlannerGuarded {
    type Target = Planner;

    fn deref(&self) -> &Planner {
        &self.core
    }
}

impl DerefMut for PlannerGuarded {
    fn deref_mut(&mut self) -> &mut Planner {
        &mut self.core
    }
}

impl Runtime {
    pub fn new(
        devices: Vec<(DeviceInfo, Arc<dyn Backend>)>,
        slots: u32,
        stack: usize,
        trace_events: usize,
        rates: Option<Arc<dyn Store>>,
        neighbours: Option<Peers>,
        work: fn(&Arc<Runtime>, usize),
    ) -> Self {
        let (devices, backends): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
        let threads = devices.iter().filter_map(|device| device.cpu_threads).max().unwrap_or(0);
        // The slots share them evenly, and each has one.
        let cpu_threads = threads.div_ceil(if slots == AUTO_SLOTS { 1 } else { slots });
        let slots = vec![slots; devices.len()];
        let mut core = Planner::new(devices.iter().cloned().zip(slots.iter().copied()).collect());
        let seeing = Observability::new(&mut core, trace_events, rates);
        Runtime {
            born: ProcessMark::here(),
            begin: Instant::now(),
            book: Mutex::new(PlannerGuarded {
                core,
                called: vec![false; devices.len()],
                watched: None,
                deferred: Deferred::default(),
            }),
            light: LightTasks::new(!devices.is_empty()),
            crew: WorkerPool::new(&slots, stack),
            rooms: WaitQueues::default(),
            graph: WaitGraph::default(),
            ending: AtomicUsize::new(0),
            waiting_for_all: AtomicUsize::new(0),
            contexts: devices.iter().map(|_| AtomicU32::new(0)).collect(),
            quiet: AtomicU64::new(0),
            poisoned: AtomicU64::new(0),
            alone: AtomicBool::new(false),
            spinning: AtomicUsize::new(0),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            cpu_threads,
            time: Condvar::new(),
            unwatched: AtomicBool::new(false),
            seeing,
            neighbours,
            work,
            devices,
            backends,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, PlannerGuarded> {
        lock(&self.book)
    }

    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// The same in nanoseconds.
    pub fn clock(&self) -> u64 {
        nanoseconds(self.now())
    }

    /// With more threads of ours awake than that, nobody looks around before it sleeps.
    pub fn spinners_most(&self) -> u64 {
        self.processors - 1
    }

    /// Whether workers of a device, other than the one of the station `but`, may be running light tasks.
    pub fn is_lit(&self, device: usize, but: Option<&WorkerShared>) -> bool {
        let mut lit = false;
        self.light.queues.each_station(|other| {
            let mine = but.is_some_and(|mine| std::ptr::eq(other, mine));
            lit |= !mine && other.device == device && other.books.lit.load(Ordering::SeqCst);
        });
        lit
    }

    /// Whether anything else of ours has run on the worker's device since then.
    pub fn had_company(&self, mine: &WorkerShared, since: u64) -> bool {
        self.was_lit(mine, since) || !self.lock().core.devices[mine.device].running.is_empty()
    }

    /// Whether a light task of another worker has run on the worker's device since then.
    pub fn was_lit(&self, mine: &WorkerShared, since: u64) -> bool {
        let mut lit = false;
        self.light.queues.each_station(|other| {
            let is_mine = std::ptr::eq(other, mine);
            let ran = other.books.since.load(Ordering::Relaxed) != 0
                || other.books.until.load(Ordering::Relaxed) > since;
            lit |= !is_mine && other.device == mine.device && ran;
        });
        lit
    }

    /// Bit i: no light task begins on device i for now.
    pub fn closed(&self) -> u64 {
        self.quiet.load(Ordering::SeqCst) | self.taken()
    }

    /// After light work was made visible.
    pub fn call_any(self: &Arc<Self>) {
        if self.taken() != 0 {
            // Where nobody can, nothing is taken any more.
            let _ = self.stand_in_line();
        }
        self.crew.call_any(self.closed(), |seat| self.start(seat, None), || self.light.queues.is_empty());
    }

    /// After something has become ready, or room: calls a worker of each device where something should begin.
    /// The one that comes calls the next.
    pub fn call_workers(self: &Arc<Self>, book: &mut PlannerGuarded) {
        if book.core.ready.is_empty() && book.core.counts.running == 0 {
            return;
        }
        let alone = book.core.alone > 0;
        for (index, device) in book.core.devices.iter_mut().enumerate() {
            if device.hold.is_some() || alone {
                device.light = self.is_lit(index, None);
            }
        }
        let closed = self.closed();
        for index in book.core.wanted(self.now()) {
            self.crew.look.fetch_or(1 << index, Ordering::SeqCst);
            if !book.called[index] {
                let notes = Mutex::new(Vec::new());
                let start = |seat| self.start(seat, Some(&notes));
                book.called[index] = self.crew.call_device(index, closed, start);
                book.core.notes.append(&mut lock(&notes));
            }
        }
        if book.core.desire().is_some() && !self.stand_in_line() {
            self.forget_others(book);
            // Nothing is kept from its device any more, so this ends.
            if book.core.desire().is_none() {
                self.call_workers(book);
            }
        }
    }

    /// With `notes`, where the book is locked: it is logged once that is open.
    fn start(self: &Arc<Self>, seat: usize, notes: Option<&Mutex<Vec<(Level, String)>>>) -> bool {
        let place = self.crew.seat(seat);
        let label = self.devices[place.device].label();
        let shared = self.clone();
        let name = format!("gpusched {label}/{}", place.slot);
        let started = self.crew.start(name, move || (shared.work)(&shared, seat));
        if let Err(Some(error)) = &started {
            let text = format!("no thread for {label}: {error}");
            match notes {
                Some(notes) => lock(notes).push((Level::Error, text)),
                None => log::error!("{text}"),
            }
        }
        started.is_ok()
    }

    /// After any change of the plan: ends what has ended, jobs first, calls workers for what is ready,
    /// wakes who may go on, and logs. The lock is given back in between and at the end.
    ///
    /// What ends is taken from the book before it is given back, so each thread drops the jobs of those that
    /// it has itself ended, and of no others: it may hold whatever their drop needs.
    pub fn settle<'a>(self: &'a Arc<Self>, mut book: MutexGuard<'a, PlannerGuarded>) {
        let mut ended = Vec::new();
        self.take_ended(&mut book, &mut ended);
        log_all(self.settle_with(book, ended));
    }

    /// The same for `ended` alone. Returns what is left to be logged.
    pub fn settle_with<'a>(
        self: &'a Arc<Self>,
        mut book: MutexGuard<'a, PlannerGuarded>,
        mut ended: Vec<EndedTask>,
    ) -> Vec<(Level, String)> {
        let given_up = std::mem::take(&mut book.core.given_up);
        self.give_up(&given_up);
        let renewed = std::mem::take(&mut book.core.renewed);
        if !renewed.is_empty() {
            // Before anybody can open a queue there; nobody begins anything there meanwhile.
            drop(book);
            renewed.iter().for_each(|&device| self.backends[device].renew(self.devices[device].ordinal));
            book = self.lock();
            renewed.into_iter().for_each(|device| book.core.has_renewed(device));
        }
        let mut any_ended = false;
        loop {
            let notes = std::mem::take(&mut book.core.notes);
            let next = ended.pop();
            if notes.is_empty() && next.is_none() {
                break;
            }
            drop(book);
            // Before anybody can see the end that they tell of.
            log_all(notes);
            let next = next.map(|EndedTask { id, job, outcome }| {
                self.discard(job);
                (id, outcome)
            });
            book = self.lock();
            if let Some((id, outcome)) = next {
                any_ended = true;
                self.publish(&mut book, id, outcome);
                self.take_ended(&mut book, &mut ended);
                self.ending.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let opened = self.mirror(&book);
        self.call_workers(&mut book);
        self.watch(&mut book);
        let notes = std::mem::take(&mut book.core.notes);
        let deserted = self.light.gate.load(Ordering::SeqCst) & NO_DEVICE != 0;
        let needy = book.core.needy > 0;
        drop(book);
        for (id, attempt, limit_s) in given_up {
            self.give_up_on_top(id, attempt, limit_s);
        }
        if any_ended && self.waiting_for_all.load(Ordering::SeqCst) > 0 {
            self.rooms.ring(ALL);
        }
        if needy {
            self.rooms.ring(NEEDY);
        }
        self.ring_inside();
        if opened && !self.light.queues.is_empty() {
            self.call_any();
        }
        if deserted {
            self.end_all_queued();
        }
        notes
    }

    pub fn take_ended(&self, book: &mut PlannerGuarded, ended: &mut Vec<EndedTask>) {
        self.ending.fetch_add(book.core.ended.len(), Ordering::SeqCst);
        ended.append(&mut book.core.ended);
    }

    /// While `end` takes light tasks that have not begun out of the queues, drops their jobs and publishes their ends:
    /// no wait is hopeless meanwhile, and a shutdown is not over.
    pub fn ending<T>(&self, end: impl FnOnce() -> T) -> T {
        self.ending.fetch_add(1, Ordering::SeqCst);
        let ended = end();
        self.ending.fetch_sub(1, Ordering::SeqCst);
        self.ring_inside();
        ended
    }

    fn publish(self: &Arc<Self>, book: &mut PlannerGuarded, id: TaskId, outcome: Result<()>) {
        let told = (self.light.handing.load(Ordering::Acquire) > 0).then(|| outcome.clone());
        book.core.publish(self.now(), id, outcome);
        if let Some(told) = told {
            self.take_back(book, id, told);
        }
        self.rooms.ring(id);
    }

    /// What the light tier has to know of the plan. True: light tasks may begin again on some device.
    pub fn mirror(&self, book: &PlannerGuarded) -> bool {
        let (mut quiet, mut poisoned, mut retired) = (0, 0, 0);
        self.alone.store(book.core.alone > 0, Ordering::SeqCst);
        for (index, device) in book.core.devices.iter().enumerate() {
            self.contexts[index].store(device.context, Ordering::Relaxed);
            self.crew.set_slots(index, device.slots);
            quiet |= u64::from(book.core.is_kept(index)) << index;
            poisoned |= u64::from(device.poisoned) << index;
            retired |= u64::from(device.retired.is_some()) << index;
        }
        self.poisoned.store(poisoned, Ordering::SeqCst);
        let opened = self.quiet.swap(quiet, Ordering::SeqCst) & !quiet != 0;
        if opened && self.crew.lot.asleep() > 0 {
            self.crew.lot.call_all();
        }
        if self.crew.retired.swap(retired, Ordering::SeqCst) != retired {
            if book.core.devices.iter().all(|device| device.retired.is_some()) {
                self.light.gate.fetch_or(NO_DEVICE, Ordering::SeqCst);
            }
            self.crew.lot.call_all();
        }
        opened
    }

    /// Those who wait inside tasks look whether anybody can still go on.
    pub fn ring_inside(&self) {
        self.rooms.ring_inside();
    }

    /// Publishes the end of a light task whose job has been dropped.
    pub fn end_light(
        self: &Arc<Self>,
        hand: Option<&LocalQueue>,
        slot: &LightTask,
        id: TaskId,
        phase: Epoch,
        outcome: Result<()>,
        now: u64,
    ) {
        let generation = crate::sched::base::registry::parts(id).1;
        let mut parting = slot.end(generation, outcome, now, |outcome| self.light.count_end(hand, outcome));
        let shadow = parting.shadow.take();
        self.part(id, parting);
        self.count_ended(hand, phase, 1);
        if let Some((shadow, outcome)) = shadow {
            lock(&self.light.stand_ins).remove(&shadow);
            let mut book = self.lock();
            book.core.finish(shadow, outcome);
            self.settle(book);
        }
    }

    pub fn count_ended(&self, hand: Option<&LocalQueue>, phase: Epoch, tasks: u64) {
        if self.light.tally.end(self.light.count(hand), phase, tasks, &self.light.queues) {
            self.rooms.ring(ALL);
        }
        // Where a worker ends the last task it looks by itself whether it may go, and those that go call the others.
        if hand.is_none() && self.light.is_stopping() && self.light.queues.is_drained() {
            self.crew.lot.call_all();
        }
    }

    /// One that watched the task in this slot watches it no more: the outcome, if there is one.
    pub fn leave_slot(&self, slot: &LightTask, generation: u64, id: TaskId) -> Option<Result<WaitResult>> {
        let (outcome, free) = slot.leave(generation);
        self.part(id, EndActions { free, ..EndActions::default() });
        outcome
    }

    pub fn part(&self, id: TaskId, parting: EndActions) {
        if parting.free {
            self.light.slots.give(crate::sched::base::registry::parts(id).2 as u32);
        }
        if parting.ring {
            self.rooms.ring(id);
        }
    }

    /// Ends all light work that has not begun: it is cancelled, or no device is left for it.
    pub fn end_all_queued(self: &Arc<Self>) {
        let why = if self.light.is_stopping() {
            Error::Cancelled
        } else {
            self.lock().core.no_device("the task".into(), DeviceMask::ALL, &[])
        };
        while let Some(item) = self.light.queues.plunder() {
            self.end_item(None, item, &why);
        }
    }

    /// Why nothing is accepted.
    #[cold]
    pub fn refusal(&self, gate: u8) -> Error {
        if gate & (CLOSED | STOPPING) != 0 {
            return Error::Shutdown { what: "submitting a task" };
        }
        self.lock().core.no_device("the task".into(), DeviceMask::ALL, &[])
    }

    /// Nobody runs anything, and nobody will.
    pub fn fail_deserted(self: &Arc<Self>) {
        let why = Error::NoThread { purpose: "to run tasks", why: "the log has its words".into() };
        while let Some(item) = self.light.queues.plunder() {
            self.end_item(None, item, &why);
        }
        let mut book = self.lock();
        let ready: Vec<TaskId> = book.core.ready.iter().map(|(_, id)| id).collect();
        for id in ready {
            book.core.finish(id, Err(why.clone()));
        }
        self.settle(book);
    }

    /// What both tiers have done.
    pub fn stats(&self) -> Stats {
        let mut stats = self.lock().core.stats();
        let (begun, [done, failed, cancelled]) = self.light.totals();
        let there = self.light.told_there.load(Ordering::SeqCst);
        stats.submitted = (stats.submitted + begun).saturating_sub(there);
        // An end that is counted in the plan from now on is taken back here a moment before.
        let sum = |there: u64, here: u64| there.checked_add_signed(here as i64).unwrap_or(0);
        stats.done = sum(stats.done, done);
        stats.failed = sum(stats.failed, failed);
        stats.cancelled = sum(stats.cancelled, cancelled);
        self.light.queues.each_station(|station| {
            let books = &station.books;
            stats.running += u64::from(books.since.load(Ordering::Relaxed) != 0);
            let device = &mut stats.devices[station.device];
            device.done += books.done.load(Ordering::Relaxed);
            device.failed += books.failed.load(Ordering::Relaxed);
            device.busy_ns += books.busy_ns.load(Ordering::Relaxed);
        });
        let taken = self.taken();
        let devices = stats.devices.iter_mut().enumerate();
        devices.for_each(|(index, device)| device.taken = taken >> index & 1 == 1);
        let ended = stats.done + stats.failed + stats.cancelled;
        stats.queued = stats.submitted.saturating_sub(ended + stats.running);
        stats
    }

    pub fn end_item(self: &Arc<Self>, hand: Option<&LocalQueue>, item: LightItem, why: &Error) {
        match item {
            LightItem::Known(id) => {
                if let Ok((slot, generation)) = self.light.slots.find(id) {
                    self.end_queued(hand, slot, generation, id, why);
                }
            }
            LightItem::Loose { code, phase } => self.ending(|| {
                self.discard(code);
                self.light.count_end(hand, &Err(why.clone()));
                self.count_ended(hand, phase, 1);
            }),
        }
    }

    /// Ends a light task if it has not begun. False: it has, or is over.
    pub fn end_queued(
        self: &Arc<Self>,
        hand: Option<&LocalQueue>,
        slot: &LightTask,
        generation: u64,
        id: TaskId,
        why: &Error,
    ) -> bool {
        self.ending(|| {
            let Some((code, phase)) = slot.withdraw(generation) else { return false };
            self.discard(code);
            self.end_light(hand, slot, id, phase, Err(why.clone()), self.clock());
            true
        })
    }
}

thread_local! {
    /// The scheduler whose job this thread is dropping. It outlives the thread's other locals, see `ME`.
    static DROPPING: Cell<*const Runtime> = const { Cell::new(std::ptr::null()) };
}

impl Runtime {
    /// Whether the calling thread is in the drop of a job, outside of any task perhaps.
    pub fn is_dropping(&self) -> bool {
        std::ptr::eq(DROPPING.get(), self)
    }

    /// Drops a caller's job, which may panic in doing so.
    pub fn discard<T>(&self, job: T) {
        let before = DROPPING.replace(self);
        dropped(job);
        DROPPING.set(before);
    }
}

/// Not to be called where the book is locked: the log may be the caller's code.
pub fn log_all(notes: Vec<(Level, String)>) {
    for (level, text) in notes {
        log::log!(level, "{text}");
    }
}

fn dropped<T>(job: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(job))).is_err() {
        log::error!("a task's drop callback panicked");
    }
}
