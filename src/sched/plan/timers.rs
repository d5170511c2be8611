//! Attempts become late, get copies on other devices, or are abandoned; the priorities of waiting
//! tasks rise. `docs/scheduling.md` has the rules.

use std::time::Duration;

use log::Level;

use super::{Attempt, DeadlineState, Effects, FitCheck, Planner, TaskRecord, TaskState};
use crate::error::Error;
use crate::sched::base::{Role, TaskId};
use crate::sched::observe::Ending;

impl Planner {
    /// Returns when [`Planner::advance`] is due next, if nothing happens before.
    pub fn next_deadline(&self, now: Duration) -> Option<Duration> {
        self.first_deadline().into_iter().chain(self.next_reconsideration(now)).min()
    }

    /// Returns the first deadline that `advance` has not handled. It takes no time: a driver may
    /// read it only after the deadline, which must still be due then.
    fn first_deadline(&self) -> Option<Duration> {
        let mut soonest = None::<Duration>;
        let mut due = |until: Duration| soonest = Some(soonest.map_or(until, |other| other.min(until)));
        for device in &self.devices {
            device.attempts.iter().filter_map(|run| run.deadline_state.due()).for_each(&mut due);
            device.backoff.iter().for_each(|backoff| due(backoff.until));
            if !self.ready.is_empty() {
                device.shortage.iter().for_each(|short| due(short.until));
                device.throttles.iter().for_each(|&(_, until)| due(until));
            }
        }
        soonest
    }

    /// Returns when an idle device that declined a task should reconsider, because others are late.
    fn next_reconsideration(&self, now: Duration) -> Option<Duration> {
        let idle = self.devices.iter().filter(|device| device.has_room(now)).count();
        if idle == 0 || self.devices.len() == 1 {
            return None;
        }
        let mut soonest = f64::INFINITY;
        for device in &self.devices {
            let other = idle > usize::from(device.has_room(now));
            for run in device.attempts.iter().filter(|_| other) {
                let alone = |record: &TaskRecord| record.idempotent && record.live_attempts == 1;
                if !self.ready.is_empty() || self.tasks.get(run.id).is_ok_and(alone) {
                    soonest = soonest.min(self.remaining_seconds(now, run).unwrap_or(f64::INFINITY));
                }
            }
        }
        now.checked_add(Duration::try_from_secs_f64(soonest).ok()?.max(self.policy.reconsider_least))
    }

    /// Does everything that is due.
    pub fn advance(&mut self, effects: &mut Effects) {
        let now = effects.now;
        for device in &mut self.devices {
            device.backoff = device.backoff.filter(|backoff| now < backoff.until);
            device.shortage = device.shortage.filter(|short| now < short.until);
            device.throttles.retain(|&(_, until)| now < until);
        }
        for index in 0..self.devices.len() {
            for position in 0..self.devices[index].attempts.len() {
                self.check_attempt(index, position, effects);
            }
        }
        debug_assert!(self.first_deadline().is_none_or(|until| now < until), "a deadline stays due");
    }

    /// A device has created its context or compiled kernels until `prepared`: the time limits of
    /// its attempts begin then. A shutdown waits no longer for it.
    pub fn postpone_deadlines(&mut self, index: usize, prepared: Duration) {
        self.update_deadlines(|planner, run| {
            let preparation = run.started..run.started.saturating_add(planner.policy.preparation);
            if run.device != index || planner.stopping || !preparation.contains(&prepared) {
                return None;
            }
            let deadline = planner.tasks.get(run.id).ok().and_then(|record| record.deadline);
            match run.deadline_state {
                DeadlineState::InTime(_) => Some(DeadlineState::InTime(prepared.checked_add(deadline?))),
                DeadlineState::Stopping(until) => {
                    let least = prepared.saturating_add(planner.grace(deadline));
                    Some(DeadlineState::Stopping(until.max(least)))
                }
                DeadlineState::Late | DeadlineState::Lost => None,
            }
        });
    }

    /// Sets the deadlines of attempts that began before the usual duration of their class was
    /// known.
    pub fn set_deadlines_of_class(&mut self, class: u32) {
        self.update_deadlines(|planner, run| {
            if run.class != class || run.deadline_state != DeadlineState::InTime(None) {
                return None;
            }
            let late = planner.late_after(run.device, run.id);
            Some(DeadlineState::InTime(late.and_then(|late| run.started.checked_add(late))))
        });
    }

    /// Sets the state of those attempts for which `change` returns one.
    fn update_deadlines(&mut self, change: impl Fn(&Planner, &Attempt) -> Option<DeadlineState>) {
        for index in 0..self.devices.len() {
            for position in 0..self.devices[index].attempts.len() {
                if let Some(state) = change(self, &self.devices[index].attempts[position]) {
                    self.devices[index].attempts[position].deadline_state = state;
                }
            }
        }
    }

