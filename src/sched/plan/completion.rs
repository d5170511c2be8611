//! The end of an attempt: what becomes of its task and of its device, and the trace of it.
//! `docs/scheduling.md` has the rules as a table.
//!
//! A task whose other copy still runs goes on with that.

use std::time::Duration;

use log::Level;

use super::{Attempt, DeadlineState, Effects, FitCheck, Planner, TaskRecord, TaskState};
use crate::error::{Error, Result};
use crate::sched::base::{DeviceMask, Role, TaskId};
use crate::sched::observe::{Ending, Span, TraceEvent};

/// The way in which an attempt ended.
pub enum AttemptEnd {
    Ran(Result<()>),
    /// The device could not be opened or made current; the job was not called.
    NoQueue(String),
}

impl Planner {
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
        let position = device.attempts.iter().position(|run| run.id == id && run.number == attempt);
        let Some(position) = position else { return true };
        let run = device.attempts.swap_remove(position);
        device.return_slot();
        self.renew_if_left(index, effects);
        let is_abandoned = run.deadline_state == DeadlineState::Lost;
        if !is_abandoned {
            self.end_attempt(run, how, effects);
        }
        !is_abandoned
    }

    fn end_attempt(&mut self, run: Attempt, how: AttemptEnd, effects: &mut Effects) {
        let (now, id) = (effects.now, run.id);
        let device = &mut self.devices[run.device];
        let took = now.saturating_sub(run.started);
        device.busy += took;
        let outcome = match how {
            AttemptEnd::Ran(outcome) => outcome,
            AttemptEnd::NoQueue(why) => {
                self.attempt_not_started(id, run.number, effects);
                return self.retire(run.device, &why, effects);
            }
        };
        match &outcome {
            Ok(()) => {
                device.done += u64::from(!run.role.is_helper());
                device.fault_count = 0;
                device.refusal = None;
            }
            Err(_) => device.failed += 1,
        }
        // The task may have ended without this attempt, or another may have committed.
        let record = self.tasks.get_mut(id).ok();
        let cancelled = record.as_ref().is_some_and(|record| record.signal.is_cancelled());
        let late = record.is_none_or(|record| {
            record.live_attempts -= 1;
            !record.state.is_open() || record.signal.is_lost(run.number)
        });
        if late {
            self.record(now, &run, if cancelled { Ending::Cancelled } else { Ending::Late });
            if let Err(error) = outcome {
                self.record_device_error(&run, &error, effects);
                self.late_attempt_failed(&run, &error, effects);
            }
            return;
        }
        match outcome {
            Ok(()) if self.tasks.get(id).is_ok_and(|record| record.signal.commit(run.number).is_ok()) => {
                self.attempt_succeeded(&run, effects);
            }
            // The job did not poll, or had nothing to stop: the cancel was first.
            Ok(()) => self.attempt_failed(&run, Error::Cancelled, effects),
            Err(error) => self.attempt_failed(&run, error, effects),
        }
    }

    /// The attempt has committed. The task ends well; its other attempts are asked to stop.
    fn attempt_succeeded(&mut self, run: &Attempt, effects: &mut Effects) {
        let (now, id, plain) = (effects.now, run.id, run.role == Role::Task);
        let took = now.saturating_sub(run.started).as_secs_f64();
        if !run.role.is_helper() {
            let (count, seconds) = &mut self.estimator.table.attempts;
            (*count, *seconds) = (*count + 1, *seconds + took);
        }
        if plain {
            self.estimator.record_sample(run.class, run.device, run.work, took);
            self.set_deadlines_of_class(run.class);
        }
        self.record(now, run, Ending::Done);
        if self.tasks.get(id).is_ok_and(|record| record.live_attempts > 0) {
            self.stop_losers(now, id);
        }
        if plain {
            self.tune_concurrency(run, effects);
        }
        self.end_task(id, Ok(()), effects);
        // After the end: if a device is retired now, ready tasks without another fail.
        self.count_wrong_results(id, effects);
    }

    /// The attempt has failed, or was cancelled. The task ends, is tried again, or goes on with
    /// another copy.
    fn attempt_failed(&mut self, run: &Attempt, error: Error, effects: &mut Effects) {
        let (now, id) = (effects.now, run.id);
        let is_cause = self.record_device_error(run, &error, effects);
        let Ok(record) = self.tasks.get_mut(id) else { return };
        if error.is_suspect() {
            record.wrong_results += 1;
            record.suspect_devices.add(run.device);
        }
        if record.live_attempts > 0 && !is_cause {
            record.reopen(run.number);
            if error != Error::Cancelled {
                record.copy_failure = Some(Box::new((run.device, error)));
            }
            // No other copy comes here: it could fail here for as long as the first attempt runs.
            record.avoided_devices.add(run.device);
            return self.record(now, run, Ending::Failed);
        }
        // A cancel after the commit counts now.
        let was_cancelled = record.cancel_requested || record.signal.is_cancelled();
        let (index, error) =
            if was_cancelled { (run.device, error) } else { self.task_error(now, run, error) };
        let Ok(record) = self.tasks.get_mut(id) else { return };
        // Asked to begin again: its own error is no failure.
        let restart = run.deadline_state == DeadlineState::Late
            && record.signal.is_stopped(run.number)
            && matches!(
                error,
                Error::Cancelled | Error::Callback { .. } | Error::Reported { .. } | Error::Panic { .. }
            );
        if was_cancelled || error == Error::Cancelled && !restart {
            self.record(now, run, Ending::Cancelled);
            return self.end_task(id, Err(Error::Cancelled), effects);
        }
        let again = !self.stopping && (restart || !is_cause && self.is_retried(run, index, &error, effects));
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let (name, attempts) = (record.name(), record.attempts_begun);
        let place = self.devices[index].info.label();
        if !again {
            self.record(now, run, Ending::Failed);
            let text = format!("{name} failed on {place}: {error}");
            self.note(self.policy.failure_level, index, text, effects);
            return self.end_task(id, Err(error), effects);
        }
        record.signal.reopen(run.number);
        self.record(now, run, Ending::Retried);
        let text = format!("{name} is retried after attempt {attempts} on {place}: {error}");
        self.note(Level::Info, index, text, effects);
        self.counts.retried += 1;
        self.change_state(now, id, TaskState::Blocked);
        self.make_ready(id, effects);
    }

    /// Returns the error of a task whose last attempt returned this one, and the device of the error.
    fn task_error(&mut self, now: Duration, run: &Attempt, error: Error) -> (usize, Error) {
        let Ok(record) = self.tasks.get_mut(run.id) else { return (run.device, error) };
        let (index, error) = match (error, record.copy_failure.take()) {
            // This copy may have stopped for one that was first, and then failed.
            (Error::Cancelled, Some(failure)) => *failure,
            (error, _) => (run.device, error),
        };
        match (run.deadline_state, error) {
            // Asked to stop by its deadline: the job's own code for that is any number.
            (
                DeadlineState::Stopping(_),
                Error::Cancelled | Error::Callback { .. } | Error::Reported { .. },
            ) => {
                let limit_s = record.deadline.unwrap_or(now.saturating_sub(run.started)).as_secs_f64();
                let device = self.devices[run.device].info.label();
                (run.device, Error::Deadline { what: record.name(), limit_s, device })
            }
            (_, error) if error.is_shortage() && record.large_enough_devices == DeviceMask::NONE => {
                let Ok(record) = self.tasks.get(run.id) else { return (index, error) };
                (index, self.too_large(record.name(), record.bytes, record.devices, &record.backends))
            }
            (_, error) => (index, error),
        }
    }

    /// Reports the end to the device's concurrency tuner, which may change the number of slots.
    fn tune_concurrency(&mut self, run: &Attempt, effects: &mut Effects) {
        let device = &mut self.devices[run.device];
        let Some(tuner) = &mut device.tuner else { return };
        let done = self.estimator.relative_work(run.class, run.work);
        // The attempt is not counted any more.
        let busy = device.attempts.len() + 1 >= device.slots as usize && !self.ready.is_empty();
        let slots = tuner.task_ended(&self.policy, effects.now, done, busy);
        if slots != device.slots {
            device.slots = slots;
            // Each slot's share of the device changes with their number.
            device.context += 1;
            let text = format!("{} now runs {slots} tasks at a time", device.info.label());
            self.note(Level::Info, run.device, text, effects);
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
        self.change_state(effects.now, id, TaskState::Blocked);
        self.change_state(effects.now, id, TaskState::Ready);
    }

    /// Decides whether a task is tried again after its last attempt. `index`: the error's device.
    fn is_retried(&mut self, run: &Attempt, index: usize, error: &Error, effects: &mut Effects) -> bool {
        let (now, id) = (effects.now, run.id);
        let Ok(record) = self.tasks.get(id) else { return false };
        let may = self.possible(record);
        let possible =
            self.devices.iter().enumerate().filter(|&(other, _)| other == index || may.contains(other));
        let limit = possible.map(|(_, device)| device.ledger.limit()).max().unwrap_or(0);
        let Ok(record) = self.tasks.get_mut(id) else { return false };
        match error {
            Error::Device { .. } => record.shun(index),
            // No task gets a context there.
            Error::Busy { .. } | Error::NoContext { .. } => {
                return self.refused((id, index), 0, error, effects);
            }
            // A task that would not fit an empty device will not fit later.
            Error::NoMemory { needed, .. } if *needed > limit => return false,
            error
                if error.is_shortage()
                    && run.shared_device
                    && run.device == index
                    && !record.exclusive
                    && record.large_enough_devices.contains(index) =>
            {
                record.exclusive = true;
                self.exclusive_tasks += 1;
                // All attempts here end, and none begins, before this task does.
                self.devices[index].reserved_for = Some(id);
                let fewer = (self.devices[index].attempts.len() as u32).max(1);
                // The new one ends last, so it covers those that allow more.
                self.devices[index].throttles.retain(|throttle| throttle.0 < fewer);
                self.devices[index].throttles.push((fewer, now.saturating_add(self.policy.throttle)));
            }
            // Nothing that ends makes room.
            Error::ProcessLimit { needed, limit, .. } if needed > limit => return false,
            error if error.is_shortage() => {
                let stated = record.bytes.on(self.devices[index].info.backend);
                let needed = match error {
                    Error::NoMemory { needed, .. } if stated.max(*needed) > 0 => *needed,
                    Error::ProcessLimit { needed, .. } => *needed,
                    // Nothing tells which other tasks the device would refuse: it holds back none.
                    _ => u64::MAX,
                };
                record.refused_bytes = record.refused_bytes.max(needed);
                return self.refused((id, index), stated.max(needed), error, effects);
            }
            error if error.is_suspect() => {
                record.shun(index);
                return record.wrong_results < self.policy.wrong_attempts;
            }
            error if error.is_final() || record.retries == 0 => return false,
            _ => {
                record.retries -= 1;
                record.avoided_devices = DeviceMask::only(index);
                record.shuns = false;
            }
        }
        true
    }

    /// Counts another refusal of the task that would find too little memory, if there is one. Returns
    /// false if it was the last.
    pub(super) fn refused_before_attempt(&mut self, fitting: &FitCheck<'_>, effects: &mut Effects) -> bool {
        let (index, there) = (fitting.index, fitting.free.unwrap_or(0));
        let Some((id, record)) = fitting.refused.and_then(|id| Some((id, self.tasks.get(id).ok()?))) else {
            return false;
        };
        let device = &self.devices[index].info;
        let (needed, place) = (record.bytes.on(device.backend), device.label());
        // The message names the task already.
        let error = Error::NoMemory { what: "it".into(), needed, place, there };
        self.refused((id, index), needed, &error, effects)
            && self.devices[index].backs_off(effects.now, needed)
    }

    /// A device has refused a task of so many bytes, and backs off. The task goes to a device that
    /// has not; once all have, it waits until a back-off is over, as often as the back-off has
    /// steps, or up to `rounds_beside_others` times while other processes have what it needs.
    /// Returns false after that. A device that refuses it again, while others are busy, has the
    /// longest back-off.
    fn refused(&mut self, at: (TaskId, usize), bytes: u64, error: &Error, effects: &mut Effects) -> bool {
        let (id, index) = at;
        let Ok(record) = self.tasks.get_mut(id) else { return false };
        let backoff = &self.policy.backoff;
        let most = backoff.len();
        let again = record.refused_devices.contains(index);
        let wait = backoff[if again { most - 1 } else { record.refused_rounds.min(most - 1) }];
        self.devices[index].refuse(effects.now, effects.now.saturating_add(wait), bytes);
        record.refused_devices.add(index);
        let by_others = match error {
            Error::Busy { .. } => true,
            Error::NoMemory { there, .. } => bytes < u64::MAX && bytes > *there,
            _ => false,
        };
        if by_others {
            record.unexplained_rounds = 0;
        }
        self.devices[index].refusal = Some(match error {
            Error::Busy { .. } => "used by another process, or closed to all",
            _ if by_others => "its memory is used by other processes",
            Error::Resources { .. } => "its driver is short of resources",
            _ => "it is short of memory",
        });
        let others = record.large_enough_devices.without(self.retired).without(record.refused_devices);
        if others != DeviceMask::NONE {
            return true;
        }
        // A range that needs the helper tries all devices itself, as often as a task does.
        if record.role.is_helper() && self.ranges_in_need > 0 {
            return false;
        }
        record.refused_rounds += 1;
        record.unexplained_rounds += 1;
        let (rounds, unexplained) = (record.refused_rounds, record.unexplained_rounds);
        if rounds > self.policy.rounds_beside_others || unexplained > most {
            return false;
        }
        record.refused_devices = DeviceMask::NONE;
        self.release_reservations(id);
        if unexplained == 1 && rounds == most && rounds < self.policy.rounds_beside_others {
            let name = self.tasks.get(id).map(TaskRecord::name).unwrap_or_default();
            let for_what = if matches!(error, Error::Busy { .. }) { "other processes" } else { "memory" };
            let hours = wait.as_secs_f64() * self.policy.rounds_beside_others as f64 / 3600.0;
            let text = format!("{name} waits for {for_what}, {hours:.1} h at most: {error}");
            self.note(Level::Warn, index, text, effects);
        }
        true
    }

    /// Logs a text, and shows it in the trace of a device.
    pub(super) fn note(&self, level: Level, device: usize, text: String, effects: &mut Effects) {
        if let Some(trace) = &self.trace {
            trace.record(TraceEvent::Flag(effects.now, device, text.clone()));
        }
        effects.log.push((level, text));
    }

    /// Adds an attempt that is over to the trace.
    pub fn record(&self, now: Duration, run: &Attempt, ending: Ending) {
        if let Some(trace) = &self.trace {
            trace.record(TraceEvent::Attempt(span(run, now, ending)));
            self.record_leased(now, run.device);
        }
    }

    /// Adds the leased bytes of a device to the trace.
    pub fn record_leased(&self, now: Duration, device: usize) {
        if let Some(trace) = &self.trace {
            let bytes = self.devices[device].attempts.iter().map(|run| run.lease.bytes()).sum();
            trace.record(TraceEvent::Leased(now, device, bytes));
        }
    }
}

pub(super) fn span(run: &Attempt, end: Duration, ending: Ending) -> Span {
    Span {
        task: run.id,
        label: run.label.clone(),
        class: run.class,
        device: run.device,
        slot: run.slot,
        attempt: run.number,
        begin: run.started,
        end,
        ending,
        bytes: run.lease.bytes(),
        work: run.work,
    }
}
