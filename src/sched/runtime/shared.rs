//! The state that all threads of a scheduler share.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::Level;

use super::{FoundDevice, Peers, WorkerPool};
use crate::backend::Backend;
use crate::device::{BackendKind, DeviceInfo};
use crate::error::Error;
use crate::fork::ProcessMark;
use crate::sched::base::{DeviceMask, Policy, TaskId, lock, nanoseconds};
use crate::sched::estimate::AUTO_SLOTS;
use crate::sched::light::{LightTasks, WorkerShared};
use crate::sched::observe::{Ending, ProgressNotifier, Span, Trace, TraceEvent};
use crate::sched::plan::{AttemptEnd, Planner, Progress, Stats};
use crate::sched::sleep::{BLOCKED_TASKS, WaitGraph, WaitQueues};
use crate::store::entries::StoredRate;
use crate::store::findings::Findings;
use crate::store::rate_store::{self, Store};

pub struct Runtime {
    pub process: ProcessMark,
    pub policy: Arc<Policy>,
    /// The scheduler's time counts from here.
    began: Instant,
    pub devices: Vec<DeviceInfo>,
    /// By device.
    pub backends: Vec<Arc<dyn Backend>>,
    pub planner: Mutex<PlannerGuarded>,
    pub light: LightTasks,
    pub pool: WorkerPool,
    pub wait_queues: WaitQueues,
    pub wait_graph: WaitGraph,
    /// Tasks whose outcome is decided and whose end is not published, since their jobs are dropped
    /// first.
    pub jobs_dropping: AtomicUsize,
    /// Bit i: ranges on device i leave memory to a task that waits for it.
    pub memory_wanted: AtomicU64,
    /// Threads that spin before they sleep.
    pub spinning: AtomicUsize,
    /// The most threads awake with which a thread spins before it sleeps.
    pub spinners_most: u64,
    /// The most threads that a task has on the CPU device.
    pub cpu_threads: u32,
    /// The timer thread sleeps here.
    pub timer_wakeup: Condvar,
    /// The system gave no timer thread: idle workers call `advance`.
    pub no_timer: AtomicBool,
    pub observability: Observability,
    pub peers: Option<Peers>,
    work: fn(&Arc<Runtime>, usize),
}

/// The state under the planner lock.
pub struct PlannerGuarded {
    pub planner: Planner,
    /// By device: a worker was woken, and has not asked for a task yet.
    pub worker_called: Vec<bool>,
    /// By device without a worker: how often in a row the system has refused a thread.
    pub refused_threads: Vec<u32>,
    /// The deadline for which the timer thread sleeps. `None`: there is no such thread.
    pub timer_until: Option<Duration>,
    /// Log records of the runtime itself, until the next effects are applied.
    pub log: Vec<(Level, String)>,
}

impl Runtime {
    /// Creates a runtime without threads. `slots`: of each device, or [`AUTO_SLOTS`]; `stack`:
    /// bytes for each task; `work`: the function of a worker thread, which gets the worker's index.
    pub fn new(
        devices: Vec<FoundDevice>,
        slots: u32,
        stack: usize,
        peers: Option<Peers>,
        work: fn(&Arc<Runtime>, usize),
        policy: Policy,
    ) -> Self {
        let (devices, backends): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
        let policy = Arc::new(policy);
        let threads = devices.iter().filter_map(|device| device.cpu_threads).max().unwrap_or(0);
        // Slots share the threads evenly; each has at least one.
        let cpu_threads = threads.div_ceil(if slots == AUTO_SLOTS { 1 } else { slots });
        let planned = devices.iter().map(|device| (device.clone(), slots)).collect();
        Runtime {
            process: ProcessMark::here(),
            began: Instant::now(),
            planner: Mutex::new(PlannerGuarded {
                planner: Planner::new(planned, policy.clone()),
                worker_called: vec![false; devices.len()],
                refused_threads: vec![0; devices.len()],
                timer_until: None,
                log: Vec::new(),
            }),
            light: LightTasks::new(devices.len()),
            pool: WorkerPool::new(devices.len(), slots, stack, &policy),
            wait_queues: WaitQueues::default(),
            wait_graph: WaitGraph::default(),
            jobs_dropping: AtomicUsize::new(0),
            memory_wanted: AtomicU64::new(0),
            spinning: AtomicUsize::new(0),
            spinners_most: std::thread::available_parallelism().map_or(0, |count| count.get() as u64 - 1),
            cpu_threads,
            timer_wakeup: Condvar::new(),
            no_timer: AtomicBool::new(false),
            observability: Observability::default(),
            peers,
            policy,
            work,
            devices,
            backends,
        }
    }

