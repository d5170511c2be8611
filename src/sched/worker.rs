//! A worker: one thread for one slot of one device.
//!
//! It opens its queue when its first task arrives, then takes, runs and settles one task after
//! the other, and sleeps when there is none.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use log::Level;

use super::fork::Birthplace;
use super::state::{Assignment, Core, Note, Verdict};
use super::task::{Exec, Job, State, TaskId};
use crate::backend::{Backend, Queue};
use crate::device::DeviceInfo;
use crate::error::{Error, Result};

/// What the threads of a scheduler share.
pub struct Shared {
    pub born: Birthplace,
    pub core: Mutex<Core>,
    pub devices: Vec<DeviceInfo>,
    /// By device.
    pub backends: Vec<Arc<dyn Backend>>,
    /// By device: where its idle workers sleep.
    pub work: Vec<Condvar>,
    /// Where waiters sleep.
    pub ended: Condvar,
    pub threads: Mutex<Vec<JoinHandle<()>>>,
}

thread_local! {
    /// The scheduler and the task in whose job this thread is, if it is in one.
    static INSIDE: Cell<Option<(*const Shared, usize, u32, TaskId)>> = const { Cell::new(None) };
}

/// Where a call from inside a task comes from.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    pub device: usize,
    pub slot: u32,
    pub task: TaskId,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task of this scheduler in whose job the calling thread is.
    pub fn inside(&self) -> Option<Inside> {
        let (shared, device, slot, task) = INSIDE.get()?;
        std::ptr::eq(shared, self).then_some(Inside { device, slot, task })
    }

    /// After a task has become ready: a worker of each device that may run it is started or woken.
    /// What is to be logged is for after the lock.
    #[must_use]
    pub fn call_workers(self: &Arc<Self>, core: &mut Core, id: TaskId) -> Option<Note> {
        let mut note = None;
        for index in core.candidates(id) {
            if core.wants_worker(index) {
                let slot = core.devices[index].workers % core.devices[index].slots;
                if let Err(why) = self.start(core, index, slot) {
                    note = Some((Level::Error, why));
                }
            }
            self.work[index].notify_one();
        }
        note
    }

    /// Starts a worker. A thread that can't be had is the device's loss only if it has no other.
    pub fn start(
        self: &Arc<Self>,
        core: &mut Core,
        index: usize,
        slot: u32,
    ) -> std::result::Result<(), String> {
        let shared = self.clone();
        let name = format!("gpusched {}/{slot}", self.devices[index].label());
        let thread = thread::Builder::new().name(name).spawn(move || work(&shared, index, slot));
        match thread {
            Ok(thread) => {
                core.devices[index].workers += 1;
                let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Ok(())
            }
            Err(error) => Err(format!("no thread for {}: {error}", self.devices[index].label())),
        }
    }

    /// Ends a task: its job goes first, then everybody may know.
    pub fn end(&self, id: TaskId, job: Box<dyn Job>, state: State, error: Option<Error>) {
        discard(job);
        let mut core = self.lock();
        core.end(id, state, error);
        // Memory or a device that was kept for this task may be free now.
        self.wake_everyone(&core);
    }

    pub fn retire(&self, index: usize, why: &str) {
        let (homeless, note) = self.lock().retire(index, why);
        tell(note);
        for (id, job, error) in homeless {
            self.end(id, job, State::Failed, Some(error));
        }
        self.wake_everyone(&self.lock());
    }

    /// The lock is held while notifying, so that a sleeper has either seen the change or hears this.
    pub fn wake_everyone(&self, _held: &MutexGuard<'_, Core>) {
        self.work.iter().for_each(Condvar::notify_all);
        self.ended.notify_all();
    }
}

/// Puts a line into the log, which may be the caller's code: never under the lock.
pub fn tell(note: Option<Note>) {
    if let Some((level, text)) = note {
        log::log!(level, "{text}");
    }
}

/// Drops a caller's job, which may panic in doing so.
fn discard(job: Box<dyn Job>) {
    if catch_unwind(AssertUnwindSafe(|| drop(job))).is_err() {
        log::error!("a task's drop callback panicked");
    }
}

fn work(shared: &Arc<Shared>, index: usize, slot: u32) {
    let mut queue = None;
    while let Some(assignment) = next(shared, index, slot) {
        INSIDE.set(Some((Arc::as_ptr(shared), index, slot, assignment.id)));
        let outcome = attempt(shared, index, slot, &mut queue, &assignment);
        // The job's drop is the caller's code inside the task, too.
        settle(shared, index, assignment, outcome);
        INSIDE.set(None);
    }
    // The queue is the backend's, which may panic in closing it.
    if catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err() {
        log::error!("the queue of {} panicked when it was closed", shared.devices[index].label());
    }
    let mut core = shared.lock();
    core.devices[index].workers -= 1;
    shared.wake_everyone(&core);
}

/// Sleeps until there is something to run; `None`: the worker is not needed any more.
fn next(shared: &Shared, index: usize, slot: u32) -> Option<Assignment> {
    let ordinal = shared.devices[index].ordinal;
    let free_bytes = || shared.backends[index].free_bytes(ordinal).unwrap_or(u64::MAX);
    let mut core = shared.lock();
    loop {
        let device = &mut core.devices[index];
        if device.surplus > 0 {
            device.surplus -= 1;
            return None;
        }
        if let Some(assignment) = core.take(index, slot, &free_bytes) {
            return Some(assignment);
        }
        if core.stopping || core.devices[index].info.health == crate::device::Health::Retired {
            return None;
        }
        core.devices[index].idle += 1;
        core = shared.work[index].wait(core).unwrap_or_else(PoisonError::into_inner);
        core.devices[index].idle -= 1;
    }
}

/// One attempt, from the queue to the outcome. Neither the job nor the backend can unwind out of here.
fn attempt(
    shared: &Shared,
    index: usize,
    slot: u32,
    queue: &mut Option<Box<dyn Queue>>,
    assignment: &Assignment,
) -> Result<()> {
    let device = &shared.devices[index];
    let of_device = |what: String| Error::Device { device: device.label(), what };
    if queue.is_none() {
        let slots = shared.lock().devices[index].slots;
        let opened = caught(|| shared.backends[index].open(device.ordinal, slot, slots));
        *queue = Some(opened.map_err(|error| of_device(format!("could not be opened: {error}")))?);
    }
    let Some(queue) = queue.as_mut() else { return Err(of_device("has no queue".into())) };
    caught(|| queue.enter()).map_err(|error| match error {
        Error::Device { .. } => error,
        other => of_device(other.to_string()),
    })?;
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
    outcome.and(finished)
}

fn caught<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
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

fn settle(shared: &Arc<Shared>, index: usize, assignment: Assignment, outcome: Result<()>) {
    let id = assignment.id;
    let mut core = shared.lock();
    let (verdict, note) = core.judge(index, assignment, outcome);
    match verdict {
        Verdict::End(state, error, job) => {
            drop(core);
            tell(note);
            shared.end(id, job, state, error);
        }
        Verdict::Again => {
            let other = shared.call_workers(&mut core, id);
            shared.wake_everyone(&core);
            drop(core);
            tell(note);
            tell(other);
        }
        Verdict::Retire(why) => {
            let other = shared.call_workers(&mut core, id);
            drop(core);
            tell(note);
            tell(other);
            shared.retire(index, &why);
        }
        Verdict::EndAndRetire(error, job, why) => {
            drop(core);
            tell(note);
            shared.end(id, job, State::Failed, error);
            shared.retire(index, &why);
        }
    }
}
