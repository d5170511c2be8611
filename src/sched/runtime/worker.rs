//! A worker: one thread for one slot of one device.
//!
//! It opens its queue when its first task arrives, then runs one thing after the other, from the plan and from
//! the light queues, and sleeps when there is none. The plan comes first when it has something for the
//! device, but after a long turn of planned tasks the light ones have a slice of time; planned tasks of
//! negative priority stand back behind light ones for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::light_gate::{is_quiet, leave_light, may_be_lit, take_light};
use super::run_light::run_light;
use super::run_planned::{run_planned, take_planned};
use super::shared::Runtime;
use super::worker_local::{WorkerLocal, is_leaving};
use crate::sched::light::NO_DEVICE;
use crate::sched::light::queues::LightItem;
use crate::sched::plan::placement::Assignment;

/// How long an idle worker looks around before it sleeps, if that has paid lately, or if it has not.
const SPIN: u64 = 50_000;
const SPIN_LEAST: u64 = 2_000;
/// How long an idle worker keeps of its device what the next task may want, and how often it looks after the time where
/// it has to.
const REST: Duration = Duration::from_secs(1);

enum WorkFound {
    Planned(Assignment),
    Light(LightItem),
}

/// The life of a worker, which is counted as searching already.
pub fn work(shared: &Arc<Runtime>, seat: usize) {
    let me = WorkerLocal::enter(shared, seat, SPIN);
    let mut work = search(shared, &me);
    while let Some(this) = work {
        match this {
            WorkFound::Planned(assignment) => run_planned(shared, &me, assignment),
            WorkFound::Light(item) => run_light(shared, &me, item),
        }
        if is_leaving() {
            leave_light(shared, &me);
            shared.pool.lot.search();
            shared.pool.stand_up(seat);
            shared.pool.lot.leave();
            break;
        }
        work = look(shared, &me).or_else(|| {
            leave_light(shared, &me);
            shared.pool.lot.search();
            search(shared, &me)
        });
    }
    let (device, given_up) = (me.device, me.given_up.get());
    me.leave();
    after_going(shared, device, given_up);
}

/// Searches, and sleeps, until there is something to run; `None`: the worker is not needed any more.
fn search(shared: &Arc<Runtime>, me: &WorkerLocal) -> Option<WorkFound> {
    let lot = &shared.pool.lot;
    loop {
        if should_go(shared, me) {
            lot.leave();
            return None;
        }
        if let Some(work) = look(shared, me) {
            if lot.found() && shared.light.queues.any(&me.hand) {
                shared.wake_any_worker();
            }
            me.look_at_clock();
            return Some(work);
        }
        // It may have been about to take a light task: nobody is to wait for one who sleeps.
        leave_light(shared, me);
        if spin(shared, me) {
            continue;
        }
        lot.prepare(&me.bed);
        if is_anything(shared, me) || may_have_to_go(shared, me) {
            lot.cancel(&me.bed);
            continue;
        }
        if is_quiet(shared, me) && shared.light.queues.any(&me.hand) {
            // Whoever called this worker for a light task has called nobody else.
            shared.wake_any_worker();
        }
        shared.notify_blocked();
        sleep(shared, me);
        me.look_at_clock();
    }
}

/// Until the worker is called. After a while it gives back what it keeps, and where nobody else does, it looks after the time.
fn sleep(shared: &Arc<Runtime>, me: &WorkerLocal) {
    let lot = &shared.pool.lot;
    loop {
        let keeps = me.keeps_what_others_may_need();
        if !keeps && !shared.no_timer.load(Ordering::Relaxed) {
            return lot.sleep(&me.bed);
        }
        if lot.doze(&me.bed, REST) {
            return;
        }
        if keeps {
            me.relieve();
        }
        shared.advance_without_timer();
    }
}

