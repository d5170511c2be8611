//! A light task with an id.
//!
//! Its state is guarded by its own lock, which is held for moments, never while a caller's code
//! runs. A word beside the lock has the generation and three flags for threads that only read; it
//! is written under the lock. A task ends in two steps: its job is taken and dropped without the
//! lock, then the end is published.
//!
//! **Planned tasks after it.** Their submitter, which has locked the planner, calls
//! [`LightTask::follow`]: either the task has ended, or its end asks the caller to report it to the
//! planner. That happens under the planner lock, so after the submit.
//!
//! **Promotion.** A task whose attempt failed in a way that concerns its device becomes a planned
//! task, which the planner counts from then on. This record only has its id, until the outcome
//! returns here.

use super::LightJob;
use crate::error::{Error, Result};
use crate::sched::base::{
    Epoch, GENERATIONS, Signal, SpinGuard, SpinLock, TaskId, TaskInfo, TaskStatus, WaitResult, detached,
    stale,
    sync::atomic::{AtomicU64, Ordering},
};

pub struct LightTask {
    /// The generation, of a free position that of the next task, and below it 8 bits with
    /// [`UNKNOWN`], [`ENDED`] and [`DONE`].
    word: AtomicU64,
    pub signal: Signal,
    state: SpinLock<LightTaskState>,
}

/// No caller has a valid id; only threads that already wait for the task use it.
const UNKNOWN: u64 = 1;
const ENDED: u64 = 2;
/// It has succeeded, and a caller may wait for it.
const DONE: u64 = 4;

#[derive(Default)]
struct LightTaskState {
    /// While the task is queued, until a thread takes it to run or to drop it.
    job: Option<LightJob>,
    error: Option<Box<Error>>,
    /// The planned task that it was promoted to; 0: none.
    planned: TaskId,
    /// When its status changed last, and how long it was queued and running before.
    changed_ns: u64,
    queued_ns: u64,
    ran_ns: u64,
    /// Threads that wait for its end, and abandoned ones that may still read its signal.
    waiters: u32,
    attempts: u32,
    device: Option<u16>,
    slot: u16,
    epoch: Epoch,
    /// From queued, perhaps by way of running, to an end. A promoted task is running until its
    /// outcome returns.
    status: TaskStatus,
    detached: bool,
    /// Planned tasks come after it.
    followed: bool,
}

/// An attempt that a worker begins.
pub struct LightAttempt {
    pub job: LightJob,
    pub epoch: Epoch,
    pub number: u32,
    /// Not before the submit.
    pub started_ns: u64,
}

/// Actions that the caller takes after an end or a release, without the lock.
#[derive(Debug, Default)]
pub struct EndActions {
    /// Report the end to the planner.
    pub followed: bool,
    /// Notify the waiters.
    pub notify: bool,
    /// Free the position.
    pub free: bool,
}

impl LightTask {
    pub fn new() -> Self {
        LightTask {
            word: AtomicU64::new(1 << 8 | UNKNOWN | ENDED),
            signal: Signal::default(),
            state: SpinLock::default(),
        }
    }

    /// Returns whether callers may know a task of this generation.
    pub fn is_known(&self, generation: u64) -> bool {
        self.word.load(Ordering::Acquire) & !(ENDED | DONE) == generation << 8
    }

    /// Returns whether callers may know a task of this generation, and it has succeeded.
    pub fn is_done(&self, generation: u64) -> bool {
        self.word.load(Ordering::Acquire) == generation << 8 | ENDED | DONE
    }

    pub fn is_ended(&self, generation: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word >> 8 != generation || word & ENDED != 0
    }

    /// Starts a new task and returns its generation.
    pub fn fill(&self, job: LightJob, detached: bool, epoch: Epoch, now: u64) -> u64 {
        let mut state = self.state.lock();
        let generation = self.word.load(Ordering::Relaxed) >> 8;
        self.signal.reset();
        *state = LightTaskState { job: Some(job), detached, epoch, changed_ns: now, ..Default::default() };
        self.set_status(&mut state, TaskStatus::Queued, generation);
        generation
    }

