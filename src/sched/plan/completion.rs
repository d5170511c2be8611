//! An attempt is over: what becomes of its task, and of its device.
//!
//! | how it ended | the task | the device |
//! |---|---|---|
//! | well | done, unless another copy was first | |
//! | as cancelled, by its own wish or another's | cancelled | |
//! | with an error or a panic of its own | tried again if retries are left, elsewhere if possible; else failed | |
//! | out of memory, the device's or the host's, or of launch resources, in company | tried again alone | fewer at a time for a minute |
//! | the same, alone | tried elsewhere, then again after pauses, then failed | |
//! | it is somebody else's for now | tried elsewhere, then again after pauses, then failed | |
//! | its result was wrong, and its code saw that | tried once more, elsewhere if possible; failed when that is wrong, too | a strike if it then ends well; retired at the second, by another task. Strikes stay |
//! | its context was poisoned | tried elsewhere; the second time it is found guilty and fails | nothing more runs in that context; made anew when all have left it; retired at the second task, unless the first was found guilty, and at the third guilty task in a row |
//! | the device is gone | tried elsewhere; failed when the third goes with it | retired |
//! | it could not be opened | as if it had not begun | retired |
//!
//! A task with another copy still running goes on with that.

use std::time::Duration;

use log::Level;

use super::planner::Planner;
use super::record::{Attempt, DeadlineState};
use crate::error::{Error, Result};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::outcome::TaskStatus;
use crate::sched::base::policy::{PAUSES, THROTTLE, WRONG_ATTEMPTS};
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;
use crate::sched::observe::trace::Ending;

/// How an attempt went.
pub enum AttemptEnd {
    Ran(Result<()>),
    /// The device could not be opened or made current: the task's code was not called.
    NoQueue(String),
}

/// What a failed attempt calls for.
enum NextStep {
    Fail,
    /// At once, where it may.
    Again,
    /// After a while.
    Pause(Duration),
}

impl Planner {
    /// Something that is not planned has run beside an attempt.
    pub fn had_company(&mut self, index: usize, id: TaskId, attempt: u32) {
        let mut runs = self.devices[index].attempts.iter_mut();
        if let Some(run) = runs.find(|run| run.id == id && run.number == attempt) {
            run.shared_device = true;
        }
    }

    /// An attempt has returned. What ended is in [`Planner::ended`] then.
    /// False: it had been given up, and nobody waits for its thread.
    pub fn on_attempt_end(
        &mut self,
        now: Duration,
        index: usize,
        id: TaskId,
        attempt: u32,
        how: AttemptEnd,
    ) -> bool {
        let runs = self.devices[index].attempts.iter();
        let awaited = runs.filter(|run| run.id == id && run.number == attempt);
        let awaited = awaited.map(|run| run.deadline_state != DeadlineState::Lost).next().unwrap_or(true);
        self.end_attempt(now, index, id, attempt, how);
        awaited
    }

