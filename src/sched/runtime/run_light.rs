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

/// Runs one item from the light queues; also on top of a task that waits.
pub fn run_light(shared: &Arc<Runtime>, me: &WorkerLocal, item: LightItem) {
    if shared.light.is_stopping() {
        return shared.end_queued_item(Some(&me.hand), item, &Error::Cancelled);
    }
    let outer = me.hand.pushed.replace(0);
    let since = &me.hand.station.books.since;
    let below = since.load(Ordering::Relaxed);
    match item {
        LightItem::Known(id) => run_known(shared, me, id),
        LightItem::Loose { code, phase } => run_loose(shared, me, code, phase),
    }
    since.store(below, Ordering::Relaxed);
    me.hand.pushed.set(outer + me.hand.pushed.get());
}

fn run_loose(shared: &Arc<Runtime>, me: &WorkerLocal, code: LightJob, phase: Epoch) {
    let begin = me.clock.get();
    let books = &me.hand.station.books;
    let stopping = || shared.light.is_stopping();
    let below = books.signal.enter(stopping);
    me.frames.borrow_mut().push(TaskId(0));
    let place = on_top(me, TaskId(0), phase);
    let context = me.context();
    set_since(me, begin);
    let how = me.attempt(shared, TaskId(0), 1, context, &books.signal, |exec| Job::run(&code, exec));
    let end = passed(shared, me, begin);
    let cancelled = books.signal.is_cancelled();
    books.signal.leave(below, stopping);
    let ours = books.on_top.pop(place);
    match how {
        AttemptEnd::NoQueue(why) => {
            me.frames.borrow_mut().pop();
            match ours {
                true => shared.light.queues.push(None, LightItem::Loose { code, phase }),
                false => shared.drop_job(code),
            }
            retire(shared, me, &why);
        }
        AttemptEnd::Ran(Err(error)) if (error.is_of_device() || error.is_suspect()) && ours => {
            me.frames.borrow_mut().pop();
            shared.hand_over_loose(code, phase, failed(shared, me, TaskId(0), context, begin, error));
        }
        AttemptEnd::Ran(outcome) => {
            let outcome = if cancelled { Err(Error::Cancelled) } else { outcome };
            count(shared, me, TaskId(0), &outcome, (begin, end));
            shared.drop_job(code);
            me.frames.borrow_mut().pop();
            if ours {
                shared.light.count_end(Some(&me.hand), &outcome);
                shared.count_ended(Some(&me.hand), phase, 1);
            }
        }
    }
}

fn run_known(shared: &Arc<Runtime>, me: &WorkerLocal, id: TaskId) {
    // One that is over already has left its item behind.
    let Ok((slot, generation)) = shared.light.slots.find(id) else { return };
    let Some(begun) = slot.begin(generation, me.device, me.slot, me.clock.get()) else { return };
    let begin = begun.since;
    me.frames.borrow_mut().push(id);
    let place = on_top(me, id, begun.phase);
    let context = me.context();
    set_since(me, begin);
    let how =
        me.attempt(shared, id, begun.attempt, context, &slot.signal, |exec| Job::run(&begun.code, exec));
    let end = passed(shared, me, begin);
    if !me.hand.station.books.on_top.pop(place) {
        // It was given up, and has ended.
        shared.drop_job(begun.code);
        me.frames.borrow_mut().pop();
        shared.unwatch_light(slot, generation, id);
        return;
    }
    match how {
        AttemptEnd::NoQueue(why) => {
            me.frames.borrow_mut().pop();
            match slot.put_back(generation, begun.code, end) {
                None => shared.light.queues.push(None, LightItem::Known(id)),
                Some(code) => {
                    shared.drop_job(code);
                    shared.end_light(Some(&me.hand), slot, id, begun.phase, Err(Error::Cancelled), end);
                }
            }
            retire(shared, me, &why);
        }
        AttemptEnd::Ran(Err(error))
            if (error.is_of_device() || error.is_suspect()) && !slot.signal.is_cancelled() =>
        {
            me.frames.borrow_mut().pop();
            shared.hand_over(slot, id, begun.code, failed(shared, me, id, context, begin, error));
        }
        AttemptEnd::Ran(outcome) => {
            let outcome = if slot.signal.is_cancelled() { Err(Error::Cancelled) } else { outcome };
            count(shared, me, id, &outcome, (begin, end));
            // The job's drop is the caller's code inside the task, too.
            shared.drop_job(begun.code);
            me.frames.borrow_mut().pop();
            shared.end_light(Some(&me.hand), slot, id, begun.phase, outcome, end);
        }
    }
}

/// A light task begins; if it is on top of a planned one, so that it can be given up with that.
fn on_top(me: &WorkerLocal, id: TaskId, phase: Epoch) -> NestedIndex {
    me.on_plan.get().then(|| me.hand.station.books.on_top.push(NestedTask { id, phase }))
}

fn set_since(me: &WorkerLocal, begin: u64) {
    me.hand.station.books.since.store(begin + 1, Ordering::Relaxed);
}

/// The time after an attempt, which is also that before the next.
fn passed(shared: &Runtime, me: &WorkerLocal, begin: u64) -> u64 {
    let end = shared.clock().max(begin);
    me.clock.set(end);
    let books = &me.hand.station.books;
    books.until.store(end, Ordering::Relaxed);
    books.since.store(0, Ordering::Relaxed);
    end
}

fn failed(
    shared: &Runtime,
    me: &WorkerLocal,
    id: TaskId,
    context: u32,
    since: u64,
    error: Error,
) -> LightFailure {
    shared.record_light(id, me.device, me.slot, (since, me.clock.get()), Ending::Retried);
    LightFailure {
        error,
        device: me.device,
        slot: me.slot,
        context,
        since,
        company: shared.had_company(&me.hand.station, since),
    }
}

/// In the device's books, the trace and the log.
fn count(shared: &Runtime, me: &WorkerLocal, id: TaskId, outcome: &Result<()>, (begin, end): (u64, u64)) {
    let ending = match outcome {
        Ok(()) => Ending::Done,
        Err(Error::Cancelled) => Ending::Cancelled,
        Err(error) => {
            log::warn!("the task failed on {}: {error}", shared.devices[me.device].label());
            Ending::Failed
        }
    };
    shared.record_light(id, me.device, me.slot, (begin, end), ending);
    let books = &me.hand.station.books;
    let one = if outcome.is_ok() { &books.done } else { &books.failed };
    one.store(one.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    books.busy_ns.store(books.busy_ns.load(Ordering::Relaxed) + (end - begin), Ordering::Relaxed);
}

fn retire(shared: &Arc<Runtime>, me: &WorkerLocal, why: &str) {
    let mut guard = shared.lock();
    guard.planner.retire(me.device, why);
    shared.apply_effects(guard);
}
