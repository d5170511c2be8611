//! Reports about a task: its status, its figures, and the result of waiting for it.

use std::time::Duration;

use crate::error::Error;

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub fn is_ended(self) -> bool {
        matches!(self, TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled)
    }
}

/// A snapshot of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskInfo {
    pub state: TaskStatus,
    pub label: String,
    /// The device of the current or last attempt, by its position in
    /// [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
    pub device: Option<usize>,
    pub slot: u32,
    /// Attempts begun.
    pub attempts: u32,
    /// From 0 to 1, as reported by the job with [`Exec::report`](super::exec::Exec::report).
    pub progress: f64,
    pub queued_ns: u64,
    pub running_ns: u64,
    pub error: Option<Error>,
}

/// The result of a wait for a task that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    Done,
    /// Timed out.
    Pending,
    Cancelled,
}

/// Returns a duration in nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
