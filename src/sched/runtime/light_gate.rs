//! When light tasks run on a worker's device: not where the plan wants quiet, and where processes share it, on a slot that
//! is held for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::sched::light::queues::LightItem;

/// Nanoseconds of planned tasks after which light ones have a slice, and of light ones after which a slot goes to those of
/// other processes who wait.
pub const TURN: u64 = 100_000_000;

pub fn is_blocked(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    runtime.light_blocked.load(Ordering::SeqCst) >> worker.device & 1 == 1
}

/// Whether light tasks may begin here, for all that is known without asking.
pub fn may_run_light(runtime: &Runtime, worker: &WorkerLocal) -> bool {
    !is_blocked(runtime, worker)
        && (runtime.taken() >> worker.device & 1 == 0 || worker.light_lease.borrow().is_some())
}

pub fn take_light(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> Option<LightItem> {
    let lit = &worker.queue.shared.stats.runs_light;
    let needs_slot = runtime.shares(worker.device) && runtime.light.queues.has_items(&worker.queue);
    if !may_run_light(runtime, worker) || needs_slot && !has_light_lease(runtime, worker) {
        stop_light(runtime, worker);
        return None;
    }
    if !lit.load(Ordering::Relaxed) {
        lit.store(true, Ordering::SeqCst);
        if is_blocked(runtime, worker) {
            stop_light(runtime, worker);
            return None;
        }
    }
    runtime.light.queues.pop(&worker.queue)
}

/// Whether the worker holds a slot for light tasks, or takes one now, where other processes have to know. After a turn
/// it leaves it to those who wait.
fn has_light_lease(runtime: &Arc<Runtime>, worker: &WorkerLocal) -> bool {
    let since = worker.light_lease.borrow().as_ref().map(|lit| lit.since);
    if let Some(since) = since {
        return !runtime.is_contended(worker.device) || worker.last_ns.get().saturating_sub(since) < TURN;
    }
    let slot = runtime.hold_for_light(worker.device);
    let has = slot.is_some();
    *worker.light_lease.borrow_mut() = slot.flatten();
    has
}

/// No light task runs here for a while; a planned one may have waited for that.
pub fn stop_light(runtime: &Arc<Runtime>, worker: &WorkerLocal) {
    drop(worker.light_lease.take());
    if worker.queue.shared.stats.runs_light.swap(false, Ordering::SeqCst)
        && (is_blocked(runtime, worker) || runtime.exclusive_wanted.load(Ordering::SeqCst))
    {
        let mut guard = runtime.lock();
        runtime.wake_workers(&mut guard);
    }
}
