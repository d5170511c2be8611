//! The planned tasks' state driven by hand: rules that the simulation has no words for.

use std::time::Duration;

use super::completion::AttemptEnd;
use super::placement::{AssignResult, Assignment, FitCheck};
use super::planner::Planner;
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{DeviceFault, Error, Result};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::Exec;
use crate::sched::base::outcome::TaskStatus;
use crate::sched::base::policy::HORIZON;
use crate::sched::base::task::{Role, Task};
use crate::sched::base::task_id::TaskId;
use crate::sched::estimate::estimator::Estimator;
use crate::sched::runtime::shared::PlannerGuarded;

mod endings;
mod peers;
mod placement;
mod timers;
mod wrong_results;

const S: fn(u64) -> Duration = Duration::from_secs;

pub struct Hand(pub Planner);

/// So many devices, alike.
pub fn hand(devices: usize) -> Hand {
    hand_of(&vec![1.0; devices])
}

/// Devices of one slot and 1000 bytes for tasks, and of these speeds.
fn hand_of(speeds: &[f64]) -> Hand {
    let device = |(ordinal, &speed): (usize, &f64)| DeviceInfo {
        // A sixteenth is left for a card's context.
        total_bytes: 1000 * 16 / 15,
        free_bytes: 1000,
        speed: Some(speed),
        ..DeviceInfo::new(&format!("GPU-{ordinal}"), BackendKind::Cuda, ordinal as u32, "paper")
    };
    Hand(Planner::new(speeds.iter().enumerate().map(|speed| (device(speed), 1)).collect()))
}

pub fn task() -> Task {
    Task { work: Some(1.0), ..Task::new(|_: &Exec<'_>| Ok(())) }
}

fn broken(fault: DeviceFault) -> Result<()> {
    Err(Error::Device { device: "x".into(), what: "y".into(), fault })
}

impl Hand {
    pub fn submit(&mut self, now: u64, task: Task) -> TaskId {
        self.0.check_task(&task).unwrap();
        self.0.submit(S(now), task).unwrap()
    }

    fn take(&mut self, now: u64, device: usize) -> Option<Assignment> {
        self.0.assign(S(now), device, 0, Some(u64::MAX)).begun()
    }

    fn judge(&mut self, now: u64, device: usize, run: &Assignment, how: AttemptEnd) {
        self.0.on_attempt_end(S(now), device, run.id, run.attempt, how);
        self.publish(now);
    }

    fn ends(&mut self, now: u64, device: usize, run: &Assignment, outcome: Result<()>) {
        self.judge(now, device, run, AttemptEnd::Ran(outcome));
    }

    fn pass(&mut self, now: u64) {
        self.0.advance(S(now));
        self.publish(now);
    }

    fn publish(&mut self, now: u64) {
        while let Some(ended) = self.0.ended.pop() {
            self.0.publish(S(now), ended.id, ended.outcome);
        }
    }

    fn state(&self, id: TaskId) -> TaskStatus {
        self.0.tasks.get(id).unwrap().status
    }

    fn error(&self, id: TaskId) -> Option<Error> {
        self.0.tasks.get(id).unwrap().signal.outcome.get()?.clone().err()
    }

    /// Three tasks of a second each have ended well, so that it is known what is late.
    fn seasoned(mut self) -> Self {
        for now in 0..8 {
            self.submit(now, task());
            for device in 0..self.0.devices.len() {
                if let Some(run) = self.take(now, device) {
                    self.ends(now + 1, device, &run, Ok(()));
                }
            }
        }
        self
    }
}
