//! The scheduler as its callers see it.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::settings::Builder;
use super::state::{Core, Stats};
use super::task::{State, Task, TaskId, TaskInfo, Wait};
use super::worker::{Inside, Shared, tell};
use crate::device::DeviceInfo;
use crate::error::{Error, Result};

/// Substitutes at a time, over all devices, for workers whose tasks wait for other tasks.
const SUBSTITUTES: u32 = 64;

/// Runs tasks on the devices that it was given. Any method may be called from any thread.
/// Dropping it cancels what is queued, asks what runs to stop, and waits.
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(shared: Shared) -> Self {
        Scheduler { shared: Arc::new(shared) }
    }

    /// The scheduler that all of a process share, made on first use from the environment. In a
    /// child that was forked after that, [`Error::Forked`].
    pub fn process_default() -> Result<&'static Scheduler> {
        super::settings::process_default()
    }

    /// As found when the scheduler was made; the order is that of device masks.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.shared.devices
    }

    /// Takes a task. Refused at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, task: Task) -> Result<TaskId> {
        let mut core = self.lock()?;
        if core.closed {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        core.check(&task)?;
        let id = core.admit(task)?;
        let note = self.shared.call_workers(&mut core, id);
        if core.candidates(id).iter().all(|&index| core.devices[index].workers == 0)
            && let Some(job) = core.withdraw(id)
        {
            let error =
                Error::Internal("the system gives no thread to a device that the task may use".into());
            drop(core);
            self.shared.end(id, job, State::Failed, Some(error));
        } else {
            drop(core);
        }
        tell(note);
        Ok(id)
    }

    /// `Err` if the task failed (with the task's own error) or can't be waited for: it is detached,
    /// released, of another scheduler, or the very task that the caller is in. `None` waits for ever;
    /// zero looks and returns. Any number of threads may wait for a task, any number of times.
    ///
    /// From inside a task, another worker takes over the caller's slot for the time, and a wait that
    /// could never end is [`Error::Deadlock`].
    pub fn wait(&self, id: TaskId, timeout: Option<Duration>) -> Result<Wait> {
        let outcome = self.wait_for("wait", timeout, |core, inside| {
            if inside.is_some_and(|inside| inside.task == id) {
                return Err(Error::Deadlock { what: "wait", why: "a task can't wait for itself".into() });
            }
            let entry = core.tasks.get(id)?;
            if entry.detached {
                let id = format!("{:#018x}", id.0);
                return Err(Error::argument("the task to wait for", id, "a task that is not detached"));
            }
            Ok(entry.state.is_ended().then(|| (entry.state, entry.error.clone())))
        })?;
        match outcome {
            None => Ok(Wait::Pending),
            Some((State::Failed, error)) => {
                Err(error.unwrap_or_else(|| Error::Internal("a failure without its error".into())))
            }
            Some((State::Cancelled, _)) => Ok(Wait::Cancelled),
            Some(_) => Ok(Wait::Done),
        }
    }

    /// Waits until every task submitted so far has ended; their outcomes stay to be asked for.
    /// Not possible from inside a task, which would wait for itself.
    pub fn wait_all(&self, timeout: Option<Duration>) -> Result<Wait> {
        let mark = self.lock()?.mark();
        self.not_inside("wait_all")?;
        let all =
            self.wait_for("wait_all", timeout, |core, _| Ok(core.all_ended_before(mark).then_some(())))?;
        Ok(if all.is_some() { Wait::Done } else { Wait::Pending })
    }

    /// The position in `ids` of a task that has ended, whatever its outcome. `None`: the time was up.
    pub fn wait_any(&self, ids: &[TaskId], timeout: Option<Duration>) -> Result<Option<usize>> {
        if ids.is_empty() {
            return Err(Error::argument("the number of tasks to wait for", 0, "at least 1"));
        }
        self.wait_for("wait_any", timeout, |core, _| {
            // All are looked at: an unknown id is an error whether or not another task has ended.
            let mut ended = None;
            for (position, &id) in ids.iter().enumerate() {
                if core.tasks.get(id)?.state.is_ended() {
                    ended = ended.or(Some(position));
                }
            }
            Ok(ended)
        })
    }

    /// Asks a task to stop: a queued one never starts, a running one sees it in
    /// [`Exec::cancelled`](super::Exec::cancelled). No error if it has ended already.
    pub fn cancel(&self, id: TaskId) -> Result<()> {
        let mut core = self.lock()?;
        core.tasks.get(id)?.signal.cancel();
        if let Some(job) = core.withdraw(id) {
            drop(core);
            self.shared.end(id, job, State::Cancelled, None);
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
        self.lock()?.info(id)
    }

    pub fn stats(&self) -> Result<Stats> {
        Ok(self.lock()?.stats())
    }

    /// Accepts no more tasks and waits until all have ended. Not possible from inside a task.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<Wait> {
        let mut core = self.lock()?;
        self.not_inside("drain")?;
        core.closed = true;
        drop(core);
        self.wait_all(timeout)
    }

    /// Cancels what is queued, asks what runs to stop, waits for it, ends the workers.
    /// Returns how many tasks ended as cancelled since the call. Not possible from inside a task.
    pub fn shutdown(&self) -> Result<u64> {
        let before = self.lock()?.counts.cancelled;
        self.not_inside("shutdown")?;
        self.stop();
        let mut core = self.lock()?;
        while core.devices.iter().any(|device| device.workers > 0) {
            core = self.shared.ended.wait(core).unwrap_or_else(PoisonError::into_inner);
        }
        let cancelled = core.counts.cancelled - before;
        drop(core);
        let threads =
            std::mem::take(&mut *self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A worker that is past its last act; it can't panic any more.
            let _ = thread.join();
        }
        Ok(cancelled)
    }

    /// The part of a shutdown that does not wait.
    fn stop(&self) {
        let mut core = self.shared.lock();
        core.closed = true;
        core.stopping = true;
        for entry in core.tasks.iter_mut() {
            entry.signal.cancel();
        }
        let ready = core.ready_ids();
        let jobs: Vec<_> = ready.into_iter().filter_map(|id| Some((id, core.withdraw(id)?))).collect();
        self.shared.wake_everyone(&core);
        drop(core);
        for (id, job) in jobs {
            self.shared.end(id, job, State::Cancelled, None);
        }
    }

    /// The state, unless this process is a fork of the one that has the workers.
    fn lock(&self) -> Result<MutexGuard<'_, Core>> {
        self.shared.born.check()?;
        Ok(self.shared.lock())
    }

    fn not_inside(&self, what: &'static str) -> Result<()> {
        match self.shared.inside() {
            None => Ok(()),
            Some(_) => Err(Error::Deadlock { what, why: "it was called from inside a task".into() }),
        }
    }

    /// Sleeps until `look` finds something, or an error, or the time is up.
    fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        look: impl Fn(&Core, Option<Inside>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        // A deadline too far away to be told is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let inside = self.shared.inside();
        let mut core = self.lock()?;
        if let Some(found) = look(&core, inside)? {
            return Ok(Some(found));
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Ok(None);
        }
        if let Some(inside) = inside {
            self.substitute(&mut core, inside)?;
        }
        let endless = inside.is_some() && deadline.is_none();
        if endless {
            core.blocked += 1;
            // Others who wait inside tasks look again: perhaps now nobody can go on.
            self.shared.ended.notify_all();
        }
        let outcome = loop {
            match look(&core, inside) {
                Ok(None) => {}
                found => break found,
            }
            if endless && core.stuck() {
                let why =
                    "every running task waits for another, and none of those that they wait for can start";
                break Err(Error::Deadlock { what, why: why.into() });
            }
            core = match deadline {
                None => self.shared.ended.wait(core).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break Ok(None);
                    }
                    self.shared.ended.wait_timeout(core, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        if endless {
            core.blocked -= 1;
        }
        if let Some(inside) = inside {
            core.devices[inside.device].surplus += 1;
            self.shared.work[inside.device].notify_all();
        }
        outcome
    }

    /// A worker for the slot of one whose task is going to wait.
    fn substitute(&self, core: &mut Core, inside: Inside) -> Result<()> {
        let workers: u32 = core.devices.iter().map(|device| device.workers).sum();
        let slots: u32 = core.devices.iter().map(|device| device.slots).sum();
        let many = workers >= slots.saturating_add(SUBSTITUTES);
        let refused = |why| Error::Deadlock { what: "a wait inside a task", why };
        if many {
            let why = format!("{workers} workers are there already, and another would be needed");
            return Err(refused(why));
        }
        self.shared.start(core, inside.device, inside.slot).map_err(refused)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if !self.shared.born.is_here() {
            // Its threads are not in this process, and its lock may be held for ever by one of them.
            std::mem::forget(self.shared.clone());
        } else if self.shared.inside().is_some() {
            // The workers keep alive what they need, and end by themselves.
            self.stop();
        } else {
            let _ = self.shutdown();
        }
    }
}
