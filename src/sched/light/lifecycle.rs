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

use crate::sched::base::outcome::TaskStatus;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
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
    pub const ALL: [Lifecycle; 7] = [
        Lifecycle::Free,
        Lifecycle::Queued,
        Lifecycle::Running,
        Lifecycle::Planned,
        Lifecycle::Done,
        Lifecycle::Failed,
        Lifecycle::Cancelled,
    ];

    pub fn from_u8(number: u8) -> Lifecycle {
        Lifecycle::ALL.get(usize::from(number)).copied().unwrap_or(Lifecycle::Free)
    }

    pub fn is_ended(self) -> bool {
        matches!(self, Lifecycle::Done | Lifecycle::Failed | Lifecycle::Cancelled)
    }

    fn allows(self, next: Lifecycle) -> bool {
        match self {
            Lifecycle::Free => next == Lifecycle::Queued,
            Lifecycle::Queued => {
                matches!(next, Lifecycle::Running | Lifecycle::Failed | Lifecycle::Cancelled)
            }
            Lifecycle::Running => matches!(next, Lifecycle::Queued | Lifecycle::Planned) || next.is_ended(),
            Lifecycle::Planned => next.is_ended(),
            Lifecycle::Done | Lifecycle::Failed | Lifecycle::Cancelled => next == Lifecycle::Free,
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
        for from in Lifecycle::ALL {
            for to in Lifecycle::ALL {
                let may = from.allows(to);
                if from.is_ended() {
                    assert_eq!(may, to == Lifecycle::Free, "{from:?} to {to:?}");
                }
                if to == Lifecycle::Running {
                    assert_eq!(may, from == Lifecycle::Queued, "{from:?} to {to:?}");
                }
            }
            assert_eq!(Lifecycle::from_u8(from as u8), from);
        }
    }
}
