//! A worker: one thread for one slot of one device.
//!
//! The worker opens its device queue when its first task arrives, then runs planned and light tasks
//! one after the other, and sleeps when there are none. Planned tasks come first, but after a long
//! turn of them the light ones get a slice of time, and planned tasks of negative priority let
//! light ones pass for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{PlannerGuarded, Runtime, WorkerLocal, log_all, may_run_light, run_light, take_light};
use crate::sched::base::{DeviceLease, Exec, nanoseconds};
use crate::sched::light::{LightItem, NO_DEVICE};
use crate::sched::plan::{AssignResult, Assignment, AttemptEnd, Effects};

/// A planned task that begins, and its lease of a slot, where processes share the device.
pub type LeasedAssignment = (Assignment, Option<DeviceLease>);

enum WorkFound {
    Planned(LeasedAssignment),
    Light(LightItem),
}

/// The main function of a worker thread, which the caller has counted as a searcher.
pub fn run_worker(runtime: &Arc<Runtime>, index: usize) {
    let worker = WorkerLocal::enter(runtime, index);
    let mut work = search(&worker);
    while let Some(this) = work {
        let next = match this {
            WorkFound::Planned(assignment) => run_planned(&worker, assignment),
            WorkFound::Light(item) => {
                run_light(&worker, item);
                // The copies of a `WorkFound` wait for the writes to its parts.
                while !is_superfluous(&worker)
                    && !has_planned_hint(&worker)
                    && let Some(item) = take_light(&worker)
                {
                    run_light(&worker, item);
                }
                None
            }
        };
        // Also if the worker is leaving: a log function may end the thread after the next task was
        // assigned.
        work = next.map(WorkFound::Planned).or_else(|| find_work(&worker)).or_else(|| {
            worker.stop_light();
            runtime.pool.event_count.start_search();
            search(&worker)
        });
    }
    let (device, abandoned) = (worker.device, worker.abandoned.get());
    worker.leave();
    after_leaving(runtime, device, abandoned);
}

/// Searches and sleeps until there is a task to run. `None`: the worker is to end.
fn search(worker: &WorkerLocal) -> Option<WorkFound> {
    let runtime = &worker.runtime;
    let event_count = &runtime.pool.event_count;
    loop {
        if must_leave(worker) {
            // While the worker counts as awake: for a moment each task is in no queue, and a wait for it
            // is no deadlock.
            runtime.light.queues.hand_over(&worker.queue);
            event_count.remove_searcher();
            return None;
        }
        if let Some(work) = find_work(worker) {
            if event_count.end_search() && runtime.light.queues.has_items(&worker.queue) {
                runtime.wake_any_worker();
            }
            worker.update_clock();
            return Some(work);
        }
        // The flag may be up, and no planned task is to wait for a worker that sleeps.
        worker.stop_light();
        if spin(worker) {
            continue;
        }
        event_count.prepare_sleep(&worker.sleeper);
        if has_work(worker) || may_have_to_leave(worker) {
            event_count.cancel_sleep(&worker.sleeper);
            continue;
        }
        if !may_run_light(worker) && runtime.light.queues.has_items(&worker.queue) {
            // The thread that woke this worker for a light task has woken no other.
            runtime.wake_any_worker();
        }
        runtime.wait_queues.notify_blocked();
        sleep(worker);
        worker.update_clock();
    }
}

/// Sleeps until the worker is woken. After a while, frees what the worker caches on the device, and
/// returns the leases that could not be returned; advances the timers if there is no timer thread.
fn sleep(worker: &WorkerLocal) {
    let runtime = &worker.runtime;
    let event_count = &runtime.pool.event_count;
    loop {
        let keeps = worker.caches_shared_memory();
        let peers = runtime.peers.as_ref().filter(|peers| peers.membership.is_behind());
        let is_limited = keeps || peers.is_some() || runtime.no_timer.load(Ordering::Relaxed);
        if event_count.sleep(&worker.sleeper, is_limited.then_some(runtime.policy.rest)) {
            return;
        }
        if keeps {
            worker.release_cached();
        }
        if let Some(peers) = peers {
            peers.membership.catch_up();
        }
        runtime.advance_without_timer();
    }
}

