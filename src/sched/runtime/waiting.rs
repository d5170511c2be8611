//! Waiting for tasks, outside of tasks and inside.
//!
//! A thread outside of any task looks, spins for a moment, and sleeps in the rooms of what it waits for.
//! A task that waits first runs what it has itself submitted and nobody has begun: never anything
//! else, for that would run on top of whatever its own code holds. Then it sleeps, and its slot has room for
//! another worker meanwhile. Waits without a time limit that could never end are found
//! out: a circle when it closes, by [`crate::sched::sleep::wait_graph`]; and that nobody is left who could go on, by whoever
//! was the last that could.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::run_light::run_light;
use super::shared::Runtime;
use super::worker_local::{WorkerLocal, anyone_inside};
use crate::error::{Error, Result};
use crate::sched::base::outcome::TaskStatus;
use crate::sched::base::sync;
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;
use crate::sched::sleep::wait_queues::{INSIDE, Waiter};

/// Tasks that may wait for other tasks inside their code at a time; each may cost a worker more.
const SUBSTITUTES: usize = 64;

/// So long the host of a range waits for its guests in its slot; then others may use it.
const BRIEF: Duration = Duration::from_millis(2);

/// How long a waiter looks before it sleeps, in nanoseconds.
const SPIN: u64 = 20_000;

thread_local! {
    /// The thread's bell; taken while it waits.
    static BELL: RefCell<Option<sync::Arc<Waiter>>> = const { RefCell::new(None) };
}

