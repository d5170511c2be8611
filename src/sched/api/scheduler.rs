//! The scheduler as its callers see it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::watch::Watch;
use crate::backend::float_mode::FloatMode;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::sched::base::{TaskId, TaskInfo, WaitResult, lock, no_memory, stale};
use crate::sched::light::{CLOSED, LightItem, STOPPING};
use crate::sched::observe::Timeline;
use crate::sched::plan::{Progress, Stats};
use crate::sched::runtime::{Runtime, block_outside};
use crate::sched::sleep::ALL_TASKS;

/// Runs tasks on its devices. Any method may be called from any thread.
///
/// Dropping it cancels queued tasks, asks running ones to stop, and waits for them.
pub struct Scheduler {
    pub(crate) runtime: Arc<Runtime>,
    ownership: Mutex<Ownership>,
    /// The ordered tasks that [`Scheduler::wait_next`] has not returned yet.
    pub(super) ordered: Mutex<VecDeque<TaskId>>,
    /// The version of the last progress callback that was set here; 0: none.
    progress_version: AtomicU64,
}

/// Whether a [`Scheduler`] may end its workers.
#[derive(Clone, Copy)]
pub(crate) enum Ownership {
    /// This scheduler is the only user.
    Own,
    /// This is a user of the process's default scheduler. The function releases it and returns
    /// true for the last user.
    Shared(fn(&Arc<Runtime>) -> bool),
    /// This scheduler has ended, or this user has released the default one, which others still use.
    Released,
}

impl Scheduler {
    pub(crate) fn new(runtime: Arc<Runtime>, ownership: Ownership) -> Self {
        Scheduler {
            runtime,
            ownership: Mutex::new(ownership),
            ordered: Mutex::default(),
            progress_version: AtomicU64::new(0),
        }
    }

    /// Returns the runtime. Fails in a forked child, before any lock: there it may be held for
    /// ever.
    pub(super) fn runtime(&self) -> Result<&Arc<Runtime>> {
        self.runtime.process.check()?;
        Ok(&self.runtime)
    }

    /// Releases a default scheduler, and removes the progress callback that was set here. Returns
    /// true if no other user is left, so that this one ends it.
    fn release_ownership(&self) -> bool {
        let mut ownership = lock(&self.ownership);
        if let Ownership::Shared(release) = *ownership {
            *ownership = if release(&self.runtime) { Ownership::Own } else { Ownership::Released };
        }
        let ends = matches!(*ownership, Ownership::Own);
        drop(ownership);
        if !ends {
            let version = self.progress_version.load(Ordering::Relaxed);
            self.runtime.observability.progress_notifier.remove(version);
        }
        ends
    }