    /// Begins an attempt. `None`: the task was cancelled or has ended.
    pub fn begin(&self, generation: u64, device: usize, slot: u32, now: u64) -> Option<LightAttempt> {
        let mut state = self.lock(generation)?;
        let job = state.job.take()?;
        let now = now.max(state.changed_ns);
        state.queued_ns += now - state.changed_ns;
        state.changed_ns = now;
        state.attempts += 1;
        state.device = Some(device as u16);
        state.slot = slot as u16;
        self.set_status(&mut state, TaskStatus::Running, generation);
        Some(LightAttempt { job, epoch: state.epoch, number: state.attempts, started_ns: now })
    }

    /// Takes the job of a queued task. The caller drops it and ends the task.
    pub fn withdraw(&self, generation: u64) -> Option<(LightJob, Epoch)> {
        let mut state = self.lock(generation)?;
        Some((state.job.take()?, state.epoch))
    }

    /// Marks the task as promoted to a planned one. Returns true if it was cancelled: the caller,
    /// which has locked the planner, cancels the planned task. A thread that cancels it later finds
    /// that itself.
    pub fn promote(&self, generation: u64, planned: TaskId) -> bool {
        if let Some(mut state) = self.lock(generation) {
            state.planned = planned;
        }
        self.signal.is_cancelled()
    }

    /// Requests a stop, if the task has not ended.
    pub fn cancel(&self, generation: u64, id: TaskId) -> Result<()> {
        let state = self.lock_known(generation, id)?;
        if !state.status.is_ended() {
            self.signal.cancel();
        }
        Ok(())
    }

    /// Returns the planned task that it was promoted to, unless that has ended.
    pub fn promoted_to(&self, generation: u64) -> Option<TaskId> {
        let state = self.lock(generation)?;
        (state.planned.0 != 0 && !state.status.is_ended()).then_some(state.planned)
    }

    /// Returns the outcome, if the task has ended; `Err(Cancelled)` is no failure. Otherwise its
    /// end is to be reported to the planner.
    pub fn follow(&self, generation: u64, id: TaskId) -> Result<Option<Result<()>>> {
        let mut state = self.lock_known(generation, id)?;
        let outcome = state.outcome();
        state.followed |= outcome.is_none();
        Ok(outcome.map(|outcome| match outcome {
            Ok(WaitResult::Cancelled) => Err(Error::Cancelled),
            outcome => outcome.map(|_| ()),
        }))
    }

    /// Keeps the position until [`LightTask::stop_wait`]: an abandoned thread may still read the
    /// signal.
    pub fn hold(&self, generation: u64) {
        if let Some(mut state) = self.lock(generation) {
            state.waiters += 1;
        }
    }

    /// Publishes the end of a task whose job has been dropped. `Err(Cancelled)` is no failure.
    pub fn end(&self, generation: u64, outcome: &Result<()>, now: u64) -> EndActions {
        let Some(mut state) = self.lock(generation) else { return EndActions::default() };
        let passed = now.saturating_sub(state.changed_ns);
        match state.status {
            TaskStatus::Queued => state.queued_ns += passed,
            _ => state.ran_ns += passed,
        }
        let status = match outcome {
            Ok(()) => {
                self.signal.report(1.0);
                TaskStatus::Done
            }
            Err(Error::Cancelled) => TaskStatus::Cancelled,
            Err(error) => {
                state.error = Some(Box::new(error.clone()));
                TaskStatus::Failed
            }
        };
        self.set_status(&mut state, status, generation);
        let (followed, notify) = (state.followed, state.waiters > 0);
        let free = state.detached && self.try_free(state, generation);
        EndActions { followed, notify, free }
    }

    /// Copies the planner's counts and place of the attempts at a promoted task.
    pub fn set_info(&self, generation: u64, info: &TaskInfo) {
        let Some(mut state) = self.lock(generation) else { return };
        state.attempts = info.attempts;
        state.device = info.device.map(|device| device as u16);
        state.slot = info.slot as u16;
    }