    fn end_attempt(&mut self, now: Duration, index: usize, id: TaskId, attempt: u32, how: AttemptEnd) {
        self.observer.now = now;
        let device = &mut self.devices[index];
        let Some(position) = device.attempts.iter().position(|run| run.id == id && run.number == attempt)
        else {
            return;
        };
        let full = device.attempts.len() >= device.slots as usize;
        let run = device.attempts.swap_remove(position);
        let was_poisoned = device.poisoned || run.context < device.first_sound_context;
        if device.poisoned && device.attempts.is_empty() {
            device.poisoned = false;
            self.renew_context(index);
        }
        let device = &mut self.devices[index];
        if run.deadline_state == DeadlineState::Lost {
            return self.abandoned_attempt_returned(now, id, attempt, how);
        }
        let took = now.saturating_sub(run.started);
        device.busy += took;
        let outcome = match how {
            AttemptEnd::Ran(outcome) => outcome,
            AttemptEnd::NoQueue(why) => {
                self.attempt_not_started(now, id, attempt);
                return self.retire(index, &why);
            }
        };
        match &outcome {
            Ok(()) => {
                device.done += u64::from(run.role != Role::Helper);
                device.fault_count = 0;
            }
            Err(_) => device.failed += 1,
        }
        let Ok(record) = self.tasks.get_mut(id) else {
            // The task has ended without this attempt.
            self.record(now, index, &run, Ending::Late);
            if let Err(error) = outcome {
                self.record_device_error(index, &run, &error, was_poisoned);
            }
            return;
        };
        record.live_attempts -= 1;
        record.ran += took;
        if record.job.is_none() || record.signal.is_lost(attempt) {
            let cancelled = record.signal.is_cancelled();
            self.record(now, index, &run, if cancelled { Ending::Cancelled } else { Ending::Late });
            if let Err(error) = outcome {
                self.record_device_error(index, &run, &error, was_poisoned);
            }
            return self.await_abandoned(now, id);
        }
        let error = match outcome {
            // Copies that still run are asked to stop; they are too late.
            Ok(()) if record.signal.commit(attempt).is_ok() => {
                let (class, work) = (record.class, record.work);
                let plain = record.role == Role::Task;
                if plain {
                    self.estimator.record_sample(class, index, work, took.as_secs_f64());
                    self.set_deadlines_of_class(class);
                }
                self.record(now, index, &run, Ending::Done);
                self.stop_losers(now, id);
                self.clear_suspects(index, id);
                if plain {
                    self.tune_concurrency(now, index, class, work, full);
                }
                return self.end_task(id, Ok(()));
            }
            // It did not look, or had nothing to stop: the cancel was first.
            Ok(()) => Error::Cancelled,
            Err(error) => error,
        };
        let guilty = self.record_device_error(index, &run, &error, was_poisoned);
        let Ok(record) = self.tasks.get_mut(id) else { return };
        if error.is_suspect() {
            record.wrong_results += 1;
            record.suspect_devices.add(index);
        }
        if record.live_attempts > 0 {
            record.signal.reopen(attempt);
            record.copy_failure = Some(error);
            // No other copy comes here, or they could fail here for as long as the first goes on.
            record.avoided_devices.add(index);
            return self.record(now, index, &run, Ending::Failed);
        }
        if record.signal.is_cancelled() {
            self.record(now, index, &run, Ending::Cancelled);
            return self.end_task(id, Err(Error::Cancelled));
        }
        // This copy may have stopped for one that was first, and then failed.
        let error = match (error, record.copy_failure.take()) {
            (Error::Cancelled, Some(failure)) => failure,
            (error, _) => error,
        };
        // Asked to stop by its deadline: its code says so with whatever number it likes.
        let error = match (run.deadline_state, error) {
            (DeadlineState::Stopping(_), Error::Cancelled | Error::Callback { .. }) => Error::Deadline {
                what: record.name(),
                limit_s: record.deadline.unwrap_or(took).as_secs_f64(),
                device: self.devices[index].info.label(),
            },
            (_, error) => error,
        };
        // Asked to begin anew: whatever it says of itself then is no failure.
        let anew = run.deadline_state == DeadlineState::Late
            && record.signal.is_stopped(attempt)
            && matches!(error, Error::Cancelled | Error::Callback { .. } | Error::Panic { .. });
        if error == Error::Cancelled && !anew {
            // Its own wish.
            self.record(now, index, &run, Ending::Cancelled);
            return self.end_task(id, Err(error));
        }
        let next = if self.stopping {
            NextStep::Fail
        } else if anew {
            NextStep::Again
        } else {
            self.next_step(now, index, id, &run, &error, guilty)
        };
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let (name, attempts) = (record.name(), record.attempts_begun);
        let place = self.devices[index].info.label();
        if let NextStep::Fail = next {
            self.record(now, index, &run, Ending::Failed);
            self.note(Level::Warn, index, format!("{name} failed on {place}: {error}"));
            return self.end_task(id, Err(error));
        }
        record.signal.reopen(attempt);
        self.record(now, index, &run, Ending::Retried);
        let text = format!("{name} is tried again after attempt {attempts} on {place}: {error}");
        self.note(Level::Info, index, text);
        self.counts.retried += 1;
        self.requeue(now, id);
        match next {
            NextStep::Pause(pause) => {
                self.release_reservations(id);
                self.pause(id, now + pause);
            }
            _ => self.make_ready(id),
        }
    }