    /// Keeps a trace of up to `trace_events` events; 0: none. Passes the rates in a store to the
    /// planner.
    pub fn observe(&mut self, trace_events: usize, rates: Option<Arc<dyn Store>>) {
        let planner = &mut self.planner.get_mut().unwrap_or_else(PoisonError::into_inner).planner;
        self.observability.trace = (trace_events > 0).then(|| planner.keep_trace(trace_events));
        let Some(store) = rates else { return };
        let stored = rate_store::load(&*store);
        for class in stored.classes() {
            let rates = self.devices.iter().map(|device| stored.rate(device, class));
            if !planner.set_stored_rates(class, rates) {
                log::info!("stored rates of class {class} do not fit each other and are ignored");
            }
        }
        let findings = Findings::new(stored);
        self.observability.rates = Some(SavedRates { store, findings, saved_ns: AtomicU64::new(0) });
    }

    pub fn lock(&self) -> MutexGuard<'_, PlannerGuarded> {
        lock(&self.planner)
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the time in nanoseconds.
    pub fn clock(&self) -> u64 {
        nanoseconds(self.now())
    }

    /// Returns true if workers of a device other than `but` may be running light tasks.
    pub fn runs_light(&self, device: usize, but: Option<&WorkerShared>) -> bool {
        self.light.queues.any_worker(device, but, |stats| stats.runs_light.load(Ordering::SeqCst))
    }

    /// Tells the planner, before an attempt ends, whether light tasks keep a context from being
    /// renewed. No other begins until the flags are published. `but`: a worker that is in none.
    pub fn count_light(
        &self,
        planner: &mut Planner,
        device: usize,
        but: Option<&WorkerShared>,
        how: &AttemptEnd,
    ) {
        let poisons = matches!(how, AttemptEnd::Ran(Err(Error::Device { .. })));
        if poisons || planner.devices()[device].poisoned {
            let runs_light = self.light.gate.close(device, || self.runs_light(device, but));
            planner.set_runs_light(device, runs_light);
        }
    }

    /// Returns true if a light task of another worker has run on the worker's device since then.
    pub fn ran_light_since(&self, own: &WorkerShared, since: u64) -> bool {
        self.light.queues.any_worker(own.device, Some(own), |stats| {
            stats.running.load(Ordering::Relaxed) > 0 || stats.light_until.load(Ordering::Relaxed) > since
        })
    }

    /// Returns a mask: bit i says that peers hold all of device i.
    pub fn taken(&self) -> u64 {
        self.peers.as_ref().map_or(0, |peers| peers.taken.load(Ordering::SeqCst))
    }

    /// Returns true if processes share the device.
    pub fn shares(&self, device: usize) -> bool {
        self.peers.is_some() && self.devices[device].backend == BackendKind::Cuda
    }

    /// Returns the devices, as bits, where no light task begins now.
    pub fn closed_to_light(&self) -> u64 {
        self.light.gate.closed() | self.taken()
    }

    /// Wakes or starts a worker for light work that was just queued, unless a worker searches.
    pub fn wake_any_worker(self: &Arc<Self>) {
        if self.taken() != 0 {
            self.watch_queue();
        }
        let (closed, pool) = (self.closed_to_light(), &self.pool);
        let mut begin = None;
        while !pool.event_count.wake_any(closed) && pool.may_start(closed) && !self.light.queues.is_empty() {
            // A worker that is about to end its task is faster than a new thread.
            let waited = begin.get_or_insert_with(Instant::now).elapsed();
            if pool.event_count.awake() > 0 && waited < self.policy.before_start {
                std::thread::yield_now();
                continue;
            }
            let mut log = Vec::new();
            if let Some(index) = pool.claim(|device| closed >> device & 1 == 0) {
                self.start_worker(index, true, &mut log);
            }
            return log_all(log);
        }
    }

    /// Wakes a worker for queued light tasks, if a device has `opened` to them.
    pub fn wake_if_opened(self: &Arc<Self>, opened: bool) {
        if opened && !self.light.queues.is_empty() {
            self.wake_any_worker();
        }
    }

