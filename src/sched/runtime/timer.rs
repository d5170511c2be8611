//! The timer thread, and the thread that runs callers' code for it.
//!
//! Deadlines end tasks and write to the log. Both may run callers' code, a `drop` or a log function, that blocks for as
//! long as it likes. The timer thread must keep deadlines meanwhile, so it leaves these effects to a second thread, which
//! starts when it is first needed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use log::Level;

use super::{PlannerGuarded, Runtime, log_all};
use crate::backend::thread;
use crate::sched::plan::Effects;

impl Runtime {
    /// Starts the timer thread, or wakes it for an earlier deadline.
    pub fn ensure_timer(self: &Arc<Self>, guard: &mut PlannerGuarded, now: Duration) {
        let Some(alarm) = guard.planner.next_deadline(now) else { return };
        if guard.is_news(alarm) {
            self.timer_wakeup.notify_all();
        }
        if guard.timer_until.is_some() {
            return;
        }
        let shared = self.clone();
        match thread::spawn("gpusched time".into(), None, move || run_timer(&shared)) {
            Ok(thread) => {
                // The thread reads the deadline before it sleeps.
                guard.timer_until = Some(Duration::ZERO);
                self.no_timer.store(false, Ordering::Relaxed);
                self.pool.add_thread(thread);
            }
            Err(error) => {
                if !self.no_timer.swap(true, Ordering::Relaxed) {
                    let text = format!(
                        "could not start the thread for deadlines, so idle workers check them: {error}"
                    );
                    guard.log.push((Level::Error, text));
                }
            }
        }
    }

    /// Does what is due, if there is no timer thread.
    pub fn advance_without_timer(self: &Arc<Self>) {
        if self.no_timer.load(Ordering::Relaxed) {
            drop(pass(self, self.lock()));
        }
    }

    /// Moves effects that may run callers' code to the thread for that. If there is none, the calling thread keeps them.
    fn defer(self: &Arc<Self>, guard: &mut PlannerGuarded, effects: &mut Effects) {
        if effects.ended.is_empty() && effects.log.is_empty() {
            return;
        }
        if !guard.deferred.served {
            let shared = self.clone();
            let Ok(thread) = thread::spawn("gpusched callbacks".into(), None, move || serve(&shared)) else {
                return;
            };
            guard.deferred.served = true;
            self.pool.add_thread(thread);
        }
        guard.deferred.effects.ended.append(&mut effects.ended);
        guard.deferred.effects.counted += std::mem::take(&mut effects.counted);
        guard.deferred.effects.log.append(&mut effects.log);
        self.timer_wakeup.notify_all();
    }
}

/// Calls `advance` when it is due, until the scheduler has stopped.
fn run_timer(shared: &Arc<Runtime>) {
    let mut guard = shared.lock();
    loop {
        let now = shared.now();
        if guard.planner.is_stopping() && !shared.pool.has_worker() {
            guard.timer_until = None;
            shared.timer_wakeup.notify_all();
            return;
        }
        let alarm = guard.planner.next_deadline(now);
        guard.timer_until = Some(alarm.unwrap_or(Duration::MAX));
        match alarm {
            Some(alarm) if alarm <= now => guard = pass(shared, guard),
            Some(alarm) => {
                let waited = shared.timer_wakeup.wait_timeout(guard, alarm - now);
                let (held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                // A reconsideration that is due would be put off if it were computed again.
                guard = if waited.timed_out() { pass(shared, held) } else { held };
            }
            None => guard = shared.timer_wakeup.wait(guard).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn pass<'a>(
    shared: &'a Arc<Runtime>,
    mut guard: MutexGuard<'a, PlannerGuarded>,
) -> MutexGuard<'a, PlannerGuarded> {
    let mut effects = Effects::at(shared.now());
    guard.planner.advance(&mut effects);
    shared.count_ending(&mut effects);
    shared.defer(&mut guard, &mut effects);
    let (mut log, ()) = shared.apply_counted(guard, effects, |_, _| ());
    let mut guard = shared.lock();
    // These records report threads that could not be started.
    if guard.deferred.served {
        guard.deferred.effects.log.append(&mut log);
    } else if !log.is_empty() {
        drop(guard);
        log_all(log);
        guard = shared.lock();
    }
    guard
}

/// Applies deferred effects, until the scheduler has stopped and no more can come.
fn serve(shared: &Arc<Runtime>) {
    let mut guard = shared.lock();
    loop {
        let mut effects = std::mem::take(&mut guard.deferred.effects);
        effects.now = shared.now();
        if !(effects.ended.is_empty() && effects.log.is_empty()) {
            let (log, ()) = shared.apply_counted(guard, effects, |_, _| ());
            log_all(log);
            guard = shared.lock();
        } else if guard.planner.is_stopping() && !shared.pool.has_worker() && guard.timer_until.is_none() {
            guard.deferred.served = false;
            return;
        } else {
            guard = shared.timer_wakeup.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