    /// Returns the time to return of an attempt that was asked to stop.
    fn grace(&self, deadline: Option<Duration>) -> Duration {
        self.policy.grace.max(deadline.unwrap_or_default())
    }

    fn check_attempt(&mut self, index: usize, position: usize, effects: &mut Effects) {
        let now = effects.now;
        let Some(run) = self.devices[index].attempts.get(position) else { return };
        let (id, attempt, state) = (run.id, run.number, run.deadline_state);
        let ran = now.saturating_sub(run.started);
        // A task that ended without this attempt has asked it to stop.
        let goes_on = |record: &&TaskRecord| {
            record.state.is_open()
                && !record.signal.is_stopped(attempt)
                && !matches!(state, DeadlineState::Stopping(_))
        };
        let Some(record) = self.tasks.get(id).ok().filter(goes_on) else {
            return self.check_stopping(index, position, effects);
        };
        if state.due().is_none_or(|until| now < until) {
            return;
        }
        let (name, place) = (record.name(), self.devices[index].info.label());
        if record.deadline.is_some() {
            record.signal.stop(attempt);
            let until = now.saturating_add(self.grace(record.deadline));
            self.stop_until(id, attempt, until);
            let ran = ran.as_millis() as f64 / 1e3;
            let text = format!("{name} has run for {ran} s on {place}, and is asked to stop");
            return self.note(Level::Warn, index, text, effects);
        }
        let open = !record.signal.is_decided() && !self.stopping;
        let twice = record.idempotent && record.live_attempts == 1 && open;
        let restarts = twice && self.should_restart(now, index, id, ran.as_secs_f64());
        self.devices[index].attempts[position].deadline_state = DeadlineState::Late;
        let Ok(record) = self.tasks.get_mut(id) else { return };
        if restarts {
            record.restarted = true;
            record.signal.stop(attempt);
        }
        if twice && !restarts {
            self.change_state(now, id, TaskState::Running { speculate: true });
        }
        let then = match (restarts, twice) {
            (true, _) => "; it is restarted",
            (_, true) => "; a copy may start elsewhere",
            _ => "",
        };
        let factor = self.policy.late_factor;
        // Three digits: some classes take microseconds.
        let text = format!(
            "{name} has run for {ran:.2?} on {place}, over {factor} times as long as usual in its class{then}"
        );
        self.note(Level::Warn, index, text, effects);
    }

    /// Returns true if a late attempt should stop and begin again: it runs on the fastest device by
    /// far, where a copy on any other would take longer than it has run. Once per task; the second
    /// time the task itself is slow.
    fn should_restart(&self, now: Duration, index: usize, id: TaskId, ran: f64) -> bool {
        let Ok(record) = self.tasks.get(id) else { return false };
        let seconds = |other| self.estimator.seconds(record.class, other, record.work);
        let may = self.eligible(now, record);
        let others = (0..self.devices.len()).filter(|&other| other != index && may.contains(other));
        let soonest = others.filter_map(seconds).reduce(f64::min);
        record.work.is_some() && !record.restarted && soonest.is_some_and(|soonest| soonest > ran)
    }

    /// Sets the time by which the other attempts of a task that ended well must return. Each has as
    /// long again as it has run, and at least a multiple of its expected duration: code that cannot
    /// stop early does not hang.
    pub fn stop_losers(&mut self, now: Duration, id: TaskId) {
        self.update_deadlines(|planner, run| {
            if run.id != id || run.deadline_state == DeadlineState::Lost {
                return None;
            }
            let expected = planner.policy.loser_time * planner.attempt_seconds(run).unwrap_or(0.0);
            let whole = Duration::try_from_secs_f64(expected).unwrap_or_default();
            let grace = now.saturating_add(now.saturating_sub(run.started).max(planner.policy.grace));
            Some(DeadlineState::Stopping(grace.max(run.started.saturating_add(whole))))
        });
    }

