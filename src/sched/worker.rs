//! A worker: one thread for one slot of one device.
//!
//! It opens its queue when its first task arrives, then takes, runs and settles one task after
//! the other, and sleeps when there is none.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use log::Level;

use super::fork::Birthplace;
use super::placement::Assignment;
use super::seen::Seeing;
use super::state::{Core, Ended};
use super::task::{Exec, Job, TaskId};
use super::verdict::Attempt;
use crate::backend::{Backend, Queue, thread};
use crate::device::DeviceInfo;
use crate::error::{Error, Result};

/// Bytes of a worker's stack: what the main thread of a program has, for the caller's code expects it.
const STACK: usize = 8 << 20;

/// What the threads of a scheduler share.
pub struct Shared {
    pub born: Birthplace,
    /// The scheduler's time begins here.
    pub begin: Instant,
    pub book: Mutex<Book>,
    pub devices: Vec<DeviceInfo>,
    /// By device.
    pub backends: Vec<Arc<dyn Backend>>,
    /// By device: where its idle workers sleep.
    pub work: Vec<Condvar>,
    /// Where waiters sleep.
    pub ended: Condvar,
    /// Where the thread sleeps that watches the time.
    pub time: Condvar,
    pub threads: Mutex<Vec<JoinHandle<()>>>,
    pub seeing: Seeing,
}

/// What stands under the one lock: the tasks, and the threads for them.
pub struct Book {
    pub core: Core,
    /// By device.
    pub staff: Vec<Staff>,
    /// A thread watches the time.
    pub watched: bool,
}

/// The worker threads of a device.
#[derive(Debug, Default, Clone, Copy)]
pub struct Staff {
    pub workers: u32,
    pub idle: u32,
    /// Started or woken, and have not looked for a task yet.
    pub called: u32,
}

impl Deref for Book {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Book {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

thread_local! {
    /// The scheduler and the task in whose job this thread is, if it is in one.
    static INSIDE: Cell<Option<(*const Shared, Inside)>> = const { Cell::new(None) };
}

thread_local! {
    /// This worker is to end after its task, for another to take its place.
    static LEAVING: Cell<bool> = const { Cell::new(false) };
}

/// For code inside a task that has found its thread to be of no more use. Elsewhere nothing happens.
pub(crate) fn leave_thread() {
    LEAVING.set(INSIDE.get().is_some());
}

/// Where a call from inside a task comes from.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    pub device: usize,
    pub task: TaskId,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// The task of this scheduler in whose job the calling thread is.
    pub fn inside(&self) -> Option<Inside> {
        let (shared, inside) = INSIDE.get()?;
        std::ptr::eq(shared, self).then_some(inside)
    }

    /// Runs `code` as if the calling worker were in the job of `task`, to which what it does belongs.
    pub fn part_of<T>(&self, task: TaskId, code: impl FnOnce() -> T) -> T {
        let before = INSIDE.get();
        INSIDE.set(before.map(|(shared, inside)| (shared, Inside { task, ..inside })));
        let result = code();
        INSIDE.set(before);
        result
    }

    /// After something has become ready, or room: calls a worker for each slot where something should begin.
    pub fn call_workers(self: &Arc<Self>, book: &mut Book) {
        if book.ready.is_empty() && book.counts.running == 0 {
            return;
        }
        let mut answering: Vec<u32> = book.staff.iter().map(|staff| staff.called).collect();
        for index in book.wanted(self.now()) {
            if answering[index] > 0 {
                answering[index] -= 1;
                continue;
            }
            let device = &book.core.devices[index];
            let Staff { workers, idle, called } = book.staff[index];
            let (slots, waiting) = (device.slots, device.waiting);
            if idle <= called && workers < slots + waiting {
                let slot = workers % slots;
                if !self.start(book, index, slot) && workers == 0 {
                    continue;
                }
            }
            book.staff[index].called += 1;
            self.work[index].notify_one();
        }
    }

    /// Starts a worker. A thread that can't be had is the device's loss only if it has no other.
    pub fn start(self: &Arc<Self>, book: &mut Book, index: usize, slot: u32) -> bool {
        let shared = self.clone();
        let name = format!("gpusched {}/{slot}", self.devices[index].label());
        match thread::spawn(name, Some(STACK), move || work(&shared, index, slot)) {
            Ok(thread) => {
                book.staff[index].workers += 1;
                let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                true
            }
            Err(error) => {
                let text = format!("no thread for {}: {error}", self.devices[index].label());
                book.notes.push((Level::Error, text));
                false
            }
        }
    }

    /// After any change: ends what has ended, jobs first, calls workers for what is ready, wakes who
    /// may go on, and logs. The lock is given back in between and at the end.
    pub fn settle<'a>(self: &'a Arc<Self>, mut book: MutexGuard<'a, Book>) {
        while let Some(Ended { id, job, outcome }) = book.ended.pop() {
            drop(book);
            discard(job);
            book = self.lock();
            let now = self.now();
            book.publish(now, id, outcome);
        }
        self.call_workers(&mut book);
        self.watch(&mut book);
        self.wake_everyone(&book);
        let notes = std::mem::take(&mut book.notes);
        drop(book);
        for (level, text) in notes {
            log::log!(level, "{text}");
        }
    }

    /// Sees to it that somebody watches the time.
    fn watch(self: &Arc<Self>, book: &mut Book) {
        if book.watched || book.alarm(self.now()).is_none() {
            return;
        }
        let shared = self.clone();
        match thread::spawn("gpusched time".into(), None, move || watch_time(&shared)) {
            Ok(thread) => {
                book.watched = true;
                self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            }
            Err(error) => {
                book.notes.push((Level::Error, format!("no thread to watch deadlines: {error}")));
            }
        }
    }

