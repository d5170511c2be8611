//! A worker's planned task: how it begins, with the plan and with other processes, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::light_gate::{TURN, leave_light};
use super::peers::NodeAccess;
use super::shared::Runtime;
use super::worker_local::WorkerLocal;
use crate::error::Error;
use crate::sched::base::task::Exec;
use crate::sched::light::task::nanoseconds;
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
    let mut book = shared.lock();
    if let NodeAccess::Open(node, inside) = &mut door {
        shared.look_at_others(node, inside, &mut book);
    }
    let now = shared.now();
    let clock = nanoseconds(now);
    book.called[me.device] = false;
    if !last
        && book.core.best_priority().is_some_and(|priority| priority < 0)
        && clock.saturating_sub(me.planned_at.get()) < STAND_BACK
        && shared.light.queues.any(&me.hand)
        || me.slot >= book.core.devices[me.device].slots
    {
        return AssignResult::Nothing;
    }
    book.core.devices[me.device].light = shared.is_lit(me.device, Some(&me.hand.station));
    let known = book.core.devices[me.device].free(now);
    let mut taken = book.core.take(now, me.device, me.slot, free);
    let mut queued = true;
    if let NodeAccess::Open(node, inside) = &mut door {
        if let AssignResult::Begins(assignment) = &mut taken {
            assignment.held = shared.hold_for(inside, &book, me.device, assignment.id);
        }
        queued = shared.queue_up(node, inside, &mut book);
    }
    drop(door);
    match taken {
        AssignResult::Begins(_) => {
            me.planned_at.set(clock);
            // There may be room, and a task, for another worker beside this one.
            shared.call_workers(&mut book);
            shared.watch(&mut book);
            // What runs alone closes its device to light tasks, and may have been waited for on others.
            if book.core.alone > 0 && shared.mirror(&book) && !shared.light.queues.is_empty() {
                drop(book);
                shared.call_any();
            }
        }
        AssignResult::Nothing => {
            shared.crew.look.fetch_and(!(1 << me.device), Ordering::SeqCst);
            let short = known.is_none() && book.core.devices[me.device].free(now).is_some();
            if short || !queued || book.core.devices[me.device].is_taken() {
                // Others have taken it, or its memory: another device may be the better one now, or this one later.
                shared.call_workers(&mut book);
                shared.watch(&mut book);
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
    shared.discard(job);
    // What is kept of the device would be in the way of the process that begins here next.
    if me.keeps_what_others_may_need() && shared.has_neighbours(me.device) {
        me.relieve();
    }
    drop(held);
    on_top.set_bottom(None);
    let short = matches!(how, AttemptEnd::Ran(Err(Error::NoMemory { .. } | Error::Resources { .. })));
    let company = short && shared.was_lit(&me.hand.station, begin);
    let mut book = shared.lock();
    let now = shared.now();
    if company {
        book.core.had_company(me.device, id, attempt);
    }
    if !book.core.judge(now, me.device, id, attempt, how) {
        me.given_up.set(true);
        shared.crew.came_back();
    }
    shared.settle(book);
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
