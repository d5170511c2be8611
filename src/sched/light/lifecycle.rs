//! The life of a task: where it can be, and where it can go from there. A light task's state is
//! changed by [`Lifecycle::go`] only; a planned one's stands in `plan/planner.rs`, `plan/placement.rs` and `plan/completion.rs`.
//!
//! ```text
//! Free ──► Queued ──► Running ──► Done, Failed, Cancelled ──► Free
//!            │  ▲        │  │                  ▲  ▲
//!            │  └────────┘  └──► Planned ──────┘  │
//!            └────────────────────────────────────┘
//! ```
//!
//! From `Running` back to `Queued`: the attempt could not begin, or is to be followed by another. From
//! `Queued` to an end: cancelled, or nothing is left that could run it. `Planned`: something unusual
//! befell a light task, and a planned one goes on in its stead.

use crate::sched::base::outcome::TaskStatus;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Lifecycle {
    /// The place of a task that is not in use.
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

    /// Changes the state, if the table allows it. A change that it does not allow is not made.
    #[must_use]
    pub fn advance(&mut self, next: Lifecycle) -> bool {
        let may = self.allows(next);
        debug_assert!(may, "a task can't go from {self:?} to {next:?}");
        if may {
            *self = next;
        }
        may
    }

    /// As it is told.
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
    fn an_end_is_for_good_and_nothing_is_skipped() {
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
