//! The scheduler as its callers see it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::backend::float_mode::FloatMode;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::sched::base::{Completion, TaskId, TaskInfo, WaitResult, lock};
use crate::sched::light::{CLOSED, LightTask, STOPPING};
use crate::sched::plan::Stats;
use crate::sched::runtime::{PlannerGuarded, Runtime, block_outside};
use crate::sched::sleep::ALL_TASKS;

/// Runs tasks on its devices. Any method may be called from any thread.
///
/// Dropping it cancels queued tasks, asks running ones to stop, and waits for them.
pub struct Scheduler {
    pub(crate) runtime: Arc<Runtime>,
    ownership: Mutex<Ownership>,
    /// The ordered tasks that [`Scheduler::wait_next`] has not returned yet.
    pub(super) ordered: Mutex<VecDeque<TaskId>>,
}

/// Whether a [`Scheduler`] may end its workers.
#[derive(Clone, Copy)]
pub(crate) enum Ownership {
    /// This scheduler is the only user.
    Own,
    /// This is a user of the process's default scheduler. The function releases it and returns
    /// true for the last user.
    Shared(fn(&Arc<Runtime>) -> bool),
    /// This user has released the default scheduler, which others still use.
    Released,
}

/// A task that a thread waits for. It outlives the release of the task.
enum Watch<'a> {
    Planned(Arc<Completion>),
    Light(&'a LightTask, u64, TaskId),
    Ended(Result<WaitResult>),
}

impl Scheduler {
    pub(crate) fn new(runtime: Arc<Runtime>, ownership: Ownership) -> Self {
        Scheduler { runtime, ownership: Mutex::new(ownership), ordered: Mutex::default() }
    }

    /// Releases a default scheduler. Returns true if no other user is left, so that this one ends
    /// it.
    fn release_ownership(&self) -> bool {
        let mut ownership = lock(&self.ownership);
        if let Ownership::Shared(release) = *ownership {
            *ownership = if release(&self.runtime) { Ownership::Own } else { Ownership::Released };
        }
        matches!(*ownership, Ownership::Own)
    }

