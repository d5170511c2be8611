//! The states of a planned task and the transitions between them.

use std::time::Duration;

use TaskState::{Blocked, Ended, Ending, Orphaned, Ready, Running};

/// The state of a planned task. Each transition is a method that checks the state which it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Waits for its predecessors.
    Blocked,
    /// In the ready queue.
    Ready,
    /// At least one attempt runs. `speculate`: the task is also in the ready queue, for a copy on
    /// another device.
    Running { speculate: bool },
    /// Only an abandoned attempt is left. It has committed, and has until then to return.
    Orphaned { until: Duration },
    /// The outcome is decided, and the job on the way to be dropped. `ran`: the task was running.
    Ending { ran: bool },
    /// The outcome is published.
    Ended,
}

impl TaskState {
    pub fn make_ready(self) -> Self {
        self.leave(self == Blocked, Ready)
    }

    /// A first attempt begins, or a copy. Only a promoted task begins without having been ready.
    pub fn begin(self) -> Self {
        self.leave(matches!(self, Blocked | Ready | Running { .. }), Running { speculate: false })
    }

    pub fn speculate(self, speculate: bool) -> Self {
        self.leave(matches!(self, Running { .. }), Running { speculate })
    }

    pub fn orphan(self, until: Duration) -> Self {
        self.leave(matches!(self, Running { .. }), Orphaned { until })
    }

    /// No attempt is left, and the task goes on: as one that has not begun, and is not ready yet.
    pub fn requeue(self) -> Self {
        self.leave(matches!(self, Running { .. } | Orphaned { .. }), Blocked)
    }

    pub fn end(self) -> Self {
        self.leave(self.is_open(), Ending { ran: self.is_running() })
    }

    pub fn publish(self) -> Self {
        self.leave(matches!(self, Ending { .. }), Ended)
    }

    fn leave(self, allowed: bool, next: TaskState) -> Self {
        debug_assert!(allowed, "no transition from {self:?} to {next:?}");
        next
    }

    /// Returns true if the outcome is not decided.
    pub fn is_open(self) -> bool {
        !matches!(self, Ending { .. } | Ended)
    }

    /// Returns true if the task is in the ready queue.
    pub fn is_ready(self) -> bool {
        matches!(self, Ready | Running { speculate: true })
    }

    /// Returns the time at which an orphaned task fails.
    pub fn due(self) -> Option<Duration> {
        if let Orphaned { until } = self { Some(until) } else { None }
    }

    pub fn is_queued(self) -> bool {
        matches!(self, Blocked | Ready | Ending { ran: false })
    }

    pub fn is_running(self) -> bool {
        matches!(self, Running { .. } | Orphaned { .. } | Ending { ran: true })
    }
}
