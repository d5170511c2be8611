//! Shared devices, requests for a slot, the reasons why a wait ends, and time limits.

use std::time::Duration;

/// A device that the processes of the node share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedDevice<'a> {
    /// Name of the device, the same in every process: 1 to 95 printable ASCII characters.
    pub uuid: &'a str,
    /// Maximum number of tasks of all members together that this member accepts on the device, at
    /// most 65535.
    pub slots: u32,
}

/// A member's request to begin tasks: by the scheduler's device index, the task that would begin
/// there. `None`, or beyond the end: none would.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlotRequest(pub Vec<Option<RequestedTask>>);

impl SlotRequest {
    /// Returns the request of a single task, with its cost on each device.
    pub fn of_task(priority: i32, costs: impl IntoIterator<Item = Option<f64>>) -> SlotRequest {
        let task = |cost: Option<f64>| cost.map(|cost| RequestedTask { number: 0, priority, cost });
        SlotRequest(costs.into_iter().map(task).collect())
    }
}

/// A task that a member would begin on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestedTask {
    /// The same on all devices that wait for the same task. It begins on one of them.
    pub number: u32,
    /// A higher priority is served first.
    pub priority: i32,
    /// In a unit common to all processes: seconds over the table's seconds per cost; before these
    /// are measured, work over the device's bandwidth.
    pub cost: f64,
}

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// Another member has changed the table or has left, or a periodic check is due.
    Changed,
    /// The timeout has passed.
    Timeout,
    /// A thread has called [`Membership::wake`](super::Membership::wake), or the process was
    /// forked.
    Woken,
}

/// Time limits of a member. All members of a node have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePolicy {
    /// Time for which a member waits for the lock of the table, which is held for microseconds.
    /// After that the holder counts as stopped.
    pub lock_timeout: Duration,
    /// Time after which a waiter that could begin and does not counts as stopped, and is skipped. A
    /// waiter reads the table twice as often.
    pub stall_limit: Duration,
}

impl Default for NodePolicy {
    fn default() -> Self {
        NodePolicy { lock_timeout: Duration::from_secs(10), stall_limit: Duration::from_secs(1) }
    }
}

impl NodePolicy {
    /// Returns the stall limit in nanoseconds.
    pub(super) fn stall_ns(&self) -> u64 {
        u64::try_from(self.stall_limit.as_nanos()).unwrap_or(u64::MAX)
    }
}
