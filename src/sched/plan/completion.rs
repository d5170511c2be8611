//! The end of an attempt: what becomes of its task and of its device.
//!
//! | how it ended | the task | the device |
//! |---|---|---|
//! | well | done, unless another copy was first | |
//! | as cancelled, by its own code or a caller | cancelled | |
//! | with an error or a panic of its own | tried again if retries are left, elsewhere if possible; else failed; an argument or a file as the cause fails it at once | |
//! | out of memory, the device's or the host's, or of launch resources, in company | tried again alone | fewer at a time for a minute |
//! | the same, alone | tried elsewhere, then again after the back-off, then failed | none of its size begins for a while |
//! | another process has the device | tried elsewhere, then again after the back-off, then failed | nothing begins for a while |
//! | wrong result, found by its own code | tried once more, elsewhere if possible; failed when that is wrong, too | a fault if the task then ends well; retired at the second, by another task |
//! | its context was poisoned | tried elsewhere; the second time it is the cause and fails | nothing more begins in that context; renewed when all have left it; retired at the second task, unless the first was the cause, and at the third cause in a row |
//! | the device is gone | tried elsewhere; failed when the third goes with it | retired |
//! | it could not be opened | as if it had not begun | retired |
//!
//! A task whose other copy still runs goes on with that.

use std::time::Duration;

use log::Level;

use super::effects::Effects;
use super::planner::Planner;
use super::record::{Attempt, DeadlineState};
use super::task_state::TaskState;
use crate::error::{Error, Result};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;
use crate::sched::observe::trace::Ending;

/// The way in which an attempt ended.
pub enum AttemptEnd {
    Ran(Result<()>),
    /// The device could not be opened or made current; the job was not called.
    NoQueue(String),
}

/// The decision after a failed attempt.
enum NextStep {
    Fail,
    Again,
}

impl Planner {
    /// Light tasks have run beside an attempt.
    pub fn had_company(&mut self, index: usize, id: TaskId, attempt: u32) {
        let mut runs = self.devices[index].attempts.iter_mut();
        if let Some(run) = runs.find(|run| run.id == id && run.number == attempt) {
            run.shared_device = true;
        }
    }

    /// Ends an attempt. Returns false if it was abandoned before: its thread must end.
    pub fn on_attempt_end(
        &mut self,
        index: usize,
        id: TaskId,
        attempt: u32,
        how: AttemptEnd,
        effects: &mut Effects,
    ) -> bool {
        let device = &mut self.devices[index];
        let Some(position) = device.attempts.iter().position(|run| run.id == id && run.number == attempt)
        else {
            return true;
        };
        let full = device.attempts.len() >= device.slots as usize;
        let run = device.attempts.swap_remove(position);
        let awaited = run.deadline_state != DeadlineState::Lost;
        self.end_attempt(index, run, full, how, effects);
        awaited
    }

    fn end_attempt(
        &mut self,
        index: usize,
        run: Attempt,
        full: bool,
        how: AttemptEnd,
        effects: &mut Effects,
    ) {
        let (now, id, attempt) = (effects.now, run.id, run.number);
        let device = &mut self.devices[index];
        let was_poisoned = device.poisoned || run.context < device.first_sound_context;
        if device.poisoned && device.attempts.is_empty() {
            device.poisoned = false;
            self.renew_context(index, effects);
        }
        let device = &mut self.devices[index];
        if run.deadline_state == DeadlineState::Lost {
            return self.abandoned_attempt_returned(id, attempt, how, effects);
        }
        let took = now.saturating_sub(run.started);
        device.busy += took;
        let outcome = match how {
            AttemptEnd::Ran(outcome) => outcome,
            AttemptEnd::NoQueue(why) => {
                self.attempt_not_started(id, attempt, effects);
                return self.retire(index, &why, effects);
            }
        };
        match &outcome {
            Ok(()) => {
                device.done += u64::from(run.role != Role::Helper);
                device.fault_count = 0;
                let bytes = self.tasks.get(id).map_or(0, |record| record.refused_bytes);
                device.accept(run.started, bytes.max(run.bytes));
            }
            Err(_) => device.failed += 1,
        }
        // The task may have ended without this attempt, or another may have committed.
        let record = self.tasks.get_mut(id).ok();
        let cancelled = record.as_ref().is_some_and(|record| record.signal.is_cancelled());
        let late = record.is_none_or(|record| {
            record.live_attempts -= 1;
            record.ran += took;
            !record.state.is_open() || record.signal.is_lost(attempt)
        });
        if late {
            self.record(now, index, &run, if cancelled { Ending::Cancelled } else { Ending::Late });
            if let Err(error) = outcome {
                self.record_device_error(index, &run, &error, was_poisoned, effects);
            }
            return self.await_abandoned(now, id);
        }
        match outcome {
            Ok(()) => {
                if self.tasks.get(id).is_ok_and(|record| record.signal.commit(attempt).is_ok()) {
                    self.attempt_succeeded(index, &run, full, effects);
                } else {
                    // The job did not poll, or had nothing to stop: the cancel was first.
                    self.attempt_failed(index, &run, Error::Cancelled, was_poisoned, effects);
                }
            }
            Err(error) => self.attempt_failed(index, &run, error, was_poisoned, effects),
        }
    }

