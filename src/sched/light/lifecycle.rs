//! The states of a light task and their transitions. Only [`Lifecycle::advance`] changes a state.
//!
//! ```text
//! Free ──► Queued ──► Running ──► Done, Failed, Cancelled ──► Free
//!            │  ▲        │  │                  ▲  ▲
//!            │  └────────┘  └──► Planned ──────┘  │
//!            └────────────────────────────────────┘
//! ```
//!
//! From `Running` back to `Queued`: the attempt could not begin. From `Queued` to an end: the task was
//! cancelled, or no device is left for it. `Planned`: the task was promoted, and a planned task runs in
//! its stead.

use crate::sched::base::TaskStatus;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// The position is unused.
    #[default]
    Free,
    Queued,
    Running,
    Planned,
    Done,
    Failed,
    Cancelled,
}

impl Lifecycle {
    pub fn is_ended(self) -> bool {
        matches!(self, Lifecycle::Done | Lifecycle::Failed | Lifecycle::Cancelled)
    }

    fn allows(self, next: Lifecycle) -> bool {
        use Lifecycle::{Cancelled, Done, Failed, Free, Planned, Queued, Running};
        match self {
            Free => next == Queued,
            Queued => matches!(next, Running | Failed | Cancelled),
            Running => matches!(next, Queued | Planned) || next.is_ended(),
            Planned => next.is_ended(),
            Done | Failed | Cancelled => next == Free,
        }
    }

    /// Changes the state and returns true, if the transition is allowed.
    #[must_use]
    pub fn advance(&mut self, next: Lifecycle) -> bool {
        let may = self.allows(next);
        debug_assert!(may, "a task can't go from {self:?} to {next:?}");
        if may {
            *self = next;
        }
        may
    }

    /// Returns the state that callers see.
    pub fn status(self) -> TaskStatus {
        match self {
            Lifecycle::Free | Lifecycle::Queued => TaskStatus::Queued,
            Lifecycle::Running | Lifecycle::Planned => TaskStatus::Running,
            Lifecycle::Done => TaskStatus::Done,
            Lifecycle::Failed => TaskStatus::Failed,
            Lifecycle::Cancelled => TaskStatus::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_drawn_transitions_are_allowed() {
        use Lifecycle::{Cancelled, Done, Failed, Free, Planned, Queued, Running};
        let all = [Free, Queued, Running, Planned, Done, Failed, Cancelled];
        for (from, to) in all.iter().flat_map(|from| all.map(|to| (*from, to))) {
            let may = from.allows(to);
            assert!(!from.is_ended() || may == (to == Free), "{from:?} to {to:?}");
            assert!(to != Running || may == (from == Queued), "{from:?} to {to:?}");
        }
    }
}
