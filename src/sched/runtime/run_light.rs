//! Light tasks of a worker: how it takes and runs them, between other tasks or inside a task that
//! waits; and how they end, also those that have not begun or are inside an abandoned attempt.
//!
//! A worker takes light tasks while the gate is open for its device and, on a device that processes
//! share, while it holds a slot of the node for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{PlannerGuarded, Runtime, WorkerLocal};
use crate::error::{Error, Result};
use crate::sched::base::{DeviceMask, Epoch, Exec, Job, Signal, TaskId, WaitResult, nanoseconds, unpack};
use crate::sched::light::{EndActions, LightAttempt, LightItem, LightJob, LightTask, LocalQueue, NestedTask};
use crate::sched::observe::Ending;
use crate::sched::plan::{AttemptEnd, Effects};
use crate::sched::sleep::ALL_TASKS;

/// Returns true if light tasks may begin on the worker's device. Does not lock the shared table.
pub fn may_run_light(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    !runtime.light.gate.is_closed(worker.device)
        && (runtime.taken() >> worker.device & 1 == 0 || worker.light_lease.borrow().is_some())
}

/// Takes the next light task for a worker. `None`: the queues are empty, or none may begin here.
#[inline]
pub fn take_light(worker: &WorkerLocal) -> Option<LightItem> {
    let runtime = &worker.runtime;
    let flag = &worker.queue.shared.stats.runs_light;
    let needs_lease = runtime.shares(worker.device) && runtime.light.queues.has_items(&worker.queue);
    if !may_run_light(worker)
        || needs_lease && !has_light_lease(worker)
        || !runtime.light.gate.enter(flag, worker.device)
    {
        worker.stop_light();
        return None;
    }
    runtime.light.queues.pop(&worker.queue, || {
        // The tasks were in no queue for a moment, in which another searcher may have found none.
        runtime.pool.event_count.wake_any(runtime.closed_to_light());
    })
}

/// Returns whether the worker holds a slot of the node for light tasks, or leases one now. After
/// each turn it reads the shared table, and gives the slot up if others wait.
fn has_light_lease(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    let since = worker.light_lease.borrow().as_ref().map(|lease| lease.since);
    let Some(since) = since else {
        let lease = runtime.lease_for_light(worker.device);
        let has = lease.is_some();
        *worker.light_lease.borrow_mut() = lease.flatten();
        return has;
    };
    let now = worker.last_ns.get();
    if now.saturating_sub(since) < nanoseconds(runtime.policy.turn) {
        return true;
    }
    let keeps = !runtime.light_slot_is_wanted(worker.device);
    if keeps && let Some(lease) = &mut *worker.light_lease.borrow_mut() {
        lease.since = now;
    }
    keeps
}

/// Runs an item from the light queues.
pub fn run_light(worker: &WorkerLocal, item: LightItem) {
    let runtime = &worker.runtime;
    if runtime.light.is_stopping() {
        return runtime.end_queued([item], &Error::Cancelled);
    }
    let outer = worker.queue.pushed.replace(0);
    let since = worker.last_ns.get();
    match item {
        // The item of a task that was cancelled stays in its queue.
        LightItem::WithId(id) => {
            if let Some((task, generation)) = runtime.light.slab.lookup(id)
                && let Some(attempt) = task.begin(generation, worker.device, worker.slot, since)
            {
                run_attempt(worker, id, Some(task), attempt);
            }
        }
        LightItem::Detached { job, epoch } => {
            let attempt = LightAttempt { job, epoch, number: 1, started_ns: since };
            run_attempt(worker, TaskId(0), None, attempt);
        }
    }
    worker.queue.pushed.set(outer + worker.queue.pushed.get());
}

