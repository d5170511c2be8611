//! What callers see: building a scheduler, submitting, waiting, reading its state.

mod builder;
mod in_order;
mod observe;
mod process;
mod range;
mod scheduler;
mod submit;

pub use builder::{Builder, discover, look_around};
pub(crate) use process::hold_still;
pub use range::Range;
pub use scheduler::Scheduler;
