//! One light task that somebody may ask for.
//!
//! Everything of it stands under its own lock, which is held for moments, never while the caller's code
//! runs. A word beside tells generation and state to whoever only looks; it is written under the lock.
//! As everywhere, a task's end has two steps: its job is taken out and dropped without the lock, and
//! then the end is published.

use super::epochs::Epoch;
use super::job::LightJob;
use super::lifecycle::Lifecycle;
use crate::error::{Error, Result};
use crate::sched::base::outcome::{TaskInfo, WaitResult};
use crate::sched::base::registry::GENERATIONS;
use crate::sched::base::signal::Signal;
use crate::sched::base::sync::atomic::{AtomicU64, Ordering};
use crate::sched::base::sync::{Mutex, MutexGuard, locked};
use crate::sched::base::task_id::TaskId;

pub struct LightTask {
    /// The generation, and below it 8 bits of [`Lifecycle`]; [`HIDDEN`] is set when the task is known to
    /// nobody but those who already wait for it.
    word: AtomicU64,
    pub signal: Signal,
    body: Mutex<LightTaskState>,
}

const HIDDEN: u64 = 0x80;
const LIFE: u64 = 0x7f;

struct LightTaskState {
    code: Option<LightJob>,
    error: Option<Box<Error>>,
    /// The planned task that goes on in its stead.
    planned: TaskId,
    /// When its state changed last, and how long it was queued and running before; nanoseconds.
    since: u64,
    queued: u64,
    ran: u64,
    /// Threads that wait for its end.
    waiters: u32,
    attempts: u32,
    device: Option<u16>,
    slot: u16,
    phase: Epoch,
    life: Lifecycle,
    detached: bool,
}

/// What a worker takes away to run.
pub struct LightAttempt {
    pub code: LightJob,
    pub phase: Epoch,
    pub attempt: u32,
    /// When it began: not before it was submitted.
    pub since: u64,
}

/// What is to be done after an end or a release, without the lock.
#[derive(Debug, Default)]
pub struct EndActions {
    /// What stands for the task in the plan, and what is to be told there.
    pub shadow: Option<(TaskId, Result<()>)>,
    /// Somebody waits for the end.
    pub ring: bool,
    /// The slot is free for another task.
    pub free: bool,
}

/// What a thread that wants to wait finds.
pub enum WatchStart {
    Ended(Result<WaitResult>),
    /// It is counted, and has to leave with [`LightTask::leave`].
    Waits,
}

impl LightTask {
    pub fn new() -> Self {
        LightTask {
            word: AtomicU64::new(0),
            signal: Signal::default(),
            body: Mutex::new(LightTaskState {
                code: None,
                error: None,
                planned: TaskId(0),
                since: 0,
                queued: 0,
                ran: 0,
                waiters: 0,
                attempts: 0,
                device: None,
                slot: 0,
                phase: 0,
                life: Lifecycle::Free,
                detached: false,
            }),
        }
    }

    /// Whether this generation is known to whoever asks.
    pub fn is(&self, generation: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word >> 8 == generation && word & HIDDEN == 0 && word & LIFE != Lifecycle::Free as u64
    }

    /// `None`: another task's slot by now.
    pub fn life(&self, generation: u64) -> Option<Lifecycle> {
        let word = self.word.load(Ordering::Acquire);
        (word >> 8 == generation).then(|| Lifecycle::of((word & LIFE) as u8))
    }

    /// A new task; returns its generation.
    pub fn fill(&self, code: Option<LightJob>, detached: bool, phase: Epoch, now: u64) -> u64 {
        let mut body = locked(&self.body);
        let generation = (self.word.load(Ordering::Relaxed) >> 8) + 1;
        self.signal.reset();
        body.code = code;
        body.since = now;
        body.queued = 0;
        body.ran = 0;
        body.attempts = 0;
        body.device = None;
        body.planned = TaskId(0);
        body.phase = phase;
        body.detached = detached;
        self.go(&mut body, Lifecycle::Queued, generation);
        generation
    }

    /// An attempt begins. `None`: it was cancelled, or is long over.
    pub fn begin(&self, generation: u64, device: usize, slot: u32, now: u64) -> Option<LightAttempt> {
        let mut body = self.open(generation)?;
        if body.life != Lifecycle::Queued {
            return None;
        }
        let code = body.code.take()?;
        let now = now.max(body.since);
        body.queued += now - body.since;
        body.since = now;
        body.attempts += 1;
        body.device = Some(device as u16);
        body.slot = slot as u16;
        self.go(&mut body, Lifecycle::Running, generation);
        Some(LightAttempt { code, phase: body.phase, attempt: body.attempts, since: now })
    }

