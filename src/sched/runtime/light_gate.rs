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

pub fn is_quiet(shared: &Runtime, me: &WorkerLocal) -> bool {
    shared.light_blocked.load(Ordering::SeqCst) >> me.device & 1 == 1
}

/// Whether light tasks may begin here, for all that is known without asking.
pub fn may_be_lit(shared: &Runtime, me: &WorkerLocal) -> bool {
    !is_quiet(shared, me) && (shared.taken() >> me.device & 1 == 0 || me.lit.borrow().is_some())
}

pub fn take_light(shared: &Arc<Runtime>, me: &WorkerLocal) -> Option<LightItem> {
    let lit = &me.hand.station.books.lit;
    let needs_slot = shared.shares(me.device) && shared.light.queues.any(&me.hand);
    if !may_be_lit(shared, me) || needs_slot && !has_slot(shared, me) {
        leave_light(shared, me);
        return None;
    }
    if !lit.load(Ordering::Relaxed) {
        lit.store(true, Ordering::SeqCst);
        if is_quiet(shared, me) {
            leave_light(shared, me);
            return None;
        }
    }
    shared.light.queues.find(&me.hand)
}

/// Whether the worker holds a slot for light tasks, or takes one now, where other processes have to know. After a turn
/// it leaves it to those who wait.
fn has_slot(shared: &Arc<Runtime>, me: &WorkerLocal) -> bool {
    let since = me.lit.borrow().as_ref().map(|lit| lit.since);
    if let Some(since) = since {
        return !shared.is_contended(me.device) || me.clock.get().saturating_sub(since) < TURN;
    }
    let slot = shared.hold_for_light(me.device);
    let has = slot.is_some();
    *me.lit.borrow_mut() = slot.flatten();
    has
}

/// No light task runs here for a while; a planned one may have waited for that.
pub fn leave_light(shared: &Arc<Runtime>, me: &WorkerLocal) {
    drop(me.lit.take());
    if me.hand.station.books.lit.swap(false, Ordering::SeqCst)
        && (is_quiet(shared, me) || shared.exclusive_wanted.load(Ordering::SeqCst))
    {
        let mut guard = shared.lock();
        shared.wake_workers(&mut guard);
    }
}