impl Runtime {
    /// Until `look` finds something; `None`: the time was up first. `keys` are rung when it may have
    /// changed its mind.
    pub fn wait_until<T>(
        self: &Arc<Self>,
        keys: &[TaskId],
        timeout: Option<Duration>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(found) = look() {
            return Ok(Some(found));
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Ok(None);
        }
        // A deadline too far away to be told is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match self.inside() {
            None => self.wait_outside(keys, deadline, look),
            Some(me) => self.wait_inside(&me, keys, deadline, look),
        }
    }

    fn wait_outside<T>(
        &self,
        keys: &[TaskId],
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(found) = self.spin_for(&look) {
            return Ok(Some(found));
        }
        elsewhere(|| {
            let bell = take_bell();
            self.wait_queues.enter(keys, &bell);
            let found = loop {
                if let Some(found) = look() {
                    break Some(found);
                }
                if !bell.hear(deadline) {
                    break look();
                }
            };
            self.wait_queues.leave(keys, &bell);
            give_bell(bell);
            found
        })
    }

    fn wait_inside<T>(
        self: &Arc<Self>,
        me: &WorkerLocal,
        keys: &[TaskId],
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Result<Option<T>> {
        if me.hand.pushed.get() > 0 {
            me.look_at_clock();
        }
        while me.may_nest()
            && let Some(item) = self.light.queues.own(&me.hand)
        {
            run_light(self, me, item);
            me.resume();
            if let Some(found) = look() {
                return Ok(Some(found));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
        }
        if let Some(found) = self.spin_for(&look) {
            return Ok(Some(found));
        }
        let forever = deadline.is_none();
        let frames: Vec<TaskId> = me.frames().into_iter().filter(|frame| frame.0 != 0).collect();
        if forever && !self.wait_graph.enter(&frames, keys, |id| self.behind(id), |id| self.is_range(id)) {
            return Err(deadlock("what it waits for waits, in the end, for the task itself"));
        }
        if !self.pool.make_room(me.seat, SUBSTITUTES) {
            if forever {
                self.wait_graph.leave(&frames, keys);
            }
            return Err(crowded());
        }
        self.open_slot(me);
        let bell = take_bell();
        self.wait_queues.enter(keys, &bell);
        self.wait_queues.enter(&[INSIDE], &bell);
        // Perhaps now nobody can go on.
        self.notify_blocked();
        let outcome = loop {
            if let Some(found) = look() {
                break Ok(Some(found));
            }
            if forever && !me.is_given_up() && self.wait_queues.block(&bell) && self.is_stuck(me) {
                let why =
                    "every running task waits for another, and none of those that they wait for can start";
                break look().map_or_else(|| Err(deadlock(why)), |found| Ok(Some(found)));
            }
            if !bell.hear(deadline) {
                break Ok(look());
            }
        };
        self.wait_queues.leave(keys, &bell);
        self.wait_queues.leave(&[INSIDE], &bell);
        self.wait_queues.unblock(&bell);
        give_bell(bell);
        if forever {
            self.wait_graph.leave(&frames, keys);
        }
        self.close_slot(me);
        outcome
    }

    /// The host of a range waits until it sees `enough`; `keys` are rung when it may: for a moment in its slot, then
    /// beside it, where another worker may use that.
    pub fn wait_for_guests(self: &Arc<Self>, keys: &[TaskId], enough: impl Fn() -> bool) {
        let bell = take_bell();
        self.wait_queues.enter(keys, &bell);
        let brief = Instant::now().checked_add(BRIEF);
        let mut seen = enough();
        while !seen && bell.hear(brief) {
            seen = enough();
        }
        if !seen && let Some(me) = self.inside() {
            self.pool.make_room(me.seat, usize::MAX);
            self.open_slot(&me);
            while !enough() {
                if !me.is_given_up() && self.wait_queues.block(&bell) {
                    // It can't be told that nobody can go on; those can who wait inside tasks.
                    self.notify_blocked();
                }
                bell.hear(None);
            }
            self.close_slot(&me);
        }
        self.wait_queues.leave(keys, &bell);
        give_bell(bell);
    }

    fn open_slot(self: &Arc<Self>, me: &WorkerLocal) {
        let mut guard = self.lock();
        if me.is_planned() {
            guard.planner.devices[me.device].waiting_slots += 1;
            self.publish_flags(&guard);
        } else {
            me.hand.station.books.lit.store(false, Ordering::SeqCst);
        }
        // The slot is free for others meanwhile.
        self.wake_workers(&mut guard);
        drop(guard);
        if self.light.queues.any(&me.hand) {
            self.wake_any_worker();
        }
    }

    fn close_slot(&self, me: &WorkerLocal) {
        if me.is_planned() {
            let mut guard = self.lock();
            guard.planner.devices[me.device].waiting_slots -= 1;
            self.publish_flags(&guard);
        } else {
            me.hand.station.books.lit.store(true, Ordering::SeqCst);
        }
        self.pool.take_room(me.seat);
    }

    /// Nothing can go on: every worker sleeps or waits inside a task, nothing can begin, and no thread is about to
    /// tell an end.
    fn is_stuck(&self, me: &WorkerLocal) -> bool {
        self.all_are_blocked()
            && !(self.light.queues.any(&me.hand) && self.may_light_begin())
            && self.can_nothing_planned_begin()
            && self.all_are_blocked()
    }

    /// But for threads that were given up: nobody waits for those any more.
    fn all_are_blocked(&self) -> bool {
        self.pool.lot.awake() == (self.wait_queues.blocked() + self.pool.lost()) as u64
    }

    /// Whether light tasks may begin on any device now.
    fn may_light_begin(&self) -> bool {
        let never = self.light_blocked.load(Ordering::SeqCst) | self.pool.retired.load(Ordering::SeqCst);
        (0..self.devices.len()).any(|index| never >> index & 1 == 0)
    }

    fn can_nothing_planned_begin(&self) -> bool {
        let mut guard = self.lock();
        for (index, device) in guard.planner.devices.iter_mut().enumerate() {
            device.runs_light = self.runs_light(index, None);
        }
        self.jobs_dropping.load(Ordering::SeqCst) == 0 && guard.planner.nothing_can_begin()
    }

    /// What a planned task that has not begun comes after.
    fn behind(&self, id: TaskId) -> Vec<TaskId> {
        if crate::sched::light::slab::LightSlab::is_light(id) {
            return Vec::new();
        }
        let guard = self.lock();
        let record = guard.planner.tasks.get(id).ok().filter(|record| record.status == TaskStatus::Queued);
        let behind = record.map(|record| record.predecessors.clone()).unwrap_or_default();
        drop(guard);
        behind.into_iter().map(|id| self.light.known_as(id)).collect()
    }

    fn is_range(&self, id: TaskId) -> bool {
        let is_light = crate::sched::light::slab::LightSlab::is_light(id);
        !is_light && self.lock().planner.tasks.get(id).is_ok_and(|record| record.role == Role::Range)
    }

    /// For a moment, if there is a processor to spare.
    fn spin_for<T>(&self, look: &impl Fn() -> Option<T>) -> Option<T> {
        let one = self.spinning.fetch_add(1, Ordering::Relaxed) == 0;
        let mut found = None;
        if one && self.pool.lot.awake() <= self.spinners_most() {
            let begin = self.clock();
            while found.is_none() && self.clock() - begin < SPIN {
                for _ in 0..4 {
                    std::hint::spin_loop();
                }
                found = look();
            }
        }
        self.spinning.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

/// Blocks the calling thread, which is in no task of the scheduler that it waits for. If it is in one of
/// another scheduler, that one's slot has room for another worker meanwhile: what is waited for may in its turn
/// wait for what is queued there. (That two schedulers wait for each other in a circle is not found out: each
/// knows its own tasks.)
pub fn elsewhere<T>(block: impl FnOnce() -> T) -> Result<T> {
    let Some(me) = anyone_inside() else { return Ok(block()) };
    if !me.shared.pool.make_room(me.seat, SUBSTITUTES) {
        return Err(crowded());
    }
    me.shared.open_slot(&me);
    let result = block();
    me.shared.close_slot(&me);
    Ok(result)
}

fn crowded() -> Error {
    deadlock(&format!("{SUBSTITUTES} tasks wait inside their code already, the most that is allowed"))
}

fn deadlock(why: &str) -> Error {
    Error::Deadlock { what: "a wait inside a task", why: why.into() }
}

fn take_bell() -> sync::Arc<Waiter> {
    BELL.try_with(|bell| bell.borrow_mut().take()).ok().flatten().unwrap_or_default()
}

fn give_bell(bell: sync::Arc<Waiter>) {
    let _ = BELL.try_with(|place| *place.borrow_mut() = Some(bell));
}
