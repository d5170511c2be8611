//! What only a worker's own thread sees: its queue on the device, and the tasks that it is in.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::peer_leases::LightLease;
use super::shared::Runtime;
use crate::backend::Queue;
use crate::error::{DeviceFault, Error, Result};
use crate::sched::base::exec::Exec;
use crate::sched::base::signal::Signal;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::queues::LocalQueue;
use crate::sched::plan::completion::AttemptEnd;
use crate::sched::sleep::event_count::Parker;

/// What only the worker's own thread sees.
pub struct WorkerLocal {
    pub shared: Arc<Runtime>,
    pub seat: usize,
    pub device: usize,
    pub slot: u32,
    pub hand: LocalQueue,
    pub bed: Parker,
    opened: RefCell<Option<Rc<OpenQueue>>>,
    /// The queues of the attempts that the thread is in, innermost last.
    entered: RefCell<Vec<Rc<OpenQueue>>>,
    /// The tasks in whose code the thread is, innermost last.
    pub frames: RefCell<Vec<TaskId>>,
    /// The outermost one is.
    pub on_plan: Cell<bool>,
    /// Where the stack began.
    base: usize,
    /// The time when the last thing ended, or when it was looked at since.
    pub clock: Cell<u64>,
    pub spin: Cell<u64>,
    /// Nanoseconds of planned tasks in this turn; until when light ones come first; when the last planned one began.
    pub plan_used: Cell<u64>,
    pub light_until: Cell<u64>,
    pub planned_at: Cell<u64>,
    /// Nobody waits for this thread any more.
    pub given_up: Cell<bool>,
    /// A task has run since the worker last slept.
    used: Cell<bool>,
    /// The slot that is held for light tasks, where other processes have to know.
    pub lit: RefCell<Option<LightLease>>,
}

/// The queue of a worker, and the context of the device in which it was opened.
struct OpenQueue {
    queue: Box<dyn Queue>,
    context: u32,
}

