//! Waiting for tasks, outside of tasks and inside.
//!
//! A thread outside of any task looks, spins for a moment, and sleeps in the rooms of what it waits for.
//! A task that waits first runs what it has itself submitted and nobody has begun: never anything
//! else, for that would run on top of whatever its own code holds. Then it sleeps, and its slot has room for
//! another worker meanwhile. Waits without a time limit that could never end are found
//! out: a circle when it closes, by [`crate::sched::sleep::wait_graph`]; and that nobody is left who could go on, by whoever
//! was the last that could.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::run_light::run_light;
use super::shared::Runtime;
use super::worker_local::{WorkerLocal, current_task_worker};
use crate::error::{Error, Result};
use crate::sched::base::outcome::TaskStatus;
use crate::sched::base::sync;
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;
use crate::sched::sleep::parker::Parker;
use crate::sched::sleep::wait_queues::BLOCKED_TASKS;

/// Tasks that may wait for other tasks inside their code at a time; each may cost a worker more.
const SUBSTITUTES: usize = 64;

/// So long the host of a range waits for its guests in its slot; then others may use it.
const BRIEF: Duration = Duration::from_millis(2);

/// How long a waiter looks before it sleeps, in nanoseconds.
const SPIN: u64 = 20_000;

thread_local! {
    /// The thread's waiter; taken while it waits.
    static WAITER: RefCell<Option<sync::Arc<Parker>>> = const { RefCell::new(None) };
}

