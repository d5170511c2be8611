//! A worker: one thread for one slot of one device.
//!
//! The worker opens its device queue when its first task arrives, then runs planned and light tasks one after
//! the other, and sleeps when there are none. Planned tasks come first, but after a long turn of them
//! the light ones get a slice of time, and planned tasks of negative priority let light ones pass for a
//! while.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{
    Runtime, WorkerLocal, is_leaving, may_run_light, run_light, run_planned, stop_light, take_light,
    take_planned,
};
use crate::sched::base::nanoseconds;
use crate::sched::light::{LightItem, NO_DEVICE};
use crate::sched::plan::Assignment;

enum WorkFound {
    Planned(Assignment),
    Light(LightItem),
}

/// The main function of a worker thread, which the caller has counted as a searcher.
pub fn run_worker(runtime: &Arc<Runtime>, index: usize) {
    let worker = WorkerLocal::enter(runtime, index);
    let mut work = search(runtime, &worker);
    while let Some(this) = work {
        let next = match this {
            WorkFound::Planned(assignment) => run_planned(runtime, &worker, assignment),
            WorkFound::Light(item) => {
                run_light(runtime, &worker, item);
                None
            }
        };
        // A log function may end the thread after the next task was assigned: that task runs first.
        if is_leaving() && next.is_none() {
            stop_light(runtime, &worker);
            runtime.pool.event_count.start_search();
            runtime.pool.vacate(index);
            runtime.pool.event_count.remove_searcher();
            break;
        }
        work = next.map(WorkFound::Planned).or_else(|| find_work(runtime, &worker)).or_else(|| {
            stop_light(runtime, &worker);
            runtime.pool.event_count.start_search();
            search(runtime, &worker)
        });
    }
    let (device, abandoned) = (worker.device, worker.abandoned.get());
    worker.leave();
    after_leaving(runtime, device, abandoned);
}

