//! Statistics of a scheduler, and reports about its tasks.

use std::time::Duration;

use super::planner::Planner;
use super::record::TaskCounts;
use crate::device::DeviceInfo;
use crate::error::Result;
use crate::sched::base::outcome::{TaskInfo, TaskStatus, nanoseconds};
use crate::sched::base::task_id::TaskId;
use crate::sched::estimate::makespan_bound::lower_bound;

/// Statistics of a scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that were followed by another.
    pub retried: u64,
    /// Second copies that were started.
    pub copies: u64,
    /// Time from the first submission to the last end so far.
    pub makespan_ns: u64,
    /// Lower bound of the makespan of the tasks that ended well, by the measured rates; 0 if none did.
    /// `src/sched/estimate/makespan_bound.rs` defines it.
    pub lower_bound_ns: u64,
    pub devices: Vec<DeviceStats>,
}

/// Statistics of a device. `done` and `failed` count attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStats {
    /// As found at the start, with the present health.
    pub device: DeviceInfo,
    /// Why the device was retired.
    pub retired: Option<String>,
    /// Other processes use all slots, or will before this one.
    pub taken: bool,
    pub slots: u32,
    pub done: u64,
    pub failed: u64,
    pub busy_ns: u64,
    pub leased_bytes: u64,
    pub peak_bytes: u64,
}

impl Planner {
    pub fn info(&self, now: Duration, id: TaskId) -> Result<TaskInfo> {
        let record = self.tasks.get(id)?;
        let now = if record.status().is_ended() { Duration::ZERO } else { now.saturating_sub(record.since) };
        let (queued, running) = match record.status() {
            TaskStatus::Queued => (now, Duration::ZERO),
            _ => (Duration::ZERO, now),
        };
        Ok(TaskInfo {
            state: record.status(),
            label: record.label.clone(),
            device: record.device,
            slot: record.slot,
            attempts: record.attempts_begun,
            progress: record.signal.progress(),
            queued_ns: nanoseconds(record.queued + queued),
            running_ns: nanoseconds(record.ran + running),
            error: record.signal.outcome.get().and_then(|outcome| outcome.clone().err()),
        })
    }

    pub fn stats(&self) -> Stats {
        let TaskCounts { guests, queued, running, done, failed, cancelled, retried, copies } = self.counts;
        let (submitted, queued, running) =
            (self.arrivals - guests.submitted, queued - guests.queued, running - guests.running);
        let devices = self.devices.iter().map(|device| DeviceStats {
            device: device.info.clone(),
            retired: device.retired.clone(),
            taken: false,
            slots: device.slots,
            done: device.done,
            failed: device.failed,
            busy_ns: nanoseconds(device.busy),
            leased_bytes: device.ledger.leased(),
            peak_bytes: device.ledger.peak(),
        });
        let slots: Vec<u32> = self.devices.iter().map(|device| device.slots).collect();
        Stats {
            submitted,
            queued,
            running,
            done,
            failed,
            cancelled,
            retried,
            copies,
            makespan_ns: nanoseconds(self.estimator.table.makespan()),
            lower_bound_ns: nanoseconds(lower_bound(&self.estimator.table, &slots)),
            devices: devices.collect(),
        }
    }
}