    /// The attempt has committed. The task ends well; its other attempts are asked to stop.
    fn attempt_succeeded(&mut self, index: usize, run: &Attempt, full: bool, effects: &mut Effects) {
        let (now, id, plain) = (effects.now, run.id, run.role == Role::Task);
        if plain {
            let took = now.saturating_sub(run.started);
            self.estimator.record_sample(run.class, index, run.work, took.as_secs_f64());
            self.set_deadlines_of_class(run.class);
        }
        self.record(now, index, run, Ending::Done);
        if self.tasks.get(id).is_ok_and(|record| record.live_attempts > 0) {
            self.stop_losers(now, id);
        }
        self.clear_suspects(index, id, effects);
        if plain {
            self.tune_concurrency(index, run.class, run.work, full, effects);
        }
        self.end_task(id, Ok(()), effects);
    }

    /// The attempt has failed, or was cancelled. The task ends, is tried again, or goes on with another copy.
    fn attempt_failed(
        &mut self,
        index: usize,
        run: &Attempt,
        error: Error,
        was_poisoned: bool,
        effects: &mut Effects,
    ) {
        let (now, id) = (effects.now, run.id);
        let guilty = self.record_device_error(index, run, &error, was_poisoned, effects);
        let Ok(record) = self.tasks.get_mut(id) else { return };
        if error.is_suspect() {
            record.wrong_results += 1;
            record.suspect_devices.add(index);
        }
        if record.live_attempts > 0 {
            record.signal.reopen(run.number);
            record.copy_failure = Some(Box::new(error));
            // No other copy comes here: it could fail here for as long as the first attempt runs.
            record.avoided_devices.add(index);
            return self.record(now, index, run, Ending::Failed);
        }
        let was_cancelled = record.signal.is_cancelled();
        let error = if was_cancelled { error } else { self.task_error(now, index, run, error) };
        let Ok(record) = self.tasks.get_mut(id) else { return };
        // Asked to begin again: its own error is no failure.
        let restart = run.deadline_state == DeadlineState::Late
            && record.signal.is_stopped(run.number)
            && matches!(
                error,
                Error::Cancelled | Error::Callback { .. } | Error::Reported { .. } | Error::Panic { .. }
            );
        if was_cancelled || error == Error::Cancelled && !restart {
            self.record(now, index, run, Ending::Cancelled);
            return self.end_task(id, Err(Error::Cancelled), effects);
        }
        let next = if self.stopping {
            NextStep::Fail
        } else if restart {
            NextStep::Again
        } else {
            self.next_step(now, index, id, run, &error, guilty)
        };
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let (name, attempts) = (record.name(), record.attempts_begun);
        let place = self.devices[index].info.label();
        if let NextStep::Fail = next {
            self.record(now, index, run, Ending::Failed);
            self.note(Level::Warn, index, format!("{name} failed on {place}: {error}"), effects);
            return self.end_task(id, Err(error), effects);
        }
        record.signal.reopen(run.number);
        self.record(now, index, run, Ending::Retried);
        let text = format!("{name} is retried after attempt {attempts} on {place}: {error}");
        self.note(Level::Info, index, text, effects);
        self.counts.retried += 1;
        self.change_state(now, id, TaskState::requeue);
        self.make_ready(id, effects);
    }

    /// Returns the error of a task whose last attempt returned this one.
    fn task_error(&mut self, now: Duration, index: usize, run: &Attempt, error: Error) -> Error {
        let Ok(record) = self.tasks.get_mut(run.id) else { return error };
        let error = match (error, record.copy_failure.take()) {
            // This copy may have stopped for one that was first, and then failed.
            (Error::Cancelled, Some(failure)) => *failure,
            (error, _) => error,
        };
        match (run.deadline_state, error) {
            // Asked to stop by its deadline: the job's own code for that is any number.
            (
                DeadlineState::Stopping(_),
                Error::Cancelled | Error::Callback { .. } | Error::Reported { .. },
            ) => Error::Deadline {
                what: record.name(),
                limit_s: record.deadline.unwrap_or(now.saturating_sub(run.started)).as_secs_f64(),
                device: self.devices[index].info.label(),
            },
            (_, error) => error,
        }
    }