/// Runs an attempt at a light task. `id`, `task`: 0 and `None` if it has no id.
fn run_attempt(worker: &WorkerLocal, id: TaskId, task: Option<&LightTask>, attempt: LightAttempt) {
    let runtime = &worker.runtime;
    let (since, epoch) = (attempt.started_ns, attempt.epoch);
    let stats = &worker.queue.shared.stats;
    let own = Signal::default();
    let signal = task.map_or(&own, |task| &task.signal);
    worker.tasks.borrow_mut().push(id);
    // A task inside a planned one can be abandoned with that.
    let nested = worker.in_planned.get().then(|| stats.nested.push(NestedTask { id, epoch }));
    let context = worker.context();
    stats.running.store(stats.running.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let stop_flags = Some(&*runtime.light.stop_flags);
    let run = |exec: &Exec<'_>| attempt.job.run(exec);
    let how = worker.run_attempt((id, attempt.number), context, signal, stop_flags, None, run);
    // Also the start of the next attempt.
    let end = runtime.clock().max(since);
    worker.last_ns.set(end);
    stats.light_until.store(end, Ordering::Relaxed);
    // 0 if the thread was abandoned meanwhile.
    stats.running.store(stats.running.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    if runtime.light.is_stopping() {
        signal.cancel();
    }
    let cancelled = signal.is_cancelled();
    if !stats.nested.pop(nested) {
        // The task has ended with its abandoned thread.
        runtime.drop_job(attempt.job);
        worker.tasks.borrow_mut().pop();
        if let Some(task) = task {
            runtime.unwatch_light(task, unpack(id).1, id);
        }
        return;
    }
    let concerns_device = match &how {
        AttemptEnd::NoQueue(_) => true,
        AttemptEnd::Ran(Err(error)) => !cancelled && (error.is_of_device() || error.is_suspect()),
        AttemptEnd::Ran(Ok(())) => false,
    };
    match how {
        AttemptEnd::Ran(ref outcome) if !concerns_device => {
            let outcome = if cancelled { &Err(Error::Cancelled) } else { outcome };
            record_end(worker, id, outcome, (since, end));
            // The drop is the caller's code, and part of the task.
            if attempt.job.has_drop() {
                runtime.drop_job(attempt.job);
            }
            worker.tasks.borrow_mut().pop();
            runtime.end_light(Some(&worker.queue), task, id, epoch, outcome, end);
        }
        how => {
            worker.tasks.borrow_mut().pop();
            if let AttemptEnd::Ran(_) = how {
                let (device, slot) = (worker.device, worker.slot);
                runtime.observability.record_light(id, device, slot, (since, end), Ending::Retried);
            }
            runtime.promote(worker, task, id, attempt, context, how);
        }
    }
}

/// Records an end in the worker's counters, the trace and the log.
fn record_end(worker: &WorkerLocal, id: TaskId, outcome: &Result<()>, (begin, end): (u64, u64)) {
    let runtime = &worker.runtime;
    let ending = match outcome {
        Ok(()) => Ending::Done,
        Err(Error::Cancelled) => Ending::Cancelled,
        Err(error) => {
            let place = runtime.devices[worker.device].label();
            log::log!(runtime.policy.failure_level, "the task failed on {place}: {error}");
            Ending::Failed
        }
    };
    runtime.observability.record_light(id, worker.device, worker.slot, (begin, end), ending);
    let stats = &worker.queue.shared.stats;
    stats.busy_ns.store(stats.busy_ns.load(Ordering::Relaxed) + (end - begin), Ordering::Relaxed);
}

impl Runtime {
    /// Runs `end`, which takes light tasks out of the queues, drops their jobs and publishes their
    /// ends. Meanwhile no wait counts as a deadlock, and no shutdown is complete.
    pub fn ending<T>(&self, end: impl FnOnce() -> T) -> T {
        self.jobs_dropping.fetch_add(1, Ordering::SeqCst);
        let ended = end();
        self.jobs_dropping.fetch_sub(1, Ordering::SeqCst);
        self.wait_queues.notify_blocked();
        ended
    }

    /// Publishes the end of a light task whose job has been dropped. `task`: `None` if it has no
    /// id.
    pub fn end_light(
        self: &Arc<Self>,
        queue: Option<&LocalQueue>,
        task: Option<&LightTask>,
        id: TaskId,
        epoch: Epoch,
        outcome: &Result<()>,
        now: u64,
    ) {
        if self.publish_light(queue, task, id, epoch, outcome, now) {
            self.step(|planner, effects| planner.light_task_ended(id, outcome, effects));
        }
    }

    /// Does all of [`Runtime::end_light`] but the step of the planner. Returns true if planned
    /// tasks come after the task, for which the caller takes that step.
    fn publish_light(
        &self,
        queue: Option<&LocalQueue>,
        task: Option<&LightTask>,
        id: TaskId,
        epoch: Epoch,
        outcome: &Result<()>,
        now: u64,
    ) -> bool {
        self.light.count_outcome(queue, outcome);
        let actions = task.map_or_else(EndActions::default, |task| task.end(unpack(id).1, outcome, now));
        let followed = actions.followed;
        self.apply_end_actions(id, actions);
        self.count_ended(queue, epoch, 1);
        followed
    }

    pub fn count_ended(&self, queue: Option<&LocalQueue>, epoch: Epoch, tasks: u64) {
        if self.light.count_ended(queue, epoch, tasks) {
            self.wait_queues.notify(ALL_TASKS);
        }
        // A worker that ends the last task checks by itself whether it may leave, and one that
        // leaves wakes the others.
        if queue.is_none() && self.light.is_stopping() && self.light.epochs.is_drained() {
            self.pool.event_count.wake_all();
        }
    }

    /// Ends a watch of a light task. Returns the outcome, if there is one.
    pub fn unwatch_light(&self, task: &LightTask, generation: u64, id: TaskId) -> Option<Result<WaitResult>> {
        let (outcome, free) = task.stop_wait(generation);
        self.apply_end_actions(id, EndActions { free, ..EndActions::default() });
        outcome
    }

    pub fn apply_end_actions(&self, id: TaskId, actions: EndActions) {
        if actions.free {
            self.light.slab.free(unpack(id).2 as u32);
        }
        if actions.notify {
            self.wait_queues.notify(id);
        }
    }

    /// Ends all light tasks that have not begun: they are cancelled, or no device is left for them.
    pub fn end_all_queued(self: &Arc<Self>) {
        let why = if self.light.is_stopping() {
            Error::Cancelled
        } else {
            self.lock().planner.no_device("the task".into(), DeviceMask::ALL, &[])
        };
        self.end_all_queued_with(&why);
    }

    /// Fails the tasks that no thread can run: all if the system gives none at all, else those of
    /// devices to which it has refused one twice.
    pub fn fail_if_deserted(self: &Arc<Self>) {
        let deserted = self.pool.deserted();
        if deserted == DeviceMask::NONE {
            return;
        }
        let why = Error::NoThread { purpose: "to run tasks", why: "see the log".into() };
        let all = (0..self.devices.len()).all(|index| deserted.contains(index));
        if all {
            self.end_all_queued_with(&why);
        }
        let mut guard = self.lock();
        let fails = |&index: &usize| deserted.contains(index) && (all || guard.refused_threads[index] > 1);
        let deserted: DeviceMask = (0..self.devices.len()).filter(fails).collect();
        let mut effects = Effects::at(self.now());
        guard.planner.fail_ready(deserted, &why, &mut effects);
        if !effects.ended.is_empty() {
            self.apply_effects(guard, effects);
        }
    }

    fn end_all_queued_with(self: &Arc<Self>, why: &Error) {
        self.end_queued(std::iter::from_fn(|| self.light.queues.drain_one()), why);
    }

    /// Ends the light tasks of `items` that have not begun.
    pub fn end_queued(self: &Arc<Self>, items: impl IntoIterator<Item = LightItem>, why: &Error) {
        let outcome = Err(why.clone());
        self.ending(|| {
            let mut followed = Vec::new();
            for item in items {
                let (task, id, (job, epoch)) = match item {
                    LightItem::WithId(id) => {
                        let Ok((task, generation)) = self.light.slab.find(id) else { continue };
                        let Some(withdrawn) = task.withdraw(generation) else { continue };
                        (Some(task), id, withdrawn)
                    }
                    LightItem::Detached { job, epoch } => (None, TaskId(0), (job, epoch)),
                };
                self.drop_job(job);
                if self.publish_light(None, task, id, epoch, &outcome, self.clock()) {
                    followed.push(id);
                }
            }
            // One step for all: without any device left, it ends the queued tasks itself.
            if !followed.is_empty() {
                self.step(|planner, effects| {
                    followed.iter().for_each(|&id| planner.light_task_ended(id, &outcome, effects));
                });
            }
        });
    }

    /// Ends the light tasks inside an abandoned attempt at a planned task.
    pub fn end_nested(self: &Arc<Self>, id: TaskId, attempt: u32, limit_s: f64) {
        let task_of = |nested: NestedTask| (nested.id.0 != 0).then(|| self.light.slab.get(nested.id));
        for worker in self.light.queues.workers() {
            let hold = |nested: NestedTask| {
                task_of(nested).into_iter().for_each(|(task, generation)| task.hold(generation));
            };
            for nested in worker.stats.nested.take_all((id, attempt), hold).into_iter().rev() {
                worker.stats.running.store(0, Ordering::Relaxed);
                let what = "the task inside which it ran".into();
                let device = self.devices[worker.device].label();
                let outcome = Err(Error::Deadline { what, limit_s, device });
                let task = task_of(nested).map(|(task, _)| task);
                self.end_light(None, task, nested.id, nested.epoch, &outcome, self.clock());
            }
        }
    }
}

/// Promotion: the planner takes over a light task.
impl Runtime {
    /// Promotes a light task after a failed attempt, as if that had begun in the planner. `id`,
    /// `task`: 0 and `None` if it has no id. `context`: the device's, in which the attempt began.
    fn promote(
        self: &Arc<Self>,
        worker: &WorkerLocal,
        task: Option<&LightTask>,
        id: TaskId,
        attempt: LightAttempt,
        context: u32,
        how: AttemptEnd,
    ) {
        let LightAttempt { job, epoch, started_ns, .. } = attempt;
        let job: Arc<dyn Job> = match job {
            LightJob::Shared(job) => job,
            job => Arc::new(job),
        };
        let (device, own) = (worker.device, &*worker.queue.shared);
        let mut guard = self.lock();
        let company =
            self.ran_light_since(own, started_ns) || !guard.planner.devices()[device].attempts.is_empty();
        let mut effects = Effects::at(Duration::from_nanos(started_ns));
        let place = (device, worker.slot, context);
        let promoted = guard.planner.promote((id, epoch), job.clone(), place, company, &mut effects);
        let planned = match promoted {
            Ok(planned) => planned,
            Err(full) => {
                drop(guard);
                self.drop_job(job);
                let error = if let AttemptEnd::Ran(Err(error)) = how { error } else { full };
                return self.end_light(None, task, id, epoch, &Err(error), self.clock());
            }
        };
        // The planner has another owner: it ends the job with the task.
        drop(job);
        effects.now = self.now();
        if task.is_some_and(|task| task.promote(unpack(id).1, planned)) || guard.planner.is_stopping() {
            let _ = guard.planner.cancel(planned, &mut effects);
        }
        let left = (!worker.is_in_task()).then_some(own);
        self.count_light(&mut guard.planner, device, left, &how);
        guard.planner.on_attempt_end(device, planned, 1, how, &mut effects);
        self.apply_effects(guard, effects);
    }

    /// Ends a light task whose planned task has ended.
    pub fn end_promoted(
        &self,
        guard: &mut PlannerGuarded,
        id: TaskId,
        planned: TaskId,
        outcome: &Result<()>,
        effects: &mut Effects,
    ) {
        let Ok(info) = guard.planner.info(effects.now, planned) else { return };
        let _ = guard.planner.release(planned);
        let (task, generation) = self.light.slab.get(id);
        task.set_info(generation, &info);
        self.apply_end_actions(id, task.end(generation, outcome, self.clock()));
        guard.planner.light_task_ended(id, outcome, effects);
    }
}
