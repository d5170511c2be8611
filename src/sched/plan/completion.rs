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
use crate::sched::base::policy::{PAUSES, THROTTLE, WRONG_ATTEMPTS};
use crate::sched::base::task::{DeviceMask, Role, TaskId, TaskStatus};
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
        let mut runs = self.devices[index].running.iter_mut();
        if let Some(run) = runs.find(|run| run.id == id && run.attempt == attempt) {
            run.company = true;
        }
    }

    /// An attempt has returned. What ended is in [`Planner::ended`] then.
    /// False: it had been given up, and nobody waits for its thread.
    pub fn judge(&mut self, now: Duration, index: usize, id: TaskId, attempt: u32, how: AttemptEnd) -> bool {
        let runs = self.devices[index].running.iter();
        let awaited = runs.filter(|run| run.id == id && run.attempt == attempt);
        let awaited = awaited.map(|run| run.watched != DeadlineState::Lost).next().unwrap_or(true);
        self.settle_attempt(now, index, id, attempt, how);
        awaited
    }

    fn settle_attempt(&mut self, now: Duration, index: usize, id: TaskId, attempt: u32, how: AttemptEnd) {
        self.seen.now = now;
        let device = &mut self.devices[index];
        let Some(position) = device.running.iter().position(|run| run.id == id && run.attempt == attempt)
        else {
            return;
        };
        let full = device.running.len() >= device.slots as usize;
        let run = device.running.swap_remove(position);
        let was_poisoned = device.poisoned || run.context < device.renewed;
        if device.poisoned && device.running.is_empty() {
            device.poisoned = false;
            self.renew(index);
        }
        let device = &mut self.devices[index];
        if run.watched == DeadlineState::Lost {
            return self.back_from_nowhere(now, id, attempt, how);
        }
        let took = now.saturating_sub(run.since);
        device.busy += took;
        let outcome = match how {
            AttemptEnd::Ran(outcome) => outcome,
            AttemptEnd::NoQueue(why) => {
                self.not_begun(now, id, attempt);
                return self.retire(index, &why);
            }
        };
        match &outcome {
            Ok(()) => {
                device.done += u64::from(run.role != Role::Guest);
                device.convictions = 0;
            }
            Err(_) => device.failed += 1,
        }
        let Ok(entry) = self.tasks.get_mut(id) else {
            // The task has ended without this attempt.
            self.record(now, index, &run, Ending::Late);
            if let Err(error) = outcome {
                self.blame(index, &run, &error, was_poisoned);
            }
            return;
        };
        entry.copies -= 1;
        entry.ran += took;
        if entry.job.is_none() || entry.signal.is_lost(attempt) {
            let cancelled = entry.signal.is_cancelled();
            self.record(now, index, &run, if cancelled { Ending::Cancelled } else { Ending::Late });
            if let Err(error) = outcome {
                self.blame(index, &run, &error, was_poisoned);
            }
            return self.await_lost(now, id);
        }
        let error = match outcome {
            // Copies that still run are asked to stop; they are too late.
            Ok(()) if entry.signal.commit(attempt).is_ok() => {
                let (class, work) = (entry.class, entry.work);
                let plain = entry.role == Role::Task;
                if plain {
                    self.rates.learn(class, index, work, took.as_secs_f64());
                    self.watch_those_of(class);
                }
                self.record(now, index, &run, Ending::Done);
                self.dismiss(now, id);
                self.clear(index, id);
                if plain {
                    self.watch_throughput(now, index, class, work, full);
                }
                return self.finish(id, Ok(()));
            }
            // It did not look, or had nothing to stop: the cancel was first.
            Ok(()) => Error::Cancelled,
            Err(error) => error,
        };
        let guilty = self.blame(index, &run, &error, was_poisoned);
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        if error.is_suspect() {
            entry.wrong += 1;
            entry.suspects.add(index);
        }
        if entry.copies > 0 {
            entry.signal.renew(attempt);
            entry.failure = Some(error);
            // No other copy comes here, or they could fail here for as long as the first goes on.
            entry.avoided.add(index);
            return self.record(now, index, &run, Ending::Failed);
        }
        if entry.signal.is_cancelled() {
            self.record(now, index, &run, Ending::Cancelled);
            return self.finish(id, Err(Error::Cancelled));
        }
        // This copy may have stopped for one that was first, and then failed.
        let error = match (error, entry.failure.take()) {
            (Error::Cancelled, Some(failure)) => failure,
            (error, _) => error,
        };
        // Asked to stop by its deadline: its code says so with whatever number it likes.
        let error = match (run.watched, error) {
            (DeadlineState::Stopping(_), Error::Cancelled | Error::Callback { .. }) => Error::Deadline {
                what: entry.name(),
                limit_s: entry.deadline.unwrap_or(took).as_secs_f64(),
                device: self.devices[index].info.label(),
            },
            (_, error) => error,
        };
        // Asked to begin anew: whatever it says of itself then is no failure.
        let anew = run.watched == DeadlineState::Late
            && entry.signal.is_stopped(attempt)
            && matches!(error, Error::Cancelled | Error::Callback { .. } | Error::Panic { .. });
        if error == Error::Cancelled && !anew {
            // Its own wish.
            self.record(now, index, &run, Ending::Cancelled);
            return self.finish(id, Err(error));
        }
        let next = if self.stopping {
            NextStep::Fail
        } else if anew {
            NextStep::Again
        } else {
            self.next(now, index, id, &run, &error, guilty)
        };
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        let (name, attempts) = (entry.name(), entry.attempts);
        let place = self.devices[index].info.label();
        if let NextStep::Fail = next {
            self.record(now, index, &run, Ending::Failed);
            self.note(Level::Warn, index, format!("{name} failed on {place}: {error}"));
            return self.finish(id, Err(error));
        }
        entry.signal.renew(attempt);
        self.record(now, index, &run, Ending::Retried);
        let text = format!("{name} is tried again after attempt {attempts} on {place}: {error}");
        self.note(Level::Info, index, text);
        self.counts.retried += 1;
        self.requeue(now, id);
        match next {
            NextStep::Pause(pause) => {
                self.release_holds(id);
                self.pause(id, now + pause);
            }
            _ => self.make_ready(id),
        }
    }

    /// An attempt that was given up has returned after all. If it has done its work before another has, it counts.
    fn back_from_nowhere(&mut self, now: Duration, id: TaskId, attempt: u32, how: AttemptEnd) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        if entry.job.is_none() {
            return;
        }
        match how {
            AttemptEnd::Ran(Ok(())) if entry.signal.commit(attempt).is_ok() => {
                self.dismiss(now, id);
                self.finish(id, Ok(()));
            }
            _ => {
                entry.signal.renew(attempt);
                // Copies may have stopped for it.
                if entry.copies == 0 && entry.state == TaskStatus::Running {
                    self.end_pause(id);
                    self.requeue(now, id);
                    self.make_ready(id);
                }
            }
        }
    }

    /// With slots that nobody has told: perhaps another number of them is better.
    fn watch_throughput(&mut self, now: Duration, index: usize, class: u32, work: Option<f64>, full: bool) {
        let done = self.rates.share(class, work);
        let busy = full && !self.ready.is_empty();
        let device = &mut self.devices[index];
        let Some(search) = &mut device.search else { return };
        let slots = search.ended(now, done, busy);
        if slots != device.slots {
            device.slots = slots;
            // What a slot gets of the device changes with their number.
            device.context += 1;
            let text = format!("{} runs {slots} tasks at a time from now on", device.info.label());
            self.note(Level::Info, index, text);
        }
    }

    /// A task that was given to a device that can't be opened.
    fn not_begun(&mut self, now: Duration, id: TaskId, attempt: u32) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        entry.copies -= 1;
        if entry.job.is_none() || entry.copies > 0 {
            return;
        }
        if entry.signal.is_cancelled() {
            return self.finish(id, Err(Error::Cancelled));
        }
        // What an attempt was asked to do is not meant for another of its number.
        if !entry.signal.is_stopped(attempt) {
            entry.attempts -= 1;
        }
        self.requeue(now, id);
        // The ready list is looked through when the device is retired.
        if let Ok(entry) = self.tasks.get(id) {
            self.ready.insert(entry, id);
        }
    }

    /// None of its attempts is left: it is as one that has not begun, and not ready yet.
    pub fn requeue(&mut self, now: Duration, id: TaskId) {
        let Ok(entry) = self.tasks.get_mut(id) else { return };
        // A late one was ready while it ran, for another device.
        self.ready.remove(entry);
        entry.state = TaskStatus::Queued;
        entry.since = now;
        self.counts.running -= 1;
        self.counts.queued += 1;
        let guest = u64::from(entry.role == Role::Guest);
        self.counts.guests.running -= guest;
        self.counts.guests.queued += guest;
    }

    fn next(
        &mut self,
        now: Duration,
        index: usize,
        id: TaskId,
        run: &Attempt,
        error: &Error,
        guilty: bool,
    ) -> NextStep {
        let limit = self.devices.iter().map(|device| device.ledger.limit()).max().unwrap_or(0);
        let Ok(entry) = self.tasks.get_mut(id) else { return NextStep::Fail };
        match error {
            Error::Device { .. } if guilty => NextStep::Fail,
            Error::Device { .. } => {
                entry.avoided.add(index);
                NextStep::Again
            }
            error if error.is_shortage() && run.company && !entry.alone => {
                entry.alone = true;
                self.alone += 1;
                // What runs here ends, and nothing else starts before.
                self.devices[index].hold = Some(id);
                let fewer = (self.devices[index].running.len() as u32).max(1);
                self.devices[index].throttle = Some((fewer, now + THROTTLE));
                NextStep::Again
            }
            // Somebody else has it; perhaps not for long.
            Error::Busy { .. } => {
                entry.refused.add(index);
                self.elsewhere_or_later(id)
            }
            // What would not fit an empty device will not fit later.
            Error::NoMemory { needed, .. } if *needed > limit => NextStep::Fail,
            error if error.is_shortage() => {
                entry.refused.add(index);
                self.elsewhere_or_later(id)
            }
            error if error.is_suspect() && entry.wrong >= WRONG_ATTEMPTS => NextStep::Fail,
            error if error.is_suspect() => {
                entry.avoided.add(index);
                NextStep::Again
            }
            error if error.is_final() => NextStep::Fail,
            _ if entry.retries > 0 => {
                entry.retries -= 1;
                entry.avoided = DeviceMask::only(index);
                NextStep::Again
            }
            _ => NextStep::Fail,
        }
    }

    /// On a device that has not refused it, or, when all have, after a pause, some times.
    fn elsewhere_or_later(&mut self, id: TaskId) -> NextStep {
        let entry = &self.tasks.get(id);
        let elsewhere = entry.as_ref().is_ok_and(|entry| self.eligible(entry) != DeviceMask::NONE);
        let Ok(entry) = self.tasks.get_mut(id) else { return NextStep::Fail };
        if elsewhere {
            return NextStep::Again;
        }
        let Some(&pause) = PAUSES.get(entry.pauses as usize) else { return NextStep::Fail };
        entry.pauses += 1;
        entry.refused = DeviceMask::NONE;
        NextStep::Pause(pause)
    }
}
