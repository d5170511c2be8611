//! Plain data of tasks, the numbers that tune the scheduler, and locks.

pub mod clock;
pub mod device_mask;
pub mod exec;
pub mod outcome;
pub mod policy;
pub mod rank;
pub mod registry;
pub mod reservation;
pub mod signal;
pub mod sync;
pub mod task;
pub mod task_id;

pub use clock::Clock;
pub use device_mask::DeviceMask;
pub use exec::{Exec, Job};
pub use outcome::{TaskInfo, TaskStatus, WaitResult};
pub use policy::Policy;
pub(crate) use signal::{Completion, Signal};
pub use task::{Role, Task};
pub use task_id::TaskId;
