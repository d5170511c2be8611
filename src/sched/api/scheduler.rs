//! The scheduler as its callers see it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::in_order::OrderedResults;
use crate::backend::cpu::FloatMode;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::sched::base::outcome::{TaskInfo, WaitResult};
use crate::sched::base::signal::Completion;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;
use crate::sched::light::slab::LightSlab;
use crate::sched::light::task::{LightTask, WatchStart};
use crate::sched::light::{CLOSED, STOPPING};
use crate::sched::plan::stats::Stats;
use crate::sched::runtime::shared::{PlannerGuarded, Runtime};
use crate::sched::runtime::waiting::block_outside;
use crate::sched::sleep::wait_queues::ALL_TASKS;

/// Runs tasks on the devices that it was given. Any method may be called from any thread.
/// Dropping it cancels what is queued, asks what runs to stop, and waits.
pub struct Scheduler {
    pub(crate) shared: Arc<Runtime>,
    holding: Mutex<Ownership>,
    pub(crate) line: OrderedResults,
}

/// The right of a [`Scheduler`] to end its workers.
#[derive(Clone, Copy)]
pub(crate) enum Ownership {
    /// It is the only one: the end.
    Own,
    /// One of the holders of the process's scheduler, and how to give it back: whether it was the last.
    Held(fn(&Arc<Runtime>) -> bool),
    /// Was one of them, and others still are.
    GivenBack,
}

/// What a waiter watches; it stays when the task is released meanwhile.
enum Watch<'a> {
    Planned(Arc<Completion>),
    Light(&'a LightTask, u64, TaskId),
    /// It has ended, and is not watched any more.
    Ended(Result<WaitResult>),
}

impl Scheduler {
    pub(crate) fn new(shared: Arc<Runtime>, holding: Ownership) -> Self {
        Scheduler { shared, holding: Mutex::new(holding), line: OrderedResults::default() }
    }

    pub(crate) fn shared(&self) -> &Arc<Runtime> {
        &self.shared
    }

    /// One that was made for others to hold, too: dropping it ends nothing if it is `held`.
    pub(crate) fn leave_to(self, held: &Arc<Runtime>) {
        if Arc::ptr_eq(&self.shared, held) {
            *lock(&self.holding) = Ownership::GivenBack;
        }
    }

    /// Gives back what is shared; whether nobody else has it, so that its end is ours to bring about.
    fn alone(&self) -> bool {
        let mut holding = lock(&self.holding);
        if let Ownership::Held(give_back) = *holding {
            *holding = if give_back(&self.shared) { Ownership::Own } else { Ownership::GivenBack };
        }
        matches!(*holding, Ownership::Own)
    }

