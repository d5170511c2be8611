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
    pub fn watch(self: &Arc<Self>, book: &mut PlannerGuarded) {
        let Some(alarm) = book.core.alarm(self.now()) else { return };
        if book.is_news(alarm) {
            self.time.notify_all();
        }
        if book.watched.is_some() {
            return;
        }
        let shared = self.clone();
        match thread::spawn("gpusched time".into(), None, move || watch_time(&shared)) {
            Ok(thread) => {
                // It looks for itself before it sleeps.
                book.watched = Some(Duration::ZERO);
                self.unwatched.store(false, Ordering::Relaxed);
                self.crew.adopt(thread);
            }
            Err(error) => {
                if !self.unwatched.swap(true, Ordering::Relaxed) {
                    let text = format!("no thread to watch deadlines, workers without work do it: {error}");
                    book.core.notes.push((Level::Error, text));
                }
            }
        }
    }

    /// Does what is due, where nobody watches the time.
    pub fn look_after_time(self: &Arc<Self>) {
        if self.unwatched.load(Ordering::Relaxed) {
            drop(pass(self, self.lock()));
        }
    }

    /// Leaves what may run code of callers to a thread for that; without one, the calling thread does it in
    /// [`Runtime::settle`].
    fn defer(self: &Arc<Self>, book: &mut PlannerGuarded) {
        let core = &book.core;
        if core.ended.is_empty() && core.notes.is_empty() {
            return;
        }
        if !book.deferred.served {
            let shared = self.clone();
            let Ok(thread) = thread::spawn("gpusched callbacks".into(), None, move || serve(&shared)) else {
                return;
            };
            book.deferred.served = true;
            self.crew.adopt(thread);
        }
        let mut ended = std::mem::take(&mut book.deferred.ended);
        self.take_ended(book, &mut ended);
        book.deferred.ended = ended;
        let mut notes = std::mem::take(&mut book.core.notes);
        book.deferred.notes.append(&mut notes);
        self.time.notify_all();
    }
}

/// Lets time pass for the planned tasks, until the scheduler has stopped and nothing is left to watch.
fn watch_time(shared: &Arc<Runtime>) {
    let mut book = shared.lock();
    loop {
        let now = shared.now();
        if book.core.stopping && !shared.crew.any() {
            book.watched = None;
            shared.time.notify_all();
            return;
        }
        let alarm = book.core.alarm(now);
        book.watched = Some(alarm.unwrap_or(Duration::MAX));
        match alarm {
            Some(alarm) if alarm <= now => book = pass(shared, book),
            Some(alarm) => {
                let waited = shared.time.wait_timeout(book, alarm - now);
                let (held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                // Asked again, some alarms would be as far off as before.
                book = if waited.timed_out() { pass(shared, held) } else { held };
            }
            None => book = shared.time.wait(book).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn pass<'a>(
    shared: &'a Arc<Runtime>,
    mut book: MutexGuard<'a, PlannerGuarded>,
) -> MutexGuard<'a, PlannerGuarded> {
    book.core.pass(shared.now());
    shared.defer(&mut book);
    let mut ended = Vec::new();
    shared.take_ended(&mut book, &mut ended);
    let mut notes = shared.settle_with(book, ended);
    let mut book = shared.lock();
    // These notes tell of threads that could not be started.
    if book.deferred.served {
        book.deferred.notes.append(&mut notes);
    } else if !notes.is_empty() {
        drop(book);
        log_all(notes);
        book = shared.lock();
    }
    book
}

/// Runs what is deferred, until the scheduler has stopped and no more can come.
fn serve(shared: &Arc<Runtime>) {
    let mut book = shared.lock();
    loop {
        let deferred = &mut book.deferred;
        let (ended, notes) = (std::mem::take(&mut deferred.ended), std::mem::take(&mut deferred.notes));
        if !(ended.is_empty() && notes.is_empty()) {
            drop(book);
            // Before anybody can see the end that they tell of.
            log_all(notes);
            log_all(shared.settle_with(shared.lock(), ended));
            book = shared.lock();
        } else if book.core.stopping && !shared.crew.any() && book.watched.is_none() {
            book.deferred.served = false;
            return;
        } else {
            book = shared.time.wait(book).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