/// Spins for a moment. Returns true if there may be work.
fn spin(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    let event_count = &runtime.pool.event_count;
    // A single worker spins at a time, and only if a processor is idle.
    if event_count.searching() > 1 || event_count.awake() > runtime.spinners_most {
        return false;
    }
    let (time, policy) = (worker.spin_ns.get(), &runtime.policy);
    let goes_on = || has_work(worker) || may_have_to_leave(worker);
    let found = runtime.spin(time, || goes_on().then_some(())).is_some();
    worker.spin_ns.set(match found {
        true => (time * 2).min(nanoseconds(policy.spin_most)),
        false => (time / 2).max(nanoseconds(policy.spin_least)),
    });
    found
}

fn has_planned_hint(worker: &WorkerLocal) -> bool {
    worker.runtime.pool.planned_hint.load(Ordering::SeqCst) >> worker.device & 1 == 1
}

fn has_work(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    has_planned_hint(worker) || may_run_light(worker) && runtime.light.queues.has_items(&worker.queue)
}

/// Returns true if the worker takes no more tasks: its thread, its place, its slot or its device is
/// gone.
fn is_superfluous(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    worker.leaving.get()
        || runtime.pool.has_surplus(worker.index)
        || worker.slot >= runtime.pool.slots(worker.device)
        || runtime.pool.retired.load(Ordering::SeqCst) >> worker.device & 1 == 1
}

fn may_have_to_leave(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    is_superfluous(worker) || runtime.light.is_stopping() && runtime.light.epochs.is_drained()
}

fn must_leave(worker: &WorkerLocal) -> bool {
    let runtime = &worker.runtime;
    if runtime.pool.leave_if_surplus(worker.index) {
        return true;
    }
    let go = may_have_to_leave(worker) && !runtime.pool.has_surplus(worker.index);
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
    if guard.planner.is_stopping() {
        drop(guard);
    } else {
        runtime.apply_effects(guard, Effects::at(runtime.now()));
    }
    runtime.wake_if_opened(true);
    if runtime.light.stop_flags.load(Ordering::SeqCst) & NO_DEVICE != 0 {
        // The thread that emptied the queues has not seen tasks that moved from one to another.
        runtime.end_all_queued();
    }
    runtime.fail_if_deserted();
    runtime.wait_queues.notify_blocked();
    if runtime.light.is_stopping() && !runtime.pool.has_worker() {
        runtime.wake_timer_and_watcher();
    }
}

fn find_work(worker: &WorkerLocal) -> Option<WorkFound> {
    if is_superfluous(worker) {
        return None;
    }
    let planned = has_planned_hint(worker);
    let light_first = worker.light_comes_first();
    if planned
        && !light_first
        && let Some(assignment) = take_planned(worker, false)
    {
        return Some(WorkFound::Planned(assignment));
    }
    if let Some(item) = take_light(worker) {
        if planned && has_planned_hint(worker) {
            pass_on_hint(worker);
        }
        return Some(WorkFound::Light(item));
    }
    let asks = planned && has_planned_hint(worker);
    asks.then(|| take_planned(worker, true)).flatten().map(WorkFound::Planned)
}

/// Wakes another worker for the planner: this one may have been woken for a planned task, and runs
/// a light one first, which may even wait for the planned one.
fn pass_on_hint(worker: &WorkerLocal) {
    let runtime = &worker.runtime;
    let mut guard = runtime.lock();
    if std::mem::take(&mut guard.worker_called[worker.device]) {
        runtime.apply_effects(guard, Effects::at(runtime.now()));
    }
}

