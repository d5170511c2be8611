//! Sinks: the trace of attempts, and the thread that calls progress callbacks.

pub mod progress_notifier;
pub mod trace;

pub use progress_notifier::ProgressNotifier;
pub(crate) use trace::TraceEvent;
pub use trace::{Ending, Span, Timeline, Trace};