    /// An abandoned attempt has returned after all. It counts if it is the first to commit.
    fn abandoned_attempt_returned(
        &mut self,
        id: TaskId,
        attempt: u32,
        how: AttemptEnd,
        effects: &mut Effects,
    ) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        if !record.state.is_open() {
            return;
        }
        match how {
            AttemptEnd::Ran(Ok(())) if record.signal.commit(attempt).is_ok() => {
                self.stop_losers(effects.now, id);
                self.end_task(id, Ok(()), effects);
            }
            _ => {
                record.signal.reopen(attempt);
                // Copies may have stopped in its favour.
                if let TaskState::Orphaned { .. } = record.state {
                    self.change_state(effects.now, id, TaskState::requeue);
                    self.make_ready(id, effects);
                }
            }
        }
    }

    /// Reports the end to the device's concurrency tuner, which may change the number of slots.
    fn tune_concurrency(
        &mut self,
        index: usize,
        class: u32,
        work: Option<f64>,
        full: bool,
        effects: &mut Effects,
    ) {
        let device = &mut self.devices[index];
        let Some(search) = &mut device.tuner else { return };
        let done = self.estimator.relative_work(class, work);
        let busy = full && !self.ready.is_empty();
        let slots = search.task_ended(&self.policy, effects.now, done, busy);
        if slots != device.slots {
            device.slots = slots;
            // Each slot's share of the device changes with their number.
            device.context += 1;
            let text = format!("{} now runs {slots} tasks at a time", device.info.label());
            self.note(Level::Info, index, text, effects);
        }
    }

    /// The device of an attempt can't be opened: the attempt does not count.
    fn attempt_not_started(&mut self, id: TaskId, attempt: u32, effects: &mut Effects) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        record.live_attempts -= 1;
        if !record.state.is_open() || record.live_attempts > 0 {
            return;
        }
        if record.signal.is_cancelled() {
            return self.end_task(id, Err(Error::Cancelled), effects);
        }
        // A stop request applies to one attempt; the next must not have its number.
        if !record.signal.is_stopped(attempt) {
            record.attempts_begun -= 1;
        }
        // The device is retired next. That ends the task if it has no other.
        self.change_state(effects.now, id, TaskState::requeue);
        self.change_state(effects.now, id, TaskState::make_ready);
    }

    fn next_step(
        &mut self,
        now: Duration,
        index: usize,
        id: TaskId,
        run: &Attempt,
        error: &Error,
        guilty: bool,
    ) -> NextStep {
        let limit = self.devices.iter().map(|device| device.ledger.limit()).max().unwrap_or(0);
        let Ok(record) = self.tasks.get_mut(id) else { return NextStep::Fail };
        match error {
            Error::Device { .. } if guilty => NextStep::Fail,
            Error::Device { .. } => {
                record.avoided_devices.add(index);
                NextStep::Again
            }
            error if error.is_shortage() && run.shared_device && !record.exclusive => {
                record.exclusive = true;
                self.exclusive_tasks += 1;
                // All attempts here end, and none begins, before this task does.
                self.devices[index].reserved_for = Some(id);
                let fewer = (self.devices[index].attempts.len() as u32).max(1);
                self.devices[index].throttle = Some((fewer, now.saturating_add(self.policy.throttle)));
                NextStep::Again
            }
            // Another process has it; perhaps not for long.
            Error::Busy { .. } => self.refused(now, index, id, 0),
            // A task that would not fit an empty device will not fit later.
            Error::NoMemory { needed, .. } if *needed > limit => NextStep::Fail,
            error if error.is_shortage() => {
                let stated = record.bytes.on(self.devices[index].info.backend);
                let needed = match error {
                    Error::NoMemory { needed, .. } if stated.max(*needed) > 0 => *needed,
                    // Nothing tells which other tasks the device would refuse: it holds back none.
                    _ => u64::MAX,
                };
                record.refused_bytes = record.refused_bytes.max(needed);
                self.refused(now, index, id, stated.max(needed))
            }
            error if error.is_suspect() && record.wrong_results >= self.policy.wrong_attempts => {
                NextStep::Fail
            }
            error if error.is_suspect() => {
                record.avoided_devices.add(index);
                NextStep::Again
            }
            error if error.is_final() => NextStep::Fail,
            _ if record.retries > 0 => {
                record.retries -= 1;
                record.avoided_devices = DeviceMask::only(index);
                NextStep::Again
            }
            _ => NextStep::Fail,
        }
    }

    /// A device has refused a task of so many bytes, and backs off. The task goes to a device that has not; once all
    /// have, it waits until a back-off is over, as often as the back-off has steps.
    fn refused(&mut self, now: Duration, index: usize, id: TaskId, bytes: u64) -> NextStep {
        let Ok(record) = self.tasks.get_mut(id) else { return NextStep::Fail };
        let backoff = &self.policy.backoff;
        let (wait, most) = (backoff[record.refused_rounds.min(backoff.len() - 1)], backoff.len());
        self.devices[index].refuse(now, now.saturating_add(wait), bytes);
        record.refused_devices.add(index);
        let elsewhere = self.tasks.get(id).is_ok_and(|record| self.eligible(record) != DeviceMask::NONE);
        let Ok(record) = self.tasks.get_mut(id) else { return NextStep::Fail };
        if elsewhere {
            return NextStep::Again;
        }
        record.refused_rounds += 1;
        if record.refused_rounds > most {
            return NextStep::Fail;
        }
        record.refused_devices = DeviceMask::NONE;
        self.release_reservations(id);
        NextStep::Again
    }
}
