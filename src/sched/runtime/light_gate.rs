//! When a worker runs light tasks: while the gate is open for its device and, on a device that
//! processes share, while the worker holds a slot of the node for them.

use std::sync::Arc;

use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::sched::base::outcome::nanoseconds;
use crate::sched::light::queues::LightItem;

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
        runtime.wake_workers(&mut guard);
    }
}