/// Looks around for a moment. True: there is something.
fn spin(shared: &Runtime, me: &WorkerLocal) -> bool {
    let lot = &shared.pool.lot;
    // One at a time, and not where it would take the processor from those who work.
    if lot.searching() > 1 || lot.awake() > shared.spinners_most() {
        return false;
    }
    let begin = shared.clock();
    loop {
        for _ in 0..4 {
            std::hint::spin_loop();
        }
        if is_anything(shared, me) || may_have_to_go(shared, me) {
            me.spin.set((me.spin.get() * 2).min(SPIN));
            return true;
        }
        if shared.clock() - begin > me.spin.get() {
            me.spin.set((me.spin.get() / 2).max(SPIN_LEAST));
            return false;
        }
    }
}

fn has_plan(shared: &Runtime, me: &WorkerLocal) -> bool {
    shared.pool.look.load(Ordering::SeqCst) >> me.device & 1 == 1
}

fn is_anything(shared: &Runtime, me: &WorkerLocal) -> bool {
    has_plan(shared, me) || may_be_lit(shared, me) && shared.light.queues.any(&me.hand)
}

fn is_retired(shared: &Runtime, me: &WorkerLocal) -> bool {
    shared.pool.retired.load(Ordering::SeqCst) >> me.device & 1 == 1
}

fn may_have_to_go(shared: &Runtime, me: &WorkerLocal) -> bool {
    shared.pool.has_surplus(me.seat)
        || me.slot >= shared.pool.slots(me.device)
        || is_retired(shared, me)
        || shared.light.is_stopping() && shared.light.queues.is_drained()
}

fn should_go(shared: &Runtime, me: &WorkerLocal) -> bool {
    if shared.pool.is_surplus(me.seat) {
        return true;
    }
    let go = may_have_to_go(shared, me) && !shared.pool.has_surplus(me.seat);
    if go {
        shared.pool.stand_up(me.seat);
    }
    go
}

/// Another has to do what this worker was called for, and a shutdown goes on.
fn after_going(shared: &Arc<Runtime>, device: usize, given_up: bool) {
    if !given_up {
        shared.pool.went();
    }
    if shared.light.is_stopping() {
        shared.pool.lot.call_all();
    }
    let mut guard = shared.lock();
    guard.worker_called[device] = false;
    if !guard.planner.stopping {
        shared.wake_workers(&mut guard);
    }
    shared.timer_wakeup.notify_all();
    drop(guard);
    if !shared.light.queues.is_empty() {
        shared.wake_any_worker();
    }
    if shared.light.gate.load(Ordering::SeqCst) & NO_DEVICE != 0 {
        // Whoever emptied the queues has not seen what was on its way from one to another.
        shared.end_all_queued();
    }
    if shared.pool.is_deserted() {
        shared.fail_deserted();
    }
    shared.notify_blocked();
}

/// What is next for a worker, if anything.
fn look(shared: &Arc<Runtime>, me: &WorkerLocal) -> Option<WorkFound> {
    let surplus = shared.pool.has_surplus(me.seat);
    if surplus || is_retired(shared, me) || me.slot >= shared.pool.slots(me.device) {
        return None;
    }
    let planned = has_plan(shared, me);
    let light_first = me.clock.get() < me.light_until.get();
    if planned
        && !light_first
        && let Some(assignment) = take_planned(shared, me, false)
    {
        return Some(WorkFound::Planned(assignment));
    }
    if let Some(item) = take_light(shared, me) {
        if planned && light_first {
            pass_on(shared, me);
        }
        return Some(WorkFound::Light(item));
    }
    if planned && has_plan(shared, me) {
        take_planned(shared, me, true).map(WorkFound::Planned)
    } else {
        None
    }
}

/// A worker that may have been called for the plan does something else first, which may even wait for what is
/// planned: another is called in its stead.
fn pass_on(shared: &Arc<Runtime>, me: &WorkerLocal) {
    let mut guard = shared.lock();
    if std::mem::take(&mut guard.worker_called[me.device]) {
        shared.wake_workers(&mut guard);
    }
}
