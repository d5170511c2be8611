//! Where threads sleep: workers in the event count, waiters in the wait queues.

pub mod event_count;
pub mod wait_graph;
pub mod wait_queues;

pub use event_count::{EventCount, Sleeper};
pub use wait_graph::WaitGraph;
pub use wait_queues::{ALL_TASKS, BLOCKED_TASKS, HELPERS_NEEDED, Parker, WaitQueues};
