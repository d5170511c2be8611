//! The life of a task: where it can be, and where it can go from there. A light task's state is
//! changed by [`Life::go`] only; a planned one's stands in `plan/planner.rs`, `plan/placement.rs` and `plan/completion.rs`.
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

use crate::sched::base::task::State;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Life {
    /// The place of a task that is not in use.
    Free,
    Queued,
    Running,
    Planned,
    Done,
    Failed,
    Cancelled,
}

impl Life {
    pub const ALL: [Life; 7] =
        [Life::Free, Life::Queued, Life::Running, Life::Planned, Life::Done, Life::Failed, Life::Cancelled];

    pub fn of(number: u8) -> Life {
        Life::ALL.get(usize::from(number)).copied().unwrap_or(Life::Free)
    }

    pub fn is_ended(self) -> bool {
        matches!(self, Life::Done | Life::Failed | Life::Cancelled)
    }

    fn may_become(self, next: Life) -> bool {
        match self {
            Life::Free => next == Life::Queued,
            Life::Queued => matches!(next, Life::Running | Life::Failed | Life::Cancelled),
            Life::Running => matches!(next, Life::Queued | Life::Planned) || next.is_ended(),
            Life::Planned => next.is_ended(),
            Life::Done | Life::Failed | Life::Cancelled => next == Life::Free,
        }
    }

    /// Changes the state, if the table allows it. A change that it does not allow is not made.
    #[must_use]
    pub fn go(&mut self, next: Life) -> bool {
        let may = self.may_become(next);
        debug_assert!(may, "a task can't go from {self:?} to {next:?}");
        if may {
            *self = next;
        }
        may
    }

    /// As it is told.
    pub fn state(self) -> State {
        match self {
            Life::Free | Life::Queued => State::Queued,
            Life::Running | Life::Planned => State::Running,
            Life::Done => State::Done,
            Life::Failed => State::Failed,
            Life::Cancelled => State::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_for_good_and_nothing_is_skipped() {
        for from in Life::ALL {
            for to in Life::ALL {
                let may = from.may_become(to);
                if from.is_ended() {
                    assert_eq!(may, to == Life::Free, "{from:?} to {to:?}");
                }
                if to == Life::Running {
                    assert_eq!(may, from == Life::Queued, "{from:?} to {to:?}");
                }
            }
            assert_eq!(Life::of(from as u8), from);
        }
    }
}
