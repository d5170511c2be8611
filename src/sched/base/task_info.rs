//! The id of a task, and reports about it: its status, its figures, the result of waiting for it.

use crate::error::Error;

/// Identifies a task. A released id is stale for ever: it never names another task.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// The status of a task.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    #[default]
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

/// Counts of tasks.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct TaskCounts {
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that were followed by another.
    pub retried: u64,
    /// Second and third copies that were started.
    pub copies: u64,
}

impl TaskCounts {
    pub fn ended(&self) -> u64 {
        self.done + self.failed + self.cancelled
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
