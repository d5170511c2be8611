//! The identity of a submitted task.

/// Identifies a task. A released id is stale for ever: it never names another task.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);
