//! Where threads sleep: workers in the event count, waiters in the wait queues.

pub mod event_count;
pub mod wait_graph;
pub mod wait_queues;
