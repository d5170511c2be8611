//! The interface for callers: building a scheduler, submitting, waiting, reading its state.

mod builder;
mod process;
mod range;
mod scheduler;
mod submit;
mod watch;

pub use builder::{Builder, discover, discover_all};
pub(crate) use process::lock_default;
pub use range::Range;
pub(crate) use scheduler::Ownership;
pub use scheduler::Scheduler;
