//! What the threads of a scheduler share, and what each does after a change of the plan.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use log::Level;

use super::observability::Observability;
use super::peers::Peers;
use super::worker_pool::WorkerPool;
use crate::backend::Backend;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::fork::ProcessMark;
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::outcome::{WaitResult, nanoseconds};
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;
use crate::sched::estimate::concurrency_tuner::AUTO_SLOTS;
use crate::sched::light::epochs::Epoch;
use crate::sched::light::queues::{LightItem, LocalQueue, WorkerShared};
use crate::sched::light::task::{EndActions, LightTask};
use crate::sched::light::{CLOSED, LightTasks, NO_DEVICE, STOPPING};
use crate::sched::plan::planner::Planner;
use crate::sched::plan::record::{Deferred, EndedTask};
use crate::sched::plan::stats::Stats;
use crate::sched::sleep::wait_graph::WaitGraph;
use crate::sched::sleep::wait_queues::{ALL_TASKS, HELPERS_NEEDED, WaitQueues};
use crate::store::rate_store::Store;

pub struct Runtime {
    pub process: ProcessMark,
    /// The scheduler's time begins here.
    pub start_time: Instant,
    pub devices: Vec<DeviceInfo>,
    /// By device.
    pub backends: Vec<Arc<dyn Backend>>,
    pub planner: Mutex<PlannerGuarded>,
    pub light: LightTasks,
    pub pool: WorkerPool,
    pub wait_queues: WaitQueues,
    pub wait_graph: WaitGraph,
    /// Jobs of tasks that have not begun or are over, which are being dropped before anybody may see the end.
    pub jobs_dropping: AtomicUsize,
    /// Threads that wait for the whole scheduler.
    pub waiting_for_all: AtomicUsize,
    /// Bit i: device i's context is poisoned, and made anew when all have left it.
    pub poisoned: AtomicU64,
    /// Threads that look around before they sleep.
    pub spinning: AtomicUsize,
    processors: u64,
    /// That a task has on the CPU device, at most.
    pub cpu_threads: u32,
    /// Where the thread sleeps that watches the time.
    pub timer_wakeup: Condvar,
    /// The system gave no such thread: workers without work look after the time.
    pub no_timer: AtomicBool,
    pub observability: Observability,
    pub peers: Option<Peers>,
    /// The function that a worker's thread runs; it gets the number of the worker's seat.
    work: fn(&Arc<Runtime>, usize),
}

/// What stands under the one lock: the planned tasks.
pub struct PlannerGuarded {
    pub planner: Planner,
    /// By device: a worker was called, and has not looked yet.
    pub worker_called: Vec<bool>,
    /// A thread watches the time, and sleeps until then if nobody tells it of something that is earlier.
    pub timer_until: Option<Duration>,
    pub deferred: Deferred,
}

impl PlannerGuarded {
    /// Whether who watches the time has to be woken for an alarm.
    pub fn is_news(&mut self, alarm: Duration) -> bool {
        let news = self.timer_until.is_some_and(|until| alarm < until);
        if news {
            self.timer_until = Some(alarm);
        }
        news
    }
}

impl Deref for PlannerGuarded {
    type Target = Planner;

    fn deref(&self) -> &Planner {
        &self.planner
    }
}

