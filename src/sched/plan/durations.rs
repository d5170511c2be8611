//! Expected durations of tasks and attempts, from the records of their class.

use std::time::Duration;

use super::planner::Planner;
use super::record::{Attempt, DeadlineState, TaskRecord};
use crate::sched::base::{Role, TaskId};

impl Planner {
    /// Returns the seconds that a task should take on a device. `None`: the rate is unknown.
    pub fn task_seconds(&self, record: &TaskRecord, index: usize) -> Option<f64> {
        self.estimator.seconds(record.class, index, record.work).map(|seconds| seconds * record.slowdown)
    }

    /// Returns the expected seconds of an attempt. A device of unknown rate counts as the fastest.
    pub fn attempt_seconds(&self, index: usize, run: &Attempt) -> Option<f64> {
        if run.role != Role::Task {
            return None;
        }
        let known = |index| self.estimator.seconds(run.class, index, run.work);
        known(index).or_else(|| (0..self.devices.len()).filter_map(known).min_by(f64::total_cmp))
    }

    /// Returns the seconds until a slot should be free. Work on a range has no known end.
    pub fn seconds_until_free(&self, now: Duration, index: usize, run: &Attempt) -> f64 {
        let unknown = if run.role == Role::Task { 0.0 } else { f64::INFINITY };
        self.remaining_seconds(now, index, run).unwrap_or(unknown)
    }

    /// Returns the seconds that an attempt should still take.
    pub fn remaining_seconds(&self, now: Duration, index: usize, run: &Attempt) -> Option<f64> {
        if run.deadline_state == DeadlineState::Lost {
            return None;
        }
        let expected = self.attempt_seconds(index, run)?;
        Some(self.policy.remaining(
            expected,
            now.saturating_sub(run.started).as_secs_f64(),
            run.work.is_some(),
        ))
    }

    /// Returns after which time an attempt is late: its deadline, else much longer than its class takes.
    pub fn late_after(&self, index: usize, id: TaskId) -> Option<Duration> {
        let record = self.tasks.get(id).ok()?;
        if record.deadline.is_some() {
            return record.deadline;
        }
        if record.role != Role::Task {
            return None;
        }
        let most = self.estimator.largest_usual_ratio(record.class)?;
        let expected = self.estimator.seconds(record.class, index, record.work)?;
        // Small tasks need no sum of ratios. The mean exceeds the largest by rounding at most.
        if self.policy.late_factor * most * expected < 0.999 * self.policy.late_least.as_secs_f64() {
            return Some(self.policy.late_least);
        }
        let usual = self.estimator.usual_ratio(record.class)?;
        Duration::try_from_secs_f64(self.policy.late_factor * usual * expected)
            .ok()
            .map(|late| late.max(self.policy.late_least))
    }
}
