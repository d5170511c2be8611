//! Events of a simulated run, in the order of their times.

use std::cmp::Ordering;

/// The kind of an event. Events of the same time happen in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingKind {
    Lost(usize),
    Fault(usize, usize),
    Submit(usize),
    Cancel(usize),
    /// Position of the attempt, and the version of its plan; an older plan is void.
    Return(usize, u32),
    Alarm,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PendingEvent {
    pub time: f64,
    pub number: u64,
    pub what: PendingKind,
}

impl Eq for PendingEvent {}

impl PartialOrd for PendingEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PendingEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.time.total_cmp(&other.time);
        order.then(self.what.cmp(&other.what)).then(self.number.cmp(&other.number))
    }
}