    /// Wakes a worker of each device where an attempt should begin. Called after a task has become
    /// ready or a device has room. The worker that begins one wakes the next.
    pub fn wake_workers(self: &Arc<Self>, guard: &mut PlannerGuarded, now: Duration) {
        let wanted = guard.planner.memory_wanted(now);
        self.memory_wanted.store(wanted, Ordering::Relaxed);
        let nothing_runs = guard.planner.devices().iter().all(|device| device.attempts.is_empty());
        if nothing_runs && !guard.planner.has_ready_tasks() {
            return;
        }
        for index in 0..self.devices.len() {
            if guard.planner.depends_on_light(index) {
                guard.planner.set_runs_light(index, self.runs_light(index, None));
            }
        }
        // A worker that was called asks for a task, and wakes the next.
        let has_room = |index: usize| guard.planner.devices()[index].has_room_but_for_light(now);
        let all_called = (0..self.devices.len()).all(|index| guard.worker_called[index] || !has_room(index));
        let runnable = if all_called { DeviceMask::NONE } else { guard.planner.runnable_devices(now) };
        let mut refused = false;
        for index in (0..self.devices.len()).filter(|&index| runnable.contains(index)) {
            self.pool.planned_hint.fetch_or(1 << index, Ordering::SeqCst);
            // If light tasks use the slots, only their workers can give one up, and read the hint.
            if !guard.worker_called[index] && guard.planner.devices()[index].has_room(now) {
                let called = self.wake_device(index, &mut guard.log);
                guard.worker_called[index] = called;
                // Without any worker the tasks fail at once.
                if !called && self.pool.deserted().contains(index) && self.pool.is_occupied() {
                    guard.refused_threads[index] += 1;
                    guard.planner.suspend(index, now.saturating_add(self.policy.rest));
                    refused = true;
                } else {
                    guard.refused_threads[index] = 0;
                }
            }
        }
        if refused {
            // The timer tries again. Other devices may run the tasks until then.
            self.ensure_timer(guard, now);
            return self.wake_workers(guard, now);
        }
        if guard.planner.slot_request(now).is_some() || guard.planner.copy_waits_for_peers() {
            self.watch_queue();
        }
    }

    /// Wakes or starts a worker of a device. Returns false if there is none to wake and none starts.
    fn wake_device(self: &Arc<Self>, device: usize, log: &mut Vec<(Level, String)>) -> bool {
        let start = |index| self.start_worker(index, false, log);
        self.pool.event_count.wake_device(device)
            || self.pool.claim(|other| other == device).is_some_and(start)
    }

    /// Starts a worker in a place that is claimed; `alone`: unless a worker searches. Returns false
    /// if it does not start. Adds a record to `log` if the system refuses the thread, and has not
    /// refused the one before.
    fn start_worker(self: &Arc<Self>, index: usize, alone: bool, log: &mut Vec<(Level, String)>) -> bool {
        let pool = &self.pool;
        if !pool.event_count.add_searcher(alone) {
            pool.free_place(index);
            return false;
        }
        let place = &pool.worker_slots[index];
        let label = self.devices[place.device].label();
        let name = format!("gpusched {label}/{}", place.slot);
        let (shared, refused_before) = (self.clone(), pool.lacks_threads());
        let Err(error) = pool.spawn(name, move || (shared.work)(&shared, index)) else { return true };
        if !refused_before {
            log.push((Level::Error, format!("could not start a thread for {label}: {error}")));
        }
        pool.free_place(index);
        pool.event_count.remove_searcher();
        // The submitter may have relied on this searcher.
        pool.event_count.wake_any(self.closed_to_light());
        // They try again, as long as they wait.
        self.wait_queues.notify(BLOCKED_TASKS);
        false
    }

    pub fn progress(&self) -> Progress {
        let both = self.stats();
        let now = self.now();
        let progress = self.lock().planner.progress(now, &both);
        let elapsed = Duration::from_nanos(self.light.since_first(nanoseconds(now)));
        Progress { elapsed, ..progress }
    }

    /// Saves findings and learned rates on a thread of its own if that is due, for processes that
    /// start meanwhile and in case this one is killed. A worker would wait for the file system.
    /// While that hangs, no further save begins, but a shutdown waits.
    pub fn save_rates_if_due(self: &Arc<Self>) {
        let Some(SavedRates { saved_ns, .. }) = &self.observability.rates else { return };
        let (now, interval) = (self.clock(), nanoseconds(self.policy.save_interval));
        let claim = |saved: u64| (now >= saved.saturating_add(interval)).then_some(u64::MAX);
        if saved_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_err() {
            return;
        }
        let shared = self.clone();
        let started = self.pool.start("gpusched rates".into(), None, move || {
            shared.save_rates();
            if let Some(rates) = &shared.observability.rates {
                rates.saved_ns.store(shared.clock(), Ordering::Relaxed);
            }
        });
        if started.is_err() {
            saved_ns.store(now, Ordering::Relaxed);
        }
    }

