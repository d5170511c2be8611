//! Tasks, and the workers that run them: one worker thread a (device, slot).
//!
//! The scheduler knows nothing of what its tasks compute. It has two tiers. Tasks that state something are
//! *planned*: their state stands under one mutex (`state.rs`). Tasks that state nothing are *light*: they go
//! through queues of their own (`light/`). The same workers run both (`worker.rs`) and sleep in one
//! place (`park.rs`).

mod blame;
#[cfg(test)]
mod by_hand;
mod cache;
mod common;
mod copies;
mod crew;
mod eta;
mod findings;
mod fork;
mod graph;
mod life;
mod light;
mod lit;
mod me;
mod neighbours;
mod observe;
mod ordered;
mod others;
mod park;
mod parts;
mod peers;
mod placement;
mod plan;
mod planned;
mod policy;
mod process;
mod progress;
mod range;
mod rates;
mod ready;
mod record;
mod registry;
mod reservation;
mod rooms;
mod scheduler;
mod seeing;
mod seen;
mod settings;
pub mod simulation;
mod slots;
mod state;
mod stats;
mod submission;
mod sync;
mod tally;
mod task;
mod teller;
mod timer;
mod trace;
mod verdict;
mod waiting;
mod watch;
mod worker;

pub(crate) use light::{Bare, Kind};

pub use cache::{LARGEST as CACHE_LARGEST, Store};
pub(crate) use fork::Birthplace;
pub(crate) use me::leave_thread;
pub(crate) use process::hold_still;
pub use progress::Progress;
pub use range::{Code, Range};
pub use scheduler::Scheduler;
pub use settings::{Builder, discover, look_around};
pub use slots::AUTO_SLOTS;
pub use stats::{DeviceStats, Stats};
pub use task::{DeviceMask, Exec, Job, Role, State, Task, TaskId, TaskInfo, Wait};
pub use trace::{Ending, Span, Timeline, Trace};
