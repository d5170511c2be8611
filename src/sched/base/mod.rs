//! Plain data of tasks, the numbers that tune the scheduler, and locks.

pub mod clock;
pub mod exec;
pub mod policy;
pub mod registry;
pub mod spin_lock;
pub mod sync;
pub mod task;
pub mod task_info;

pub use clock::nanoseconds;
pub(crate) use exec::{Completion, Signal};
pub use exec::{DeviceLease, Exec, Job, STOPPING};
pub use policy::Policy;
pub use registry::{
    GENERATIONS, LIGHT_BIT, POSITIONS, TaskTable, detached, new_tag, no_memory, pack, stale, unpack,
};
pub use spin_lock::{SpinGuard, SpinLock};
pub use sync::{lock, locked, total_order};
pub use task::{DeviceMask, Epoch, Role, Task};
pub use task_info::{TaskCounts, TaskId, TaskInfo, TaskStatus, WaitResult};
