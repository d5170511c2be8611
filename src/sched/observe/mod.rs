//! Sinks: the trace of attempts, and the thread that calls progress callbacks.

pub mod progress_notifier;
pub mod trace;

pub use progress_notifier::ProgressNotifier;
pub use trace::{Ending, Span, Timeline, Trace};
