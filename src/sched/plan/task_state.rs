//! The states of a planned task and the transitions between them; the set of tasks that have not ended.

use std::collections::VecDeque;
use std::time::Duration;

use TaskState::{Blocked, Ended, Ending, Orphaned, Ready, Running};

/// The state of a planned task. Each transition is a method that checks the state which it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Waits for its predecessors, or is a proxy of a light task, which is never ready.
    Blocked,
    /// In the ready queue.
    Ready,
    /// At least one attempt runs. `speculate`: the task is also in the ready queue, for a copy on another device.
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

    /// A first attempt begins, or a copy. Only a proxy that is promoted begins without having been ready.
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

    /// Returns the time under which the task is in the set of orphaned tasks.
    pub fn due(self) -> Option<Duration> {
        if let Orphaned { until } = self { Some(until) } else { None }
    }

    /// Returns true if the task counts as queued.
    pub fn is_queued(self) -> bool {
        matches!(self, Blocked | Ready | Ending { ran: false })
    }

    /// Returns true if the task counts as running.
    pub fn is_running(self) -> bool {
        matches!(self, Running { .. } | Orphaned { .. } | Ending { ran: true })
    }
}

/// A set of arrival numbers, which come in order and leave in nearly the same order. It takes a bit for
/// each number from the first that is left: 125 MB where 1e9 tasks end beside one that runs on.
#[derive(Default)]
pub struct Unended {
    /// The first word has a bit that is set.
    words: VecDeque<u64>,
    /// The position of the first word.
    begin: u64,
}

impl Unended {
    /// Adds a number larger than all before.
    pub fn insert(&mut self, arrival: u64) {
        if self.words.is_empty() {
            self.begin = arrival / 64;
        }
        let word = (arrival / 64 - self.begin) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (arrival % 64);
    }

    pub fn remove(&mut self, arrival: u64) {
        let word = (arrival / 64).checked_sub(self.begin).and_then(|word| self.words.get_mut(word as usize));
        if let Some(word) = word {
            *word &= !(1 << (arrival % 64));
        }
        while self.words.front() == Some(&0) {
            self.words.pop_front();
            self.begin += 1;
        }
    }

    pub fn first(&self) -> Option<u64> {
        let word = self.words.front()?;
        Some(self.begin * 64 + u64::from(word.trailing_zeros()))
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_is_the_least_that_is_left() {
        let (mut unended, mut left) = (Unended::default(), std::collections::BTreeSet::new());
        for step in 0..2000_u64 {
            // Some numbers never come; now and then none is left.
            if step % 7 != 3 {
                unended.insert(step);
                left.insert(step);
            }
            let removed = if step % 500 == 499 { step } else { step * 31 % 97 / 40 };
            for _ in 0..removed {
                let position = (step as usize * 13) % left.len().max(1);
                let Some(&number) = left.iter().nth(position) else { break };
                unended.remove(number);
                left.remove(&number);
            }
            assert_eq!((unended.first(), unended.len()), (left.first().copied(), left.len()));
        }
    }
}