    /// Returns the devices as found at creation, in the order of device masks.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.runtime.devices
    }

    /// Returns the most threads that a task has on the CPU device; 0 without one.
    pub fn cpu_threads(&self) -> u32 {
        self.runtime.cpu_threads
    }

    /// Waits for a task. Any number of threads may wait for a task, any number of times. `timeout`:
    /// `None` waits for ever, zero polls.
    ///
    /// Returns the task's own error if it failed. Returns another error if it can't be waited for:
    /// it is detached, released, of another scheduler, or the caller's own task.
    ///
    /// Inside a task, the wait may run tasks that the caller has submitted, nested on it; another
    /// worker may use the caller's slot; and a wait that can never end returns [`Error::Deadlock`].
    pub fn wait(&self, id: TaskId, timeout: Option<Duration>) -> Result<WaitResult> {
        self.runtime.process.check()?;
        let watch = self.watch(id)?;
        if let Watch::Ended(outcome) = watch {
            return outcome;
        }
        if self.runtime.own_task_worker().is_some_and(|worker| worker.task_stack().contains(&id)) {
            self.unwatch(watch);
            let why = "a task can't wait for itself, nor for one that waits for it";
            return Err(Error::Deadlock { what: "wait", why: why.into() });
        }
        // The wait may run another task, or plan. The code above computes nothing.
        let _mode = FloatMode::standard();
        let waited = self.runtime.wait_until(&[id], timeout, || watch.is_ended().then_some(()));
        let outcome = self.unwatch(watch);
        waited?;
        outcome.unwrap_or(Ok(WaitResult::Pending))
    }

    /// Waits until every task submitted so far has ended. Their outcomes stay available. Fails
    /// inside a task, which would wait for itself.
    pub fn wait_all(&self, timeout: Option<Duration>) -> Result<WaitResult> {
        let runtime = &self.runtime;
        runtime.process.check()?;
        self.check_outside("wait_all")?;
        let planned = runtime.lock().planner.start_waiting_for_all();
        let mark = runtime.light.epochs.start_waiting();
        let look = || {
            let seen = runtime.light.epochs.check(mark);
            if seen.drained {
                runtime.wait_queues.notify(ALL_TASKS);
            }
            (seen.done && runtime.lock().planner.all_ended_before(planned)).then_some(())
        };
        let mut all = runtime.wait_until(&[ALL_TASKS], timeout, look);
        while let Ok(None) = all
            && runtime.light.is_ending()
        {
            // All have ended; the last ones are about to be counted.
            std::thread::yield_now();
            all = Ok(look());
        }
        runtime.light.epochs.stop_waiting();
        runtime.lock().planner.stop_waiting_for_all(planned);
        Ok(if all?.is_some() { WaitResult::Done } else { WaitResult::Pending })
    }

    /// Waits for any of the tasks. Returns the position in `ids` of one that has ended, whatever
    /// its outcome. `None`: timed out.
    pub fn wait_any(&self, ids: &[TaskId], timeout: Option<Duration>) -> Result<Option<usize>> {
        self.runtime.process.check()?;
        if ids.is_empty() {
            return Err(Error::argument("the number of tasks to wait for", 0, "at least 1"));
        }
        // Check all: an unknown id is an error whether or not another task has ended.
        let mut watches = Vec::new();
        let watched = ids.iter().try_for_each(|&id| {
            watches.push(self.watch(id)?);
            Ok(())
        });
        let ended = || watches.iter().position(Watch::is_ended);
        let found = watched.and_then(|()| self.runtime.wait_until(ids, timeout, ended));
        for watch in watches {
            self.unwatch(watch);
        }
        found
    }

    /// Waits for the next of the tasks that were submitted as
    /// [`ordered`](crate::sched::base::task::Task::ordered), in the order of submission, well ended
    /// or not. Returns each once. `None`: timed out. Fails if none is left.
    pub fn wait_next(&self, timeout: Option<Duration>) -> Result<Option<TaskId>> {
        // Before any lock: in a child of fork it may be held for ever.
        self.runtime.process.check()?;
        // An end beyond the clock's range is none.
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let Some(front) = lock(&self.ordered).front().copied() else {
                let accepted = "1 or more, submitted as ordered";
                return Err(Error::argument("the number of ordered tasks left", 0, accepted));
            };
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let gone = match self.wait_any(&[front], left) {
                Ok(Some(_)) => self.info(front).is_err(),
                Ok(None) => return Ok(None),
                // Released, or released before its end and so detached.
                Err(Error::Stale { .. } | Error::Argument { .. }) => true,
                Err(error) => return Err(error),
            };
            // A single one of the waiting threads takes the task; the others wait for the next.
            let mut ordered = lock(&self.ordered);
            if ordered.front() == Some(&front) {
                ordered.pop_front();
                if !gone {
                    return Ok(Some(front));
                }
            }
        }
    }

    /// Cancels a task. A queued one never starts; a running one polls
    /// [`Exec::cancelled`](crate::sched::base::exec::Exec::cancelled). Does nothing if it has
    /// ended.
    pub fn cancel(&self, id: TaskId) -> Result<()> {
        self.runtime.process.check()?;
        let mut planned = id;
        if id.is_light() {
            let (slot, generation) = self.runtime.light.slab.find(id)?;
            slot.cancel(generation, id)?;
            if self.runtime.end_queued(None, slot, generation, id, &Error::Cancelled) {
                return Ok(());
            }
            match slot.promoted_to(generation) {
                Some(there) => planned = there,
                None => return Ok(()),
            }
        }
        let done = self.runtime.step(|planner, effects| planner.cancel(planned, effects));
        // A promoted task may have ended meanwhile.
        if planned == id { done } else { Ok(()) }
    }

    /// Releases the id of a task. A task that has not ended becomes detached.
    pub fn release(&self, id: TaskId) -> Result<()> {
        self.runtime.process.check()?;
        if id.is_light() {
            let (slot, generation) = self.runtime.light.slab.find(id)?;
            let actions = slot.release(generation, id)?;
            self.runtime.apply_end_actions(id, actions);
            return Ok(());
        }
        self.runtime.lock().planner.release(id)
    }

    pub fn info(&self, id: TaskId) -> Result<TaskInfo> {
        self.runtime.process.check()?;
        if !id.is_light() {
            return self.runtime.lock().planner.info(self.runtime.now(), id);
        }
        let (slot, generation) = self.runtime.light.slab.find(id)?;
        if let Some(planned) = slot.promoted_to(generation)
            && let Ok(info) = self.runtime.lock().planner.info(self.runtime.now(), planned)
        {
            return Ok(info);
        }
        slot.info(generation, id, self.runtime.clock())
    }

    /// Retires a device for as long as the scheduler lives, as if it had failed. Tasks that run
    /// there end. Fails for a number that no device has.
    pub fn retire(&self, device: usize, why: &str) -> Result<()> {
        self.runtime.process.check()?;
        if device >= self.devices().len() {
            let accepted = format!("less than {}", self.devices().len());
            return Err(Error::argument("device", device, accepted));
        }
        self.runtime.step(|planner, effects| planner.retire(device, why, effects));
        Ok(())
    }

    pub fn stats(&self) -> Result<Stats> {
        self.runtime.process.check()?;
        Ok(self.runtime.stats())
    }

    /// Accepts no more tasks and waits until all have ended. A default scheduler that others use
    /// goes on accepting. Fails inside a task.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<WaitResult> {
        let mut guard = self.lock()?;
        self.check_outside("drain")?;
        if matches!(*lock(&self.ownership), Ownership::Own) {
            guard.planner.close();
            self.runtime.light.stop_flags.fetch_or(CLOSED, Ordering::SeqCst);
        }
        drop(guard);
        self.wait_all(timeout)
    }

    /// Cancels queued tasks, asks running ones to stop, waits for them, and ends the workers.
    /// Returns the number of tasks that were cancelled since the call. A default scheduler is
    /// released; its last user ends it. Fails inside a task.
    pub fn shutdown(&self) -> Result<u64> {
        self.shutdown_within(None).map(Option::unwrap_or_default)
    }

    /// Shuts down like [`shutdown`](Self::shutdown), but returns `None` on a timeout, while a task
    /// still runs. Then the scheduler accepts and starts no more tasks, still answers queries, and
    /// this may be called again.
    pub fn shutdown_within(&self, timeout: Option<Duration>) -> Result<Option<u64>> {
        self.runtime.process.check()?;
        let before = self.runtime.stats().cancelled;
        self.check_may_end("shutdown")?;
        if !self.release_ownership() {
            return Ok(Some(0));
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let gone = block_outside(|| {
            self.stop();
            self.runtime.pool.wait_until_ended(end) && self.end_remaining(end)
        })?;
        if !gone {
            return Ok(None);
        }
        // The light tier may uncount an end for a moment, before the planner counts it.
        let cancelled = self.runtime.stats().cancelled.saturating_sub(before);
        let guard = self.runtime.lock();
        self.runtime.timer_wakeup.notify_all();
        drop(guard);
        if let Some(peers) = &self.runtime.peers {
            peers.wake_watcher();
        }
        self.runtime.pool.join();
        self.runtime.observability.progress_notifier.stop();
        self.runtime.save_rates();
        Ok(Some(cancelled))
    }

    /// Ends tasks that were submitted after the last worker ended, and waits for threads that drop
    /// jobs. Tasks on an abandoned thread are ended by the thread that abandoned it, or never.
    /// Returns false on a timeout.
    fn end_remaining(&self, end: Option<Instant>) -> bool {
        let runtime = &self.runtime;
        loop {
            runtime.end_all_queued();
            let drained = runtime.light.epochs.is_drained() || runtime.pool.abandoned() > 0;
            if drained && runtime.jobs_dropping.load(Ordering::SeqCst) == 0 {
                return true;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
            // Rare, and no notification covers all of these conditions.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts a shutdown; does not wait.
    fn stop(&self) {
        self.runtime.light.stop_flags.fetch_or(CLOSED | STOPPING, Ordering::SeqCst);
        self.runtime.step(|planner, effects| planner.stop(effects));
        self.runtime.light.cancel_running();
        self.runtime.end_all_queued();
        self.runtime.pool.event_count.wake_all();
    }

    /// Takes the planner lock. Fails in a child of the process that has the workers.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, PlannerGuarded>> {
        self.runtime.process.check()?;
        Ok(self.runtime.lock())
    }

    fn check_outside(&self, what: &'static str) -> Result<()> {
        let why = match self.runtime.own_task_worker() {
            Some(_) => "it was called from inside a task",
            None if self.runtime.is_dropping() => "it was called from inside a drop callback",
            None => return Ok(()),
        };
        Err(Error::Deadlock { what, why: why.into() })
    }

    /// Fails where the calling thread must not wait for the workers and the progress callback.
    fn check_may_end(&self, what: &'static str) -> Result<()> {
        self.check_outside(what)?;
        match self.runtime.observability.progress_notifier.is_inside() {
            false => Ok(()),
            true => {
                Err(Error::Deadlock { what, why: "it was called from inside the progress callback".into() })
            }
        }
    }

    /// Starts a wait for a task, to be ended by [`Scheduler::unwatch`].
    fn watch(&self, id: TaskId) -> Result<Watch<'_>> {
        if id.is_light() {
            let (slot, generation) = self.runtime.light.slab.find(id)?;
            let ended = slot.start_wait(generation, id)?;
            return Ok(ended.map_or(Watch::Light(slot, generation, id), Watch::Ended));
        }
        let completion = self.runtime.lock().planner.start_wait(id)?;
        Ok(match completion.outcome.get() {
            Some(outcome) => Watch::Ended(outcome.clone()),
            None => Watch::Planned(completion),
        })
    }

    /// Ends a wait. Returns the outcome if there is one.
    fn unwatch(&self, watch: Watch<'_>) -> Option<Result<WaitResult>> {
        match watch {
            Watch::Ended(outcome) => Some(outcome),
            Watch::Planned(completion) => completion.outcome.get().cloned(),
            Watch::Light(slot, generation, id) => self.runtime.unwatch_light(slot, generation, id),
        }
    }
}

impl Watch<'_> {
    fn is_ended(&self) -> bool {
        match self {
            Watch::Ended(_) => true,
            Watch::Planned(completion) => completion.outcome.get().is_some(),
            Watch::Light(slot, generation, _) => slot.is_ended(*generation),
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if !self.runtime.process.is_here() {
            // The threads are not in this process, and one of them may hold the planner lock for
            // ever.
            std::mem::forget(self.runtime.clone());
        } else if self.check_may_end("drop").is_err() {
            // The workers keep alive what they need and end by themselves.
            if self.release_ownership() {
                self.stop();
                self.runtime.observability.progress_notifier.stop();
            }
        } else {
            let _ = self.shutdown();
        }
    }
}
