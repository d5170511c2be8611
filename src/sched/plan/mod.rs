//! The planner: all state of planned tasks and of devices. Its methods take the time; it knows no
//! thread, clock or file.

pub mod access;
pub mod completion;
mod device_health;
mod effects;
mod invariants;
pub mod placement;
pub mod planner;
mod ready_queue;
pub mod record;
pub mod report;
mod schedule;
mod slots;
mod task_state;
#[cfg(test)]
mod tests;
mod timers;

pub use completion::AttemptEnd;
pub use effects::{Effects, EndedTask};
pub use placement::{AssignResult, Assignment};
pub use planner::Planner;
pub use ready_queue::ReadyQueue;
pub use record::{
    Attempt, DeadlineState, DeviceState, MemoryShortage, PeerLoad, Rank, TaskRecord, WORK, task_name,
};
pub use report::{DeviceStats, Progress, Stats};
pub use schedule::{FitCheck, Schedule};
use task_state::TaskState;
