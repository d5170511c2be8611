//! A worker's planned task: how it begins, with the planner and with peers, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::peers::TableAccess;
use super::run_light::stop_light;
use super::shared::{Runtime, log_all};
use super::worker_local::WorkerLocal;
use crate::error::Error;
use crate::sched::base::exec::Exec;
use crate::sched::base::outcome::nanoseconds;
use crate::sched::plan::completion::AttemptEnd;
use crate::sched::plan::effects::Effects;
use crate::sched::plan::placement::{AssignResult, Assignment};

/// Begins the planned task that should run next on the worker's device. `last`: the worker has
/// found no light task.
pub fn take_planned(runtime: &Arc<Runtime>, worker: &WorkerLocal, last: bool) -> Option<Assignment> {
    let taken = begin_planned(runtime, worker, last, None);
    if !matches!(taken, AssignResult::Unknown) {
        return taken.begun();
    }
    // Without the planner lock: a driver may take its time.
    let ordinal = runtime.devices[worker.device].ordinal;
    let free = runtime.backends[worker.device].free_bytes(ordinal).unwrap_or(u64::MAX);
    begin_planned(runtime, worker, last, Some(free)).begun()
}

fn begin_planned(
    runtime: &Arc<Runtime>,
    worker: &WorkerLocal,
    last: bool,
    free: Option<u64>,
) -> AssignResult {
    // The planner counts on a worker that holds no lease.
    drop(worker.light_lease.take());
    // Unlocked after the planner: unlocking may log, and the log may be the caller's code.
    let mut access = runtime.lock_table(worker.device);
    let mut guard = runtime.lock();
    if let TableAccess::Locked(peers, table) = &mut access {
        runtime.update_peer_load(peers, table, &mut guard);
    }
    let now = runtime.now();
    let clock = nanoseconds(now);
    guard.worker_called[worker.device] = false;
    if !last
        && guard.planner.first_priority().is_some_and(|priority| priority < 0)
        && clock.saturating_sub(worker.last_planned_ns.get()) < nanoseconds(runtime.policy.stand_back)
        && runtime.light.queues.has_items(&worker.queue)
        || worker.slot >= guard.planner.slots(worker.device)
    {
        return AssignResult::Nothing;
    }
    let exclusive = guard.planner.has_exclusive_tasks();
    let runs_light = || runtime.runs_light(worker.device, Some(&worker.queue.shared));
    let runs_light =
        if exclusive { runtime.light.gate.close(worker.device, runs_light) } else { runs_light() };
    guard.planner.set_runs_light(worker.device, runs_light);
    let known = guard.planner.known_free_bytes(now, worker.device);
    let mut effects = Effects::at(now);
    let mut taken = guard.planner.assign(worker.device, worker.slot, free, &mut effects);
    guard.log.append(&mut effects.log);
    let mut queued = true;
    if let TableAccess::Locked(peers, table) = &mut access {
        if let AssignResult::Begins(assignment) = &mut taken {
            assignment.lease = runtime.lease_for_task(table, &mut guard, worker.device, assignment.id);
        }
        queued = runtime.update_queue(peers, table, &mut guard);
    }
    match taken {
        AssignResult::Begins(_) => {
            worker.last_planned_ns.set(clock);
            // Another worker may find room and a task.
            runtime.wake_workers(&mut guard);
            runtime.ensure_timer(&mut guard);
        }
        AssignResult::Nothing => {
            runtime.pool.planned_hint.fetch_and(!(1 << worker.device), Ordering::SeqCst);
            let short = known.is_none() && guard.planner.known_free_bytes(now, worker.device).is_some();
            if short || !queued || guard.planner.is_taken(worker.device) {
                // Peers have taken the device or its memory: another one may be better now, or this
                // one later.
                runtime.wake_workers(&mut guard);
                runtime.ensure_timer(&mut guard);
            }
        }
        AssignResult::Unknown => {}
    }
    // Opens the device to light tasks again, unless the task that begins is exclusive.
    let opened = exclusive && runtime.publish_flags(&guard);
    let records = std::mem::take(&mut guard.log);
    drop(guard);
    drop(access);
    log_all(records);
    if opened && !runtime.light.queues.is_empty() {
        runtime.wake_any_worker();
    }
    taken
}

pub fn run_planned(runtime: &Arc<Runtime>, worker: &WorkerLocal, assignment: Assignment) {
    stop_light(runtime, worker);
    let begin = runtime.clock();
    let Assignment { id, attempt, job, signal, context, lease } = assignment;
    worker.tasks.borrow_mut().push(runtime.light.proxies.owner(id));
    worker.in_planned.set(true);
    worker.queue.pushed.set(0);
    let nested = &worker.queue.shared.stats.nested;
    nested.set_planned(Some((id, attempt)));
    let end = worker.run_attempt(runtime, id, attempt, context, &signal, |exec| {
        job.run(&Exec { lease: lease.as_ref(), ..*exec })
    });
    // Dropping the job is the caller's code inside the task, too: this may be its last owner.
    runtime.drop_job(job);
    // Cached memory would be in the way of the peer that begins here next.
    if worker.caches_shared_memory() && runtime.has_peers(worker.device) {
        worker.release_cached();
    }
    drop(lease);
    nested.set_planned(None);
    let short = matches!(end, AttemptEnd::Ran(Err(Error::NoMemory { .. } | Error::Resources { .. })));
    let save_due = runtime.is_save_due();
    let company = short && runtime.ran_light_since(&worker.queue.shared, begin);
    let mut guard = runtime.lock();
    let mut effects = Effects::at(runtime.now());
    if company {
        guard.planner.had_company(worker.device, id, attempt);
    }
    if !guard.planner.on_attempt_end(worker.device, id, attempt, end, &mut effects) {
        worker.abandoned.set(true);
        runtime.pool.abandoned_returned();
    }
    runtime.count_ending(&effects);
    let asking = (!save_due && !worker.abandoned.get()).then_some(worker.device);
    log_all(runtime.apply_counted(guard, effects, asking));
    if save_due {
        runtime.save_rates();
    }
    worker.in_planned.set(false);
    worker.tasks.borrow_mut().pop();
    let end = runtime.clock();
    worker.last_ns.set(end);
    let used = worker.planned_ns.get() + (end - begin);
    if used >= nanoseconds(runtime.policy.turn) {
        worker.planned_ns.set(0);
        worker.light_until_ns.set(end + nanoseconds(runtime.policy.light_slice));
    } else {
        worker.planned_ns.set(used);
    }
}
