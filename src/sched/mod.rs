//! Tasks, and the workers that run them: one worker thread a (device, slot).
//!
//! The scheduler knows nothing of what its tasks compute.

mod scheduler;
mod task;

pub use scheduler::{Builder, DeviceStats, Scheduler, Stats};
pub use task::{DeviceMask, Exec, Job, State, Task, TaskId, TaskInfo, Wait};
