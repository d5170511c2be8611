//! The thread that watches the time, and the one that runs callers' code in its stead.
//!
//! Time ends tasks and writes to the log. Both may run code of callers, a `drop` or a log function, that blocks for
//! as long as it likes; deadlines are kept meanwhile. So the thread that watches the time defers all that to a
//! second one, which exists once there has been something for it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use log::Level;

use super::shared::{PlannerGuarded, Runtime, log_all};
use crate::backend::thread;
use crate::sched::plan::effects::Effects;

impl Runtime {
    /// Sees to it that somebody watches the time.
    pub fn ensure_timer(self: &Arc<Self>, guard: &mut PlannerGuarded) {
        let Some(alarm) = guard.planner.next_deadline(self.now()) else { return };
        if guard.is_news(alarm) {
            self.timer_wakeup.notify_all();
        }
        if guard.timer_until.is_some() {
            return;
        }
        let shared = self.clone();
        match thread::spawn("gpusched time".into(), None, move || run_timer(&shared)) {
            Ok(thread) => {
                // It looks for itself before it sleeps.
                guard.timer_until = Some(Duration::ZERO);
                self.no_timer.store(false, Ordering::Relaxed);
                self.pool.add_thread(thread);
            }
            Err(error) => {
                if !self.no_timer.swap(true, Ordering::Relaxed) {
                    let text = format!("no thread to watch deadlines, workers without work do it: {error}");
                    guard.log.push((Level::Error, text));
                }
            }
        }
    }

    /// Does what is due, where nobody watches the time.
    pub fn advance_without_timer(self: &Arc<Self>) {
        if self.no_timer.load(Ordering::Relaxed) {
            drop(pass(self, self.lock()));
        }
    }

    /// Leaves what may run code of callers to a thread for that; without one, the calling thread does it in
    /// [`Runtime::settle`].
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
        guard.deferred.effects.log.append(&mut effects.log);
        self.timer_wakeup.notify_all();
    }
}

/// Lets time pass for the planned tasks, until the scheduler has stopped and nothing is left to watch.
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
                // Asked again, some alarms would be as far off as before.
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
    shared.count_ending(&effects);
    shared.defer(&mut guard, &mut effects);
    let mut log = shared.apply_counted(guard, effects);
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

/// Runs what is deferred, until the scheduler has stopped and no more can come.
fn serve(shared: &Arc<Runtime>) {
    let mut guard = shared.lock();
    loop {
        let effects = std::mem::take(&mut guard.deferred.effects);
        if !(effects.ended.is_empty() && effects.log.is_empty()) {
            log_all(shared.apply_counted(guard, effects));
            guard = shared.lock();
        } else if guard.planner.is_stopping() && !shared.pool.has_worker() && guard.timer_until.is_none() {
            guard.deferred.served = false;
            return;
        } else {
            guard = shared.timer_wakeup.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