/// Begins the planned task that should run next on the worker's device. `last`: the worker has
/// found no light task.
pub fn take_planned(worker: &WorkerLocal, last: bool) -> Option<LeasedAssignment> {
    let runtime = &worker.runtime;
    let (mut taken, mut lease) = begin_planned(worker, last, None);
    if matches!(taken, AssignResult::Unknown) {
        // Without the planner lock: a driver may take its time.
        let ordinal = runtime.devices[worker.device].ordinal;
        let free = runtime.backends[worker.device].free_bytes(ordinal).unwrap_or(u64::MAX);
        (taken, lease) = begin_planned(worker, last, Some(free));
    }
    Some((taken.begun()?, lease))
}

fn begin_planned(worker: &WorkerLocal, last: bool, free: Option<u64>) -> (AssignResult, Option<DeviceLease>) {
    let runtime = &worker.runtime;
    // The slot of light tasks is for the planned one.
    let leased = worker.light_lease.take().is_some();
    // Unlocked after the planner: unlocking may log, and the log may be the caller's code.
    let mut access = runtime.lock_table(worker.device);
    let mut guard = runtime.lock();
    let now = runtime.now();
    if leased {
        guard.planner.return_light_slot(worker.device);
    }
    let mut opened = false;
    if let Some((peers, table)) = &mut access {
        opened = runtime.update_peer_load(peers, table, &mut guard);
    }
    let exclusive = guard.planner.has_exclusive_tasks();
    let known = guard.planner.devices()[worker.device].known_free_bytes(now);
    let taken = assign(worker, &mut guard, now, last, free);
    let mut lease = None;
    if let Some((peers, table)) = &mut access {
        if let AssignResult::Begins(assignment) = &taken {
            lease = runtime.lease_for_task(table, &mut guard, worker.device, assignment.id);
        }
        runtime.update_queue(peers, table, &guard);
    }
    let wake = match taken {
        // Another worker may find room and a task.
        AssignResult::Begins(_) => true,
        // Peers have taken the device or its memory: another one may be better now, or this one
        // later.
        AssignResult::Nothing => {
            let short =
                known.is_none() && guard.planner.devices()[worker.device].known_free_bytes(now).is_some();
            let device = &guard.planner.devices()[worker.device];
            short || device.is_taken() || device.backs_off(now, u64::MAX)
        }
        AssignResult::Unknown => false,
    };
    if wake {
        runtime.wake_workers(&mut guard, now);
        runtime.ensure_timer(&mut guard, now);
    }
    // Opens the device to light tasks again, unless the task that begins is exclusive.
    opened |= exclusive && runtime.publish_flags(&guard, now);
    let records = std::mem::take(&mut guard.log);
    drop(guard);
    drop(access);
    log_all(records);
    runtime.wake_if_opened(opened);
    (taken, lease)
}