impl DerefMut for PlannerGuarded {
    fn deref_mut(&mut self) -> &mut Planner {
        &mut self.planner
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
        let mut planner = Planner::new(devices.iter().cloned().zip(slots.iter().copied()).collect());
        let seeing = Observability::new(&mut planner, trace_events, rates);
        Runtime {
            process: ProcessMark::here(),
            start_time: Instant::now(),
            planner: Mutex::new(PlannerGuarded {
                planner,
                worker_called: vec![false; devices.len()],
                timer_until: None,
                deferred: Deferred::default(),
            }),
            light: LightTasks::new(devices.len()),
            pool: WorkerPool::new(&slots, stack),
            wait_queues: WaitQueues::default(),
            wait_graph: WaitGraph::default(),
            jobs_dropping: AtomicUsize::new(0),
            waiting_for_all: AtomicUsize::new(0),
            poisoned: AtomicU64::new(0),
            spinning: AtomicUsize::new(0),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            cpu_threads,
            timer_wakeup: Condvar::new(),
            no_timer: AtomicBool::new(false),
            observability: seeing,
            peers: neighbours,
            work,
            devices,
            backends,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, PlannerGuarded> {
        lock(&self.planner)
    }

    pub fn now(&self) -> Duration {
        self.start_time.elapsed()
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
    pub fn runs_light(&self, device: usize, but: Option<&WorkerShared>) -> bool {
        let mut lit = false;
        self.light.queues.for_each_worker(|other| {
            let mine = but.is_some_and(|mine| std::ptr::eq(other, mine));
            lit |= !mine && other.device == device && other.stats.runs_light.load(Ordering::SeqCst);
        });
        lit
    }

    /// Whether anything else of ours has run on the worker's device since then.
    pub fn had_company(&self, mine: &WorkerShared, since: u64) -> bool {
        self.ran_light_since(mine, since) || !self.lock().planner.devices[mine.device].attempts.is_empty()
    }

    /// Whether a light task of another worker has run on the worker's device since then.
    pub fn ran_light_since(&self, mine: &WorkerShared, since: u64) -> bool {
        let mut lit = false;
        self.light.queues.for_each_worker(|other| {
            let is_mine = std::ptr::eq(other, mine);
            let ran = other.stats.light_since.load(Ordering::Relaxed) != 0
                || other.stats.light_until.load(Ordering::Relaxed) > since;
            lit |= !is_mine && other.device == mine.device && ran;
        });
        lit
    }

    /// Bit i: no light task begins on device i for now.
    pub fn closed_to_light(&self) -> u64 {
        self.light.gate.closed() | self.taken()
    }

    /// After light work was made visible.
    pub fn wake_any_worker(self: &Arc<Self>) {
        if self.taken() != 0 {
            // Without a watcher nothing is taken any more.
            log_all(Vec::from_iter(self.ensure_watcher().err()));
        }
        self.pool.wake_any(
            self.closed_to_light(),
            |seat| self.start_worker(seat, None),
            || self.light.queues.is_empty(),
        );
    }

    /// After something has become ready, or room: calls a worker of each device where something should begin.
    /// The one that comes calls the next.
    pub fn wake_workers(self: &Arc<Self>, guard: &mut PlannerGuarded) {
        if guard.planner.ready.is_empty() && guard.planner.counts.running == 0 {
            return;
        }
        let alone = guard.planner.exclusive_tasks > 0;
        for (index, device) in guard.planner.devices.iter_mut().enumerate() {
            if device.reserved_for.is_some() || alone {
                device.runs_light = self.runs_light(index, None);
            }
        }
        let closed = self.closed_to_light();
        for index in guard.planner.runnable_devices(self.now()) {
            self.pool.planned_hint.fetch_or(1 << index, Ordering::SeqCst);
            if !guard.worker_called[index] {
                let notes = Mutex::new(Vec::new());
                let start = |seat| self.start_worker(seat, Some(&notes));
                guard.worker_called[index] = self.pool.wake_device(index, closed, start);
                guard.planner.log_records.append(&mut lock(&notes));
            }
        }
        if guard.planner.desire().is_some()
            && let Err(record) = self.ensure_watcher()
        {
            guard.planner.log_records.push(record);
            self.clear_peer_load(guard);
            // Nothing is kept from its device any more, so this ends.
            if guard.planner.desire().is_none() {
                self.wake_workers(guard);
            }
        }
    }

    /// With `notes`, where the book is locked: it is logged once that is open.
    fn start_worker(self: &Arc<Self>, seat: usize, notes: Option<&Mutex<Vec<(Level, String)>>>) -> bool {
        let place = self.pool.worker_slot(seat);
        let label = self.devices[place.device].label();
        let shared = self.clone();
        let name = format!("gpusched {label}/{}", place.slot);
        let started = self.pool.spawn(name, move || (shared.work)(&shared, seat));
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
    pub fn apply_effects<'a>(self: &'a Arc<Self>, mut guard: MutexGuard<'a, PlannerGuarded>) {
        let mut ended = Vec::new();
        self.take_ended(&mut guard, &mut ended);
        log_all(self.settle_with(guard, ended));
    }

    /// The same for `ended` alone. Returns what is left to be logged.
    pub fn settle_with<'a>(
        self: &'a Arc<Self>,
        mut guard: MutexGuard<'a, PlannerGuarded>,
        mut ended: Vec<EndedTask>,
    ) -> Vec<(Level, String)> {
        let given_up = std::mem::take(&mut guard.planner.abandoned);
        self.abandon_attempts(&given_up);
        let renewed = std::mem::take(&mut guard.planner.contexts_to_renew);
        if !renewed.is_empty() {
            // Before anybody can open a queue there; nobody begins anything there meanwhile.
            drop(guard);
            renewed.iter().for_each(|&device| self.backends[device].renew(self.devices[device].ordinal));
            guard = self.lock();
            renewed.into_iter().for_each(|device| guard.planner.context_renewed(device));
        }
        let mut any_ended = false;
        loop {
            let notes = std::mem::take(&mut guard.planner.log_records);
            let next = ended.pop();
            if notes.is_empty() && next.is_none() {
                break;
            }
            drop(guard);
            // Before anybody can see the end that they tell of.
            log_all(notes);
            let next = next.map(|EndedTask { id, job, outcome }| {
                self.drop_job(job);
                (id, outcome)
            });
            guard = self.lock();
            if let Some((id, outcome)) = next {
                any_ended = true;
                self.publish(&mut guard, id, outcome);
                self.take_ended(&mut guard, &mut ended);
                self.jobs_dropping.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let opened = self.publish_flags(&guard);
        self.wake_workers(&mut guard);
        self.ensure_timer(&mut guard);
        let notes = std::mem::take(&mut guard.planner.log_records);
        let deserted = self.light.stop_flags.load(Ordering::SeqCst) & NO_DEVICE != 0;
        let needy = guard.planner.ranges_in_need > 0;
        drop(guard);
        for (id, attempt, limit_s) in given_up {
            self.end_nested(id, attempt, limit_s);
        }
        if any_ended && self.waiting_for_all.load(Ordering::SeqCst) > 0 {
            self.wait_queues.notify(ALL_TASKS);
        }
        if needy {
            self.wait_queues.notify(HELPERS_NEEDED);
        }
        self.notify_blocked();
        if opened && !self.light.queues.is_empty() {
            self.wake_any_worker();
        }
        if deserted {
            self.end_all_queued();
        }
        notes
    }

    pub fn take_ended(&self, guard: &mut PlannerGuarded, ended: &mut Vec<EndedTask>) {
        self.jobs_dropping.fetch_add(guard.planner.ended.len(), Ordering::SeqCst);
        ended.append(&mut guard.planner.ended);
    }

    /// While `end` takes light tasks that have not begun out of the queues, drops their jobs and publishes their ends:
    /// no wait is hopeless meanwhile, and a shutdown is not over.
    pub fn ending<T>(&self, end: impl FnOnce() -> T) -> T {
        self.jobs_dropping.fetch_add(1, Ordering::SeqCst);
        let ended = end();
        self.jobs_dropping.fetch_sub(1, Ordering::SeqCst);
        self.notify_blocked();
        ended
    }

    fn publish(self: &Arc<Self>, guard: &mut PlannerGuarded, id: TaskId, outcome: Result<()>) {
        let told = (self.light.proxies.any_promoted()).then(|| outcome.clone());
        guard.planner.publish(self.now(), id, outcome);
        if let Some(told) = told {
            self.end_promoted(guard, id, told);
        }
        self.wait_queues.notify(id);
    }

    /// What the light tier has to know of the plan. True: light tasks may begin again on some device.
    pub fn publish_flags(&self, guard: &PlannerGuarded) -> bool {
        let (mut quiet, mut poisoned, mut retired) = (0, 0, 0);
        for (index, device) in guard.planner.devices.iter().enumerate() {
            self.light.gate.set_context(index, device.context);
            self.pool.set_slots(index, device.slots);
            quiet |= u64::from(guard.planner.is_reserved(index)) << index;
            poisoned |= u64::from(device.poisoned) << index;
            retired |= u64::from(device.retired.is_some()) << index;
        }
        self.poisoned.store(poisoned, Ordering::SeqCst);
        let opened = self.light.gate.publish(quiet, guard.planner.exclusive_tasks > 0);
        if opened && self.pool.event_count.asleep() > 0 {
            self.pool.event_count.wake_all();
        }
        if self.pool.retired.swap(retired, Ordering::SeqCst) != retired {
            if guard.planner.devices.iter().all(|device| device.retired.is_some()) {
                self.light.stop_flags.fetch_or(NO_DEVICE, Ordering::SeqCst);
            }
            self.pool.event_count.wake_all();
        }
        opened
    }

    /// Those who wait inside tasks look whether anybody can still go on.
    pub fn notify_blocked(&self) {
        self.wait_queues.notify_blocked();
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
        let generation = crate::sched::base::registry::unpack(id).1;
        let mut parting = slot.end(generation, outcome, now, |outcome| self.light.count_end(hand, outcome));
        let shadow = parting.proxy.take();
        self.apply_end_actions(id, parting);
        self.count_ended(hand, phase, 1);
        if let Some((shadow, outcome)) = shadow {
            self.end_proxy(shadow, outcome);
        }
    }

    pub fn count_ended(&self, hand: Option<&LocalQueue>, phase: Epoch, tasks: u64) {
        if self.light.epochs.end(self.light.epoch_counts(hand), phase, tasks, &self.light.queues) {
            self.wait_queues.notify(ALL_TASKS);
        }
        // Where a worker ends the last task it looks by itself whether it may go, and those that go call the others.
        if hand.is_none() && self.light.is_stopping() && self.light.queues.is_drained() {
            self.pool.event_count.wake_all();
        }
    }

    /// One that watched the task in this slot watches it no more: the outcome, if there is one.
    pub fn unwatch_light(&self, slot: &LightTask, generation: u64, id: TaskId) -> Option<Result<WaitResult>> {
        let (outcome, free) = slot.stop_wait(generation);
        self.apply_end_actions(id, EndActions { free, ..EndActions::default() });
        outcome
    }

    pub fn apply_end_actions(&self, id: TaskId, parting: EndActions) {
        if parting.free {
            self.light.slab.free(crate::sched::base::registry::unpack(id).2 as u32);
        }
        if parting.notify {
            self.wait_queues.notify(id);
        }
    }

    /// Ends all light work that has not begun: it is cancelled, or no device is left for it.
    pub fn end_all_queued(self: &Arc<Self>) {
        let why = if self.light.is_stopping() {
            Error::Cancelled
        } else {
            self.lock().planner.no_device("the task".into(), DeviceMask::ALL, &[])
        };
        while let Some(item) = self.light.queues.drain_one() {
            self.end_queued_item(None, item, &why);
        }
    }

    /// Why nothing is accepted.
    #[cold]
    pub fn refusal(&self, gate: u8) -> Error {
        if gate & (CLOSED | STOPPING) != 0 {
            return Error::Shutdown { what: "submitting a task" };
        }
        self.lock().planner.no_device("the task".into(), DeviceMask::ALL, &[])
    }

    /// Nobody runs anything, and nobody will.
    pub fn fail_deserted(self: &Arc<Self>) {
        let why = Error::NoThread { purpose: "to run tasks", why: "the log has its words".into() };
        while let Some(item) = self.light.queues.drain_one() {
            self.end_queued_item(None, item, &why);
        }
        let mut guard = self.lock();
        let ready: Vec<TaskId> = guard.planner.ready.iter().map(|(_, id)| id).collect();
        for id in ready {
            guard.planner.end_task(id, Err(why.clone()));
        }
        self.apply_effects(guard);
    }

    /// What both tiers have done.
    pub fn stats(&self) -> Stats {
        let mut stats = self.lock().planner.stats();
        let (begun, [done, failed, cancelled]) = self.light.totals();
        let there = self.light.proxies.made();
        stats.submitted = (stats.submitted + begun).saturating_sub(there);
        // An end that is counted in the plan from now on is taken back here a moment before.
        let sum = |there: u64, here: u64| there.checked_add_signed(here as i64).unwrap_or(0);
        stats.done = sum(stats.done, done);
        stats.failed = sum(stats.failed, failed);
        stats.cancelled = sum(stats.cancelled, cancelled);
        self.light.queues.for_each_worker(|station| {
            let books = &station.stats;
            stats.running += u64::from(books.light_since.load(Ordering::Relaxed) != 0);
            let device = &mut stats.devices[station.device];
            device.done += books.done_attempts.load(Ordering::Relaxed);
            device.failed += books.failed_attempts.load(Ordering::Relaxed);
            device.busy_ns += books.busy_ns.load(Ordering::Relaxed);
        });
        let taken = self.taken();
        let devices = stats.devices.iter_mut().enumerate();
        devices.for_each(|(index, device)| device.taken = taken >> index & 1 == 1);
        let ended = stats.done + stats.failed + stats.cancelled;
        stats.queued = stats.submitted.saturating_sub(ended + stats.running);
        stats
    }

    pub fn end_queued_item(self: &Arc<Self>, hand: Option<&LocalQueue>, item: LightItem, why: &Error) {
        match item {
            LightItem::WithId(id) => {
                if let Ok((slot, generation)) = self.light.slab.find(id) {
                    self.end_queued(hand, slot, generation, id, why);
                }
            }
            LightItem::Detached { job: code, epoch: phase } => self.ending(|| {
                self.drop_job(code);
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
            self.drop_job(code);
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
    pub fn drop_job<T>(&self, job: T) {
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
