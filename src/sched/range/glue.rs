//! Functions of the runtime that only ranges need.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::sched::base::{Task, TaskId};
use crate::sched::plan::effects::Effects;
use crate::sched::runtime::shared::Runtime;

impl Runtime {
    /// Submits a task from inside another one, also while the scheduler drains: a range keeps its
    /// helpers then.
    pub fn submit_from_inside(self: &Arc<Self>, task: Task) -> Result<TaskId> {
        let mut guard = self.lock();
        if guard.planner.is_stopping() {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        guard.planner.check_task(&task)?;
        let mut effects = Effects::at(self.now());
        let id = guard.planner.submit(task, &mut effects)?;
        self.apply_effects(guard, effects);
        Ok(id)
    }

    /// Returns true if a task waits for memory of a device, so that a range must take no more of it
    /// than it needs. Called between chunks: the memory of the one before may be enough, so this
    /// wakes a worker for the task.
    pub fn is_memory_wanted(self: &Arc<Self>, device: usize) -> bool {
        let wanted = self.memory_wanted.load(Ordering::Relaxed) >> device & 1 == 1;
        if wanted {
            self.wake_workers(&mut self.lock(), self.now());
        }
        wanted
    }

    /// Calls `wait` while the caller's range can't go on without helpers.
    pub fn while_in_need(self: &Arc<Self>, wait: impl FnOnce()) {
        let mut guard = self.lock();
        guard.planner.add_range_in_need();
        self.wake_workers(&mut guard, self.now());
        drop(guard);
        wait();
        self.lock().planner.remove_range_in_need();
    }
}