/// Makes the planner assign a task to the worker.
fn assign(
    worker: &WorkerLocal,
    guard: &mut PlannerGuarded,
    now: Duration,
    last: bool,
    free: Option<u64>,
) -> AssignResult {
    let runtime = &worker.runtime;
    let clock = nanoseconds(now);
    let stands_back = !last
        && guard.planner.first_priority().is_some_and(|priority| priority < 0)
        && clock.saturating_sub(worker.last_planned_ns.get()) < nanoseconds(runtime.policy.stand_back)
        && runtime.light.queues.has_items(&worker.queue);
    if stands_back {
        // It is called still, and wakes another worker when it begins a light task.
        return AssignResult::Nothing;
    }
    guard.worker_called[worker.device] = false;
    if worker.slot >= guard.planner.devices()[worker.device].slots {
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
    guard.planner.check_step();
    match taken {
        AssignResult::Begins(_) => worker.last_planned_ns.set(clock),
        AssignResult::Nothing => {
            runtime.pool.planned_hint.fetch_and(!(1 << worker.device), Ordering::SeqCst);
        }
        AssignResult::Unknown => {}
    }
    taken
}

/// Assigns the next task to a worker whose attempt has just ended, under the same lock. If that
/// takes more than the planner, marks the worker as called: it asks for a task next, and no other
/// is woken for its slot.
fn assign_next(worker: &WorkerLocal, guard: &mut PlannerGuarded, now: Duration) -> Option<LeasedAssignment> {
    let runtime = &worker.runtime;
    if !guard.planner.has_ready_tasks() {
        return None;
    }
    if !runtime.shares(worker.device) && !guard.planner.has_exclusive_tasks() {
        match assign(worker, guard, now, false, None) {
            AssignResult::Unknown => {}
            taken => return Some((taken.begun()?, None)),
        }
    }
    guard.worker_called[worker.device] = true;
    runtime.pool.planned_hint.fetch_or(1 << worker.device, Ordering::SeqCst);
    None
}

/// Runs a planned task. Returns the one that the worker runs next, if that is known already.
fn run_planned(worker: &WorkerLocal, (assignment, lease): LeasedAssignment) -> Option<LeasedAssignment> {
    let runtime = &worker.runtime;
    worker.stop_light();
    let Assignment { id, known_as, attempt, began, job, signal, context } = assignment;
    let begin = nanoseconds(began);
    worker.tasks.borrow_mut().push(known_as);
    worker.in_planned.set(true);
    worker.queue.pushed.set(0);
    let nested = &worker.queue.shared.stats.nested;
    nested.set_planned((id, attempt));
    let run = |exec: &Exec<'_>| job.run(exec);
    let end = worker.run_attempt((known_as, attempt), context, &signal, None, lease.as_ref(), run);
    // Dropping the job is the caller's code inside the task, too: this may be its last owner.
    runtime.drop_job(job);
    // Cached memory would be in the way of the peer that begins here next.
    if worker.caches_shared_memory()
        && runtime.lock_table(worker.device).is_some_and(|(_, table)| table.other_members() > 0)
    {
        worker.release_cached();
    }
    drop(lease);
    // The planner keeps it for the next task, unless other threads have it.
    drop(signal);
    let short = matches!(&end, AttemptEnd::Ran(Err(error)) if error.is_shortage());
    let company = short && runtime.ran_light_since(&worker.queue.shared, begin);
    let mut guard = runtime.lock();
    let now = runtime.now();
    let mut effects = Effects::at(now);
    if company {
        guard.planner.set_shared(worker.device, (id, attempt));
    }
    runtime.count_light(&mut guard.planner, worker.device, None, &end);
    if !guard.planner.on_attempt_end(worker.device, id, attempt, end, &mut effects) {
        worker.abandoned.set(true);
        runtime.pool.abandoned.fetch_sub(1, Ordering::SeqCst);
    }
    let light_first = worker.end_planned(nanoseconds(now), begin);
    let next = runtime.apply_with(guard, effects, |guard, now| {
        // After the drop of the job, which may have ended the thread.
        let asks = !light_first && !is_superfluous(worker);
        asks.then(|| assign_next(worker, guard, now)).flatten()
    });
    runtime.save_rates_if_due();
    worker.in_planned.set(false);
    worker.tasks.borrow_mut().pop();
    next
}

#[cfg(test)]
mod tests {
    use log::Level;

    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::device::{BackendKind, DeviceInfo};
    use crate::sched::base::Policy;

    /// No later step may log them.
    #[test]
    fn records_do_not_wait_for_the_next_step() {
        let device =
            (DeviceInfo::new("cpu", BackendKind::Cpu, 0, "paper"), Arc::new(CpuBackend::new(None)) as _);
        let runtime = Arc::new(Runtime::new(vec![device], 1, 0, None, |_, _| {}, Policy::default()));
        let worker = WorkerLocal::enter(&runtime, 0);
        let (flag, gate) = (&worker.queue.shared.stats.runs_light, &runtime.light.gate);
        let stops_light = || {
            assert!(gate.enter(flag, 0));
            gate.close(0, || true);
            worker.stop_light();
        };
        let passes_on = || {
            runtime.lock().worker_called[0] = true;
            pass_on_hint(&worker);
        };
        for code in [&stops_light as &dyn Fn(), &passes_on, &|| after_leaving(&runtime, 0, true)] {
            runtime.lock().log.push((Level::Debug, "a record".into()));
            code();
            assert!(runtime.lock().log.is_empty());
        }
        worker.leave();
    }
}
