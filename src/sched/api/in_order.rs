//! Tasks in the order of submission: for stacking, where the order of a sum decides its last bits.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;

/// The tasks to be handed out, in order. Each is handed out once.
#[derive(Debug, Default)]
pub struct OrderedResults {
    ids: Mutex<VecDeque<TaskId>>,
}

impl OrderedResults {
    pub fn push(&self, id: TaskId) {
        lock(&self.ids).push_back(id);
    }

    pub fn front(&self) -> Option<TaskId> {
        lock(&self.ids).front().copied()
    }

    /// Whether this one was in front, and the caller has taken it out.
    pub fn take(&self, id: TaskId) -> bool {
        let mut ids = lock(&self.ids);
        let in_front = ids.front() == Some(&id);
        if in_front {
            ids.pop_front();
        }
        in_front
    }
}
