//! A worker's planned task: how it begins, with the plan and with other processes, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::light_gate::{TURN, leave_light};
use super::peers::NodeAccess;
use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::error::Error;
use crate::sched::base::exec::Exec;
use crate::sched::base::outcome::nanoseconds;
use crate::sched::plan::completion::AttemptEnd;
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
    drop(me.lit.take());
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
        && clock.saturating_sub(me.planned_at.get()) < STAND_BACK
        && shared.light.queues.any(&me.hand)
        || me.slot >= guard.planner.devices[me.device].slots
    {
        return AssignResult::Nothing;
    }
    guard.planner.devices[me.device].runs_light = shared.runs_light(me.device, Some(&me.hand.station));
    let known = guard.planner.devices[me.device].known_free_bytes(now);
    let mut taken = guard.planner.assign(now, me.device, me.slot, free);
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
            me.planned_at.set(clock);
            // There may be room, and a task, for another worker beside this one.
            shared.wake_workers(&mut guard);
            shared.ensure_timer(&mut guard);
            // What runs alone closes its device to light tasks, and may have been waited for on others.
            if guard.planner.exclusive_tasks > 0
                && shared.publish_flags(&guard)
                && !shared.light.queues.is_empty()
            {
                drop(guard);
                shared.wake_any_worker();
            }
        }
        AssignResult::Nothing => {
            shared.pool.look.fetch_and(!(1 << me.device), Ordering::SeqCst);
            let short = known.is_none() && guard.planner.devices[me.device].known_free_bytes(now).is_some();
            if short || !queued || guard.planner.devices[me.device].is_taken() {
                // Others have taken it, or its memory: another device may be the better one now, or this one later.
                shared.wake_workers(&mut guard);
                shared.ensure_timer(&mut guard);
            }
        }
        AssignResult::Unknown => {}
    }
    taken
}

pub fn run_planned(shared: &Arc<Runtime>, me: &WorkerLocal, assignment: Assignment) {
    leave_light(shared, me);
    let begin = shared.clock();
    let Assignment { id, attempt, job, signal, context, held } = assignment;
    me.frames.borrow_mut().push(shared.light.known_as(id));
    me.on_plan.set(true);
    me.hand.pushed.set(0);
    let on_top = &me.hand.station.books.on_top;
    on_top.set_bottom(Some((id, attempt)));
    let how = me.attempt(shared, id, attempt, context, &signal, |exec| {
        job.run(&Exec { held: held.as_ref(), ..*exec })
    });
    // The job's drop is the caller's code inside the task, too: it may be the last to hold it.
    shared.drop_job(job);
    // What is kept of the device would be in the way of the process that begins here next.
    if me.keeps_what_others_may_need() && shared.has_neighbours(me.device) {
        me.relieve();
    }
    drop(held);
    on_top.set_bottom(None);
    let short = matches!(how, AttemptEnd::Ran(Err(Error::NoMemory { .. } | Error::Resources { .. })));
    let company = short && shared.ran_light_since(&me.hand.station, begin);
    let mut guard = shared.lock();
    let now = shared.now();
    if company {
        guard.planner.had_company(me.device, id, attempt);
    }
    if !guard.planner.on_attempt_end(now, me.device, id, attempt, how) {
        me.given_up.set(true);
        shared.pool.came_back();
    }
    shared.apply_effects(guard);
    shared.save_rates_now_and_then();
    me.on_plan.set(false);
    me.frames.borrow_mut().pop();
    let end = shared.clock();
    me.clock.set(end);
    let used = me.plan_used.get() + (end - begin);
    if used >= TURN {
        me.plan_used.set(0);
        me.light_until.set(end + LIGHT_SLICE);
    } else {
        me.plan_used.set(used);
    }
}