    /// Returns the devices as found at creation, in the order of device masks.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.runtime.devices
    }

    /// Returns the most threads that a task has on the CPU device; 0 without one.
    pub fn cpu_threads(&self) -> u32 {
        self.runtime.cpu_threads
    }

    /// Returns the bytes of address space that the stack of a worker takes.
    pub fn stack_bytes(&self) -> u64 {
        self.runtime.pool.stack_bytes() as u64
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
        let runtime = self.runtime()?;
        if id.is_light()
            && runtime.light.slab.lookup(id).is_some_and(|(task, generation)| task.is_done(generation))
        {
            return Ok(WaitResult::Done);
        }
        let watch = Watch::start(runtime, id)?;
        if let Watch::Ended(outcome) = watch {
            return outcome;
        }
        if runtime.own_task_worker().is_some_and(|worker| worker.tasks.borrow().contains(&id)) {
            watch.end(runtime);
            let why = "a task can't wait for itself, nor for one that waits for it";
            return Err(Error::Deadlock { what: "wait", why: why.into() });
        }
        // The wait may run another task, or plan. The code above computes nothing.
        let _mode = FloatMode::standard();
        let waited = runtime.wait_until(&[id], timeout, || watch.is_ended().then_some(()));
        let outcome = watch.end(runtime);
        waited?;
        outcome.unwrap_or(Ok(WaitResult::Pending))
    }

    /// Waits until every task submitted so far has ended. Their outcomes stay available. Fails
    /// inside a task, which would wait for itself.
    pub fn wait_all(&self, timeout: Option<Duration>) -> Result<WaitResult> {
        let runtime = self.runtime()?;
        self.check_outside("wait_all", false)?;
        let mark = runtime.light.epochs.start_waiting();
        let look = || {
            let seen = runtime.light.epochs.check(mark);
            if seen.drained {
                runtime.wait_queues.notify(ALL_TASKS);
            }
            seen.done.then_some(())
        };
        let mut all = runtime.wait_until(&[ALL_TASKS], timeout, look);
        while let Ok(None) = all
            && runtime.is_ending()
        {
            // All have ended; the last ones are about to be counted.
            std::thread::yield_now();
            all = Ok(look());
        }
        runtime.light.epochs.stop_waiting();
        Ok(if all?.is_some() { WaitResult::Done } else { WaitResult::Pending })
    }

    /// Waits for any of the tasks. Returns the position in `ids` of one that has ended, whatever
    /// its outcome. `None`: timed out.
    pub fn wait_any(&self, ids: &[TaskId], timeout: Option<Duration>) -> Result<Option<usize>> {
        let runtime = self.runtime()?;
        if ids.is_empty() {
            return Err(Error::argument("the number of tasks to wait for", 0, "at least 1"));
        }
        // Check all: an unknown id is an error whether or not another task has ended.
        let mut watches = Vec::new();
        watches.try_reserve_exact(ids.len()).map_err(|_| no_memory::<Watch<'_>>("the wait", ids.len()))?;
        let watched = ids.iter().try_for_each(|&id| {
            watches.push(Watch::start(runtime, id)?);
            Ok(())
        });
        let ended = || watches.iter().position(Watch::is_ended);
        let found = watched.and_then(|()| runtime.wait_until(ids, timeout, ended));
        for watch in watches {
            watch.end(runtime);
        }
        found
    }

    /// Waits for the next of the tasks that were submitted as
    /// [`ordered`](crate::sched::base::task::Task::ordered), in the order of submission, well ended
    /// or not. Returns each once. `None`: timed out. Fails if none is left.
    pub fn wait_next(&self, timeout: Option<Duration>) -> Result<Option<TaskId>> {
        self.runtime()?;
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
        let runtime = self.runtime()?;
        if !id.is_light() {
            return runtime.step(|planner, effects| planner.cancel(id, effects));
        }
        let (slot, generation) = runtime.light.slab.find(id)?;
        slot.cancel(generation, id)?;
        runtime.end_queued([LightItem::WithId(id)], &Error::Cancelled);
        if let Some(planned) = slot.promoted_to(generation) {
            // It may have ended meanwhile.
            let _ = runtime.step(|planner, effects| planner.cancel(planned, effects));
        }
        Ok(())
    }

    /// Releases the id of a task. A task that has not ended becomes detached.
    pub fn release(&self, id: TaskId) -> Result<()> {
        let runtime = self.runtime()?;
        if !id.is_light() {
            return runtime.lock().planner.release(id);
        }
        let found = runtime.light.slab.lookup(id);
        let released = found.and_then(|(slot, generation)| slot.release(generation));
        runtime.apply_end_actions(id, released.ok_or_else(|| stale(id))?);
        Ok(())
    }

    pub fn info(&self, id: TaskId) -> Result<TaskInfo> {
        let runtime = self.runtime()?;
        if !id.is_light() {
            return runtime.lock().planner.info(runtime.now(), id);
        }
        let (slot, generation) = runtime.light.slab.find(id)?;
        if let Some(planned) = slot.promoted_to(generation)
            && let Ok(info) = runtime.lock().planner.info(runtime.now(), planned)
        {
            return Ok(info);
        }
        slot.info(generation, id, runtime.clock())
    }

    /// Retires a device for as long as the scheduler lives, as if it had failed. Tasks that run
    /// there go on. Fails for a number that no device has.
    pub fn retire(&self, device: usize, why: &str) -> Result<()> {
        let runtime = self.runtime()?;
        if device >= runtime.devices.len() {
            let accepted = format!("less than {}", runtime.devices.len());
            return Err(Error::argument("device", device, accepted));
        }
        runtime.step(|planner, effects| planner.retire(device, why, effects));
        Ok(())
    }

    pub fn stats(&self) -> Result<Stats> {
        Ok(self.runtime()?.stats())
    }

    /// Returns how much of the submitted work is done, and the ETA.
    pub fn progress(&self) -> Result<Progress> {
        Ok(self.runtime()?.progress())
    }

    /// Sets the progress callback. It is called with the progress at each interval, the first time
    /// after one, until it is replaced or the scheduler ends; `None` removes it.
    ///
    /// The callback runs on a thread of the library that exists only while there is one; never
    /// twice at once, and with no lock held. It may use the scheduler, but not shut it down. When
    /// this method returns, the previous callback is not running (unless it is the caller) and is
    /// not called again.
    pub fn on_progress(
        &self,
        interval: Duration,
        callback: Option<impl Fn(&Progress) + Send + Sync + 'static>,
    ) -> Result<()> {
        let runtime = Arc::downgrade(self.runtime()?);
        let listener = callback.map(|callback| {
            let listener = move || {
                // The callback may drop the scheduler.
                let progress = runtime.upgrade().map(|runtime| runtime.progress());
                progress.iter().for_each(&callback);
            };
            (Arc::new(listener) as _, interval)
        });
        let version = self.runtime.observability.progress_notifier.set(listener)?;
        self.progress_version.store(version, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the trace up to now. Fails if [`Builder`](super::builder::Builder) asked for no
    /// trace.
    pub fn timeline(&self) -> Result<Timeline> {
        let runtime = self.runtime()?;
        let Some(trace) = runtime.observability.trace.clone() else {
            let accepted = "1 or more, set when the scheduler is created";
            return Err(Error::argument("trace_events", 0, accepted));
        };
        Ok(runtime.lock().planner.timeline(trace, runtime.now()))
    }

    /// Accepts no more tasks and waits until all have ended. A default scheduler that others use
    /// goes on accepting. Fails inside a task.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<WaitResult> {
        let guard = self.runtime()?.lock();
        self.check_outside("drain", false)?;
        if matches!(*lock(&self.ownership), Ownership::Own) {
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
        let runtime = self.runtime()?;
        let before = runtime.stats().counts.cancelled;
        self.check_outside("shutdown", true)?;
        if !self.release_ownership() {
            return Ok(Some(0));
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let gone = block_outside(|| {
            self.stop();
            runtime.pool.wait_until_ended(end) && self.end_remaining(end)
        })?;
        if !gone {
            return Ok(None);
        }
        let cancelled = runtime.stats().counts.cancelled - before;
        runtime.wake_timer_and_watcher();
        runtime.pool.join();
        runtime.observability.progress_notifier.stop();
        runtime.save_rates();
        // Threads that have used the scheduler may keep the runtime.
        runtime.peers.iter().for_each(|peers| peers.membership.leave());
        *lock(&self.ownership) = Ownership::Released;
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
            // With the planner locked no end is about to be published uncounted.
            let planner = runtime.lock();
            if drained && runtime.jobs_dropping.load(Ordering::SeqCst) == 0 {
                return true;
            }
            drop(planner);
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
        self.runtime.end_all_queued();
        self.runtime.pool.event_count.wake_all();
    }

    /// Fails where the calling thread must not wait for tasks; if it `ends` the scheduler, nor for
    /// the progress callback.
    fn check_outside(&self, what: &'static str, ends: bool) -> Result<()> {
        let runtime = &self.runtime;
        let place = match runtime.own_task_worker() {
            Some(_) => "a task",
            None if runtime.is_dropping() => "a drop callback",
            None if ends && runtime.observability.progress_notifier.is_inside() => "the progress callback",
            None => return Ok(()),
        };
        Err(Error::Deadlock { what, why: format!("it was called from inside {place}") })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if !self.runtime.process.is_here() {
            // The threads are not in this process, and one of them may hold the planner lock for
            // ever.
            std::mem::forget(self.runtime.clone());
        } else if self.check_outside("drop", true).is_err() || self.shutdown().is_err() {
            // The thread may not wait. The workers keep alive what they need and end by themselves.
            if self.release_ownership() {
                self.stop();
                self.runtime.wake_timer_and_watcher();
                self.runtime.observability.progress_notifier.stop();
            }
        }
    }
}