thread_local! {
    /// Outlives the thread's other locals: `exit` inside a task ends them before it calls the handlers of
    /// the program, which may ask where they are.
    static ME: ManuallyDrop<RefCell<Option<Rc<WorkerLocal>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

thread_local! {
    /// This worker is to end after its task, for another to take its place.
    static LEAVING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling worker was told so.
pub fn is_leaving() -> bool {
    LEAVING.get()
}

/// For code inside a task that has found its thread to be of no more use. Elsewhere nothing happens.
pub(crate) fn leave_thread() {
    LEAVING.set(ME.try_with(|me| me.borrow().is_some()).unwrap_or(false));
}

impl WorkerLocal {
    /// Of the calling thread from now on, until [`WorkerLocal::leave`].
    pub fn enter(shared: &Arc<Runtime>, seat: usize, spin: u64) -> Rc<WorkerLocal> {
        let place = shared.pool.seat(seat);
        let here = 0_u8;
        let me = Rc::new(WorkerLocal {
            shared: shared.clone(),
            seat,
            device: place.device,
            slot: place.slot,
            hand: shared.light.enter(place.device, place.slot),
            bed: Parker::new(seat, place.device),
            opened: RefCell::new(None),
            entered: RefCell::new(Vec::new()),
            frames: RefCell::new(Vec::new()),
            on_plan: Cell::new(false),
            base: (&raw const here).addr(),
            clock: Cell::new(shared.clock()),
            spin: Cell::new(spin),
            plan_used: Cell::new(0),
            light_until: Cell::new(0),
            planned_at: Cell::new(0),
            given_up: Cell::new(false),
            used: Cell::new(false),
            lit: RefCell::new(None),
        });
        ME.with(|place| place.replace(Some(me.clone())));
        me
    }

    pub fn leave(self: Rc<WorkerLocal>) {
        self.close();
        ME.with(|place| place.take());
        if let Ok(me) = Rc::try_unwrap(self).map_err(|_| ()) {
            me.shared.light.queues.leave(me.hand);
        }
    }

    pub fn frames(&self) -> Vec<TaskId> {
        self.frames.borrow().clone()
    }

    /// Whether the thread is in the code of a task.
    pub fn is_inside(&self) -> bool {
        !self.frames.borrow().is_empty()
    }

    /// Whether that task, or one below it, is a planned one: then the plan knows that the slot is taken.
    pub fn is_planned(&self) -> bool {
        self.on_plan.get()
    }

    /// Whether the attempt that the thread is in was given up, so that nobody waits for the thread any more.
    pub fn is_given_up(&self) -> bool {
        self.hand.station.books.on_top.is_given_up()
    }

    pub fn look_at_clock(&self) {
        self.clock.set(self.shared.clock());
    }

    /// Returns true if the stack that is left suffices for a nested task.
    pub fn may_nest(&self) -> bool {
        let here = 0_u8;
        self.base.abs_diff((&raw const here).addr()) < super::worker_pool::NESTING
    }

    /// Another task has run on top of this one, and may have changed what is current on the thread.
    pub fn resume(&self) {
        if let Some(below) = self.below() {
            let _ = caught(|| {
                below.queue.resume();
                Ok(())
            });
        }
    }

    /// The context of the device in which a light task begins: that of the task below it, whose queue it uses,
    /// whatever has become of the device since that began.
    pub fn context(&self) -> u32 {
        let now = || self.shared.contexts[self.device].load(Ordering::Relaxed);
        self.below().map_or_else(now, |below| below.context)
    }

    fn below(&self) -> Option<Rc<OpenQueue>> {
        self.entered.borrow().last().cloned()
    }

    fn open(&self, shared: &Runtime, context: u32) -> Result<Rc<OpenQueue>> {
        // A queue of its own might wait for the context of the task below, which waits for this one.
        if let Some(below) = self.below() {
            return Ok(below);
        }
        let now = self.opened.borrow().clone();
        if let Some(opened) = now
            && opened.context == context
        {
            return Ok(opened);
        }
        // Closed when the next is there: were it the device's last, what it has of the device would be made anew.
        let before = self.opened.borrow_mut().take();
        // The slot may have been taken away since the task was given to it.
        let slots = shared.pool.slots(self.device).max(self.slot + 1);
        let device = &shared.devices[self.device];
        let queue = caught(|| shared.backends[self.device].open(device.ordinal, self.slot, slots));
        self.let_go(before);
        let queue = queue?;
        let opened = Rc::new(OpenQueue { queue, context });
        *self.opened.borrow_mut() = Some(opened.clone());
        Ok(opened)
    }

    /// What is kept of the device for the next task may be what others need.
    pub fn keeps_what_others_may_need(&self) -> bool {
        self.used.get() && self.shared.shares(self.device)
    }

    /// It is given back.
    pub fn relieve(&self) {
        self.used.set(false);
        if let Some(opened) = self.opened.borrow().clone() {
            let _ = caught(|| {
                opened.queue.relieve();
                Ok(())
            });
        }
    }

    /// The next task opens another queue.
    fn close(&self) {
        let opened = self.opened.borrow_mut().take();
        self.let_go(opened);
    }

    /// The queue is the backend's, which may panic in closing it.
    fn let_go(&self, opened: Option<Rc<OpenQueue>>) {
        if catch_unwind(AssertUnwindSafe(|| drop(opened))).is_err() {
            let device = self.shared.devices[self.device].label();
            log::error!("the queue of {device} panicked when it was closed");
        }
    }

    /// One attempt, from the queue to the outcome. Neither the job nor the backend can unwind out of here.
    pub fn attempt(
        &self,
        shared: &Runtime,
        task: TaskId,
        attempt: u32,
        context: u32,
        signal: &Signal,
        run: impl FnOnce(&Exec<'_>) -> Result<()>,
    ) -> AttemptEnd {
        let opened = match self.open(shared, context) {
            Ok(opened) => opened,
            Err(error) => return not_entered("opened", error),
        };
        if let Err(error) = caught(|| opened.queue.enter()) {
            return not_entered("made current", error);
        }
        self.used.set(true);
        self.entered.borrow_mut().push(opened.clone());
        let outcome = caught(|| {
            run(&Exec {
                task,
                device: &shared.devices[self.device],
                device_index: self.device,
                slot: self.slot,
                attempt,
                lane: opened.queue.lane(),
                signal,
                held: None,
                findings: shared.observability.findings.as_ref(),
            })
        });
        // Even after a failure: what the task left on the queue must be done before its memory is free.
        let finished = caught(|| opened.queue.finish());
        self.entered.borrow_mut().pop();
        if finished.as_ref().is_err_and(|error| !matches!(error, Error::Device { .. })) {
            // The task may have left the queue in a state that no other can use, as one that is being recorded.
            self.close();
        }
        let outcome = match (outcome, finished) {
            // The task may have seen another error that came of this one.
            (Err(error), Err(fault @ Error::Device { .. })) if !error.is_of_device() => Err(fault),
            (outcome, finished) => outcome.and(finished),
        };
        if outcome.as_ref().is_err_and(Error::is_shortage) {
            let _ = caught(|| {
                opened.queue.relieve();
                Ok(())
            });
        }
        self.let_go(Some(opened));
        AttemptEnd::Ran(outcome)
    }
}

/// A device that is of no use, or not now.
fn not_entered(what: &str, error: Error) -> AttemptEnd {
    let lost = matches!(error, Error::Device { fault: DeviceFault::Lost, .. });
    match error.is_of_device() && !lost {
        true => AttemptEnd::Ran(Err(error)),
        false => AttemptEnd::NoQueue(format!("it could not be {what}: {error}")),
    }
}

/// The worker, of whatever scheduler, that the calling thread is, if it is in the code of a task.
pub fn anyone_inside() -> Option<Rc<WorkerLocal>> {
    ME.try_with(|me| me.borrow().as_ref().filter(|me| me.is_inside()).cloned()).ok().flatten()
}

impl Runtime {
    /// The worker of this scheduler that the calling thread is.
    pub fn me(&self) -> Option<Rc<WorkerLocal>> {
        ME.try_with(|me| me.borrow().as_ref().filter(|me| std::ptr::eq(&*me.shared, self)).cloned())
            .ok()
            .flatten()
    }

    /// Runs `code` as if the calling worker were in the job of `task`, to which what it does belongs.
    pub fn part_of<T>(&self, task: TaskId, code: impl FnOnce() -> T) -> T {
        let Some(me) = self.me() else { return code() };
        me.frames.borrow_mut().push(task);
        let result = code();
        me.frames.borrow_mut().pop();
        result
    }

    /// The same, if it is in the code of a task.
    pub fn inside(&self) -> Option<Rc<WorkerLocal>> {
        self.me().filter(|me| me.is_inside())
    }
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
