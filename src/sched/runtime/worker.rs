//! A worker: one thread for one slot of one device.
//!
//! It opens its queue when its first task arrives, then runs one thing after the other, from the plan and from
//! the light queues, and sleeps when there is none. The plan comes first when it has something for the
//! device, but after a long turn of planned tasks the light ones have a slice of time; planned tasks of
//! negative priority stand back behind light ones for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::light_gate::{may_run_light, stop_light, take_light};
use super::run_light::run_light;
use super::run_planned::{run_planned, take_planned};
use super::shared::Runtime;
use super::worker_local::{WorkerLocal, is_leaving};
use crate::sched::light::NO_DEVICE;
use crate::sched::light::queues::LightItem;
use crate::sched::plan::placement::Assignment;

/// How long an idle worker looks around before it sleeps, if that has paid lately, or if it has not.
const SPIN: u64 = 50_000;
const SPIN_MIN: u64 = 2_000;
/// How long an idle worker keeps of its device what the next task may want, and how often it looks after the time where
/// it has to.
const REST: Duration = Duration::from_secs(1);

enum WorkFound {
    Planned(Assignment),
    Light(LightItem),
}

/// The life of a worker, which is counted as searching already.
pub fn run_worker(runtime: &Arc<Runtime>, index: usize) {
    let worker = WorkerLocal::enter(runtime, index, SPIN);
    let mut work = search(runtime, &worker);
    while let Some(this) = work {
        match this {
            WorkFound::Planned(assignment) => run_planned(runtime, &worker, assignment),
            WorkFound::Light(item) => run_light(runtime, &worker, item),
        }
        if is_leaving() {
            stop_light(runtime, &worker);
            runtime.pool.event_count.start_search();
            runtime.pool.vacate(index);
            runtime.pool.event_count.remove_searcher();
            break;
        }
        work = find_work(runtime, &worker).or_else(|| {
            stop_light(runtime, &worker);
            runtime.pool.event_count.start_search();
            search(runtime, &worker)
        });
    }
    let (device, abandoned) = (worker.device, worker.abandoned.get());
    worker.leave();
    after_leaving(runtime, device, abandoned);
}

/// Searches, and sleeps, until there is something to run; `None`: the worker is not needed any more.
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
        // It may have been about to take a light task: nobody is to wait for one who sleeps.
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
            // Whoever called this worker for a light task has called nobody else.
            runtime.wake_any_worker();
        }
        runtime.notify_blocked();
        sleep(runtime, worker);
        worker.update_clock();
    }
}

/// Until the worker is called. After a while it gives back what it keeps, and where nobody else does, it looks after the time.
fn sleep(runtime: &Arc<Runtime>, worker: &WorkerLocal) {
    let event_count = &runtime.pool.event_count;
    loop {
        let keeps = worker.caches_shared_memory();
        if !keeps && !runtime.no_timer.load(Ordering::Relaxed) {
            return event_count.sleep(&worker.sleeper);
        }
        if event_count.sleep_for(&worker.sleeper, REST) {
            return;
        }
        if keeps {
            worker.release_cached();
        }
        runtime.advance_without_timer();
    }
}

/// Looks around for a moment. True: there is something.
fn spin(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    let event_count = &runtime.pool.event_count;
    // One at a time, and not where it would take the processor from those who work.
    if event_count.searching() > 1 || event_count.awake() > runtime.spinners_most() {
        return false;
    }
    let begin = runtime.clock();
    loop {
        for _ in 0..4 {
            std::hint::spin_loop();
        }
        if has_work(runtime, worker) || may_have_to_leave(runtime, worker) {
            worker.spin_ns.set((worker.spin_ns.get() * 2).min(SPIN));
            return true;
        }
        if runtime.clock() - begin > worker.spin_ns.get() {
            worker.spin_ns.set((worker.spin_ns.get() / 2).max(SPIN_MIN));
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
        || runtime.light.is_stopping() && runtime.light.queues.is_drained()
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

/// Another has to do what this worker was called for, and a shutdown goes on.
fn after_leaving(runtime: &Arc<Runtime>, device: usize, abandoned: bool) {
    if !abandoned {
        runtime.pool.thread_ended();
    }
    if runtime.light.is_stopping() {
        runtime.pool.event_count.wake_all();
    }
    let mut guard = runtime.lock();
    guard.worker_called[device] = false;
    if !guard.planner.stopping {
        runtime.wake_workers(&mut guard);
    }
    runtime.timer_wakeup.notify_all();
    drop(guard);
    if !runtime.light.queues.is_empty() {
        runtime.wake_any_worker();
    }
    if runtime.light.stop_flags.load(Ordering::SeqCst) & NO_DEVICE != 0 {
        // Whoever emptied the queues has not seen what was on its way from one to another.
        runtime.end_all_queued();
    }
    if runtime.pool.is_deserted() {
        runtime.fail_deserted();
    }
    runtime.notify_blocked();
}

/// What is next for a worker, if anything.
fn find_work(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> Option<WorkFound> {
    let surplus = runtime.pool.has_surplus(worker.index);
    if surplus || is_retired(runtime, worker) || worker.slot >= runtime.pool.slots(worker.device) {
        return None;
    }
    let planned = has_planned_hint(runtime, worker);
    let light_first = worker.last_ns.get() < worker.light_until_ns.get();
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

/// A worker that may have been called for the plan does something else first, which may even wait for what is
/// planned: another is called in its stead.
fn pass_on_hint(runtime: &Arc<Runtime>, worker: &WorkerLocal) {
    let mut guard = runtime.lock();
    if std::mem::take(&mut guard.worker_called[worker.device]) {
        runtime.wake_workers(&mut guard);
    }
}
