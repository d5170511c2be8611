//! Waiting for tasks, outside of tasks and inside.
//!
//! A thread outside of any task spins for a moment, then sleeps in the wait queues of the tasks
//! that it waits for. A task that waits first runs light tasks that it has submitted and no worker
//! has begun: never others, which could need a lock that its own code holds. Then it sleeps, and
//! its slot has a place for another worker meanwhile.
//!
//! A wait without a time limit that can never end fails: a cycle when it closes, by
//! [`crate::sched::sleep::wait_graph`]; and a state in which no task can go on, by the last thread
//! that stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Runtime, WorkerLocal, current_task_worker, run_light};
use crate::error::{Error, Result};
use crate::sched::base::{TaskId, nanoseconds, sync};
use crate::sched::plan::Effects;
use crate::sched::sleep::{BLOCKED_TASKS, Parker};

impl Runtime {
    /// Waits until `look` returns a value. `None`: timed out. `keys` are the wait queues that are
    /// notified when `look` may return another value.
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
        // A deadline that cannot be represented is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match self.own_task_worker() {
            None => self.wait_outside(keys, deadline, look),
            Some(worker) => self.wait_inside(&worker, keys, deadline, look),
        }
    }

    fn wait_outside<T>(
        self: &Arc<Self>,
        keys: &[TaskId],
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(found) = self.spin_for(&look) {
            return Ok(Some(found));
        }
        let wait = |waiter: &Parker| loop {
            if let Some(found) = look() {
                break Some(found);
            }
            if !self.wait_once(waiter, deadline) {
                break look();
            }
        };
        block_outside(|| self.with_waiter(keys, |waiter| wait(waiter)))
    }

    /// Waits until the parker is notified. Returns false if the deadline passed first. After a while
    /// tries to start threads that the system has refused: the awaited tasks may need one.
    fn wait_once(self: &Arc<Self>, waiter: &Parker, deadline: Option<Instant>) -> bool {
        let again = self.pool.lacks_threads().then(|| Instant::now() + self.policy.rest);
        if !waiter.wait(deadline.into_iter().chain(again).min()) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            self.step(|_, _| ());
            self.wake_if_opened(true);
        }
        true
    }

    /// Calls `wait` with a parker, which is in the wait queues of `keys` meanwhile.
    fn with_waiter<T>(&self, keys: &[TaskId], wait: impl FnOnce(&Parker) -> T) -> T {
        let waiter = sync::Arc::default();
        self.wait_queues.add(keys, &waiter);
        let result = wait(&waiter);
        self.wait_queues.remove(keys, &waiter);
        result
    }

    fn wait_inside<T>(
        self: &Arc<Self>,
        worker: &WorkerLocal,
        targets: &[TaskId],
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if worker.queue.pushed.get() > 0 {
            worker.update_clock();
        }
        while worker.can_nest()
            && let Some(item) = self.light.queues.pop_own(&worker.queue)
        {
            run_light(worker, item);
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
        let frames: Vec<TaskId> =
            worker.tasks.borrow().iter().copied().filter(|frame| frame.0 != 0).collect();
        if forever
            && !self.wait_graph.add_wait(
                &frames,
                targets,
                |id| self.lock().planner.predecessors(id),
                |id| self.lock().planner.is_range(id),
            )
        {
            return Err(deadlock("the awaited task waits, directly or through others, for the waiting one"));
        }
        if let Err(error) = self.open_slot(worker, true, self.policy.blocked_tasks) {
            if forever {
                self.wait_graph.remove_wait(&frames, targets);
            }
            return Err(error);
        }
        let outcome = self.with_waiter(&[targets, &[BLOCKED_TASKS]].concat(), |waiter| {
            // Perhaps no task can go on now.
            self.wait_queues.notify_blocked();
            let outcome = loop {
                if let Some(found) = look() {
                    break Ok(Some(found));
                }
                let judges = forever && !worker.is_abandoned();
                if judges && self.wait_queues.count_blocked(waiter) && self.is_stuck(worker) {
                    let why = "every running task waits for another, and none of the awaited tasks can start";
                    break look().map_or_else(|| Err(deadlock(why)), |found| Ok(Some(found)));
                }
                if !self.wait_once(waiter, deadline) {
                    break Ok(look());
                }
            };
            self.wait_queues.uncount_blocked(waiter);
            outcome
        });
        if forever {
            self.wait_graph.remove_wait(&frames, targets);
        }
        self.close_slot(worker, true);
        outcome
    }

    /// Blocks the owner of a range until `enough` returns true; `keys` are notified when it may.
    /// After a moment another worker may use the slot meanwhile.
    pub fn wait_for_helpers(self: &Arc<Self>, keys: &[TaskId], enough: impl Fn() -> bool) {
        let brief = Instant::now().checked_add(self.policy.slot_kept);
        self.with_waiter(keys, |waiter| {
            while !enough() {
                if waiter.wait(brief) {
                    continue;
                }
                let Some(worker) = self.own_task_worker() else { return };
                let _ = self.open_slot(&worker, false, usize::MAX);
                while !enough() {
                    if !worker.is_abandoned() && self.wait_queues.count_blocked(waiter) {
                        // The owner gets no error for a deadlock; waiters inside tasks do.
                        self.wait_queues.notify_blocked();
                    }
                    self.wait_once(waiter, None);
                }
                return self.close_slot(&worker, false);
            }
        });
    }

    /// Adds a place for another worker to the slot of a worker whose task waits inside its code.
    /// `own`: it waits for others of this scheduler. Fails if `most` tasks wait already.
    fn open_slot(self: &Arc<Self>, worker: &WorkerLocal, own: bool, most: usize) -> Result<()> {
        let mut guard = self.lock();
        if guard.planner.waiting_tasks() >= most {
            let why = format!("{most} tasks already wait inside their callbacks, the largest number allowed");
            return Err(deadlock(&why));
        }
        if worker.in_planned.get() {
            guard.planner.open_slot(worker.device, own.then(|| worker.attempt()).flatten());
        } else {
            let leased = worker.light_lease.borrow().is_some();
            guard.planner.set_light_waits(worker.device, leased, true);
            worker.queue.shared.stats.runs_light.store(false, Ordering::SeqCst);
        }
        self.pool.add_place(worker.index);
        self.apply_effects(guard, Effects::at(self.now()));
        self.wake_if_opened(true);
        Ok(())
    }

    /// Ends what [`Runtime::open_slot`] began: the task goes on.
    fn close_slot(&self, worker: &WorkerLocal, own: bool) {
        if worker.in_planned.get() {
            let (mut guard, now) = (self.lock(), self.now());
            guard.planner.close_slot(now, worker.device, own.then(|| worker.attempt()).flatten());
            self.publish_flags(&guard, now);
        } else {
            let leased = worker.light_lease.borrow().is_some();
            let mut guard = self.lock();
            guard.planner.set_light_waits(worker.device, leased, false);
            worker.queue.shared.stats.runs_light.store(true, Ordering::SeqCst);
        }
        self.pool.remove_place(worker.index);
    }

    /// Returns true if no task can go on: each worker sleeps or waits inside a task, no task can
    /// begin, and no thread is about to publish an end.
    fn is_stuck(&self, worker: &WorkerLocal) -> bool {
        self.all_are_blocked()
            && !(self.light.queues.has_items(&worker.queue) && self.may_light_begin())
            && self.can_nothing_planned_begin()
            && self.all_are_blocked()
    }

    /// Abandoned threads count as awake, and no task waits for them.
    fn all_are_blocked(&self) -> bool {
        self.pool.event_count.awake() == (self.wait_queues.blocked() + self.pool.abandoned()) as u64
    }

    /// Returns whether light tasks may begin on any device.
    fn may_light_begin(&self) -> bool {
        let never = self.light.gate.closed() | self.pool.retired.load(Ordering::SeqCst);
        (0..self.devices.len()).any(|index| never >> index & 1 == 0)
    }

    fn can_nothing_planned_begin(&self) -> bool {
        let mut guard = self.lock();
        for index in 0..self.devices.len() {
            guard.planner.set_runs_light(index, self.runs_light(index, None));
        }
        self.jobs_dropping.load(Ordering::SeqCst) == 0 && guard.planner.nothing_can_begin(self.now())
    }

    /// Spins for a moment, if a processor is idle and no other thread spins.
    fn spin_for<T>(&self, look: &impl Fn() -> Option<T>) -> Option<T> {
        let one = self.spinning.fetch_add(1, Ordering::Relaxed) == 0;
        let mut found = None;
        if one && self.pool.event_count.awake() <= self.spinners_most {
            found = self.spin(nanoseconds(self.policy.wait_spin), look);
        }
        self.spinning.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// Spins for so many nanoseconds, or until `look` returns a value.
    pub fn spin<T>(&self, time: u64, look: impl Fn() -> Option<T>) -> Option<T> {
        let end = self.clock() + time;
        let mut found = None;
        while found.is_none() && self.clock() < end {
            for _ in 0..4 {
                std::hint::spin_loop();
            }
            found = look();
        }
        found
    }
}

/// Blocks the calling thread, which is in no task of the scheduler that it waits for. If it is in a
/// task of another scheduler, that task's slot has a place for another worker meanwhile: the wait
/// may depend on tasks queued there. A cycle of waits through two schedulers is not found: each
/// knows its own tasks.
pub fn block_outside<T>(block: impl FnOnce() -> T) -> Result<T> {
    let Some(worker) = current_task_worker() else { return Ok(block()) };
    worker.runtime.open_slot(&worker, false, worker.runtime.policy.blocked_tasks)?;
    let result = block();
    worker.runtime.close_slot(&worker, false);
    Ok(result)
}

fn deadlock(why: &str) -> Error {
    Error::Deadlock { what: "a wait inside a task", why: why.into() }
}
