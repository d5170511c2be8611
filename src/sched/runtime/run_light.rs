//! How a worker runs a light task: between two planned ones, or on top of a task that waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::promotion::LightFailure;
use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::error::{Error, Result};
use crate::sched::base::exec::Job;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::epochs::Epoch;
use crate::sched::light::job::LightJob;
use crate::sched::light::nested::{NestedIndex, NestedTask};
use crate::sched::light::queues::LightItem;
use crate::sched::observe::trace::Ending;
use crate::sched::plan::completion::AttemptEnd;
use crate::sched::plan::effects::Effects;

/// Runs one item from the light queues; also on top of a task that waits.
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
    let books = &worker.queue.shared.stats;
    let stopping = || runtime.light.is_stopping();
    let below = books.signal.enter(stopping);
    worker.tasks.borrow_mut().push(TaskId(0));
    let place = push_nested(worker, TaskId(0), epoch);
    let context = worker.context();
    publish_start(worker, begin);
    let how = worker.run_attempt(runtime, TaskId(0), 1, context, &books.signal, |exec| Job::run(&job, exec));
    let end = publish_end(runtime, worker, begin);
    let cancelled = books.signal.is_cancelled();
    books.signal.leave(below, stopping);
    let ours = books.nested.pop(place);
    match how {
        AttemptEnd::NoQueue(why) => {
            worker.tasks.borrow_mut().pop();
            match ours {
                true => runtime.light.queues.push(None, LightItem::Detached { job, epoch }),
                false => runtime.drop_job(job),
            }
            retire_device(runtime, worker, &why);
        }
        AttemptEnd::Ran(Err(error)) if (error.is_of_device() || error.is_suspect()) && ours => {
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
            if ours {
                runtime.light.count_end(Some(&worker.queue), &outcome);
                runtime.count_ended(Some(&worker.queue), epoch, 1);
            }
        }
    }
}

fn run_with_id(runtime: &Arc<Runtime>, worker: &WorkerLocal, id: TaskId) {
    // One that is over already has left its item behind.
    let Ok((slot, generation)) = runtime.light.slab.find(id) else { return };
    let Some(begun) = slot.begin(generation, worker.device, worker.slot, worker.last_ns.get()) else {
        return;
    };
    let begin = begun.started_ns;
    worker.tasks.borrow_mut().push(id);
    let place = push_nested(worker, id, begun.epoch);
    let context = worker.context();
    publish_start(worker, begin);
    let how = worker
        .run_attempt(runtime, id, begun.number, context, &slot.signal, |exec| Job::run(&begun.job, exec));
    let end = publish_end(runtime, worker, begin);
    if !worker.queue.shared.stats.nested.pop(place) {
        // It was given up, and has ended.
        runtime.drop_job(begun.job);
        worker.tasks.borrow_mut().pop();
        runtime.unwatch_light(slot, generation, id);
        return;
    }
    match how {
        AttemptEnd::NoQueue(why) => {
            worker.tasks.borrow_mut().pop();
            match slot.put_back(generation, begun.job, end) {
                None => runtime.light.queues.push(None, LightItem::WithId(id)),
                Some(job) => {
                    runtime.drop_job(job);
                    runtime.end_light(Some(&worker.queue), slot, id, begun.epoch, Err(Error::Cancelled), end);
                }
            }
            retire_device(runtime, worker, &why);
        }
        AttemptEnd::Ran(Err(error))
            if (error.is_of_device() || error.is_suspect()) && !slot.signal.is_cancelled() =>
        {
            worker.tasks.borrow_mut().pop();
            runtime.promote(slot, id, begun.job, light_failure(runtime, worker, id, context, begin, error));
        }
        AttemptEnd::Ran(outcome) => {
            let outcome = if slot.signal.is_cancelled() { Err(Error::Cancelled) } else { outcome };
            record_end(runtime, worker, id, &outcome, (begin, end));
            // The job's drop is the caller's job inside the task, too.
            runtime.drop_job(begun.job);
            worker.tasks.borrow_mut().pop();
            runtime.end_light(Some(&worker.queue), slot, id, begun.epoch, outcome, end);
        }
    }
}

/// A light task begins; if it is on top of a planned one, so that it can be given up with that.
fn push_nested(worker: &WorkerLocal, id: TaskId, epoch: Epoch) -> NestedIndex {
    worker.in_planned.get().then(|| worker.queue.shared.stats.nested.push(NestedTask { id, epoch }))
}

fn publish_start(worker: &WorkerLocal, begin: u64) {
    worker.queue.shared.stats.light_since.store(begin + 1, Ordering::Relaxed);
}

/// The time after an attempt, which is also that before the next.
fn publish_end(runtime: &Runtime, worker: &WorkerLocal, begin: u64) -> u64 {
    let end = runtime.clock().max(begin);
    worker.last_ns.set(end);
    let books = &worker.queue.shared.stats;
    books.light_until.store(end, Ordering::Relaxed);
    books.light_since.store(0, Ordering::Relaxed);
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

/// In the device's books, the trace and the log.
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
    let books = &worker.queue.shared.stats;
    let one = if outcome.is_ok() { &books.done_attempts } else { &books.failed_attempts };
    one.store(one.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    books.busy_ns.store(books.busy_ns.load(Ordering::Relaxed) + (end - begin), Ordering::Relaxed);
}

fn retire_device(runtime: &Arc<Runtime>, worker: &WorkerLocal, why: &str) {
    let mut guard = runtime.lock();
    let mut effects = Effects::at(runtime.now());
    guard.planner.retire(worker.device, why, &mut effects);
    runtime.apply_effects(guard, effects);
}