    /// `None`: no caller knows it any more.
    pub fn release(&self, generation: u64) -> Option<EndActions> {
        let mut state = self.lock(generation).filter(|_| self.is_known(generation))?;
        state.detached = true;
        let ended = state.status.is_ended();
        let notify = ended && state.waiters > 0;
        Some(EndActions { followed: false, notify, free: ended && self.try_free(state, generation) })
    }

    /// Returns the outcome, if the task has ended, or else counts a waiter until
    /// [`LightTask::stop_wait`].
    pub fn start_wait(&self, generation: u64, id: TaskId) -> Result<Option<Result<WaitResult>>> {
        let mut state = self.lock_known(generation, id)?;
        if state.detached {
            return Err(detached(id));
        }
        let outcome = state.outcome();
        state.waiters += u32::from(outcome.is_none());
        Ok(outcome)
    }

    /// Ends a wait. Returns the outcome, if the task has ended, and whether to free the position.
    pub fn stop_wait(&self, generation: u64) -> (Option<Result<WaitResult>>, bool) {
        let Some(mut state) = self.lock(generation) else { return (None, false) };
        state.waiters -= 1;
        let outcome = state.outcome();
        let free = state.detached && state.status.is_ended() && self.try_free(state, generation);
        (outcome, free)
    }

    pub fn info(&self, generation: u64, id: TaskId, now: u64) -> Result<TaskInfo> {
        let state = self.lock_known(generation, id)?;
        let passed = if state.status.is_ended() { 0 } else { now.saturating_sub(state.changed_ns) };
        let (queued, running) = if state.status == TaskStatus::Queued { (passed, 0) } else { (0, passed) };
        Ok(TaskInfo {
            state: state.status,
            label: String::new(),
            device: state.device.map(usize::from),
            slot: u32::from(state.slot),
            attempts: state.attempts,
            progress: self.signal.progress(),
            queued_ns: state.queued_ns + queued,
            running_ns: state.ran_ns + running,
            error: state.error.as_deref().cloned(),
        })
    }

    fn lock(&self, generation: u64) -> Option<SpinGuard<'_, LightTaskState>> {
        let state = self.state.lock();
        (self.word.load(Ordering::Relaxed) >> 8 == generation).then_some(state)
    }

    /// Locks a task that a caller names by its id.
    fn lock_known(&self, generation: u64, id: TaskId) -> Result<SpinGuard<'_, LightTaskState>> {
        match self.lock(generation) {
            Some(state) if self.word.load(Ordering::Relaxed) & UNKNOWN == 0 => Ok(state),
            _ => Err(stale(id)),
        }
    }

    fn set_status(&self, state: &mut LightTaskState, status: TaskStatus, generation: u64) {
        debug_assert!(!state.status.is_ended(), "no transition from {:?} to {status:?}", state.status);
        state.status = status;
        let flags = match status {
            TaskStatus::Done if !state.detached => ENDED | DONE,
            status if status.is_ended() => ENDED,
            _ => 0,
        };
        self.word.store(generation << 8 | flags, Ordering::Release);
    }

    /// Makes an ended task unknown to callers. Returns true if no thread waits and the position can
    /// be used again.
    fn try_free(&self, mut state: SpinGuard<'_, LightTaskState>, generation: u64) -> bool {
        if state.waiters > 0 {
            self.word.fetch_or(UNKNOWN, Ordering::Release);
            return false;
        }
        state.error = None;
        self.word.store((generation + 1) << 8 | UNKNOWN | ENDED, Ordering::Release);
        // No generation is used twice.
        generation + 1 < GENERATIONS
    }
}

impl LightTaskState {
    fn outcome(&self) -> Option<Result<WaitResult>> {
        match self.status {
            TaskStatus::Done => Some(Ok(WaitResult::Done)),
            TaskStatus::Cancelled => Some(Ok(WaitResult::Cancelled)),
            TaskStatus::Failed => Some(Err(match &self.error {
                Some(error) => (**error).clone(),
                None => Error::Internal("a task failed without a message".into()),
            })),
            _ => None,
        }
    }
}

#[cfg(all(test, loom))]
mod models;