    /// The lock is held while notifying, so that a sleeper has either seen the change or hears this.
    pub fn wake_everyone(&self, _held: &MutexGuard<'_, Book>) {
        self.work.iter().for_each(Condvar::notify_all);
        self.ended.notify_all();
        self.time.notify_all();
    }
}

/// Drops a caller's job, which may panic in doing so.
fn discard(job: Arc<dyn Job>) {
    if catch_unwind(AssertUnwindSafe(|| drop(job))).is_err() {
        log::error!("a task's drop callback panicked");
    }
}

/// Lets time pass for the planned tasks, until the scheduler has stopped and nothing is left to watch.
fn watch_time(shared: &Arc<Shared>) {
    let mut book = shared.lock();
    loop {
        let now = shared.now();
        if book.stopping && book.staff.iter().all(|staff| staff.workers == 0) {
            book.watched = false;
            return;
        }
        match book.alarm(now) {
            Some(alarm) if alarm <= now => {
                book.pass(now);
                shared.settle(book);
                book = shared.lock();
            }
            Some(alarm) => {
                let waited = shared.time.wait_timeout(book, alarm - now);
                book = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            None => book = shared.time.wait(book).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The queue of a worker, and the context of the device in which it was opened.
struct Opened {
    queue: Box<dyn Queue>,
    context: u32,
}

fn work(shared: &Arc<Shared>, index: usize, slot: u32) {
    let mut opened = None;
    while let Some(assignment) = next(shared, index, slot) {
        let (id, number) = (assignment.id, assignment.attempt);
        INSIDE.set(Some((Arc::as_ptr(shared), Inside { device: index, task: id })));
        let how = attempt(shared, index, slot, &mut opened, &assignment);
        // The job's drop is the caller's code inside the task, too: it may be the last to hold it.
        discard(assignment.job);
        let mut book = shared.lock();
        let now = shared.now();
        book.judge(now, index, id, number, how);
        shared.settle(book);
        shared.save_rates_now_and_then();
        INSIDE.set(None);
        if LEAVING.get() {
            // Another is called for what is ready.
            let mut book = shared.lock();
            let staff = &mut book.staff[index];
            staff.called = staff.called.saturating_sub(1);
            staff.workers -= 1;
            shared.settle(book);
            break;
        }
    }
    // The queue is the backend's, which may panic in closing it.
    if catch_unwind(AssertUnwindSafe(|| drop(opened))).is_err() {
        log::error!("the queue of {} panicked when it was closed", shared.devices[index].label());
    }
}

/// Sleeps until there is something to run; `None`: the worker is not needed any more, and not counted.
fn next(shared: &Arc<Shared>, index: usize, slot: u32) -> Option<Assignment> {
    let ordinal = shared.devices[index].ordinal;
    let free_bytes = || shared.backends[index].free_bytes(ordinal).unwrap_or(u64::MAX);
    let mut book = shared.lock();
    loop {
        let staff = &mut book.staff[index];
        staff.called = staff.called.saturating_sub(1);
        let workers = staff.workers;
        let device = &book.devices[index];
        let surplus = workers > device.slots + device.waiting;
        let retired = device.retired.is_some();
        let assignment = if surplus { None } else { book.take(shared.now(), index, slot, &free_bytes) };
        if assignment.is_some() {
            // There may be room, and a task, for another worker beside this one.
            shared.call_workers(&mut book);
            shared.watch(&mut book);
            return assignment;
        }
        if surplus || book.stopping || retired {
            book.staff[index].workers -= 1;
            // If it was this one that was called, another has to answer; and a shutdown counts.
            shared.wake_everyone(&book);
            return None;
        }
        book.staff[index].idle += 1;
        book = shared.work[index].wait(book).unwrap_or_else(PoisonError::into_inner);
        book.staff[index].idle -= 1;
    }
}

/// One attempt, from the queue to the outcome. Neither the job nor the backend can unwind out of here.
fn attempt(
    shared: &Shared,
    index: usize,
    slot: u32,
    opened: &mut Option<Opened>,
    assignment: &Assignment,
) -> Attempt {
    let device = &shared.devices[index];
    let context = assignment.context;
    if opened.as_ref().is_some_and(|opened| opened.context != context) {
        let _ = caught(|| {
            drop(opened.take());
            Ok(())
        });
    }
    if opened.is_none() {
        let slots = shared.lock().devices[index].slots;
        match caught(|| shared.backends[index].open(device.ordinal, slot, slots)) {
            Ok(queue) => *opened = Some(Opened { queue, context }),
            Err(error) => return Attempt::NoQueue(format!("it could not be opened: {error}")),
        }
    }
    let Some(Opened { queue, .. }) = opened.as_mut() else {
        return Attempt::NoQueue("it has no queue".into());
    };
    if let Err(error) = caught(|| queue.enter()) {
        return Attempt::NoQueue(format!("it could not be made current: {error}"));
    }
    let outcome = caught(|| {
        assignment.job.run(&Exec {
            task: assignment.id,
            device,
            device_index: index,
            slot,
            attempt: assignment.attempt,
            lane: queue.lane(),
            signal: &assignment.signal,
        })
    });
    // Even after a failure: what the task left on the queue must be done before its memory is free.
    let finished = caught(|| queue.finish());
    Attempt::Ran(outcome.and(finished))
}

pub fn caught<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| text.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        // A payload may panic in its own drop.
        std::mem::forget(payload);
        Err(Error::Panic { message })
    })
}