/// Searches and sleeps until there is a task to run. `None`: the worker is to end.
fn search(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> Option<WorkFound> {
    let event_count = &runtime.pool.event_count;
    loop {
        if must_leave(runtime, worker) {
            event_count.remove_searcher();
            return None;
        }
        if let Some(work) = find_work(runtime, worker) {
            if event_count.end_search() && runtime.light.queues.has_items(&worker.queue) {
                runtime.wake_any_worker();
            }
            worker.update_clock();
            return Some(work);
        }
        // The flag may be up, and no planned task is to wait for a worker that sleeps.
        stop_light(runtime, worker);
        if spin(runtime, worker) {
            continue;
        }
        event_count.prepare_sleep(&worker.sleeper);
        if has_work(runtime, worker) || may_have_to_leave(runtime, worker) {
            event_count.cancel_sleep(&worker.sleeper);
            continue;
        }
        if runtime.light.gate.is_closed(worker.device) && runtime.light.queues.has_items(&worker.queue) {
            // The thread that woke this worker for a light task has woken no other.
            runtime.wake_any_worker();
        }
        runtime.notify_blocked();
        sleep(runtime, worker);
        worker.update_clock();
    }
}

/// Sleeps until the worker is woken. Frees what the worker caches on the device after a while, and
/// advances the timers if there is no timer thread.
fn sleep(runtime: &Arc<Runtime>, worker: &WorkerLocal) {
    let event_count = &runtime.pool.event_count;
    loop {
        let keeps = worker.caches_shared_memory();
        let is_limited = keeps || runtime.no_timer.load(Ordering::Relaxed);
        if event_count.sleep(&worker.sleeper, is_limited.then_some(runtime.policy.rest)) {
            return;
        }
        if keeps {
            worker.release_cached();
        }
        runtime.advance_without_timer();
    }
}

/// Spins for a moment. Returns true if there may be work.
fn spin(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    let event_count = &runtime.pool.event_count;
    // A single worker spins at a time, and only if a processor is idle.
    if event_count.searching() > 1 || event_count.awake() > runtime.spinners_most() {
        return false;
    }
    let begin = runtime.clock();
    loop {
        for _ in 0..4 {
            std::hint::spin_loop();
        }
        if has_work(runtime, worker) || may_have_to_leave(runtime, worker) {
            worker.spin_ns.set((worker.spin_ns.get() * 2).min(nanoseconds(runtime.policy.spin_most)));
            return true;
        }
        if runtime.clock() - begin > worker.spin_ns.get() {
            worker.spin_ns.set((worker.spin_ns.get() / 2).max(nanoseconds(runtime.policy.spin_least)));
            return false;
        }
    }
}

fn has_planned_hint(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    runtime.pool.planned_hint.load(Ordering::SeqCst) >> worker.device & 1 == 1
}

fn has_work(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    has_planned_hint(runtime, worker)
        || may_run_light(runtime, worker) && runtime.light.queues.has_items(&worker.queue)
}

fn is_retired(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    runtime.pool.retired.load(Ordering::SeqCst) >> worker.device & 1 == 1
}

fn may_have_to_leave(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    runtime.pool.has_surplus(worker.index)
        || worker.slot >= runtime.pool.slots(worker.device)
        || is_retired(runtime, worker)
        || runtime.light.is_stopping() && runtime.light.epochs.is_drained()
}

fn must_leave(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    if runtime.pool.leave_if_surplus(worker.index) {
        return true;
    }
    let go = may_have_to_leave(runtime, worker) && !runtime.pool.has_surplus(worker.index);
    if go {
        runtime.pool.vacate(worker.index);
    }
    go
}

/// Wakes another worker for the work that this one was woken for, and continues a shutdown.
fn after_leaving(runtime: &Arc<Runtime>, device: usize, abandoned: bool) {
    if !abandoned {
        runtime.pool.thread_ended();
    }
    if runtime.light.is_stopping() {
        runtime.pool.event_count.wake_all();
    }
    let mut guard = runtime.lock();
    guard.worker_called[device] = false;
    if !guard.planner.is_stopping() {
        runtime.wake_workers(&mut guard, runtime.now());
    }
    runtime.timer_wakeup.notify_all();
    drop(guard);
    if !runtime.light.queues.is_empty() {
        runtime.wake_any_worker();
    }
    if runtime.light.stop_flags.load(Ordering::SeqCst) & NO_DEVICE != 0 {
        // The thread that emptied the queues has not seen tasks that moved from one to another.
        runtime.end_all_queued();
    }
    if runtime.pool.is_deserted() {
        runtime.fail_deserted();
    }
    runtime.notify_blocked();
}

/// Returns the next task of a worker.
fn find_work(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> Option<WorkFound> {
    let surplus = runtime.pool.has_surplus(worker.index);
    if surplus || is_retired(runtime, worker) || worker.slot >= runtime.pool.slots(worker.device) {
        return None;
    }
    let planned = has_planned_hint(runtime, worker);
    let light_first = worker.light_comes_first();
    if planned
        && !light_first
        && let Some(assignment) = take_planned(runtime, worker, false)
    {
        return Some(WorkFound::Planned(assignment));
    }
    if let Some(item) = take_light(runtime, worker) {
        if planned && light_first {
            pass_on_hint(runtime, worker);
        }
        return Some(WorkFound::Light(item));
    }
    if planned && has_planned_hint(runtime, worker) {
        take_planned(runtime, worker, true).map(WorkFound::Planned)
    } else {
        None
    }
}

/// Wakes another worker for the planner: this one may have been woken for a planned task, and runs a light
/// one first, which may even wait for the planned one.
fn pass_on_hint(runtime: &Arc<Runtime>, worker: &WorkerLocal) {
    let mut guard = runtime.lock();
    if std::mem::take(&mut guard.worker_called[worker.device]) {
        runtime.wake_workers(&mut guard, runtime.now());
    }
}
