//! The states of a planned task and the transitions between them.

use TaskState::{Blocked, Ended, Ending, Ready, Running};

/// The state of a planned task. `Planner::change_state` checks each transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Waits for its predecessors.
    Blocked,
    /// In the ready queue.
    Ready,
    /// At least one attempt runs. `speculate`: the task is also in the ready queue, for a copy on
    /// another device.
    Running { speculate: bool },
    /// The outcome is decided, and the job on the way to be dropped. `ran`: the task was running.
    Ending { ran: bool },
    /// The outcome is published.
    Ended,
}

impl TaskState {
    /// Returns true if a task in this state may move to the next one.
    pub fn allows(self, next: TaskState) -> bool {
        match next {
            Blocked => matches!(self, Running { .. }),
            Ready => self == Blocked,
            // Only a promoted task begins without having been ready.
            Running { .. } => matches!(self, Blocked | Ready | Running { .. }),
            Ending { .. } => self.is_open(),
            Ended => matches!(self, Ending { .. }),
        }
    }

    /// Returns true if the outcome is not decided.
    pub fn is_open(self) -> bool {
        !matches!(self, Ending { .. } | Ended)
    }

    /// Returns true if the task is in the ready queue.
    pub fn is_ready(self) -> bool {
        matches!(self, Ready | Running { speculate: true })
    }

    pub fn is_queued(self) -> bool {
        matches!(self, Blocked | Ready | Ending { ran: false })
    }

    pub fn is_running(self) -> bool {
        matches!(self, Running { .. } | Ending { ran: true })
    }
}
