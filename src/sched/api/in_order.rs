//! Tasks in the order of submission: for stacking, where the order of a sum decides its last bits.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;

/// The ordered tasks that were not returned yet.
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

    /// Removes the front task. Returns false if it is another one by now.
    pub fn take(&self, id: TaskId) -> bool {
        let mut ids = lock(&self.ids);
        let in_front = ids.front() == Some(&id);
        if in_front {
            ids.pop_front();
        }
        in_front
    }
}
