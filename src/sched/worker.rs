//! A worker: one thread for one slot of one device.
//!
//! It opens its queue when its first task arrives, then runs one thing after the other, from the plan and from
//! the light queues, and sleeps when there is none. The plan comes first when it has something for the
//! device, but after a long turn of planned tasks the light ones have a slice of time; planned tasks of
//! negative priority stand back behind light ones for a while.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::common::Shared;
use super::light::{Hand, Item, NO_DEVICE, run_light};
use super::park::Bed;
use super::placement::{Assignment, Taken};
use super::task::{Exec, Signal, TaskId};
use super::verdict::Attempt;
use crate::backend::Queue;
use crate::error::{DeviceFault, Error, Result};

/// Nanoseconds of planned tasks after which light ones have a slice, and how long that is.
const PLAN_TURN: u64 = 100_000_000;
const LIGHT_SLICE: u64 = 10_000_000;
/// Planned tasks of negative priority stand back no longer.
const STAND_BACK: u64 = 100_000_000;
/// How long an idle worker looks around before it sleeps, if that has paid lately, or if it has not.
const SPIN: u64 = 50_000;
const SPIN_LEAST: u64 = 2_000;

/// What only the worker's own thread sees.
pub struct Me {
    pub shared: Arc<Shared>,
    pub seat: usize,
    pub device: usize,
    pub slot: u32,
    pub hand: Hand,
    bed: Bed,
    opened: RefCell<Option<Rc<Opened>>>,
    /// The queues of the attempts that the thread is in, innermost last.
    entered: RefCell<Vec<Rc<Opened>>>,
    /// The tasks in whose code the thread is, innermost last.
    pub frames: RefCell<Vec<TaskId>>,
    /// The outermost one is.
    pub on_plan: Cell<bool>,
    /// Where the stack began.
    base: usize,
    /// The time when the last thing ended, or when it was looked at since.
    pub clock: Cell<u64>,
    spin: Cell<u64>,
    /// Nanoseconds of planned tasks in this turn; until when light ones come first; when the last planned one began.
    plan_used: Cell<u64>,
    light_until: Cell<u64>,
    planned_at: Cell<u64>,
    /// Nobody waits for this thread any more.
    given_up: Cell<bool>,
}

/// The queue of a worker, and the context of the device in which it was opened.
struct Opened {
    queue: Box<dyn Queue>,
    context: u32,
}

enum Work {
    Planned(Assignment),
    Light(Item),
}

