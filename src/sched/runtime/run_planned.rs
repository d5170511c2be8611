//! A worker's planned task: how it begins, with the planner and with peers, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{PlannerGuarded, Runtime, WorkerLocal, is_leaving, log_all, stop_light};
use crate::error::Error;
use crate::sched::base::{Exec, nanoseconds};
use crate::sched::plan::{AssignResult, Assignment, AttemptEnd, Effects};

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
    let now = runtime.now();
    if let Some((peers, table)) = &mut access {
        runtime.update_peer_load(peers, table, &mut guard);
    }
    let exclusive = guard.planner.has_exclusive_tasks();
    let known = guard.planner.known_free_bytes(now, worker.device);
    let mut taken = assign(runtime, worker, &mut guard, now, last, free);
    let mut queued = true;
    if let Some((peers, table)) = &mut access {
        if let AssignResult::Begins(assignment) = &mut taken {
            assignment.lease = runtime.lease_for_task(table, &mut guard, worker.device, assignment.id);
        }
        queued = runtime.update_queue(peers, table, &mut guard);
    }
    let wake = match taken {
        // Another worker may find room and a task.
        AssignResult::Begins(_) => true,
        // Peers have taken the device or its memory: another one may be better now, or this one later.
        AssignResult::Nothing => {
            let short = known.is_none() && guard.planner.known_free_bytes(now, worker.device).is_some();
            short || !queued || guard.planner.is_taken(worker.device)
        }
        AssignResult::Unknown => false,
    };
    if wake {
        runtime.wake_workers(&mut guard, now);
        runtime.ensure_timer(&mut guard, now);
    }
    // Opens the device to light tasks again, unless the task that begins is exclusive.
    let opened = exclusive && runtime.publish_flags(&guard, now);
    let records = std::mem::take(&mut guard.log);
    drop(guard);
    drop(access);
    log_all(records);
    if opened && !runtime.light.queues.is_empty() {
        runtime.wake_any_worker();
    }
    taken
}

/// Makes the planner assign a task to the worker.
fn assign(
    runtime: &Runtime,
    worker: &WorkerLocal,
    guard: &mut PlannerGuarded,
    now: Duration,
    last: bool,
    free: Option<u64>,
) -> AssignResult {
    let clock = nanoseconds(now);
    guard.worker_called[worker.device] = false;
    let stands_back = !last
        && guard.planner.first_priority().is_some_and(|priority| priority < 0)
        && clock.saturating_sub(worker.last_planned_ns.get()) < nanoseconds(runtime.policy.stand_back)
        && runtime.light.queues.has_items(&worker.queue);
    if stands_back || worker.slot >= guard.planner.slots(worker.device) {
        return AssignResult::Nothing;
    }
    let runs_light = || runtime.runs_light(worker.device, Some(&worker.queue.shared));
    let runs_light = match guard.planner.has_exclusive_tasks() {
        true => runtime.light.gate.close(worker.device, runs_light),
        false => runs_light(),
    };
    guard.planner.set_runs_light(worker.device, runs_light);
    let mut effects = Effects::at(now);
    let taken = guard.planner.assign(worker.device, worker.slot, free, &mut effects);
    guard.log.append(&mut effects.log);
    match taken {
        AssignResult::Begins(_) => worker.last_planned_ns.set(clock),
        AssignResult::Nothing => {
            runtime.pool.planned_hint.fetch_and(!(1 << worker.device), Ordering::SeqCst);
        }
        AssignResult::Unknown => {}
    }
    taken
}

/// Assigns the next task to a worker whose attempt has just ended, under the same lock. If that takes more than the
/// planner, marks the worker as called: it asks for a task next, and no other is woken for its slot.
fn assign_next(
    runtime: &Runtime,
    worker: &WorkerLocal,
    guard: &mut PlannerGuarded,
    now: Duration,
) -> Option<Assignment> {
    if !guard.planner.has_ready_tasks() {
        return None;
    }
    if !runtime.shares(worker.device) && !guard.planner.has_exclusive_tasks() {
        match assign(runtime, worker, guard, now, false, None) {
            AssignResult::Unknown => {}
            taken => return taken.begun(),
        }
    }
    guard.worker_called[worker.device] = true;
    runtime.pool.planned_hint.fetch_or(1 << worker.device, Ordering::SeqCst);
    None
}

/// Runs a planned task. Returns the one that the worker runs next, if that is known already.
pub fn run_planned(
    runtime: &Arc<Runtime>,
    worker: &WorkerLocal,
    assignment: Assignment,
) -> Option<Assignment> {
    stop_light(runtime, worker);
    let Assignment { id, attempt, began, job, signal, context, lease } = assignment;
    let begin = nanoseconds(began);
    worker.tasks.borrow_mut().push(runtime.light.proxies.owner(id));
    worker.in_planned.set(true);
    worker.queue.pushed.set(0);
    let nested = &worker.queue.shared.stats.nested;
    nested.set_planned((id, attempt));
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
    // The planner keeps it for the next task, unless other threads have it.
    drop(signal);
    let short = matches!(end, AttemptEnd::Ran(Err(Error::NoMemory { .. } | Error::Resources { .. })));
    let save_due = runtime.is_save_due();
    let company = short && runtime.ran_light_since(&worker.queue.shared, begin);
    let mut guard = runtime.lock();
    let now = runtime.now();
    let mut effects = Effects::at(now);
    if company {
        guard.planner.had_company(worker.device, id, attempt);
    }
    if !guard.planner.on_attempt_end(worker.device, id, attempt, end, &mut effects) {
        worker.abandoned.set(true);
        runtime.pool.abandoned_returned();
    }
    let light_first = worker.end_planned(nanoseconds(now), begin);
    let must_end = worker.abandoned.get() || runtime.pool.has_surplus(worker.index);
    let asks = !save_due && !light_first && !must_end;
    let (log, next) = runtime.apply_counted(guard, effects, |guard, now| {
        // The drop of the job may have ended the thread.
        if asks && !is_leaving() { assign_next(runtime, worker, guard, now) } else { None }
    });
    log_all(log);
    if save_due {
        runtime.save_rates();
    }
    worker.in_planned.set(false);
    worker.tasks.borrow_mut().pop();
    next
}
