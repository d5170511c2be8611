//! The report of a simulated run.

use crate::error::Error;
use crate::sched::base::{TaskCounts, TaskStatus};
use crate::sched::plan::DeviceStats;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimReport {
    /// End of the last task.
    pub makespan: f64,
    pub counts: TaskCounts,
    pub devices: Vec<DeviceStats>,
    /// Outcome of each task, in the order of the scenario.
    pub outcomes: Vec<(TaskStatus, Option<Error>)>,
    /// All events in order.
    pub events: Vec<SimEvent>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SimEvent {
    pub time: f64,
    pub task: usize,
    pub device: usize,
    pub slot: u32,
    pub attempt: u32,
    pub kind: SimEventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimEventKind {
    Begin,
    /// An attempt returned.
    Return,
    /// A task ended. Device and attempt are those of its last attempt.
    End(TaskStatus),
}