thread_local! {
    /// Outlives the thread's other locals: `exit` inside a task ends them before it calls the handlers of
    /// the program, which may ask where they are.
    static ME: ManuallyDrop<RefCell<Option<Rc<Me>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

thread_local! {
    /// This worker is to end after its task, for another to take its place.
    static LEAVING: Cell<bool> = const { Cell::new(false) };
}

/// For code inside a task that has found its thread to be of no more use. Elsewhere nothing happens.
pub(crate) fn leave_thread() {
    LEAVING.set(ME.try_with(|me| me.borrow().is_some()).unwrap_or(false));
}

impl Me {
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

    /// Whether enough of the stack is left for one task on top of another.
    pub fn may_nest(&self) -> bool {
        let here = 0_u8;
        self.base.abs_diff((&raw const here).addr()) < super::crew::STACK / 2
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

    fn below(&self) -> Option<Rc<Opened>> {
        self.entered.borrow().last().cloned()
    }

    fn open(&self, shared: &Shared, context: u32) -> Result<Rc<Opened>> {
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
        let slots = shared.crew.slots(self.device).max(self.slot + 1);
        let device = &shared.devices[self.device];
        let queue = caught(|| shared.backends[self.device].open(device.ordinal, self.slot, slots));
        self.let_go(before);
        let queue = queue?;
        let opened = Rc::new(Opened { queue, context });
        *self.opened.borrow_mut() = Some(opened.clone());
        Ok(opened)
    }

    /// The next task opens another queue.
    fn close(&self) {
        let opened = self.opened.borrow_mut().take();
        self.let_go(opened);
    }

    /// The queue is the backend's, which may panic in closing it.
    fn let_go(&self, opened: Option<Rc<Opened>>) {
        if catch_unwind(AssertUnwindSafe(|| drop(opened))).is_err() {
            let device = self.shared.devices[self.device].label();
            log::error!("the queue of {device} panicked when it was closed");
        }
    }

    /// One attempt, from the queue to the outcome. Neither the job nor the backend can unwind out of here.
    pub fn attempt(
        &self,
        shared: &Shared,
        task: TaskId,
        attempt: u32,
        context: u32,
        signal: &Signal,
        run: impl FnOnce(&Exec<'_>) -> Result<()>,
    ) -> Attempt {
        let opened = match self.open(shared, context) {
            Ok(opened) => opened,
            Err(error) => return not_entered("opened", error),
        };
        if let Err(error) = caught(|| opened.queue.enter()) {
            return not_entered("made current", error);
        }
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
        Attempt::Ran(outcome)
    }
}

/// A device that is of no use, or not now.
fn not_entered(what: &str, error: Error) -> Attempt {
    let lost = matches!(error, Error::Device { fault: DeviceFault::Lost, .. });
    match error.is_of_device() && !lost {
        true => Attempt::Ran(Err(error)),
        false => Attempt::NoQueue(format!("it could not be {what}: {error}")),
    }
}

/// The worker, of whatever scheduler, that the calling thread is, if it is in the code of a task.
pub fn anyone_inside() -> Option<Rc<Me>> {
    ME.try_with(|me| me.borrow().as_ref().filter(|me| me.is_inside()).cloned()).ok().flatten()
}

impl Shared {
    /// The worker of this scheduler that the calling thread is.
    pub fn me(&self) -> Option<Rc<Me>> {
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
    pub fn inside(&self) -> Option<Rc<Me>> {
        self.me().filter(|me| me.is_inside())
    }
}

/// The life of a worker, which is counted as searching already.
pub fn work(shared: &Arc<Shared>, seat: usize) {
    let place = shared.crew.seat(seat);
    let here = 0_u8;
    let me = Rc::new(Me {
        shared: shared.clone(),
        seat,
        device: place.device,
        slot: place.slot,
        hand: shared.light.enter(place.device, place.slot),
        bed: Bed::new(seat, place.device),
        opened: RefCell::new(None),
        entered: RefCell::new(Vec::new()),
        frames: RefCell::new(Vec::new()),
        on_plan: Cell::new(false),
        base: (&raw const here).addr(),
        clock: Cell::new(shared.clock()),
        spin: Cell::new(SPIN),
        plan_used: Cell::new(0),
        light_until: Cell::new(0),
        planned_at: Cell::new(0),
        given_up: Cell::new(false),
    });
    ME.with(|place| place.replace(Some(me.clone())));
    let mut work = search(shared, &me);
    while let Some(this) = work {
        match this {
            Work::Planned(assignment) => run_planned(shared, &me, assignment),
            Work::Light(item) => run_light(shared, &me, item),
        }
        if LEAVING.get() {
            leave_light(shared, &me);
            shared.crew.lot.search();
            shared.crew.stand_up(seat);
            shared.crew.lot.leave();
            break;
        }
        work = look(shared, &me).or_else(|| {
            leave_light(shared, &me);
            shared.crew.lot.search();
            search(shared, &me)
        });
    }
    me.close();
    ME.with(|place| place.take());
    let given_up = me.given_up.get();
    if let Ok(me) = Rc::try_unwrap(me).map_err(|_| ()) {
        shared.light.queues.leave(me.hand);
    }
    after_going(shared, place.device, given_up);
}

/// Searches, and sleeps, until there is something to run; `None`: the worker is not needed any more.
fn search(shared: &Arc<Shared>, me: &Me) -> Option<Work> {
    let lot = &shared.crew.lot;
    loop {
        if should_go(shared, me) {
            lot.leave();
            return None;
        }
        if let Some(work) = look(shared, me) {
            if lot.found() && shared.light.queues.any(&me.hand) {
                shared.call_any();
            }
            me.look_at_clock();
            return Some(work);
        }
        // It may have been about to take a light task: nobody is to wait for one who sleeps.
        leave_light(shared, me);
        if spin(shared, me) {
            continue;
        }
        lot.prepare(&me.bed);
        if is_anything(shared, me) || may_have_to_go(shared, me) {
            lot.cancel(&me.bed);
            continue;
        }
        if is_quiet(shared, me) && shared.light.queues.any(&me.hand) {
            // Whoever called this worker for a light task has called nobody else.
            shared.call_any();
        }
        shared.ring_inside();
        lot.sleep(&me.bed);
        me.look_at_clock();
    }
}

/// Looks around for a moment. True: there is something.
fn spin(shared: &Shared, me: &Me) -> bool {
    let lot = &shared.crew.lot;
    // One at a time, and not where it would take the processor from those who work.
    if lot.searching() > 1 || lot.awake() > shared.spinners_most() {
        return false;
    }
    let begin = shared.clock();
    loop {
        for _ in 0..4 {
            std::hint::spin_loop();
        }
        if is_anything(shared, me) || may_have_to_go(shared, me) {
            me.spin.set((me.spin.get() * 2).min(SPIN));
            return true;
        }
        if shared.clock() - begin > me.spin.get() {
            me.spin.set((me.spin.get() / 2).max(SPIN_LEAST));
            return false;
        }
    }
}

fn has_plan(shared: &Shared, me: &Me) -> bool {
    shared.crew.look.load(Ordering::SeqCst) >> me.device & 1 == 1
}

fn is_quiet(shared: &Shared, me: &Me) -> bool {
    shared.quiet.load(Ordering::SeqCst) >> me.device & 1 == 1
}

fn is_anything(shared: &Shared, me: &Me) -> bool {
    has_plan(shared, me) || !is_quiet(shared, me) && shared.light.queues.any(&me.hand)
}

fn is_retired(shared: &Shared, me: &Me) -> bool {
    shared.crew.retired.load(Ordering::SeqCst) >> me.device & 1 == 1
}

fn may_have_to_go(shared: &Shared, me: &Me) -> bool {
    shared.crew.has_surplus(me.seat)
        || me.slot >= shared.crew.slots(me.device)
        || is_retired(shared, me)
        || shared.light.is_stopping() && shared.light.queues.is_drained()
}

fn should_go(shared: &Shared, me: &Me) -> bool {
    if shared.crew.is_surplus(me.seat) {
        return true;
    }
    let go = may_have_to_go(shared, me) && !shared.crew.has_surplus(me.seat);
    if go {
        shared.crew.stand_up(me.seat);
    }
    go
}

/// Another has to do what this worker was called for, and a shutdown goes on.
fn after_going(shared: &Arc<Shared>, device: usize, given_up: bool) {
    if !given_up {
        shared.crew.went();
    }
    if shared.light.is_stopping() {
        shared.crew.lot.call_all();
    }
    let mut book = shared.lock();
    book.called[device] = false;
    if !book.core.stopping {
        shared.call_workers(&mut book);
    }
    shared.time.notify_all();
    drop(book);
    if !shared.light.queues.is_empty() {
        shared.call_any();
    }
    if shared.light.gate.load(Ordering::SeqCst) & NO_DEVICE != 0 {
        // Whoever emptied the queues has not seen what was on its way from one to another.
        shared.end_all_queued();
    }
    if shared.crew.is_deserted() {
        shared.fail_deserted();
    }
    shared.ring_inside();
}

/// What is next for a worker, if anything.
fn look(shared: &Arc<Shared>, me: &Me) -> Option<Work> {
    let surplus = shared.crew.has_surplus(me.seat);
    if surplus || is_retired(shared, me) || me.slot >= shared.crew.slots(me.device) {
        return None;
    }
    let planned = has_plan(shared, me);
    let light_first = me.clock.get() < me.light_until.get();
    if planned
        && !light_first
        && let Some(assignment) = take_planned(shared, me, false)
    {
        return Some(Work::Planned(assignment));
    }
    if let Some(item) = take_light(shared, me) {
        if planned && light_first {
            pass_on(shared, me);
        }
        return Some(Work::Light(item));
    }
    if planned && has_plan(shared, me) { take_planned(shared, me, true).map(Work::Planned) } else { None }
}

/// A worker that may have been called for the plan does something else first, which may even wait for what is
/// planned: another is called in its stead.
fn pass_on(shared: &Arc<Shared>, me: &Me) {
    let mut book = shared.lock();
    if std::mem::take(&mut book.called[me.device]) {
        shared.call_workers(&mut book);
    }
}

fn take_light(shared: &Arc<Shared>, me: &Me) -> Option<Item> {
    let lit = &me.hand.station.books.lit;
    if is_quiet(shared, me) {
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

/// No light task runs here for a while; a planned one may have waited for that.
fn leave_light(shared: &Arc<Shared>, me: &Me) {
    if me.hand.station.books.lit.swap(false, Ordering::SeqCst)
        && (is_quiet(shared, me) || shared.alone.load(Ordering::SeqCst))
    {
        let mut book = shared.lock();
        shared.call_workers(&mut book);
    }
}

fn take_planned(shared: &Arc<Shared>, me: &Me, last: bool) -> Option<Assignment> {
    let taken = begin_planned(shared, me, last, None);
    if !matches!(taken, Taken::Unknown) {
        return taken.begun();
    }
    // Without the lock: a driver may take its time.
    let ordinal = shared.devices[me.device].ordinal;
    let free = shared.backends[me.device].free_bytes(ordinal).unwrap_or(u64::MAX);
    begin_planned(shared, me, last, Some(free)).begun()
}

fn begin_planned(shared: &Arc<Shared>, me: &Me, last: bool, free: Option<u64>) -> Taken {
    let mut book = shared.lock();
    let now = shared.now();
    let clock = super::light::nanoseconds(now);
    book.called[me.device] = false;
    if !last
        && book.core.best_priority().is_some_and(|priority| priority < 0)
        && clock.saturating_sub(me.planned_at.get()) < STAND_BACK
        && shared.light.queues.any(&me.hand)
        || me.slot >= book.core.devices[me.device].slots
    {
        return Taken::Nothing;
    }
    book.core.devices[me.device].light = shared.is_lit(me.device, Some(me));
    let known = book.core.devices[me.device].free(now);
    let taken = book.core.take(now, me.device, me.slot, free);
    match taken {
        Taken::Begins(_) => {
            me.planned_at.set(clock);
            // There may be room, and a task, for another worker beside this one.
            shared.call_workers(&mut book);
            shared.watch(&mut book);
            // What runs alone closes its device to light tasks, and may have been waited for on others.
            if book.core.alone > 0 && shared.mirror(&book) && !shared.light.queues.is_empty() {
                drop(book);
                shared.call_any();
            }
        }
        Taken::Nothing => {
            shared.crew.look.fetch_and(!(1 << me.device), Ordering::SeqCst);
            if known.is_none() && book.core.devices[me.device].free(now).is_some() {
                // Others have taken the memory: another device may be the better one now, or this one later.
                shared.call_workers(&mut book);
                shared.watch(&mut book);
            }
        }
        Taken::Unknown => {}
    }
    taken
}

fn run_planned(shared: &Arc<Shared>, me: &Me, assignment: Assignment) {
    leave_light(shared, me);
    let begin = shared.clock();
    let Assignment { id, attempt, job, signal, context } = assignment;
    me.frames.borrow_mut().push(shared.light.known_as(id));
    me.on_plan.set(true);
    me.hand.pushed.set(0);
    let on_top = &me.hand.station.books.on_top;
    on_top.set_bottom(Some((id, attempt)));
    let how = me.attempt(shared, id, attempt, context, &signal, |exec| job.run(exec));
    // The job's drop is the caller's code inside the task, too: it may be the last to hold it.
    shared.discard(job);
    on_top.set_bottom(None);
    let short = matches!(how, Attempt::Ran(Err(Error::NoMemory { .. } | Error::Resources { .. })));
    let company = short && shared.was_lit(me, begin);
    let mut book = shared.lock();
    let now = shared.now();
    if company {
        book.core.had_company(me.device, id, attempt);
    }
    if !book.core.judge(now, me.device, id, attempt, how) {
        me.given_up.set(true);
        shared.crew.came_back();
    }
    shared.settle(book);
    shared.save_rates_now_and_then();
    me.on_plan.set(false);
    me.frames.borrow_mut().pop();
    let end = shared.clock();
    me.clock.set(end);
    let used = me.plan_used.get() + (end - begin);
    if used >= PLAN_TURN {
        me.plan_used.set(0);
        me.light_until.set(end + LIGHT_SLICE);
    } else {
        me.plan_used.set(used);
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
