//! A running range: its owner, its helpers, and how it ends.

use std::iter::successors;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use super::{ChunkFault, ChunkSizer, FaultLog, Participant, Partitioner, length};
use crate::error::{DeviceFault, Error, Result};
use crate::memory::{Lease, Ledger};
use crate::sched::base::{Completion, DeviceMask, Exec, Job, Role, Task, TaskId, lock};
use crate::sched::runtime::{Runtime, catch_panic, with_device_fault};
use crate::sched::sleep::HELPERS_NEEDED;

/// The code of a range. It is called for chunks of the range, at the same time on all devices. Each
/// element is in exactly one chunk that ends well.
pub type RangeJob = dyn Fn(&Exec<'_>, Range<u64>) -> Result<()> + Send + Sync;

pub struct RangeRun {
    runtime: Weak<Runtime>,
    /// The requirements of owner and helpers. Its job is a placeholder that never runs.
    template: Task,
    total: u64,
    sizer: ChunkSizer,
    /// A helper task is queued.
    helper_queued: AtomicBool,
    /// The most participants that are useful: one for each slot.
    slots: usize,
    /// No new chunk begins.
    stopped: AtomicBool,
    /// The range's task is notified when a participant has left.
    state: Mutex<RangeState>,
}

#[derive(Default)]
struct RangeState {
    partitioner: Partitioner,
    /// Elements done.
    done: u64,
    /// `None` once the range has ended.
    job: Option<Arc<RangeJob>>,
    /// While the owner is inside.
    owner: Option<OwnerTask>,
    /// The error that ends the range.
    failure: Option<Error>,
    faults: FaultLog,
    /// Devices that a single element did not fit.
    too_small: DeviceMask,
    /// Devices that left the rest to faster ones.
    declined: DeviceMask,
    /// The last helper task.
    helper: Option<TaskId>,
    /// A helper task has ended without having begun: no device took it in time.
    helper_refused: bool,
}

#[derive(Clone)]
struct OwnerTask {
    task: TaskId,
    attempt: u32,
    signal: Arc<Completion>,
}

/// Why a participant left.
enum StopReason {
    /// No elements are left to take.
    Empty,
    /// The others finish the rest sooner.
    Declined,
    /// The range ends, or the owner is leaving.
    Stopped,
    /// A single element does not fit the device.
    NoMemory(Error),
    /// The device failed.
    DeviceFailed(Error),
}

/// The job of the range's own task.
pub struct RangeOwner(pub Arc<RangeRun>);

struct HelperJob {
    run: Arc<RangeRun>,
    /// It has begun: `helper_queued` is about the next one.
    begun: AtomicBool,
}

impl RangeRun {
    pub fn new(
        runtime: &Arc<Runtime>,
        all: Range<u64>,
        grain: Option<u64>,
        job: Box<RangeJob>,
        template: Task,
    ) -> Arc<Self> {
        let slots = runtime.lock().planner.slots_for(&template);
        Arc::new(RangeRun {
            runtime: Arc::downgrade(runtime),
            template,
            total: length(&all),
            sizer: ChunkSizer::new(grain, runtime.devices.len(), runtime.policy.clone()),
            helper_queued: AtomicBool::new(false),
            slots,
            stopped: AtomicBool::new(true),
            state: Mutex::new(RangeState {
                partitioner: Partitioner::new(all),
                job: Some(job.into()),
                ..RangeState::default()
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, RangeState> {
        lock(&self.state)
    }

    fn is_done(&self) -> bool {
        self.state().done == self.total
    }

    /// Works on the range until there is a reason to leave. Does nothing while no owner is inside.
    fn participate(self: &Arc<Self>, runtime: &Arc<Runtime>, exec: &Exec<'_>, is_helper: bool) -> StopReason {
        let mut state = self.state();
        let (Some(owner), Some(job)) = (state.owner.clone(), state.job.clone()) else {
            return StopReason::Stopped;
        };
        let who = Participant { device: exec.device_index, task: exec.task };
        state.partitioner.join(who);
        drop(state);
        let own = Participation { run: self, runtime, task: owner.task, who };
        let exec = Exec { task: owner.task, attempt: owner.attempt, signal: &owner.signal, ..*exec };
        let reason = runtime.as_part_of(owner.task, || self.run_chunks(&own, &exec, is_helper, &*job));
        // Before `own` leaves: the owner may then end the range, and the job is dropped with it.
        drop(job);
        reason
    }

    fn run_chunks(
        self: &Arc<Self>,
        own: &Participation<'_>,
        exec: &Exec<'_>,
        is_helper: bool,
        job: &RangeJob,
    ) -> StopReason {
        let runtime = own.runtime;
        let device = exec.device_index;
        let ledger =
            (self.template.device_bytes > 0).then(|| runtime.lock().planner.devices()[device].ledger.clone());
        let joined = Instant::now();
        loop {
            if self.stopped.load(Ordering::Acquire) || exec.cancelled() {
                return StopReason::Stopped;
            }
            let has_stayed = joined.elapsed() > runtime.policy.helper_stay;
            if is_helper && has_stayed && runtime.lock().planner.others_wait() {
                return StopReason::Empty;
            }
            if self.sizer.is_slow(device) && self.should_decline(own.who) {
                return StopReason::Declined;
            }
            let frugal = ledger.is_some() && runtime.memory_wanted.load(Ordering::Relaxed) >> device & 1 == 1;
            if frugal {
                // A task waits for memory of the device, and that of the chunk before may be
                // enough.
                runtime.step(|_, _| ());
            }
            let mut state = self.state();
            let parts = &mut state.partitioner;
            let wanted = self.sizer.size(device, parts.remaining(), parts.participants());
            let wanted = if frugal { 1 } else { wanted.min(parts.available()) };
            let (size, lease) = self.lease_memory(ledger.as_ref(), wanted);
            let taken = parts.take(size);
            let needs_helper = state.partitioner.has_unassigned() && !self.is_full(&state);
            drop(state);
            let Some(chunk) = taken else { return StopReason::Empty };
            if needs_helper {
                self.request_helper(runtime, exec.task);
            }
            let begun = Instant::now();
            let outcome = catch_panic(|| job(exec, chunk.clone()));
            let outcome = with_device_fault(outcome, catch_panic(|| exec.lane.finish()));
            drop(lease);
            let elements = length(&chunk);
            let error = match outcome {
                Ok(()) => {
                    self.sizer.record(device, elements, begun.elapsed().as_secs_f64());
                    let mut state = self.state();
                    state.done += elements;
                    // Under the lock, so that the progress never goes back.
                    exec.signal.report(state.done as f64 / self.total as f64);
                    continue;
                }
                Err(error) => error,
            };
            if error.is_shortage() {
                exec.lane.relieve();
            }
            if error == Error::Cancelled && exec.cancelled() {
                // The planner knows why: a cancel, a deadline, or another copy that has won.
                self.state().partitioner.give_back(chunk);
                return StopReason::Stopped;
            }
            if let Some(reason) = self.on_chunk_failed(own, chunk, error) {
                return reason;
            }
        }
    }

    /// Leases memory for `wanted` elements, or for as many as there is memory for. The task's own
    /// lease covers the first one.
    fn lease_memory(&self, ledger: Option<&Arc<Ledger>>, wanted: u64) -> (u64, Option<Lease>) {
        let Some(ledger) = ledger else { return (wanted, None) };
        let mut sizes = successors(Some(wanted), |size| Some(size / 2)).take_while(|&size| size > 1);
        let lease = |size| ledger.lease(self.template.device_bytes.checked_mul(size - 1)?);
        sizes.find_map(|size| Some((size, Some(lease(size)?)))).unwrap_or((1, None))
    }

    /// Returns `None` if the participant can go on.
    fn on_chunk_failed(
        &self,
        own: &Participation<'_>,
        chunk: Range<u64>,
        error: Error,
    ) -> Option<StopReason> {
        let device = own.who.device;
        if let Error::Device { fault, .. } = error {
            let error = error.in_elements(chunk.clone());
            self.on_device_fault(own, chunk, fault, &error);
            return Some(StopReason::DeviceFailed(error));
        }
        let mut state = self.state();
        if error.is_shortage() {
            let smaller = self.sizer.halve(device, length(&chunk));
            state.partitioner.give_back(chunk.clone());
            if smaller {
                return None;
            }
            state.too_small.add(device);
            state.declined = DeviceMask::NONE;
            return Some(StopReason::NoMemory(error.in_elements(chunk)));
        }
        let error = if error == Error::Cancelled { error } else { error.in_elements(chunk) };
        state.failure.get_or_insert(error);
        self.stopped.store(true, Ordering::Release);
        Some(StopReason::Stopped)
    }

    /// Returns the elements to the others, or ends the range if they are the cause.
    fn on_device_fault(&self, own: &Participation<'_>, chunk: Range<u64>, fault: DeviceFault, error: &Error) {
        let (runtime, Participant { device, task }) = (own.runtime, own.who);
        let limit = self.sizer.policy.fault_limit(fault);
        // A thread that holds the planner lock may wait for the range's.
        let context = runtime.lock().planner.devices()[device].first_sound_context;
        let usable = runtime.lock().planner.usable_devices(&self.template);
        let mut state = self.state();
        let usable = usable.without(state.too_small);
        // Without this device the slow ones may be needed.
        state.declined = DeviceMask::NONE;
        let fault = ChunkFault { device, context, fault, task, chunk: chunk.clone() };
        if !state.faults.add(fault, limit, usable) {
            return state.partitioner.give_back(chunk);
        }
        let why = Box::new(error.clone());
        state.failure.get_or_insert(Error::Elements { begin: chunk.start, end: chunk.end, why });
        self.stopped.store(true, Ordering::Release);
        let tasks = state.faults.tasks();
        drop(state);
        runtime.lock().planner.mark_range_as_cause(&tasks);
    }

    /// Waits for helpers when a single element does not fit the owner's device: others may have
    /// memory for it. After a helper that no device took, only the range's own attempts wait. A
    /// poisoned context is renewed only when the owner has left it, too.
    fn leave_to_helpers(self: &Arc<Self>, runtime: &Arc<Runtime>, exec: &Exec<'_>) {
        runtime.step(|planner, _| planner.set_needs_helpers(true));
        let is_poisoned = || runtime.lock().planner.devices()[exec.device_index].poisoned;
        let leaves = || exec.cancelled() || is_poisoned();
        let queued = || self.helper_queued.load(Ordering::Acquire);
        let idle = || self.is_alone(runtime, exec) && (!queued() || leaves());
        while !self.is_done() && !self.stopped.load(Ordering::Acquire) && !leaves() {
            let (alone, refused) = (self.is_alone(runtime, exec), self.state().helper_refused);
            if (refused || !self.request_helper(runtime, exec.task)) && alone {
                break;
            }
            runtime.wait_for_helpers(&[exec.task, HELPERS_NEEDED], idle);
        }
        runtime.lock().planner.set_needs_helpers(false);
    }

    /// Returns true if no participant is left, apart from abandoned helpers: none is before a stop
    /// request.
    fn is_alone(&self, runtime: &Runtime, exec: &Exec<'_>) -> bool {
        let stopped = exec.cancelled();
        let abandoned = if stopped { runtime.lock().planner.abandoned_tasks() } else { Vec::new() };
        !self.state().partitioner.has_participants_but(&abandoned)
    }

    fn should_decline(&self, own: Participant) -> bool {
        let mut state = self.state();
        let others = state.partitioner.devices_beside(own);
        let declines = self.sizer.should_decline(own.device, state.partitioner.remaining(), others);
        if declines {
            state.declined.add(own.device);
        }
        declines
    }

    fn is_full(&self, state: &RangeState) -> bool {
        state.partitioner.participants() >= self.slots
    }

    /// Queues a helper task, unless there is one or more helpers would be useless. Returns true if
    /// a helper task is queued.
    fn request_helper(self: &Arc<Self>, runtime: &Arc<Runtime>, owner: TaskId) -> bool {
        if self.helper_queued.load(Ordering::Acquire) {
            return true;
        }
        let state = self.state();
        if self.is_full(&state) || self.helper_queued.swap(true, Ordering::AcqRel) {
            return self.helper_queued.load(Ordering::Acquire);
        }
        let devices = self.template.devices.without(state.too_small).without(state.declined);
        drop(state);
        let job = Arc::new(HelperJob { run: self.clone(), begun: AtomicBool::new(false) });
        let task = Task { job, devices, role: Role::Helper(owner), detached: true, ..self.template.clone() };
        // A range keeps its helpers while the scheduler drains. Without one, because the scheduler
        // ends or no other device may help, the participants go on alone.
        let id = runtime.step(|planner, effects| {
            let accepts = !planner.is_stopping() && planner.check_task(&task).is_ok();
            accepts.then(|| planner.submit(task, effects).ok()).flatten()
        });
        let Some(id) = id else { return false };
        self.state().helper = Some(id);
        true
    }
}

/// Keeps a participant in the range until dropped.
struct Participation<'a> {
    run: &'a RangeRun,
    runtime: &'a Arc<Runtime>,
    /// The range.
    task: TaskId,
    who: Participant,
}

impl Drop for Participation<'_> {
    fn drop(&mut self) {
        self.run.state().partitioner.leave(self.who);
        self.runtime.wait_queues.notify(self.task);
    }
}

impl Job for RangeOwner {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        let run = &self.0;
        let Some(runtime) = run.runtime.upgrade() else { return Err(Error::Cancelled) };
        let signal = runtime.lock().planner.completion(exec.task)?;
        let mut state = run.state();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        state.owner = Some(OwnerTask { task: exec.task, attempt: exec.attempt, signal });
        // Devices may have memory again. `helper_refused` stays: see `leave_to_helpers`.
        (state.too_small, state.declined) = Default::default();
        run.stopped.store(false, Ordering::Release);
        drop(state);
        let (keys, alone) = ([exec.task], || run.is_alone(&runtime, exec));
        let mut no_memory = None;
        let device_error = loop {
            match run.participate(&runtime, exec, false) {
                StopReason::Empty => {
                    runtime.wait_for_helpers(&keys, || alone() || run.state().partitioner.has_unassigned())
                }
                StopReason::Declined => runtime.wait_for_helpers(&keys, alone),
                StopReason::NoMemory(error) => {
                    no_memory = Some(error);
                    run.leave_to_helpers(&runtime, exec);
                    break None;
                }
                StopReason::Stopped => break None,
                StopReason::DeviceFailed(error) => break Some(error),
            }
            if run.is_done() {
                break None;
            }
        };
        run.stopped.store(true, Ordering::Release);
        run.state().owner = None;
        runtime.wait_for_helpers(&keys, alone);
        let helper = run.state().helper.take();
        if let Some(id) = helper {
            // The helper may have ended meanwhile.
            let _ = runtime.step(|planner, effects| planner.cancel(id, effects));
        }
        let state = run.state();
        match (device_error, &state.failure) {
            // The device is judged first; the next attempt finds a failure of the elements.
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(error.clone()),
            (None, None) if state.done == run.total => Ok(()),
            (None, None) => Err(no_memory.unwrap_or(Error::Cancelled)),
        }
    }
}

impl Drop for RangeOwner {
    /// Drops the caller's code with the task; a queued helper may keep the rest for a while.
    fn drop(&mut self) {
        let job = self.0.state().job.take();
        drop(job);
    }
}

impl Job for HelperJob {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        self.leave_queue();
        let Some(runtime) = self.run.runtime.upgrade() else { return Ok(()) };
        match self.run.participate(&runtime, exec, true) {
            StopReason::DeviceFailed(error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl HelperJob {
    fn leave_queue(&self) {
        if !self.begun.swap(true, Ordering::AcqRel) {
            self.run.helper_queued.store(false, Ordering::Release);
        }
    }
}

impl Drop for HelperJob {
    fn drop(&mut self) {
        let mut state = self.run.state();
        let owner = state.owner.as_ref().map(|owner| owner.task);
        state.helper_refused |= owner.is_some() && !self.begun.load(Ordering::Acquire);
        drop(state);
        self.leave_queue();
        if let (Some(owner), Some(runtime)) = (owner, self.run.runtime.upgrade()) {
            runtime.wait_queues.notify(owner);
        }
    }
}