    /// Abandons an attempt that was asked to stop and has not returned in time.
    fn check_stopping(&mut self, index: usize, position: usize, effects: &mut Effects) {
        let now = effects.now;
        let Some(run) = self.devices[index].attempts.get(position) else { return };
        let (id, attempt, ran) = (run.id, run.number, now.saturating_sub(run.started));
        let (role, deadline) = (run.role, self.tasks.get(id).ok().and_then(|record| record.deadline));
        let next = match run.deadline_state {
            DeadlineState::Lost => return,
            DeadlineState::Stopping(until) if now < until => return,
            // Its device is not hung, and goes on meanwhile.
            DeadlineState::Stopping(_) if run.awaits_tasks => {
                DeadlineState::Stopping(now.saturating_add(self.policy.grace))
            }
            // The owner of a range may only wait for a helper that does not return: that one is
            // abandoned first.
            DeadlineState::Stopping(_) if self.has_stopping_helper(id) => return self.prolong_owner(now, id),
            DeadlineState::Stopping(_) => DeadlineState::Lost,
            DeadlineState::InTime(Some(until)) if now < until => return,
            DeadlineState::InTime(_) | DeadlineState::Late => match deadline {
                // Without a deadline, a cancelled attempt that does not poll is left alone.
                None => DeadlineState::Late,
                Some(_) => DeadlineState::Stopping(now.saturating_add(self.grace(deadline))),
            },
        };
        self.devices[index].attempts[position].deadline_state = next;
        match next {
            DeadlineState::Lost => {}
            DeadlineState::Stopping(until) => return self.stop_until(id, attempt, until),
            DeadlineState::InTime(_) | DeadlineState::Late => return,
        }
        if let Role::Helper(owner) = role {
            self.prolong_owner(now, owner);
            effects.owners.push(owner);
        }
        let (ran, place) = (ran.as_secs_f64(), self.devices[index].info.label());
        self.record(now, &self.devices[index].attempts[position], Ending::GivenUp);
        let limit_s = deadline.map_or(ran, |deadline| deadline.as_secs_f64());
        effects.abandoned.push((id, attempt, limit_s));
        self.abandon_attempt(index, id, attempt, effects);
        let why = format!("an attempt on it has not returned after {ran:.1} s ({place})");
        self.retire(index, &why, effects);
    }

    /// An attempt was asked to stop, and must return before `until`. So must earlier ones, which the
    /// request reaches, too, and the helpers of a range, which have no deadline of their own.
    fn stop_until(&mut self, id: TaskId, attempt: u32, until: Duration) {
        self.update_deadlines(|_, run| {
            let is_stopped = matches!(run.deadline_state, DeadlineState::Stopping(_) | DeadlineState::Lost);
            let is_meant = run.id == id && run.number <= attempt || run.role == Role::Helper(id);
            (is_meant && !is_stopped).then_some(DeadlineState::Stopping(until))
        });
    }

    fn has_stopping_helper(&self, owner: TaskId) -> bool {
        self.devices.iter().flat_map(|device| &device.attempts).any(|run| {
            matches!(run.deadline_state, DeadlineState::Stopping(_)) && run.role == Role::Helper(owner)
        })
    }

    /// Gives the owner of a range, whose helper is abandoned, a while to return.
    fn prolong_owner(&mut self, now: Duration, owner: TaskId) {
        let deadline = self.tasks.get(owner).ok().and_then(|record| record.deadline);
        let until = now.saturating_add(self.grace(deadline));
        self.update_deadlines(|_, run| {
            let waits = run.id == owner && matches!(run.deadline_state, DeadlineState::Stopping(_));
            waits.then_some(DeadlineState::Stopping(until))
        });
    }

    /// Decides what becomes of the task of an abandoned attempt.
    fn abandon_attempt(&mut self, index: usize, id: TaskId, attempt: u32, effects: &mut Effects) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        record.live_attempts -= 1;
        // An attempt that has committed may have written; no other counts any more.
        let committed = record.signal.bar(attempt);
        if !record.state.is_open() || record.live_attempts > 0 && !committed {
            return;
        }
        if record.idempotent && !record.restarted && !record.signal.is_decided() && !self.stopping {
            record.restarted = true;
            record.avoided_devices.add(index);
            self.counts.retried += 1;
            self.change_state(effects.now, id, TaskState::Blocked);
            return self.make_ready(id, effects);
        }
        self.fail_overdue(index, id, effects);
    }

    /// Fails a task whose attempt on a device does not return.
    fn fail_overdue(&mut self, index: usize, id: TaskId, effects: &mut Effects) {
        let Ok(record) = self.tasks.get(id) else { return };
        let limit_s = record.deadline.unwrap_or_default().as_secs_f64();
        let device = self.devices[index].info.label();
        let error = Error::Deadline { what: record.name(), limit_s, device };
        self.end_task(id, Err(error), effects);
    }

    /// Raises the priorities of tasks that have waited long.
    pub fn age_priorities(&mut self, now: Duration) {
        let Some(((first, _), (last, _))) = self.ready.first().zip(self.ready.last()) else { return };
        let highest = first.priority();
        if last.priority() == highest {
            return;
        }
        let step = self.ageing_step();
        if step.is_zero() {
            return;
        }
        let apart = (step / 10).max(self.policy.ageing_interval.saturating_mul(self.ready.len() as u32));
        if now.saturating_sub(self.aged_at) < apart {
            return;
        }
        self.aged_at = now;
        let low: Vec<TaskId> =
            self.ready.iter().filter(|(rank, _)| rank.priority() < highest).map(|(_, id)| id).collect();
        for id in low {
            let Ok(record) = self.tasks.get_mut(id) else { continue };
            let due = (now.saturating_sub(record.since).as_secs_f64() / step.as_secs_f64()) as u32;
            let gained =
                due.saturating_sub(record.priority_gain).min(highest.abs_diff(record.rank.priority()));
            if gained > 0 {
                self.ready.remove(record);
                record.priority_gain += gained;
                record.rank = record.rank.raised(gained);
                self.ready.insert(record, id);
            }
        }
    }

    /// Returns the time in which a waiting task gains one priority. Tasks that arrive within it,
    /// from the first, are of one period. Zero: not known.
    pub(super) fn ageing_step(&self) -> Duration {
        let mean = self.estimator.table.mean_seconds().unwrap_or(0.0);
        Duration::try_from_secs_f64(self.policy.ageing * mean).unwrap_or_default()
    }
}