impl Runtime {
    /// Until `look` finds something; `None`: the time was up first. `keys` are rung when it may have
    /// changed its mind.
    pub fn wait_until<T>(
        self: &Arc<Self>,
        keys: &[TaskId],
        timeout: Option<Duration>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(found) = look() {
            return Ok(Some(found));
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Ok(None);
        }
        // A deadline too far away to be told is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match self.own_task_worker() {
            None => self.wait_outside(keys, deadline, look),
            Some(worker) => self.wait_inside(&worker, keys, deadline, look),
        }
    }

    fn wait_outside<T>(
        &self,
        keys: &[TaskId],
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(found) = self.spin_for(&look) {
            return Ok(Some(found));
        }
        block_outside(|| {
            let waiter = take_waiter();
            self.wait_queues.add(keys, &waiter);
            let found = loop {
                if let Some(found) = look() {
                    break Some(found);
                }
                if !waiter.wait(deadline) {
                    break look();
                }
            };
            self.wait_queues.remove(keys, &waiter);
            return_waiter(waiter);
            found
        })
    }

    fn wait_inside<T>(
        self: &Arc<Self>,
        worker: &WorkerLocal,
        keys: &[TaskId],
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if worker.queue.pushed.get() > 0 {
            worker.update_clock();
        }
        while worker.can_nest()
            && let Some(item) = self.light.queues.pop_own(&worker.queue)
        {
            run_light(self, worker, item);
            worker.resume();
            if let Some(found) = look() {
                return Ok(Some(found));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
        }
        if let Some(found) = self.spin_for(&look) {
            return Ok(Some(found));
        }
        let forever = deadline.is_none();
        let frames: Vec<TaskId> = worker.task_stack().into_iter().filter(|frame| frame.0 != 0).collect();
        if forever
            && !self.wait_graph.add_wait(&frames, keys, |id| self.predecessors(id), |id| self.is_range(id))
        {
            return Err(deadlock("what it waits for waits, in the end, for the task itself"));
        }
        if !self.pool.make_room(worker.index, SUBSTITUTES) {
            if forever {
                self.wait_graph.remove_wait(&frames, keys);
            }
            return Err(too_many_waits());
        }
        self.open_slot(worker);
        let waiter = take_waiter();
        self.wait_queues.add(keys, &waiter);
        self.wait_queues.add(&[BLOCKED_TASKS], &waiter);
        // Perhaps now nobody can go on.
        self.notify_blocked();
        let outcome = loop {
            if let Some(found) = look() {
                break Ok(Some(found));
            }
            if forever
                && !worker.is_abandoned()
                && self.wait_queues.count_blocked(&waiter)
                && self.is_stuck(worker)
            {
                let why =
                    "every running task waits for another, and none of those that they wait for can start";
                break look().map_or_else(|| Err(deadlock(why)), |found| Ok(Some(found)));
            }
            if !waiter.wait(deadline) {
                break Ok(look());
            }
        };
        self.wait_queues.remove(keys, &waiter);
        self.wait_queues.remove(&[BLOCKED_TASKS], &waiter);
        self.wait_queues.uncount_blocked(&waiter);
        return_waiter(waiter);
        if forever {
            self.wait_graph.remove_wait(&frames, keys);
        }
        self.close_slot(worker);
        outcome
    }

    /// The host of a range waits until it sees `enough`; `keys` are rung when it may: for a moment in its slot, then
    /// beside it, where another worker may use that.
    pub fn wait_for_helpers(self: &Arc<Self>, keys: &[TaskId], enough: impl Fn() -> bool) {
        let waiter = take_waiter();
        self.wait_queues.add(keys, &waiter);
        let brief = Instant::now().checked_add(BRIEF);
        let mut seen = enough();
        while !seen && waiter.wait(brief) {
            seen = enough();
        }
        if !seen && let Some(worker) = self.own_task_worker() {
            self.pool.make_room(worker.index, usize::MAX);
            self.open_slot(&worker);
            while !enough() {
                if !worker.is_abandoned() && self.wait_queues.count_blocked(&waiter) {
                    // It can't be told that nobody can go on; those can who wait inside tasks.
                    self.notify_blocked();
                }
                waiter.wait(None);
            }
            self.close_slot(&worker);
        }
        self.wait_queues.remove(keys, &waiter);
        return_waiter(waiter);
    }

    fn open_slot(self: &Arc<Self>, worker: &WorkerLocal) {
        let mut guard = self.lock();
        if worker.is_in_planned() {
            guard.planner.devices[worker.device].waiting_slots += 1;
            self.publish_flags(&guard);
        } else {
            worker.queue.shared.stats.runs_light.store(false, Ordering::SeqCst);
        }
        // The slot is free for others meanwhile.
        self.wake_workers(&mut guard);
        drop(guard);
        if self.light.queues.has_items(&worker.queue) {
            self.wake_any_worker();
        }
    }

    fn close_slot(&self, worker: &WorkerLocal) {
        if worker.is_in_planned() {
            let mut guard = self.lock();
            guard.planner.devices[worker.device].waiting_slots -= 1;
            self.publish_flags(&guard);
        } else {
            worker.queue.shared.stats.runs_light.store(true, Ordering::SeqCst);
        }
        self.pool.close_room(worker.index);
    }

    /// Nothing can go on: every worker sleeps or waits inside a task, nothing can begin, and no thread is about to
    /// tell an end.
    fn is_stuck(&self, worker: &WorkerLocal) -> bool {
        self.all_are_blocked()
            && !(self.light.queues.has_items(&worker.queue) && self.may_light_begin())
            && self.can_nothing_planned_begin()
            && self.all_are_blocked()
    }

    /// But for threads that were given up: nobody waits for those any more.
    fn all_are_blocked(&self) -> bool {
        self.pool.event_count.awake() == (self.wait_queues.blocked() + self.pool.abandoned()) as u64
    }

    /// Whether light tasks may begin on any device now.
    fn may_light_begin(&self) -> bool {
        let never = self.light.gate.closed() | self.pool.retired.load(Ordering::SeqCst);
        (0..self.devices.len()).any(|index| never >> index & 1 == 0)
    }

    fn can_nothing_planned_begin(&self) -> bool {
        let mut guard = self.lock();
        for (index, device) in guard.planner.devices.iter_mut().enumerate() {
            device.runs_light = self.runs_light(index, None);
        }
        self.jobs_dropping.load(Ordering::SeqCst) == 0 && guard.planner.nothing_can_begin()
    }

    /// What a planned task that has not begun comes after.
    fn predecessors(&self, id: TaskId) -> Vec<TaskId> {
        if crate::sched::light::slab::LightSlab::is_light(id) {
            return Vec::new();
        }
        let guard = self.lock();
        let record = guard.planner.tasks.get(id).ok().filter(|record| record.status == TaskStatus::Queued);
        let behind = record.map(|record| record.predecessors.clone()).unwrap_or_default();
        drop(guard);
        behind.into_iter().map(|id| self.light.proxies.owner(id)).collect()
    }

    fn is_range(&self, id: TaskId) -> bool {
        let is_light = crate::sched::light::slab::LightSlab::is_light(id);
        !is_light && self.lock().planner.tasks.get(id).is_ok_and(|record| record.role == Role::Range)
    }

    /// For a moment, if there is a processor to spare.
    fn spin_for<T>(&self, look: &impl Fn() -> Option<T>) -> Option<T> {
        let one = self.spinning.fetch_add(1, Ordering::Relaxed) == 0;
        let mut found = None;
        if one && self.pool.event_count.awake() <= self.spinners_most() {
            let begin = self.clock();
            while found.is_none() && self.clock() - begin < SPIN {
                for _ in 0..4 {
                    std::hint::spin_loop();
                }
                found = look();
            }
        }
        self.spinning.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

/// Blocks the calling thread, which is in no task of the scheduler that it waits for. If it is in one of
/// another scheduler, that one's slot has room for another worker meanwhile: what is waited for may in its turn
/// wait for what is queued there. (That two schedulers wait for each other in a circle is not found out: each
/// knows its own tasks.)
pub fn block_outside<T>(block: impl FnOnce() -> T) -> Result<T> {
    let Some(worker) = current_task_worker() else { return Ok(block()) };
    if !worker.runtime.pool.make_room(worker.index, SUBSTITUTES) {
        return Err(too_many_waits());
    }
    worker.runtime.open_slot(&worker);
    let result = block();
    worker.runtime.close_slot(&worker);
    Ok(result)
}

fn too_many_waits() -> Error {
    deadlock(&format!("{SUBSTITUTES} tasks wait inside their code already, the most that is allowed"))
}

fn deadlock(why: &str) -> Error {
    Error::Deadlock { what: "a wait inside a task", why: why.into() }
}

fn take_waiter() -> sync::Arc<Parker> {
    WAITER.try_with(|waiter| waiter.borrow_mut().take()).ok().flatten().unwrap_or_default()
}

fn return_waiter(waiter: sync::Arc<Parker>) {
    let _ = WAITER.try_with(|place| *place.borrow_mut() = Some(waiter));
}