    /// The attempt could not begin after all. The code comes back if the task is not to begin again: it was cancelled.
    pub fn put_back(&self, generation: u64, code: LightJob, now: u64) -> Option<LightJob> {
        let Some(mut body) = self.open(generation) else { return Some(code) };
        if self.signal.is_cancelled() {
            return Some(code);
        }
        body.code = Some(code);
        body.attempts = body.attempts.saturating_sub(1);
        body.since = now;
        self.go(&mut body, Lifecycle::Queued, generation);
        None
    }

    /// A task that others run piece by piece has begun.
    pub fn set_running(&self, generation: u64, now: u64) {
        let Some(mut body) = self.open(generation) else { return };
        if body.life == Lifecycle::Queued {
            body.queued += now.saturating_sub(body.since);
            body.since = now;
            body.attempts = 1;
            self.go(&mut body, Lifecycle::Running, generation);
        }
    }

    /// Takes the job of a task that has not begun, which is then to be dropped and the task ended.
    pub fn withdraw(&self, generation: u64) -> Option<(LightJob, Epoch)> {
        let mut body = self.open(generation)?;
        if body.life != Lifecycle::Queued {
            return None;
        }
        let code = body.code.take()?;
        Some((code, body.phase))
    }

    /// A planned task goes on in its stead: what stood for it in the plan, if anything did.
    pub fn hand_over(&self, generation: u64, planned: TaskId) {
        let Some(mut body) = self.open(generation) else { return };
        body.planned = planned;
        self.go(&mut body, Lifecycle::Planned, generation);
    }

    pub fn phase(&self, generation: u64) -> Epoch {
        self.open(generation).map_or(0, |body| body.phase)
    }

    /// Asks the task to stop, if it has not ended.
    pub fn cancel(&self, generation: u64, id: TaskId) -> Result<()> {
        let body = self.known(generation, id)?;
        if !body.life.is_ended() {
            self.signal.cancel();
        }
        Ok(())
    }

    /// Asks whatever is here to stop.
    pub fn stop(&self) {
        let body = locked(&self.body);
        if matches!(body.life, Lifecycle::Queued | Lifecycle::Running) {
            self.signal.cancel();
        }
    }

    /// The planned task that goes on in this one's stead.
    pub fn gone_on(&self, generation: u64) -> Option<TaskId> {
        let body = self.open(generation)?;
        (body.life == Lifecycle::Planned).then_some(body.planned)
    }

    /// The task that stands, or goes on, for this one in the plan.
    pub fn in_plan(&self, generation: u64) -> Option<TaskId> {
        self.open(generation).map(|body| body.planned).filter(|planned| planned.0 != 0)
    }

    /// What is to stand for this task in the plan: `find` is told what does so far, if anything. The task neither
    /// ends nor is released meanwhile. If it has ended and this is new: how.
    pub fn stand_in(
        &self,
        generation: u64,
        id: TaskId,
        find: impl FnOnce(Option<TaskId>) -> Result<TaskId>,
    ) -> Result<(TaskId, Option<Result<WaitResult>>)> {
        let mut body = self.known(generation, id)?;
        let found = find(Some(body.planned).filter(|planned| planned.0 != 0))?;
        let outcome = body.outcome().filter(|_| found != body.planned);
        if !body.life.is_ended() {
            body.planned = found;
        }
        Ok((found, outcome))
    }

    /// Its thread is given up, but may still look at its signal: nobody uses the slot before it has left as one
    /// that waits does.
    pub fn stay(&self, generation: u64) {
        if let Some(mut body) = self.open(generation) {
            body.waiters += 1;
        }
    }

    /// Publishes the end of a task whose job has been dropped, after `count` unless the plan counts it.
    /// `Err(Cancelled)` is no failure.
    pub fn end(
        &self,
        generation: u64,
        outcome: Result<()>,
        now: u64,
        count: impl FnOnce(&Result<()>),
    ) -> EndActions {
        let Some(mut body) = self.open(generation) else { return EndActions::default() };
        let shadow =
            (body.planned.0 != 0 && body.life != Lifecycle::Planned).then(|| (body.planned, outcome.clone()));
        if body.planned.0 == 0 {
            count(&outcome);
        }
        let passed = now.saturating_sub(body.since);
        match body.life {
            Lifecycle::Queued => body.queued += passed,
            _ => body.ran += passed,
        }
        let life = match outcome {
            Ok(()) => Lifecycle::Done,
            Err(Error::Cancelled) => Lifecycle::Cancelled,
            Err(error) => {
                body.error = Some(Box::new(error));
                Lifecycle::Failed
            }
        };
        if life == Lifecycle::Done {
            self.signal.report(1.0);
        }
        self.go(&mut body, life, generation);
        let ring = body.waiters > 0;
        let free = body.detached && self.part(body, generation);
        EndActions { shadow, ring, free }
    }

