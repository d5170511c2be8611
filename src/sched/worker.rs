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
use super::state::{Assignment, Attempt, Core, Verdict};
use super::task::{Exec, Job, TaskId};
use crate::backend::{Backend, Queue};
use crate::device::{DeviceInfo, Health};
use crate::error::{Error, Result};

/// Bytes of a worker's stack: what the main thread of a program has, for the caller's code expects it.
const STACK: usize = 8 << 20;

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
    static INSIDE: Cell<Option<(*const Shared, Inside)>> = const { Cell::new(None) };
}

/// Where a call from inside a task comes from.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    pub device: usize,
    pub task: TaskId,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task of this scheduler in whose job the calling thread is.
    pub fn inside(&self) -> Option<Inside> {
        let (shared, inside) = INSIDE.get()?;
        std::ptr::eq(shared, self).then_some(inside)
    }

    /// After a task has become ready: wakes or starts a worker where it could start now.
    pub fn call_worker(self: &Arc<Self>, core: &mut Core, id: TaskId) {
        let Some(index) = core.device_for(id) else { return };
        let device = &mut core.devices[index];
        if device.idle <= device.called && device.workers < device.slots + device.waiting {
            let slot = device.workers % device.slots;
            if !self.start(core, index, slot) && core.devices[index].workers == 0 {
                return;
            }
        }
        core.devices[index].called += 1;
        self.work[index].notify_one();
    }

    /// The same for the first ready task that could start now, whichever that is.
    pub fn call_for_any(self: &Arc<Self>, core: &mut Core) {
        if let Some(id) = core.callable() {
            self.call_worker(core, id);
        }
    }

    /// Starts a worker. A thread that can't be had is the device's loss only if it has no other.
    pub fn start(self: &Arc<Self>, core: &mut Core, index: usize, slot: u32) -> bool {
        let shared = self.clone();
        let name = format!("gpusched {}/{slot}", self.devices[index].label());
        let thread =
            thread::Builder::new().name(name).stack_size(STACK).spawn(move || work(&shared, index, slot));
        match thread {
            Ok(thread) => {
                core.devices[index].workers += 1;
                let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                true
            }
            Err(error) => {
                let text = format!("no thread for {}: {error}", self.devices[index].label());
                core.notes.push((Level::Error, text));
                false
            }
        }
    }

    /// Ends a task: its job goes first, then everybody may know.
    pub fn end(&self, id: TaskId, job: Box<dyn Job>, outcome: Result<()>) {
        discard(job);
        let mut core = self.lock();
        core.end(id, outcome);
        // Memory or a device that was kept for this task may be free now.
        self.wake_everyone(&core);
    }

    /// Nothing starts on a device any more; queued tasks that have no other end here, the others are
    /// looked for by the workers that this wakes or starts.
    pub fn retire(self: &Arc<Self>, index: usize, why: &str) {
        let homeless = self.lock().retire(index, why);
        self.log();
        for (id, job, error) in homeless {
            self.end(id, job, Err(error));
        }
        let mut core = self.lock();
        for id in core.ready_ids() {
            self.call_worker(&mut core, id);
        }
        self.wake_everyone(&core);
    }

    /// Logs what is to be logged; not under the lock, for the log may be the caller's code.
    pub fn log(&self) {
        let notes = std::mem::take(&mut self.lock().notes);
        for (level, text) in notes {
            log::log!(level, "{text}");
        }
    }

    /// The lock is held while notifying, so that a sleeper has either seen the change or hears this.
    pub fn wake_everyone(&self, _held: &MutexGuard<'_, Core>) {
        self.work.iter().for_each(Condvar::notify_all);
        self.ended.notify_all();
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
        INSIDE.set(Some((Arc::as_ptr(shared), Inside { device: index, task: assignment.id })));
        let attempt = attempt(shared, index, slot, &mut queue, &assignment);
        // The job's drop is the caller's code inside the task, too.
        settle(shared, index, assignment, attempt);
        INSIDE.set(None);
        shared.log();
    }
    // The queue is the backend's, which may panic in closing it.
    if catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err() {
        log::error!("the queue of {} panicked when it was closed", shared.devices[index].label());
    }
}

/// Sleeps until there is something to run; `None`: the worker is not needed any more, and not counted.
fn next(shared: &Arc<Shared>, index: usize, slot: u32) -> Option<Assignment> {
    let ordinal = shared.devices[index].ordinal;
    let free_bytes = || shared.backends[index].free_bytes(ordinal).unwrap_or(u64::MAX);
    let mut core = shared.lock();
    loop {
        let device = &mut core.devices[index];
        device.called = device.called.saturating_sub(1);
        let surplus = device.workers > device.slots + device.waiting;
        let assignment = if surplus { None } else { core.take(index, slot, &free_bytes) };
        if assignment.is_some() {
            // There may be room, and a task, for another worker beside this one.
            shared.call_for_any(&mut core);
            return assignment;
        }
        let retired = core.devices[index].info.health == Health::Retired;
        if surplus || core.stopping || retired {
            core.devices[index].workers -= 1;
            // If it was this one that was called, another has to answer; and a shutdown counts.
            shared.wake_everyone(&core);
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
) -> Attempt {
    let device = &shared.devices[index];
    if queue.is_none() {
        let slots = shared.lock().devices[index].slots;
        match caught(|| shared.backends[index].open(device.ordinal, slot, slots)) {
            Ok(opened) => *queue = Some(opened),
            Err(error) => return Attempt::NoQueue(format!("it could not be opened: {error}")),
        }
    }
    let Some(queue) = queue.as_mut() else { return Attempt::NoQueue("it has no queue".into()) };
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

fn settle(shared: &Arc<Shared>, index: usize, assignment: Assignment, attempt: Attempt) {
    let id = assignment.id;
    let mut core = shared.lock();
    match core.judge(index, assignment, attempt) {
        Verdict::End(outcome, job) => {
            drop(core);
            shared.log();
            shared.end(id, job, outcome);
        }
        Verdict::Again => {
            shared.call_worker(&mut core, id);
            shared.wake_everyone(&core);
            drop(core);
            shared.log();
        }
        Verdict::Retire(why) => {
            drop(core);
            shared.log();
            shared.retire(index, &why);
        }
        Verdict::EndAndRetire(outcome, job, why) => {
            drop(core);
            shared.log();
            shared.end(id, job, outcome);
            shared.retire(index, &why);
        }
    }
}