/// Copies of idempotent tasks.
impl Planner {
    /// Returns the running task whose copy on this device gains the most time, if any gains.
    pub fn choose_copy(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        let index = fitting.index;
        if self.is_left_to_peers(index) {
            return None;
        }
        let mut best: Option<(f64, TaskId)> = None;
        let others = self.devices.iter().enumerate().filter(|&(other, _)| other != index);
        for run in others.flat_map(|(_, device)| &device.attempts) {
            let Ok(record) = self.tasks.get(run.id) else { continue };
            let gain = self.may_copy(now, record, run, index).then(|| self.gain(now, index, run, record));
            if let Some(gain) = gain.flatten().filter(|&gain| gain > 0.0)
                && best.is_none_or(|(most, _)| gain > most)
            {
                best = Some((gain, run.id));
            }
        }
        let (_, id) = best?;
        let record = self.tasks.get(id).ok()?;
        fitting.fits(self, id, record)
    }

    /// Returns true if the task of an attempt on another device may have a copy here.
    fn may_copy(&self, now: Duration, record: &TaskRecord, run: &Attempt, index: usize) -> bool {
        record.idempotent
            && (1..self.policy.copies).contains(&record.live_attempts)
            && record.state == (TaskState::Running { speculate: false })
            && !record.avoided_devices.contains(index)
            && self.eligible(now, record).contains(index)
            && (is_alone(record, run) && !record.signal.is_decided() && !record.role.is_helper()
                || self.may_begin(now, record, run.id, index))
    }

    /// Returns the seconds that a copy here should gain. As long as one attempt is not odd, the
    /// others may be on bad devices, and a copy takes its estimate. When all are odd, the task
    /// itself takes longer, everywhere.
    fn gain(&self, now: Duration, index: usize, attempt: &Attempt, record: &TaskRecord) -> Option<f64> {
        let (has_work, seconds) =
            (record.work.is_some(), self.estimator.unit_scale_of(record.class).is_some());
        let here = self.estimator.seconds(record.class, index, record.work)?;
        let times = |run: &Attempt| {
            // Priors are no seconds: by them each attempt would seem late as soon as it has begun.
            let elapsed = if seconds { now.saturating_sub(run.started).as_secs_f64() } else { 0.0 };
            Some((self.attempt_seconds(run)?, elapsed))
        };
        let runs = if is_alone(record, attempt) {
            vec![times(attempt)?]
        } else {
            let all = self.devices.iter().flat_map(|device| &device.attempts);
            let same = |run: &&Attempt| run.id == attempt.id && run.deadline_state != DeadlineState::Lost;
            all.filter(same).map(times).collect::<Option<Vec<_>>>()?
        };
        // A third copy starts only on a device much faster than those of the first two.
        if runs.len() > 1 && runs.iter().any(|&(expected, _)| self.policy.near * here > expected) {
            return None;
        }
        let rest = |&(expected, elapsed): &(f64, f64)| self.policy.remaining(expected, elapsed, has_work);
        let is_odd = |&(expected, elapsed): &(f64, f64)| self.policy.is_odd(expected, elapsed, has_work);
        if runs.len() < 2 || !runs.iter().all(is_odd) {
            return Some(self.policy.copy_gain * runs.iter().map(rest).fold(f64::INFINITY, f64::min) - here);
        }
        let slowdown = runs.iter().map(|run| (run.1 + rest(run)) / run.0).fold(1.0, f64::max);
        let left = runs.iter().map(|(expected, elapsed)| expected * slowdown - elapsed);
        Some(left.fold(f64::INFINITY, f64::min) - here * slowdown)
    }
}

/// Returns true if no other attempt at the task runs. An abandoned one is on a retired device.
fn is_alone(record: &TaskRecord, run: &Attempt) -> bool {
    record.live_attempts == 1 && run.deadline_state != DeadlineState::Lost
}