    /// An attempt that was given up has returned after all. If it has done its work before another has, it counts.
    fn abandoned_attempt_returned(&mut self, now: Duration, id: TaskId, attempt: u32, how: AttemptEnd) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        if record.job.is_none() {
            return;
        }
        match how {
            AttemptEnd::Ran(Ok(())) if record.signal.commit(attempt).is_ok() => {
                self.stop_losers(now, id);
                self.end_task(id, Ok(()));
            }
            _ => {
                record.signal.reopen(attempt);
                // Copies may have stopped for it.
                if record.live_attempts == 0 && record.status == TaskStatus::Running {
                    self.end_pause(id);
                    self.requeue(now, id);
                    self.make_ready(id);
                }
            }
        }
    }

    /// With slots that nobody has told: perhaps another number of them is better.
    fn tune_concurrency(&mut self, now: Duration, index: usize, class: u32, work: Option<f64>, full: bool) {
        let done = self.estimator.relative_work(class, work);
        let busy = full && !self.ready.is_empty();
        let device = &mut self.devices[index];
        let Some(search) = &mut device.tuner else { return };
        let slots = search.task_ended(now, done, busy);
        if slots != device.slots {
            device.slots = slots;
            // What a slot gets of the device changes with their number.
            device.context += 1;
            let text = format!("{} runs {slots} tasks at a time from now on", device.info.label());
            self.note(Level::Info, index, text);
        }
    }

    /// A task that was given to a device that can't be opened.
    fn attempt_not_started(&mut self, now: Duration, id: TaskId, attempt: u32) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        record.live_attempts -= 1;
        if record.job.is_none() || record.live_attempts > 0 {
            return;
        }
        if record.signal.is_cancelled() {
            return self.end_task(id, Err(Error::Cancelled));
        }
        // What an attempt was asked to do is not meant for another of its number.
        if !record.signal.is_stopped(attempt) {
            record.attempts_begun -= 1;
        }
        self.requeue(now, id);
        // The ready list is looked through when the device is retired.
        if let Ok(record) = self.tasks.get(id) {
            self.ready.insert(record, id);
        }
    }

    /// None of its attempts is left: it is as one that has not begun, and not ready yet.
    pub fn requeue(&mut self, now: Duration, id: TaskId) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        // A late one was ready while it ran, for another device.
        self.ready.remove(record);
        record.status = TaskStatus::Queued;
        record.since = now;
        self.counts.running -= 1;
        self.counts.queued += 1;
        let guest = u64::from(record.role == Role::Helper);
        self.counts.guests.running -= guest;
        self.counts.guests.queued += guest;
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
                // What runs here ends, and nothing else starts before.
                self.devices[index].reserved_for = Some(id);
                let fewer = (self.devices[index].attempts.len() as u32).max(1);
                self.devices[index].throttle = Some((fewer, now + THROTTLE));
                NextStep::Again
            }
            // Somebody else has it; perhaps not for long.
            Error::Busy { .. } => {
                record.refused_devices.add(index);
                self.try_elsewhere_or_delay(id)
            }
            // What would not fit an empty device will not fit later.
            Error::NoMemory { needed, .. } if *needed > limit => NextStep::Fail,
            error if error.is_shortage() => {
                record.refused_devices.add(index);
                self.try_elsewhere_or_delay(id)
            }
            error if error.is_suspect() && record.wrong_results >= WRONG_ATTEMPTS => NextStep::Fail,
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

    /// On a device that has not refused it, or, when all have, after a pause, some times.
    fn try_elsewhere_or_delay(&mut self, id: TaskId) -> NextStep {
        let record = &self.tasks.get(id);
        let elsewhere = record.as_ref().is_ok_and(|record| self.eligible(record) != DeviceMask::NONE);
        let Ok(record) = self.tasks.get_mut(id) else { return NextStep::Fail };
        if elsewhere {
            return NextStep::Again;
        }
        let Some(&pause) = PAUSES.get(record.delays as usize) else { return NextStep::Fail };
        record.delays += 1;
        record.refused_devices = DeviceMask::NONE;
        NextStep::Pause(pause)
    }
}
