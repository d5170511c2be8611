//! Tasks, and the workers that run them: one worker thread a (device, slot).
//!
//! The scheduler knows nothing of what its tasks compute. All of its state stands under one
//! mutex; `state.rs` has the protocol.

mod cache;
mod eta;
mod fork;
mod ordered;
mod placement;
mod policy;
mod process;
mod progress;
mod range;
mod rates;
mod registry;
mod scheduler;
mod seen;
mod settings;
pub mod simulation;
mod slots;
mod state;
mod stats;
mod tally;
mod task;
mod teller;
mod trace;
mod verdict;
mod watch;
mod worker;

pub use cache::{LARGEST as CACHE_LARGEST, Store};
pub(crate) use fork::Birthplace;
pub use ordered::Line;
pub(crate) use process::hold_still;
pub use progress::Progress;
pub use range::{Code, Range};
pub use scheduler::Scheduler;
pub use seen::Timeline;
pub use settings::{AUTO_SLOTS, Builder, discover};
pub use stats::{DeviceStats, Stats};
pub use task::{DeviceMask, Exec, Job, Role, State, Task, TaskId, TaskInfo, Wait};
pub use trace::{Ending, Span, Trace};
pub(crate) use worker::leave_thread;
