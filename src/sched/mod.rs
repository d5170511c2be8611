//! Tasks, and the workers that run them: a worker thread for each slot of each device.
//!
//! The scheduler knows nothing of what its tasks compute. It has two tiers. Tasks that state
//! something are *planned*: their state is in the planner, under one mutex. Tasks that state
//! nothing are *light*: they go through queues of their own. The same workers run both and sleep in
//! one place.
//!
//! A file imports from its own folder and from folders above its own in this table:
//!
//! | folder | contents |
//! |---|---|
//! | `base/` | plain data of tasks; tuning numbers; time |
//! | `estimate/` | durations, bounds |
//! | `observe/` | trace; progress notifier |
//! | `plan/` | the planner: one state machine without threads |
//! | `simulation/` | the second driver of the planner |
//! | `light/` | light tasks: structures only |
//! | `sleep/` | where threads sleep |
//! | `runtime/` | threads |
//! | `range/` | parallel loops |
//! | `api/` | what callers see |

mod api;
mod base;
mod estimate;
mod light;
mod observe;
mod plan;
mod range;
mod runtime;
pub mod simulation;
mod sleep;

pub use crate::store::format::MAX_BYTES as STORE_MAX_BYTES;
pub use crate::store::rate_store::Store;
pub(crate) use api::lock_default;
pub use api::{Builder, Range, Scheduler, discover, discover_all};
#[doc(hidden)]
pub use base::Policy;
pub use base::{DeviceMask, Exec, Job, Role, Task, TaskCounts, TaskId, TaskInfo, TaskStatus, WaitResult};
pub use estimate::AUTO_SLOTS;
pub(crate) use light::{InlineJob, InlineJobKind, LightJob};
pub use observe::{Ending, Span, Timeline, Trace};
pub use plan::{DeviceStats, Progress, Stats};
pub use range::RangeJob;
pub(crate) use runtime::leave_thread;