    /// [`Error::Forked`] in a child of the process that made it.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.shared.process.check()
    }

    /// As found when the scheduler was made; the order is that of device masks.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.shared.devices
    }

    /// Threads that a task has on the CPU device, at most; 0 if there is none.
    pub fn cpu_threads(&self) -> u32 {
        self.shared.cpu_threads
    }

    /// `Err` if the task failed (with the task's own error) or can't be waited for: it is detached,
    /// released, of another scheduler, or the very task that the caller is in. `None` waits for ever;
    /// zero looks and returns. Any number of threads may wait for a task, any number of times.
    ///
    /// From inside a task, what it has itself submitted may run on top of it, another worker may use the
    /// caller's slot meanwhile, and a wait that could never end is [`Error::Deadlock`].
    pub fn wait(&self, id: TaskId, timeout: Option<Duration>) -> Result<WaitResult> {
        self.shared.process.check()?;
        let watch = self.watch(id)?;
        if let Watch::Ended(outcome) = watch {
            return outcome;
        }
        if self.shared.own_task_worker().is_some_and(|me| me.task_stack().contains(&id)) {
            self.unwatch(watch);
            let why = "a task can't wait for itself, nor for one that waits for it";
            return Err(Error::Deadlock { what: "wait", why: why.into() });
        }
        // To wait may be to run another task, or to plan. What comes before computes nothing.
        let _mode = FloatMode::standard();
        let waited = self.shared.wait_until(&[id], timeout, || watch.is_ended().then_some(()));
        let outcome = self.unwatch(watch);
        waited?;
        outcome.unwrap_or(Ok(WaitResult::Pending))
    }

    /// Waits until every task submitted so far has ended; their outcomes stay to be asked for.
    /// Not possible from inside a task, which would wait for itself.
    pub fn wait_all(&self, timeout: Option<Duration>) -> Result<WaitResult> {
        let planned = self.lock()?.planner.arrival_mark();
        self.not_inside("wait_all")?;
        let shared = &self.shared;
        let counts = &shared.light.queues;
        shared.waiting_for_all.fetch_add(1, Ordering::SeqCst);
        let tell_others = |drained: bool| {
            if drained && shared.waiting_for_all.load(Ordering::SeqCst) > 1 {
                shared.wait_queues.notify(ALL_TASKS);
            }
        };
        let begun = shared.light.epochs.start_waiting(counts);
        tell_others(begun.drained);
        let look = || {
            let seen = shared.light.epochs.check(begun.mark, counts);
            tell_others(seen.drained);
            (seen.done && shared.lock().planner.all_ended_before(planned)).then_some(())
        };
        let mut all = shared.wait_until(&[ALL_TASKS], timeout, look);
        while let Ok(None) = all
            && shared.light.is_ending()
        {
            // All have ended, and the last are about to be counted.
            std::thread::yield_now();
            all = Ok(look());
        }
        shared.light.epochs.stop_waiting();
        shared.waiting_for_all.fetch_sub(1, Ordering::SeqCst);
        Ok(if all?.is_some() { WaitResult::Done } else { WaitResult::Pending })
    }

    /// The position in `ids` of a task that has ended, whatever its outcome. `None`: the time was up.
    pub fn wait_any(&self, ids: &[TaskId], timeout: Option<Duration>) -> Result<Option<usize>> {
        self.shared.process.check()?;
        if ids.is_empty() {
            return Err(Error::argument("the number of tasks to wait for", 0, "at least 1"));
        }
        // All are looked at: an unknown id is an error whether or not another task has ended.
        let mut watches = Vec::new();
        let mut wrong = None;
        for &id in ids {
            match self.watch(id) {
                Ok(watch) => watches.push(watch),
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        let found = match wrong {
            Some(error) => Err(error),
            None => self.shared.wait_until(ids, timeout, || watches.iter().position(Watch::is_ended)),
        };
        for watch in watches {
            self.unwatch(watch);
        }
        found
    }

    /// The next of the tasks that were submitted as [`ordered`](Task::ordered), in the order of
    /// submission, once it has ended, well or not; each is handed out once. `None`: the time was up.
    /// An error if none is left to hand out.
    pub fn wait_next(&self, timeout: Option<Duration>) -> Result<Option<TaskId>> {
        // Before the line's lock: in a child of fork it may be held for ever.
        self.check_process()?;
        // An end too far away to be told is none.
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let Some(front) = self.line.front() else {
                let accepted = "at least 1 that was submitted as ordered";
                return Err(Error::argument("the number of tasks left to hand out in order", 0, accepted));
            };
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let gone = match self.wait_any(&[front], left) {
                Ok(Some(_)) => self.info(front).is_err(),
                Ok(None) => return Ok(None),
                // Released, or released before its end and so detached.
                Err(Error::Stale { .. } | Error::Argument { .. }) => true,
                Err(error) => return Err(error),
            };
            // One of several waiting threads takes the task; the others wait for the next one.
            if self.line.take(front) && !gone {
                return Ok(Some(front));
            }
        }
    }

    /// Asks a task to stop: a queued one never starts, a running one sees it in
    /// [`Exec::cancelled`](crate::sched::base::exec::Exec::cancelled). No error if it has ended already.
    pub fn cancel(&self, id: TaskId) -> Result<()> {
        self.shared.process.check()?;
        let mut planned = id;
        if LightSlab::is_light(id) {
            let (slot, generation) = self.shared.light.slab.find(id)?;
            slot.cancel(generation, id)?;
            if self.shared.end_queued(None, slot, generation, id, &Error::Cancelled) {
                return Ok(());
            }
            match slot.promoted_to(generation) {
                Some(there) => planned = there,
                None => return Ok(()),
            }
        }
        let mut guard = self.shared.lock();
        let done = guard.planner.cancel(planned);
        self.shared.apply_effects(guard);
        // One that went on in the plan may have ended meanwhile.
        if planned == id { done } else { Ok(()) }
    }

    /// Forgets the outcome of a task; one that has not ended yet becomes detached.
    pub fn release(&self, id: TaskId) -> Result<()> {
        self.shared.process.check()?;
        if LightSlab::is_light(id) {
            let (slot, generation) = self.shared.light.slab.find(id)?;
            let parting = slot.release(generation, id)?;
            self.shared.apply_end_actions(id, parting);
            return Ok(());
        }
        let mut guard = self.shared.lock();
        let record = guard.planner.tasks.get_mut(id)?;
        if record.status.is_ended() {
            guard.planner.tasks.remove(id)?;
        } else {
            record.detached = true;
        }
        Ok(())
    }

    pub fn info(&self, id: TaskId) -> Result<TaskInfo> {
        self.shared.process.check()?;
        if !LightSlab::is_light(id) {
            return self.shared.lock().planner.info(self.shared.now(), id);
        }
        let (slot, generation) = self.shared.light.slab.find(id)?;
        if let Some(planned) = slot.promoted_to(generation)
            && let Ok(info) = self.shared.lock().planner.info(self.shared.now(), planned)
        {
            return Ok(info);
        }
        slot.info(generation, id, self.shared.clock())
    }

    /// Takes a device out of use for as long as the scheduler lives, as one that has failed. What runs there ends.
    /// Refused: a number that no device has.
    pub fn retire(&self, device: usize, why: &str) -> Result<()> {
        let mut guard = self.lock()?;
        if device >= guard.planner.devices.len() {
            let accepted = format!("less than {}", guard.planner.devices.len());
            return Err(Error::argument("device", device, accepted));
        }
        guard.planner.retire(device, why);
        self.shared.apply_effects(guard);
        Ok(())
    }

    pub fn stats(&self) -> Result<Stats> {
        self.shared.process.check()?;
        Ok(self.shared.stats())
    }

    /// Accepts no more tasks and waits until all have ended. Not possible from inside a task.
    /// What is shared with others only waits, and goes on accepting.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<WaitResult> {
        let mut guard = self.lock()?;
        self.not_inside("drain")?;
        if matches!(*lock(&self.holding), Ownership::Own) {
            guard.planner.closed = true;
            self.shared.light.stop_flags.fetch_or(CLOSED, Ordering::SeqCst);
        }
        drop(guard);
        self.wait_all(timeout)
    }

    /// Cancels what is queued, asks what runs to stop, waits for it, ends the workers.
    /// Returns how many tasks ended as cancelled since the call. Not possible from inside a task.
    /// What is shared with others is given back; only the last to do so ends it.
    pub fn shutdown(&self) -> Result<u64> {
        self.shutdown_within(None).map(Option::unwrap_or_default)
    }

    /// [`shutdown`](Self::shutdown), but `None` when the time is up and a task still runs. Then nothing
    /// more is accepted or started, all can be asked about, and this may be called again.
    pub fn shutdown_within(&self, timeout: Option<Duration>) -> Result<Option<u64>> {
        self.shared.process.check()?;
        let before = self.shared.stats().cancelled;
        self.not_inside("shutdown")?;
        self.not_telling("shutdown")?;
        if !self.alone() {
            return Ok(Some(0));
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let gone = block_outside(|| {
            self.stop();
            self.shared.pool.wait_until_ended(end) && self.end_the_rest(end)
        })?;
        if !gone {
            return Ok(None);
        }
        // An end that was counted may be taken back for a moment, to be counted in the plan.
        let cancelled = self.shared.stats().cancelled.saturating_sub(before);
        let guard = self.shared.lock();
        self.shared.timer_wakeup.notify_all();
        drop(guard);
        if let Some(peers) = &self.shared.peers {
            peers.wake_watcher();
        }
        self.shared.pool.join();
        self.shared.observability.teller.stop();
        self.shared.save_rates();
        Ok(Some(cancelled))
    }

    /// No worker is left: ends what a late submit has pushed, and waits for other threads that drop jobs. What a
    /// thread that was given up has begun is ended by whoever gave it up, or never. False: the time is up.
    fn end_the_rest(&self, end: Option<Instant>) -> bool {
        let shared = &self.shared;
        loop {
            shared.end_all_queued();
            let drained = shared.light.queues.is_drained() || shared.pool.abandoned() > 0;
            if drained && shared.jobs_dropping.load(Ordering::SeqCst) == 0 {
                return true;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
            // It seldom comes to that, and nobody knows who would ring.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The part of a shutdown that does not wait.
    fn stop(&self) {
        self.shared.light.stop_flags.fetch_or(CLOSED | STOPPING, Ordering::SeqCst);
        let mut guard = self.shared.lock();
        guard.planner.stop();
        self.shared.apply_effects(guard);
        self.shared.light.cancel_running();
        self.shared.end_all_queued();
        self.shared.pool.event_count.wake_all();
    }

    /// The state, unless this process is a fork of the one that has the workers.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, PlannerGuarded>> {
        self.shared.process.check()?;
        Ok(self.shared.lock())
    }

    fn not_inside(&self, what: &'static str) -> Result<()> {
        let why = match self.shared.own_task_worker() {
            Some(_) => "it was called from inside a task",
            None if self.shared.is_dropping() => "it was called from inside a drop callback",
            None => return Ok(()),
        };
        Err(Error::Deadlock { what, why: why.into() })
    }

    /// To be followed by [`Scheduler::unwatch`].
    fn watch(&self, id: TaskId) -> Result<Watch<'_>> {
        if LightSlab::is_light(id) {
            let (slot, generation) = self.shared.light.slab.find(id)?;
            return Ok(match slot.start_wait(generation, id)? {
                WatchStart::Ended(outcome) => Watch::Ended(outcome),
                WatchStart::Waits => Watch::Light(slot, generation, id),
            });
        }
        let guard = self.shared.lock();
        let record = guard.planner.tasks.get(id)?;
        if record.detached {
            let id = format!("{:#018x}", id.0);
            return Err(Error::argument("the task to wait for", id, "a task that is not detached"));
        }
        Ok(match record.signal.outcome.get() {
            Some(outcome) => Watch::Ended(outcome.clone()),
            None => Watch::Planned(record.signal.clone()),
        })
    }

    /// The outcome, if there is one now.
    fn unwatch(&self, watch: Watch<'_>) -> Option<Result<WaitResult>> {
        match watch {
            Watch::Ended(outcome) => Some(outcome),
            Watch::Planned(told) => told.outcome.get().cloned(),
            Watch::Light(slot, generation, id) => self.shared.unwatch_light(slot, generation, id),
        }
    }
}

impl Watch<'_> {
    fn is_ended(&self) -> bool {
        match self {
            Watch::Ended(_) => true,
            Watch::Planned(told) => told.outcome.get().is_some(),
            Watch::Light(slot, generation, _) => {
                slot.lifecycle(*generation).is_none_or(|life| life.is_ended())
            }
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if !self.shared.process.is_here() {
            // Its threads are not in this process, and its lock may be held for ever by one of them.
            std::mem::forget(self.shared.clone());
        } else if self.not_inside("drop").is_err() || self.shared.observability.teller.is_inside() {
            // The workers keep alive what they need, and end by themselves.
            if self.alone() {
                self.stop();
                self.shared.observability.teller.stop();
            }
        } else {
            let _ = self.shutdown();
        }
    }
}
