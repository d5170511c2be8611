//! The state of a worker that only its own thread uses: its device queue, and the tasks that it is
//! in.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use super::{LightLease, Runtime};
use crate::backend::Queue;
use crate::error::{DeviceFault, Error, Result};
use crate::sched::base::{DeviceLease, Exec, Signal, TaskId, nanoseconds};
use crate::sched::light::LocalQueue;
use crate::sched::plan::AttemptEnd;
use crate::sched::sleep::Sleeper;

pub struct WorkerLocal {
    pub runtime: Arc<Runtime>,
    pub index: usize,
    pub device: usize,
    pub slot: u32,
    pub queue: LocalQueue,
    pub sleeper: Sleeper,
    idle_queue: RefCell<Option<Rc<OpenQueue>>>,
    /// The queues of the attempts that the thread is in, innermost last.
    current_queues: RefCell<Vec<Rc<OpenQueue>>>,
    /// The tasks that the thread is in, innermost last; 0: one without an id.
    pub tasks: RefCell<Vec<TaskId>>,
    /// The outermost of `tasks` is a planned one: the planner counts the slot as used.
    pub in_planned: Cell<bool>,
    /// The address at which the stack began.
    stack_base: usize,
    /// When the last task ended, or a later reading of the clock.
    pub last_ns: Cell<u64>,
    pub spin_ns: Cell<u64>,
    /// The time that planned tasks took in this turn.
    pub planned_ns: Cell<u64>,
    /// Until then light tasks come first.
    pub light_until_ns: Cell<u64>,
    /// When the last planned task began.
    pub last_planned_ns: Cell<u64>,
    /// The attempt was abandoned: no thread waits for this one.
    pub abandoned: Cell<bool>,
    /// The worker ends after its task, and another takes its place.
    pub leaving: Cell<bool>,
    /// A task has run since the worker last slept.
    used: Cell<bool>,
    /// The slot of the node for light tasks, on a device that processes share.
    pub light_lease: RefCell<Option<LightLease>>,
}

/// A device queue, and the context of the device in which it was opened.
struct OpenQueue {
    queue: Box<dyn Queue>,
    context: u32,
}