    /// What a planned task that went on in this one's stead has left to tell.
    pub fn inherit(&self, generation: u64, info: &TaskInfo) {
        let Some(mut body) = self.open(generation) else { return };
        body.attempts = info.attempts;
        body.device = info.device.map(|device| device as u16);
        body.slot = info.slot as u16;
    }

    pub fn release(&self, generation: u64, id: TaskId) -> Result<EndActions> {
        let mut body = self.known(generation, id)?;
        body.detached = true;
        let ended = body.life.is_ended();
        let ring = ended && body.waiters > 0;
        Ok(EndActions { shadow: None, ring, free: ended && self.part(body, generation) })
    }

    /// Begins to wait, if the task has not ended.
    pub fn enter(&self, generation: u64, id: TaskId) -> Result<WatchStart> {
        let mut body = self.known(generation, id)?;
        if body.detached {
            let id = format!("{:#018x}", id.0);
            return Err(Error::argument("the task to wait for", id, "a task that is not detached"));
        }
        if let Some(outcome) = body.outcome() {
            return Ok(WatchStart::Ended(outcome));
        }
        body.waiters += 1;
        Ok(WatchStart::Waits)
    }

    /// Has waited enough: the outcome, if there is one, and whether the slot is free now.
    pub fn leave(&self, generation: u64) -> (Option<Result<WaitResult>>, bool) {
        let Some(mut body) = self.open(generation) else { return (None, false) };
        body.waiters -= 1;
        let outcome = body.outcome();
        let free = body.detached && body.life.is_ended() && self.part(body, generation);
        (outcome, free)
    }

    pub fn info(&self, generation: u64, id: TaskId, now: u64) -> Result<TaskInfo> {
        let body = self.known(generation, id)?;
        let passed = if body.life.is_ended() { 0 } else { now.saturating_sub(body.since) };
        let (queued, running) = if body.life == Lifecycle::Queued { (passed, 0) } else { (0, passed) };
        Ok(TaskInfo {
            state: body.life.state(),
            label: String::new(),
            device: body.device.map(usize::from),
            slot: u32::from(body.slot),
            attempts: body.attempts,
            progress: self.signal.progress(),
            queued_ns: body.queued + queued,
            running_ns: body.ran + running,
            error: body.error.as_deref().cloned(),
        })
    }

    fn open(&self, generation: u64) -> Option<MutexGuard<'_, LightTaskState>> {
        let body = locked(&self.body);
        (self.word.load(Ordering::Relaxed) >> 8 == generation && body.life != Lifecycle::Free).then_some(body)
    }

    /// The same for somebody who asks by the task's id.
    fn known(&self, generation: u64, id: TaskId) -> Result<MutexGuard<'_, LightTaskState>> {
        match self.open(generation) {
            Some(body) if self.word.load(Ordering::Relaxed) & HIDDEN == 0 => Ok(body),
            _ => Err(Error::Stale { what: "task", id: id.0 }),
        }
    }

    fn go(&self, body: &mut LightTaskState, life: Lifecycle, generation: u64) {
        if body.life.go(life) {
            self.word.store(generation << 8 | life as u64, Ordering::Release);
        }
    }

    /// Nobody can ask for an ended task any more. True: nobody waits for it either, and its slot can be used again.
    fn part(&self, mut body: MutexGuard<'_, LightTaskState>, generation: u64) -> bool {
        if body.waiters > 0 {
            self.word.fetch_or(HIDDEN, Ordering::Release);
            return false;
        }
        body.error = None;
        self.go(&mut body, Lifecycle::Free, generation);
        // A generation is never used twice.
        generation + 1 < GENERATIONS
    }
}

impl LightTaskState {
    fn outcome(&self) -> Option<Result<WaitResult>> {
        match self.life {
            Lifecycle::Done => Some(Ok(WaitResult::Done)),
            Lifecycle::Cancelled => Some(Ok(WaitResult::Cancelled)),
            Lifecycle::Failed => Some(Err(match &self.error {
                Some(error) => (**error).clone(),
                None => Error::Internal("a task failed without words".into()),
            })),
            _ => None,
        }
    }
}
