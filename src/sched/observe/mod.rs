//! Sinks: the trace of attempts, and the thread that calls progress callbacks.

pub mod progress_notifier;
pub mod trace;
