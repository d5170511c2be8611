//! A worker's planned task: how it begins, with the plan and with other processes, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::light_gate::{TURN_NS, stop_light};
use super::peers::NodeAccess;
use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::error::Error;
use crate::sched::base::exec::Exec;
use crate::sched::base::outcome::nanoseconds;
use crate::sched::plan::completion::AttemptEnd;
use crate::sched::plan::effects::Effects;
use crate::sched::plan::placement::{AssignResult, Assignment};

/// Nanoseconds that light tasks have after a turn of planned ones.
const LIGHT_SLICE: u64 = 10_000_000;
/// Planned tasks of negative priority stand back no longer.
const STAND_BACK: u64 = 100_000_000;

pub fn take_planned(shared: &Arc<Runtime>, me: &WorkerLocal, last: bool) -> Option<Assignment> {
    let taken = begin_planned(shared, me, last, None);
    if !matches!(taken, AssignResult::Unknown) {
        return taken.begun();
    }
    // Without the lock: a driver may take its time.
    let ordinal = shared.devices[me.device].ordinal;
    let free = shared.backends[me.device].free_bytes(ordinal).unwrap_or(u64::MAX);
    begin_planned(shared, me, last, Some(free)).begun()
}

fn begin_planned(shared: &Arc<Runtime>, me: &WorkerLocal, last: bool, free: Option<u64>) -> AssignResult {
    // The plan takes the worker for one that holds nothing.
    drop(me.light_lease.take());
    let mut door = shared.door(me.device);
    let mut guard = shared.lock();
    if let NodeAccess::Open(node, inside) = &mut door {
        shared.look_at_others(node, inside, &mut guard);
    }
    let now = shared.now();
    let clock = nanoseconds(now);
    guard.worker_called[me.device] = false;
    if !last
        && guard.planner.first_priority().is_some_and(|priority| priority < 0)
        && clock.saturating_sub(me.last_planned_ns.get()) < STAND_BACK
        && shared.light.queues.has_items(&me.queue)
        || me.slot >= guard.planner.slots(me.device)
    {
        return AssignResult::Nothing;
    }
    let exclusive = guard.planner.has_exclusive_tasks();
    let runs_light = || shared.runs_light(me.device, Some(&me.queue.shared));
    let runs_light = if exclusive { shared.light.gate.close(me.device, runs_light) } else { runs_light() };
    guard.planner.set_runs_light(me.device, runs_light);
    let known = guard.planner.known_free_bytes(now, me.device);
    let mut effects = Effects::at(now);
    let mut taken = guard.planner.assign(me.device, me.slot, free, &mut effects);
    guard.log.append(&mut effects.log);
    let mut queued = true;
    if let NodeAccess::Open(node, inside) = &mut door {
        if let AssignResult::Begins(assignment) = &mut taken {
            assignment.held = shared.hold_for(inside, &guard, me.device, assignment.id);
        }
        queued = shared.queue_up(node, inside, &mut guard);
    }
    drop(door);
    match taken {
        AssignResult::Begins(_) => {
            me.last_planned_ns.set(clock);
            // There may be room, and a task, for another worker beside this one.
            shared.wake_workers(&mut guard);
            shared.ensure_timer(&mut guard);
        }
        AssignResult::Nothing => {
            shared.pool.planned_hint.fetch_and(!(1 << me.device), Ordering::SeqCst);
            let short = known.is_none() && guard.planner.known_free_bytes(now, me.device).is_some();
            if short || !queued || guard.planner.is_taken(me.device) {
                // Others have taken it, or its memory: another device may be the better one now, or this one later.
                shared.wake_workers(&mut guard);
                shared.ensure_timer(&mut guard);
            }
        }
        AssignResult::Unknown => {}
    }
    // Opens the device to light tasks again, unless the task that begins is to run alone.
    if exclusive && shared.publish_flags(&guard) && !shared.light.queues.is_empty() {
        drop(guard);
        shared.wake_any_worker();
    }
    taken
}

pub fn run_planned(shared: &Arc<Runtime>, me: &WorkerLocal, assignment: Assignment) {
    stop_light(shared, me);
    let begin = shared.clock();
    let Assignment { id, attempt, job, signal, context, held } = assignment;
    me.tasks.borrow_mut().push(shared.light.proxies.owner(id));
    me.in_planned.set(true);
    me.queue.pushed.set(0);
    let on_top = &me.queue.shared.stats.nested;
    on_top.set_planned(Some((id, attempt)));
    let how = me.run_attempt(shared, id, attempt, context, &signal, |exec| {
        job.run(&Exec { held: held.as_ref(), ..*exec })
    });
    // The job's drop is the caller's code inside the task, too: it may be the last to hold it.
    shared.drop_job(job);
    // What is kept of the device would be in the way of the process that begins here next.
    if me.caches_shared_memory() && shared.has_neighbours(me.device) {
        me.release_cached();
    }
    drop(held);
    on_top.set_planned(None);
    let short = matches!(how, AttemptEnd::Ran(Err(Error::NoMemory { .. } | Error::Resources { .. })));
    let company = short && shared.ran_light_since(&me.queue.shared, begin);
    let mut guard = shared.lock();
    let mut effects = Effects::at(shared.now());
    if company {
        guard.planner.had_company(me.device, id, attempt);
    }
    if !guard.planner.on_attempt_end(me.device, id, attempt, how, &mut effects) {
        me.abandoned.set(true);
        shared.pool.abandoned_returned();
    }
    shared.apply_effects(guard, effects);
    shared.save_rates_now_and_then();
    me.in_planned.set(false);
    me.tasks.borrow_mut().pop();
    let end = shared.clock();
    me.last_ns.set(end);
    let used = me.planned_ns.get() + (end - begin);
    if used >= TURN_NS {
        me.planned_ns.set(0);
        me.light_until_ns.set(end + LIGHT_SLICE);
    } else {
        me.planned_ns.set(used);
    }
}
