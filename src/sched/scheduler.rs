//! The scheduler as its callers see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ordered::Line;
use super::process::{self, Holding};
use super::settings::Builder;
use super::state::Core;
use super::stats::Stats;
use super::task::{Signal, Task, TaskId, TaskInfo, Wait};
use super::worker::{Book, Inside, Shared};
use crate::device::DeviceInfo;
use crate::error::{Error, Result};

/// Tasks that may wait for other tasks inside their code at a time; each may cost a worker more.
const SUBSTITUTES: u32 = 64;

/// Runs tasks on the devices that it was given. Any method may be called from any thread.
/// Dropping it cancels what is queued, asks what runs to stop, and waits.
pub struct Scheduler {
    pub(super) shared: Arc<Shared>,
    holding: Mutex<Holding>,
    line: Line,
}

impl Scheduler {
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(shared: Arc<Shared>, holding: Holding) -> Self {
        Scheduler { shared, holding: Mutex::new(holding), line: Line::default() }
    }

    /// The scheduler that all of a process share, made from the environment if nobody holds it, and
    /// kept from now on as long as the process lives. In a child that was forked after that,
    /// [`Error::Forked`].
    pub fn process_default() -> Result<&'static Scheduler> {
        process::kept()
    }

    /// The same one, to be given back by dropping it or by [`shutdown`](Self::shutdown): whoever gives
    /// it back last ends it, the others leave what they have submitted to those that stay. Each
    /// holder has its own order of [`wait_next`](Self::wait_next).
    pub fn share_default() -> Result<Scheduler> {
        process::hold()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// One that was made for others to hold, too: dropping it ends nothing if it is `held`.
    pub(super) fn leave_to(self, held: &Arc<Shared>) {
        if Arc::ptr_eq(&self.shared, held) {
            *self.holding() = Holding::GivenBack;
        }
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what is shared; whether nobody else has it, so that its end is ours to bring about.
    fn alone(&self) -> bool {
        let mut holding = self.holding();
        if *holding == Holding::Held {
            *holding = if process::give_back(&self.shared) { Holding::Own } else { Holding::GivenBack };
        }
        *holding == Holding::Own
    }

    /// [`Error::Forked`] in a child of the process that made it.
    pub(super) fn check_process(&self) -> Result<()> {
        self.shared.born.check()
    }

    /// As found when the scheduler was made; the order is that of device masks.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.shared.devices
    }

    /// Takes a task. Refused at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, task: Task) -> Result<TaskId> {
        let ordered = task.ordered;
        let id = self.take(task)?;
        if ordered {
            self.line.push(id);
        }
        Ok(id)
    }

    /// Takes all of these tasks, or, with the error of the first that is refused, none.
    pub fn submit_many(&self, tasks: Vec<Task>) -> Result<Vec<TaskId>> {
        let core = self.lock()?;
        if core.closed {
            return Err(Error::Shutdown { what: "submitting tasks" });
        }
        tasks.iter().try_for_each(|task| core.check(task))?;
        drop(core);
        let mut ids = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.submit(task) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    for id in ids {
                        let _ = self.cancel(id).and_then(|()| self.release(id));
                    }
                    return Err(error);
                }
            }
        }
        Ok(ids)
    }

    fn take(&self, task: Task) -> Result<TaskId> {
        let mut core = self.lock()?;
        if core.closed {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        core.check(&task)?;
        let id = core.admit(self.shared.now(), task)?;
        self.shared.call_workers(&mut core);
        if !core.ready.is_empty() && core.staff.iter().all(|staff| staff.workers == 0) {
            core.finish(id, Err(Error::Internal("the system gives the scheduler no thread".into())));
        }
        if !core.ended.is_empty() || !core.notes.is_empty() {
            self.shared.settle(core);
        }
        Ok(id)
    }

    /// `Err` if the task failed (with the task's own error) or can't be waited for: it is detached,
    /// released, of another scheduler, or the very task that the caller is in. `None` waits for ever;
    /// zero looks and returns. Any number of threads may wait for a task, any number of times.
    ///
    /// From inside a task, another worker may use the caller's slot meanwhile, and a wait that could
    /// never end is [`Error::Deadlock`].
    pub fn wait(&self, id: TaskId, timeout: Option<Duration>) -> Result<Wait> {
        let signal = self.signal_of(id)?;
        if self.shared.inside().is_some_and(|inside| inside.task == id) {
            return Err(Error::Deadlock { what: "wait", why: "a task can't wait for itself".into() });
        }
        self.wait_for(timeout, |_| signal.outcome.get().cloned())?.unwrap_or(Ok(Wait::Pending))
    }

    /// Waits until every task submitted so far has ended; their outcomes stay to be asked for.
    /// Not possible from inside a task, which would wait for itself.
    pub fn wait_all(&self, timeout: Option<Duration>) -> Result<Wait> {
        let mark = self.lock()?.mark();
        self.not_inside("wait_all")?;
        let all = self.wait_for(timeout, |core| core.all_ended_before(mark).then_some(()))?;
        Ok(if all.is_some() { Wait::Done } else { Wait::Pending })
    }

    /// The position in `ids` of a task that has ended, whatever its outcome. `None`: the time was up.
    pub fn wait_any(&self, ids: &[TaskId], timeout: Option<Duration>) -> Result<Option<usize>> {
        if ids.is_empty() {
            return Err(Error::argument("the number of tasks to wait for", 0, "at least 1"));
        }
        // All are looked at: an unknown id is an error whether or not another task has ended.
        let signals = ids.iter().map(|&id| self.signal_of(id)).collect::<Result<Vec<_>>>()?;
        self.wait_for(timeout, |_| signals.iter().position(|signal| signal.outcome.get().is_some()))
    }

    /// The next of the tasks that were submitted as [`ordered`](Task::ordered), in the order of
    /// submission, once it has ended, well or not; each is handed out once. `None`: the time was up.
    /// An error if none is left to hand out.
    pub fn wait_next(&self, timeout: Option<Duration>) -> Result<Option<TaskId>> {
        self.line.next(self, timeout)
    }

    /// Asks a task to stop: a queued one never starts, a running one sees it in
    /// [`Exec::cancelled`](super::Exec::cancelled). No error if it has ended already.
    pub fn cancel(&self, id: TaskId) -> Result<()> {
        let mut core = self.lock()?;
        core.cancel(id)?;
        if !core.ended.is_empty() {
            self.shared.settle(core);
        }
        Ok(())
    }

    /// Forgets the outcome of a task; one that has not ended yet becomes detached.
    pub fn release(&self, id: TaskId) -> Result<()> {
        let mut core = self.lock()?;
        let entry = core.tasks.get_mut(id)?;
        if entry.state.is_ended() {
            core.tasks.remove(id)?;
        } else {
            entry.detached = true;
        }
        // Whoever waits for it now hears that it is not to be waited for.
        self.shared.wake_everyone(&core);
        Ok(())
    }

    pub fn info(&self, id: TaskId) -> Result<TaskInfo> {
        self.lock()?.info(self.shared.now(), id)
    }

    pub fn stats(&self) -> Result<Stats> {
        Ok(self.lock()?.stats())
    }

    /// Accepts no more tasks and waits until all have ended. Not possible from inside a task.
    /// What is shared with others only waits, and goes on accepting.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<Wait> {
        let mut core = self.lock()?;
        self.not_inside("drain")?;
        core.closed |= *self.holding() == Holding::Own;
        drop(core);
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
        let before = self.lock()?.counts.cancelled;
        self.not_inside("shutdown")?;
        self.not_telling("shutdown")?;
        if !self.alone() {
            return Ok(Some(0));
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.stop();
        let mut core = self.lock()?;
        while core.staff.iter().any(|staff| staff.workers > 0) {
            match self.sleep(core, end) {
                Some(awake) => core = awake,
                None => return Ok(None),
            }
        }
        let cancelled = core.counts.cancelled - before;
        drop(core);
        let threads =
            std::mem::take(&mut *self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A worker that is past its last act; it can't panic any more.
            let _ = thread.join();
        }
        self.shared.seeing.teller.stop();
        self.shared.save_rates();
        Ok(Some(cancelled))
    }

    /// The part of a shutdown that does not wait.
    fn stop(&self) {
        let mut core = self.shared.lock();
        core.stop();
        self.shared.settle(core);
    }

    /// The state, unless this process is a fork of the one that has the workers.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Book>> {
        self.shared.born.check()?;
        Ok(self.shared.lock())
    }

    fn not_inside(&self, what: &'static str) -> Result<()> {
        match self.shared.inside() {
            None => Ok(()),
            Some(_) => Err(Error::Deadlock { what, why: "it was called from inside a task".into() }),
        }
    }

    /// What a waiter watches; it stays when the task is released meanwhile.
    fn signal_of(&self, id: TaskId) -> Result<Arc<Signal>> {
        let core = self.lock()?;
        let entry = core.tasks.get(id)?;
        if entry.detached {
            let id = format!("{:#018x}", id.0);
            return Err(Error::argument("the task to wait for", id, "a task that is not detached"));
        }
        Ok(entry.signal.clone())
    }

    /// Sleeps until `look` finds something, or the time is up, or nothing can ever be found.
    fn wait_for<T>(&self, timeout: Option<Duration>, look: impl Fn(&Core) -> Option<T>) -> Result<Option<T>> {
        // A deadline too far away to be told is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut core = self.lock()?;
        if let Some(found) = look(&core) {
            return Ok(Some(found));
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Ok(None);
        }
        let Some(Inside { device, .. }) = self.shared.inside() else {
            return Ok(loop {
                let Some(awake) = self.sleep(core, deadline) else { break None };
                if let Some(found) = look(&awake) {
                    break Some(found);
                }
                core = awake;
            });
        };
        let waiting: u32 = core.devices.iter().map(|device| device.waiting).sum();
        if waiting >= SUBSTITUTES {
            let why = format!("{waiting} tasks wait inside their code already, the most that is allowed");
            return Err(Error::Deadlock { what: "a wait inside a task", why });
        }
        core.devices[device].waiting += 1;
        core.blocked += u64::from(deadline.is_none());
        // The slot is free for others meanwhile; and those who wait inside tasks look again, for
        // perhaps now nobody can go on.
        self.shared.call_workers(&mut core);
        self.shared.ended.notify_all();
        let outcome = loop {
            if let Some(found) = look(&core) {
                break Ok(Some(found));
            }
            if deadline.is_none() && core.stuck() {
                let why =
                    "every running task waits for another, and none of those that they wait for can start";
                break Err(Error::Deadlock { what: "a wait inside a task", why: why.into() });
            }
            match self.sleep(core, deadline) {
                Some(awake) => core = awake,
                None => {
                    core = self.shared.lock();
                    break Ok(look(&core));
                }
            }
        };
        core.devices[device].waiting -= 1;
        core.blocked -= u64::from(deadline.is_none());
        // A worker that has nothing in hand is one too many now.
        self.shared.work[device].notify_all();
        outcome
    }

    /// `None`: the time is up.
    fn sleep<'a>(
        &self,
        core: MutexGuard<'a, Book>,
        deadline: Option<Instant>,
    ) -> Option<MutexGuard<'a, Book>> {
        let ended = &self.shared.ended;
        let Some(deadline) = deadline else {
            return Some(ended.wait(core).unwrap_or_else(PoisonError::into_inner));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        Some(ended.wait_timeout(core, left).unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if !self.shared.born.is_here() {
            // Its threads are not in this process, and its lock may be held for ever by one of them.
            std::mem::forget(self.shared.clone());
        } else if self.shared.inside().is_some() || self.shared.seeing.teller.is_inside() {
            // The workers keep alive what they need, and end by themselves.
            if self.alone() {
                self.stop();
                self.shared.seeing.teller.stop();
            }
        } else {
            let _ = self.shutdown();
        }
    }
}
