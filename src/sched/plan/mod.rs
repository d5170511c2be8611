//! The planner: all state of planned tasks and of devices. Its methods take the time; it knows no thread, clock
//! or file.
//!
//! | file | contents |
//! |---|---|
//! | `record.rs` | records of tasks, attempts and devices |
//! | `task_state.rs` | the states of a task and the transitions between them |
//! | `ready_queue.rs` | ready tasks in the order of their rank |
//! | `slots.rs` | slots of a device: owned, in use, of other processes |
//! | `planner.rs` | submission, readiness, cancellation, ends, retirement of devices |
//! | `effects.rs` | what the driver has to do after a step |
//! | `schedule.rs` | lays ready tasks out on the devices: how long they take, whether they fit |
//! | `placement.rs` | assigns a task to a free slot |
//! | `completion.rs` | what follows the end of an attempt; the trace |
//! | `device_health.rs` | fault counts of devices and tasks |
//! | `timers.rs` | deadlines, pauses and time-outs; second copies of slow tasks |
//! | `access.rs` | values that the runtime reads, and small changes that it makes; load of other processes |
//! | `invariants.rs` | checks that the parts of the planner agree |
//! | `report.rs` | what callers may read |

pub mod access;
pub mod completion;
mod device_health;
mod effects;
pub mod invariants;
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
pub use invariants::InvariantChecks;
pub use placement::{AssignResult, Assignment};
pub use planner::Planner;
pub use ready_queue::ReadyQueue;
pub use record::{
    Attempt, DeadlineState, DeviceState, MemoryShortage, PeerLoad, Rank, TaskRecord, WORK, task_name,
};
pub use report::{DeviceStats, Progress, Stats};
pub use schedule::{FitCheck, Schedule};
use task_state::TaskState;
