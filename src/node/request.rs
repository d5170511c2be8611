//! Shared devices, requests for a slot, and the reasons why a wait ends.

/// A device that the processes of the node share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedDevice<'a> {
    /// Name of the device, the same in every process: 1 to 95 printable ASCII characters.
    pub uuid: &'a str,
    /// Maximum number of tasks of all members together that this member accepts on the device, at
    /// most 65535.
    pub slots: u32,
}

/// A member's request to begin one task on one of several devices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlotRequest {
    /// A higher priority is served first.
    pub priority: i32,
    /// Cost of the task by the scheduler's device index, in a unit common to all processes: work
    /// over the device's bandwidth. `None`, or beyond the end: the task can't run there.
    pub costs: Vec<Option<f64>>,
    /// Bytes that the task would reserve, by device index.
    pub bytes: Vec<u64>,
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
