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
                    guard.planner.log_records.push((Level::Error, text));
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
    fn defer(self: &Arc<Self>, guard: &mut PlannerGuarded) {
        let planner = &guard.planner;
        if planner.ended.is_empty() && planner.log_records.is_empty() {
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
        let mut ended = std::mem::take(&mut guard.deferred.ended);
        self.take_ended(guard, &mut ended);
        guard.deferred.ended = ended;
        let mut notes = std::mem::take(&mut guard.planner.log_records);
        guard.deferred.notes.append(&mut notes);
        self.timer_wakeup.notify_all();
    }
}

/// Lets time pass for the planned tasks, until the scheduler has stopped and nothing is left to watch.
fn run_timer(shared: &Arc<Runtime>) {
    let mut guard = shared.lock();
    loop {
        let now = shared.now();
        if guard.planner.stopping && !shared.pool.has_worker() {
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
    guard.planner.advance(shared.now());
    shared.defer(&mut guard);
    let mut ended = Vec::new();
    shared.take_ended(&mut guard, &mut ended);
    let mut notes = shared.settle_with(guard, ended);
    let mut guard = shared.lock();
    // These notes tell of threads that could not be started.
    if guard.deferred.served {
        guard.deferred.notes.append(&mut notes);
    } else if !notes.is_empty() {
        drop(guard);
        log_all(notes);
        guard = shared.lock();
    }
    guard
}

/// Runs what is deferred, until the scheduler has stopped and no more can come.
fn serve(shared: &Arc<Runtime>) {
    let mut guard = shared.lock();
    loop {
        let deferred = &mut guard.deferred;
        let (ended, notes) = (std::mem::take(&mut deferred.ended), std::mem::take(&mut deferred.notes));
        if !(ended.is_empty() && notes.is_empty()) {
            drop(guard);
            // Before anybody can see the end that they tell of.
            log_all(notes);
            log_all(shared.settle_with(shared.lock(), ended));
            guard = shared.lock();
        } else if guard.planner.stopping && !shared.pool.has_worker() && guard.timer_until.is_none() {
            guard.deferred.served = false;
            return;
        } else {
            guard = shared.timer_wakeup.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
