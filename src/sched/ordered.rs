//! Outcomes in the order of submission: for stacking, where the order of a sum decides its last bits.
//!
//! A line of ids, on top of what a scheduler offers to everybody. The one in front is waited for and
//! handed out when it has ended; of those who wait at once, one gets it, and the others wait for the next.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::scheduler::Scheduler;
use super::task::TaskId;
use crate::error::{Error, Result};

/// The tasks to be handed out, in order. Each is handed out once.
#[derive(Debug, Default)]
pub struct Line {
    ids: Mutex<VecDeque<TaskId>>,
}

impl Line {
    pub fn push(&self, id: TaskId) {
        self.lock().push_back(id);
    }

    /// The task in front, once it has ended, well or not. `None`: the time was up first. One that was
    /// released is passed over. An error if nothing is left to hand out; from inside a task, as
    /// [`Scheduler::wait`].
    pub fn next(&self, scheduler: &Scheduler, timeout: Option<Duration>) -> Result<Option<TaskId>> {
        // Before the lock: in a child of fork it may be held for ever. An end too far away to be told is none.
        scheduler.check_process()?;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let Some(front) = self.lock().front().copied() else {
                let accepted = "at least 1 that was submitted as ordered";
                return Err(Error::argument("the number of tasks left to hand out in order", 0, accepted));
            };
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let gone = match scheduler.wait_any(&[front], left) {
                Ok(Some(_)) => scheduler.info(front).is_err(),
                Ok(None) => return Ok(None),
                // Released, or released before its end and so detached.
                Err(Error::Stale { .. } | Error::Argument { .. }) => true,
                Err(error) => return Err(error),
            };
            let mut ids = self.lock();
            if ids.front() == Some(&front) {
                ids.pop_front();
                if !gone {
                    return Ok(Some(front));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<TaskId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