thread_local! {
    /// The worker that the thread is. Outlives the thread's other locals: `exit` inside a task ends
    /// them before it calls the program's handlers, which may call the library.
    static WORKER: ManuallyDrop<RefCell<Option<Rc<WorkerLocal>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Makes the calling worker end after its task, because its thread cannot be used any more. Does
/// nothing on other threads.
pub(crate) fn leave_thread() {
    if let Some(worker) = current(|_| true) {
        worker.leaving.set(true);
    }
}

impl WorkerLocal {
    /// Makes the calling thread a worker until [`WorkerLocal::leave`].
    pub fn enter(runtime: &Arc<Runtime>, index: usize) -> Rc<WorkerLocal> {
        let place = &runtime.pool.worker_slots[index];
        let here = 0_u8;
        let worker = Rc::new(WorkerLocal {
            runtime: runtime.clone(),
            index,
            device: place.device,
            slot: place.slot,
            queue: runtime.light.queues.add_worker(place.device, place.slot, &runtime.light.epochs),
            sleeper: Sleeper::new(index, place.device),
            idle_queue: RefCell::new(None),
            current_queues: RefCell::new(Vec::new()),
            tasks: RefCell::new(Vec::new()),
            in_planned: Cell::new(false),
            stack_base: (&raw const here).addr(),
            last_ns: Cell::new(runtime.clock()),
            spin_ns: Cell::new(nanoseconds(runtime.policy.spin_most)),
            planned_ns: Cell::new(0),
            light_until_ns: Cell::new(0),
            last_planned_ns: Cell::new(0),
            abandoned: Cell::new(false),
            leaving: Cell::new(false),
            used: Cell::new(false),
            light_lease: RefCell::new(None),
        });
        WORKER.with(|place| place.replace(Some(worker.clone())));
        worker
    }

    pub fn leave(self: Rc<WorkerLocal>) {
        self.idle_queue.take();
        WORKER.with(|place| place.take());
        if let Ok(worker) = Rc::try_unwrap(self).map_err(|_| ()) {
            worker.runtime.light.queues.remove_worker(worker.queue);
        }
    }

    pub fn is_in_task(&self) -> bool {
        !self.tasks.borrow().is_empty()
    }

    /// Returns the attempt at a planned task that the thread is in.
    pub fn attempt(&self) -> Option<(TaskId, u32)> {
        self.queue.shared.stats.nested.planned()
    }

    /// Returns whether the attempt that the thread is in was abandoned.
    pub fn is_abandoned(&self) -> bool {
        self.queue.shared.stats.nested.is_abandoned()
    }

    /// Ends a planned task that began then. Returns true if light tasks come first from now on:
    /// planned ones have had their turn.
    pub fn end_planned(&self, now: u64, began: u64) -> bool {
        self.last_ns.set(now);
        let used = self.planned_ns.get() + now.saturating_sub(began);
        let policy = &self.runtime.policy;
        if used < nanoseconds(policy.turn) {
            self.planned_ns.set(used);
        } else {
            self.planned_ns.set(0);
            self.light_until_ns.set(now + nanoseconds(policy.light_slice));
        }
        self.light_comes_first()
    }

    pub fn light_comes_first(&self) -> bool {
        self.last_ns.get() < self.light_until_ns.get()
    }

    pub fn update_clock(&self) {
        self.last_ns.set(self.runtime.clock());
    }

    /// Ends the worker's turn of light tasks. Wakes workers for tasks that may have waited for
    /// that.
    pub fn stop_light(&self) {
        let runtime = &self.runtime;
        // Before the planner counts it: the count may be one too many, and never one too few.
        let leased = self.light_lease.take().is_some();
        let left = runtime.light.gate.leave(&self.queue.shared.stats.runs_light, self.device);
        if !leased && !left {
            return;
        }
        runtime.step(|planner, effects| {
            if leased {
                planner.return_light_slot(self.device);
            }
            planner.set_runs_light(self.device, runtime.runs_light(self.device, None));
            planner.renew_if_left(self.device, effects);
        });
    }

    /// Returns true if the stack that is left suffices for a nested task.
    pub fn can_nest(&self) -> bool {
        let here = 0_u8;
        self.stack_base.abs_diff((&raw const here).addr()) < super::worker_pool::NESTING
    }

    /// Makes the device current again after a nested task, which may have changed that.
    pub fn resume(&self) {
        if let Some(below) = self.outer_queue() {
            below.queue.resume();
        }
    }

    /// Returns the device's context in which a light task begins: that of the outer task, whose
    /// queue it uses, else the present one.
    pub fn context(&self) -> u32 {
        let now = || self.runtime.light.gate.context(self.device);
        self.outer_queue().map_or_else(now, |below| below.context)
    }

    fn outer_queue(&self) -> Option<Rc<OpenQueue>> {
        self.current_queues.borrow().last().cloned()
    }

    fn open_queue(&self, context: u32) -> Result<Rc<OpenQueue>> {
        let runtime = &self.runtime;
        // Another queue might wait for the context of the outer task, which waits for this one.
        if let Some(below) = self.outer_queue() {
            return Ok(below);
        }
        let is_usable = |opened: &Rc<OpenQueue>| opened.context == context && !opened.queue.is_stale();
        let usable = self.idle_queue.borrow().clone().filter(is_usable);
        if let Some(opened) = usable {
            return Ok(opened);
        }
        // Closed after the next is open: with its last queue a device frees what it caches.
        let before = self.idle_queue.take();
        // The device may have fewer slots since the task was assigned.
        let slots = runtime.pool.slots(self.device).max(self.slot + 1);
        let device = &runtime.devices[self.device];
        let queue = catch_panic(|| runtime.backends[self.device].open(device.ordinal, self.slot, slots))?;
        drop(before);
        let bytes = runtime.backends[self.device].context_bytes(device.ordinal);
        if runtime.lock().planner.devices()[self.device].info.context_bytes != bytes {
            runtime.step(|planner, effects| planner.set_context_bytes(self.device, bytes, effects));
        }
        let opened = Rc::new(OpenQueue { queue, context });
        *self.idle_queue.borrow_mut() = Some(opened.clone());
        Ok(opened)
    }

    /// Returns the queue of an attempt, with the device current. The context of a queue that no
    /// task has entered may have ended; the attempt then gets another queue.
    fn enter_queue(&self, context: u32) -> std::result::Result<Rc<OpenQueue>, AttemptEnd> {
        let open = || self.open_queue(context).map_err(|error| queue_failed("opened", error));
        let mut opened = open()?;
        let mut entered = catch_panic(|| opened.queue.enter());
        if entered.is_err() && self.outer_queue().is_none() {
            self.idle_queue.take();
            opened = open()?;
            entered = catch_panic(|| opened.queue.enter());
        }
        entered.map(|()| opened).map_err(|error| queue_failed("made current", error))
    }

    /// Returns whether the worker may cache memory of the device that other processes need.
    pub fn caches_shared_memory(&self) -> bool {
        self.used.get() && self.runtime.shares(self.device)
    }

    /// Frees what the worker caches on the device, unless a task runs there: its worker frees it
    /// later.
    pub fn release_cached(&self) {
        self.used.set(false);
        if let Some(opened) = self.idle_queue.borrow().clone() {
            opened.queue.relieve_if_idle();
        }
    }

    /// Runs one attempt, from opening the queue to the outcome. Catches panics of the job, and of the
    /// backend where it opens, enters or finishes the queue.
    /// `stop_flags`, `lease`: see [`Exec`].
    pub fn run_attempt(
        &self,
        (task, attempt): (TaskId, u32),
        context: u32,
        signal: &Signal,
        stop_flags: Option<&AtomicU8>,
        lease: Option<&DeviceLease>,
        run: impl FnOnce(&Exec<'_>) -> Result<()>,
    ) -> AttemptEnd {
        let opened = match self.enter_queue(context) {
            Ok(opened) => opened,
            Err(end) => return end,
        };
        let runtime = &self.runtime;
        self.used.set(true);
        self.current_queues.borrow_mut().push(opened.clone());
        let outcome = catch_panic(|| {
            run(&Exec {
                task,
                device: &runtime.devices[self.device],
                device_index: self.device,
                slot: self.slot,
                attempt,
                lane: opened.queue.lane(),
                signal,
                stop_flags,
                lease,
                findings: runtime.observability.rates.as_ref().map(|rates| &rates.findings),
            })
        });
        // Even after a failure: the work on the queue must end before its memory is freed.
        let finished = catch_panic(|| opened.queue.finish());
        self.current_queues.borrow_mut().pop();
        if finished.as_ref().is_err_and(|error| !matches!(error, Error::Device { .. })) {
            // The task may have left the queue unusable, for example while recording a graph. The
            // next one opens another.
            self.idle_queue.take();
        }
        if outcome.is_ok() && finished.is_ok() {
            return AttemptEnd::Ran(Ok(()));
        }
        let outcome = with_device_fault(outcome, finished);
        if outcome.as_ref().is_err_and(Error::is_shortage) {
            opened.queue.relieve();
            // The status of a callback has no number.
            let stated = lease.map_or(0, |lease| lease.bytes);
            let others_have_it =
                matches!(outcome, Err(Error::NoMemory { needed, there, .. }) if needed.max(stated) > there);
            if others_have_it && runtime.shares(self.device) {
                // Its context would be in the way of processes that wait for memory as this one
                // does.
                self.idle_queue.take();
                runtime.backends[self.device].end_context_if_idle(runtime.devices[self.device].ordinal);
            }
        }
        AttemptEnd::Ran(outcome)
    }
}

/// Returns the outcome of code and of the work that it has queued. A fault of the device replaces
/// the code's own error, which may be a consequence; so does a lost device a poisoned context.
pub fn with_device_fault(outcome: Result<()>, finished: Result<()>) -> Result<()> {
    match (outcome, finished) {
        (Err(error), Err(fault @ Error::Device { .. })) if is_lost(&fault) || !error.is_of_device() => {
            Err(fault)
        }
        (outcome, finished) => outcome.and(finished),
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Device { fault: DeviceFault::Lost, .. })
}

/// The end of an attempt whose queue failed: of this attempt, or of the device.
fn queue_failed(what: &str, error: Error) -> AttemptEnd {
    match error.is_of_device() && !is_lost(&error) {
        true => AttemptEnd::Ran(Err(error)),
        false => AttemptEnd::NoQueue(format!("it could not be {what}: {error}")),
    }
}

/// Returns the worker, of any scheduler, that the calling thread is, if `is` returns true for it.
fn current(is: impl Fn(&WorkerLocal) -> bool) -> Option<Rc<WorkerLocal>> {
    WORKER.try_with(|worker| worker.borrow().as_ref().filter(|worker| is(worker)).cloned()).ok().flatten()
}

/// Returns the worker, of any scheduler, that the calling thread is, if it is inside a task.
pub fn current_task_worker() -> Option<Rc<WorkerLocal>> {
    current(WorkerLocal::is_in_task)
}

impl Runtime {
    /// Returns the worker of this scheduler that the calling thread is.
    pub fn current_worker(&self) -> Option<Rc<WorkerLocal>> {
        current(|worker| std::ptr::eq(&*worker.runtime, self))
    }

    /// Runs `code` as part of the job of `task`.
    pub fn as_part_of<T>(&self, task: TaskId, code: impl FnOnce() -> T) -> T {
        let Some(worker) = self.current_worker() else { return code() };
        worker.tasks.borrow_mut().push(task);
        let result = code();
        worker.tasks.borrow_mut().pop();
        result
    }

    /// Returns the worker of this scheduler that the calling thread is, if it is inside a task.
    pub fn own_task_worker(&self) -> Option<Rc<WorkerLocal>> {
        current(|worker| std::ptr::eq(&*worker.runtime, self) && worker.is_in_task())
    }
}

/// Runs `code` and returns a panic as an error.
pub fn catch_panic<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(code)) {
        // Not the result as a whole: it has the size of an error.
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error),
        Err(payload) => Err(Error::panic(payload)),
    }
}