    /// Saves findings and learned rates.
    pub fn save_rates(&self) {
        let Some(rates) = &self.observability.rates else { return };
        let when = rate_store::now();
        let mut learned = rates.findings.own();
        let learned_rates: Vec<_> = self.lock().planner.learned_rates().collect();
        for (class, device, rate, samples) in learned_rates {
            learned.add_rate(&self.devices[device], class, StoredRate { rate, samples, when });
        }
        rate_store::save(&*rates.store, &learned);
    }

    /// Returns the statistics of both tiers.
    pub fn stats(&self) -> Stats {
        // With the planner locked no task is promoted.
        let guard = self.lock();
        let mut stats = guard.planner.stats();
        self.light.add_counts(&mut stats.counts);
        let mut last = stats.makespan_ns;
        drop(guard);
        self.light.queues.for_each_worker(|worker| {
            let (light, device) = (&worker.stats, &mut stats.devices[worker.device]);
            stats.counts.running += light.running.load(Ordering::Relaxed);
            device.done += light.ends.done.load(Ordering::Relaxed);
            // A cancelled attempt is a failed one.
            device.failed += light.ends.failed.load(Ordering::Relaxed);
            device.failed += light.ends.cancelled.load(Ordering::Relaxed);
            device.busy_ns += light.busy_ns.load(Ordering::Relaxed);
            last = last.max(light.light_until.load(Ordering::Relaxed));
        });
        stats.makespan_ns = self.light.since_first(last);
        let counts = &mut stats.counts;
        counts.queued = counts.submitted.saturating_sub(counts.ended() + counts.running);
        stats
    }

    /// Returns true if all tasks have ended and the last ends are about to be counted in their
    /// epoch.
    pub fn is_ending(&self) -> bool {
        let counts = self.stats().counts;
        counts.submitted == counts.ended() && !self.light.epochs.is_drained()
    }
}

thread_local! {
    /// The scheduler whose job this thread is dropping. Usable until the thread ends.
    static DROPPING: Cell<*const Runtime> = const { Cell::new(std::ptr::null()) };
}

impl Runtime {
    /// Returns true if the calling thread is inside the drop of a job.
    pub fn is_dropping(&self) -> bool {
        std::ptr::eq(DROPPING.get(), self)
    }

    /// Drops a caller's job, which may panic.
    pub fn drop_job<T>(&self, job: T) {
        let before = DROPPING.replace(self);
        if catch_unwind(AssertUnwindSafe(|| drop(job))).is_err() {
            log::error!("a task's drop callback panicked");
        }
        DROPPING.set(before);
    }
}

/// Logs records. The planner must not be locked: the log may be the caller's code.
pub fn log_all(records: Vec<(Level, String)>) {
    for (level, text) in records {
        log::log!(level, "{text}");
    }
}

/// Observers of a runtime: the progress notifier, the trace, the store of learned rates.
#[derive(Default)]
pub struct Observability {
    pub progress_notifier: Arc<ProgressNotifier>,
    pub trace: Option<Arc<Trace>>,
    pub rates: Option<SavedRates>,
}

/// The store of learned rates and findings.
pub struct SavedRates {
    store: Arc<dyn Store>,
    pub findings: Findings,
    /// When they were saved last; `u64::MAX` while a thread saves them.
    saved_ns: AtomicU64,
}

impl Observability {
    /// Records the attempt of a light task in the trace. `times`: begin and end, in nanoseconds of
    /// the scheduler's time.
    pub fn record_light(&self, task: TaskId, device: usize, slot: u32, times: (u64, u64), ending: Ending) {
        let Some(trace) = &self.trace else { return };
        let (begin, end) = (Duration::from_nanos(times.0), Duration::from_nanos(times.1));
        let (label, class, attempt, bytes, work) = (String::new(), 0, 1, 0, None);
        let span = Span { task, label, class, device, slot, attempt, begin, end, ending, bytes, work };
        trace.record(TraceEvent::Attempt(span));
    }
}
