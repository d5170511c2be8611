//! Takes and runs light tasks: between other tasks of a worker, or inside a task that waits.
//!
//! A worker takes light tasks while the gate is open for its device and, on a device that processes share, while it
//! holds a slot of the node for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::promotion::LightFailure;
use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::error::{Error, Result};
use crate::sched::base::exec::Job;
use crate::sched::base::outcome::nanoseconds;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::epochs::Epoch;
use crate::sched::light::job::LightJob;
use crate::sched::light::nested::{NestedIndex, NestedTask};
use crate::sched::light::queues::LightItem;
use crate::sched::observe::trace::Ending;
use crate::sched::plan::completion::AttemptEnd;

/// Returns true if light tasks may begin on the worker's device. Does not lock the shared table.
pub fn may_run_light(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    !runtime.light.gate.is_closed(worker.device)
        && (runtime.taken() >> worker.device & 1 == 0 || worker.light_lease.borrow().is_some())
}

/// Takes the next light task for a worker. `None`: the queues are empty, or none may begin here.
pub fn take_light(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> Option<LightItem> {
    let flag = &worker.queue.shared.stats.runs_light;
    let needs_lease = runtime.shares(worker.device) && runtime.light.queues.has_items(&worker.queue);
    if !may_run_light(runtime, worker)
        || needs_lease && !has_light_lease(runtime, worker)
        || !runtime.light.gate.enter(flag, worker.device)
    {
        stop_light(runtime, worker);
        return None;
    }
    runtime.light.queues.pop(&worker.queue)
}

/// Returns whether the worker holds a slot of the node for light tasks, or leases one now. After a
/// turn it gives the slot up if other processes wait.
fn has_light_lease(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> bool {
    let since = worker.light_lease.borrow().as_ref().map(|lease| lease.since);
    if let Some(since) = since {
        let turn = nanoseconds(runtime.policy.turn);
        return !runtime.is_contended(worker.device) || worker.last_ns.get().saturating_sub(since) < turn;
    }
    let lease = runtime.lease_for_light(worker.device);
    let has = lease.is_some();
    *worker.light_lease.borrow_mut() = lease.flatten();
    has
}

/// The worker runs no light tasks until the next [`take_light`]. Wakes workers for a planned task that
/// may have waited for that.
pub fn stop_light(runtime: &Arc<Runtime>, worker: &WorkerLocal) {
    drop(worker.light_lease.take());
    if runtime.light.gate.leave(&worker.queue.shared.stats.runs_light, worker.device) {
        let mut guard = runtime.lock();
        runtime.wake_workers(&mut guard, runtime.now());
    }
}

/// Runs an item from the light queues.
pub fn run_light(runtime: &Arc<Runtime>, worker: &WorkerLocal, item: LightItem) {
    if runtime.light.is_stopping() {
        return runtime.end_queued_item(Some(&worker.queue), item, &Error::Cancelled);
    }
    let outer = worker.queue.pushed.replace(0);
    let since = &worker.queue.shared.stats.light_since;
    let below = since.load(Ordering::Relaxed);
    match item {
        LightItem::WithId(id) => run_with_id(runtime, worker, id),
        LightItem::Detached { job, epoch } => run_detached(runtime, worker, job, epoch),
    }
    since.store(below, Ordering::Relaxed);
    worker.queue.pushed.set(outer + worker.queue.pushed.get());
}

fn run_detached(runtime: &Arc<Runtime>, worker: &WorkerLocal, job: LightJob, epoch: Epoch) {
    let begin = worker.last_ns.get();
    let stats = &worker.queue.shared.stats;
    let stopping = || runtime.light.is_stopping();
    let below = stats.signal.begin_nested(stopping);
    worker.tasks.borrow_mut().push(TaskId(0));
    let place = push_nested(worker, TaskId(0), epoch);
    let context = worker.context();
    publish_start(worker, begin);
    let how = worker.run_attempt(runtime, TaskId(0), 1, context, &stats.signal, |exec| Job::run(&job, exec));
    let end = publish_end(runtime, worker, begin);
    let cancelled = stats.signal.is_cancelled();
    stats.signal.end_nested(below, stopping);
    let is_ours = stats.nested.pop(place);
    match how {
        AttemptEnd::NoQueue(why) => {
            worker.tasks.borrow_mut().pop();
            match is_ours {
                true => runtime.light.queues.push(None, LightItem::Detached { job, epoch }),
                false => runtime.drop_job(job),
            }
            retire_device(runtime, worker, &why);
        }
        AttemptEnd::Ran(Err(error)) if (error.is_of_device() || error.is_suspect()) && is_ours => {
            worker.tasks.borrow_mut().pop();
            runtime.promote_detached(
                job,
                epoch,
                light_failure(runtime, worker, TaskId(0), context, begin, error),
            );
        }
        AttemptEnd::Ran(outcome) => {
            let outcome = if cancelled { Err(Error::Cancelled) } else { outcome };
            record_end(runtime, worker, TaskId(0), &outcome, (begin, end));
            runtime.drop_job(job);
            worker.tasks.borrow_mut().pop();
            if is_ours {
                runtime.light.count_outcome(Some(&worker.queue), &outcome);
                runtime.count_ended(Some(&worker.queue), epoch, 1);
            }
        }
    }
}

fn run_with_id(runtime: &Arc<Runtime>, worker: &WorkerLocal, id: TaskId) {
    // The item of a task that was cancelled stays in its queue.
    let Ok((task, generation)) = runtime.light.slab.find(id) else { return };
    let Some(begun) = task.begin(generation, worker.device, worker.slot, worker.last_ns.get()) else {
        return;
    };
    let begin = begun.started_ns;
    worker.tasks.borrow_mut().push(id);
    let place = push_nested(worker, id, begun.epoch);
    let context = worker.context();
    publish_start(worker, begin);
    let how = worker
        .run_attempt(runtime, id, begun.number, context, &task.signal, |exec| Job::run(&begun.job, exec));
    let end = publish_end(runtime, worker, begin);
    if !worker.queue.shared.stats.nested.pop(place) {
        // The task has ended with its abandoned thread.
        runtime.drop_job(begun.job);
        worker.tasks.borrow_mut().pop();
        runtime.unwatch_light(task, generation, id);
        return;
    }
    match how {
        AttemptEnd::NoQueue(why) => {
            worker.tasks.borrow_mut().pop();
            match task.put_back(generation, begun.job, end) {
                None => runtime.light.queues.push(None, LightItem::WithId(id)),
                Some(job) => {
                    runtime.drop_job(job);
                    runtime.end_light(Some(&worker.queue), task, id, begun.epoch, Err(Error::Cancelled), end);
                }
            }
            retire_device(runtime, worker, &why);
        }
        AttemptEnd::Ran(Err(error))
            if (error.is_of_device() || error.is_suspect()) && !task.signal.is_cancelled() =>
        {
            worker.tasks.borrow_mut().pop();
            runtime.promote(task, id, begun.job, light_failure(runtime, worker, id, context, begin, error));
        }
        AttemptEnd::Ran(outcome) => {
            let outcome = if task.signal.is_cancelled() { Err(Error::Cancelled) } else { outcome };
            record_end(runtime, worker, id, &outcome, (begin, end));
            // The drop is the caller's code, and part of the task.
            runtime.drop_job(begun.job);
            worker.tasks.borrow_mut().pop();
            runtime.end_light(Some(&worker.queue), task, id, begun.epoch, outcome, end);
        }
    }
}

/// Registers a light task that begins inside a planned one, so that it can be abandoned with that.
fn push_nested(worker: &WorkerLocal, id: TaskId, epoch: Epoch) -> NestedIndex {
    worker.in_planned.get().then(|| worker.queue.shared.stats.nested.push(NestedTask { id, epoch }))
}

fn publish_start(worker: &WorkerLocal, begin: u64) {
    worker.queue.shared.stats.light_since.store(begin + 1, Ordering::Relaxed);
}

/// Returns the time after an attempt, which is also the start of the next.
fn publish_end(runtime: &Runtime, worker: &WorkerLocal, begin: u64) -> u64 {
    let end = runtime.clock().max(begin);
    worker.last_ns.set(end);
    let stats = &worker.queue.shared.stats;
    stats.light_until.store(end, Ordering::Relaxed);
    stats.light_since.store(0, Ordering::Relaxed);
    end
}

fn light_failure(
    runtime: &Runtime,
    worker: &WorkerLocal,
    id: TaskId,
    context: u32,
    since: u64,
    error: Error,
) -> LightFailure {
    runtime.record_light(id, worker.device, worker.slot, (since, worker.last_ns.get()), Ending::Retried);
    LightFailure {
        error,
        device: worker.device,
        slot: worker.slot,
        context,
        started_ns: since,
        shared_device: runtime.had_company(&worker.queue.shared, since),
    }
}

/// Records an end in the worker's counters, the trace and the log.
fn record_end(
    runtime: &Runtime,
    worker: &WorkerLocal,
    id: TaskId,
    outcome: &Result<()>,
    (begin, end): (u64, u64),
) {
    let ending = match outcome {
        Ok(()) => Ending::Done,
        Err(Error::Cancelled) => Ending::Cancelled,
        Err(error) => {
            log::warn!("the task failed on {}: {error}", runtime.devices[worker.device].label());
            Ending::Failed
        }
    };
    runtime.record_light(id, worker.device, worker.slot, (begin, end), ending);
    let stats = &worker.queue.shared.stats;
    let one = if outcome.is_ok() { &stats.done_attempts } else { &stats.failed_attempts };
    one.store(one.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    stats.busy_ns.store(stats.busy_ns.load(Ordering::Relaxed) + (end - begin), Ordering::Relaxed);
}

fn retire_device(runtime: &Arc<Runtime>, worker: &WorkerLocal, why: &str) {
    runtime.step(|planner, effects| planner.retire(worker.device, why, effects));
}
