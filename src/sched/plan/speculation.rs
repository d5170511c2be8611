//! Second and third copies of idempotent tasks.

use std::time::Duration;

use super::{Attempt, DeadlineState, FitCheck, Planner, TaskRecord, TaskState};
use crate::sched::base::{Role, TaskId};

impl Planner {
    /// Returns the running task whose copy on this device gains the most time, if any gains.
    pub fn choose_copy(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        let index = fitting.index;
        // On a shared device, idle slots are for other processes; a copy would open a context there.
        if self.shares(index) && self.has_peers {
            return None;
        }
        let mut best: Option<(f64, TaskId)> = None;
        let others = self.devices.iter().enumerate().filter(|&(other, _)| other != index);
        for run in others.flat_map(|(_, device)| &device.attempts) {
            let Ok(record) = self.tasks.get(run.id) else { continue };
            let gain = self.may_copy(record, run, index).then(|| self.gain(now, index, run, record));
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
    fn may_copy(&self, record: &TaskRecord, run: &Attempt, index: usize) -> bool {
        record.idempotent
            && (1..self.policy.copies).contains(&record.live_attempts)
            && record.state == (TaskState::Running { speculate: false })
            && !record.avoided_devices.contains(index)
            && self.eligible(record).contains(index)
            && (is_alone(record, run) && !record.signal.is_decided() && record.role != Role::Helper
                || self.may_begin(record, run.id, index))
    }

    /// Returns the seconds that a copy here should gain. As long as one attempt is not odd, the others may be on bad
    /// devices, and a copy takes its estimate. When all are odd, the task itself takes longer, everywhere.
    fn gain(&self, now: Duration, index: usize, attempt: &Attempt, record: &TaskRecord) -> Option<f64> {
        let (told, seconds) = (record.work.is_some(), self.estimator.unit_scale_of(record.class).is_some());
        let here = self.estimator.seconds(record.class, index, record.work)?;
        let times = |run: &Attempt| {
            // Priors are no seconds: by them each attempt would seem late as soon as it has begun.
            let elapsed = if seconds { now.saturating_sub(run.started).as_secs_f64() } else { 0.0 };
            Some((self.attempt_seconds(run)?, elapsed))
        };
        let (one, several);
        let runs: &[(f64, f64)] = if is_alone(record, attempt) {
            one = [times(attempt)?];
            &one
        } else {
            let all = self.devices.iter().flat_map(|device| &device.attempts);
            let same = |run: &&Attempt| run.id == attempt.id && run.deadline_state != DeadlineState::Lost;
            several = all.filter(same).map(times).collect::<Option<Vec<_>>>()?;
            &several
        };
        // A third copy starts only on a device much faster than those of the first two.
        if runs.len() > 1 && runs.iter().any(|&(expected, _)| self.policy.near * here > expected) {
            return None;
        }
        let soonest = |left: &dyn Fn(f64, f64) -> f64| {
            runs.iter().map(|&(expected, elapsed)| left(expected, elapsed)).fold(f64::INFINITY, f64::min)
        };
        if runs.len() < 2
            || runs.iter().any(|&(expected, elapsed)| !self.policy.is_odd(expected, elapsed, told))
        {
            return Some(
                self.policy.copy_gain
                    * soonest(&|expected, elapsed| self.policy.remaining(expected, elapsed, told))
                    - here,
            );
        }
        let whole = |&(expected, elapsed): &(f64, f64)| {
            (elapsed + self.policy.remaining(expected, elapsed, told)) / expected
        };
        let excess = runs.iter().map(whole).fold(1.0, f64::max);
        Some(soonest(&|expected, elapsed| expected * excess - elapsed) - here * excess)
    }
}

/// Returns true if no other attempt at the task runs. An abandoned one is on a retired device.
fn is_alone(record: &TaskRecord, run: &Attempt) -> bool {
    record.live_attempts == 1 && run.deadline_state != DeadlineState::Lost
}
