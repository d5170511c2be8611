//! What ranges need of the runtime and no other task does.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sched::base::signal::Completion;
use crate::sched::base::task::Task;
use crate::sched::base::task_id::TaskId;
use crate::sched::runtime::shared::Runtime;

impl Runtime {
    /// Submits a task from inside another one, also while the scheduler drains: a range keeps its
    /// helpers then.
    pub fn submit_from_inside(self: &Arc<Self>, task: Task) -> Result<TaskId> {
        let mut guard = self.lock();
        if guard.stopping {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        guard.check_task(&task)?;
        let id = guard.submit(self.now(), task)?;
        self.apply_effects(guard);
        Ok(id)
    }

    /// Returns the signal of a task, for the helpers that run parts of it.
    pub fn completion_of(&self, id: TaskId) -> Result<Arc<Completion>> {
        Ok(self.lock().tasks.get(id)?.signal.clone())
    }

    /// Returns true if tasks other than helpers of ranges are ready.
    pub fn has_ready_tasks(&self) -> bool {
        let guard = self.lock();
        guard.ready.len() as u64 > guard.counts.guests.queued
    }

    /// Returns true if a task waits for memory of a device, so that a range must take no more of it
    /// than it needs. Called between chunks: the memory of the one before may be enough, so this wakes a
    /// worker for the task.
    pub fn is_memory_wanted(self: &Arc<Self>, device: usize) -> bool {
        let mut guard = self.lock();
        let wanted = guard.waits_for_memory(self.now(), device);
        if wanted {
            self.wake_workers(&mut guard);
        }
        wanted
    }

    /// Cancels a helper that has not begun.
    pub fn cancel_helper(self: &Arc<Self>, id: TaskId) {
        let mut guard = self.lock();
        // It may have ended meanwhile.
        let _ = guard.cancel(id);
        self.apply_effects(guard);
    }

    /// Calls `wait` while the caller's range can't go on without helpers.
    pub fn while_in_need(self: &Arc<Self>, wait: impl FnOnce()) {
        let mut guard = self.lock();
        guard.ranges_in_need += 1;
        self.wake_workers(&mut guard);
        drop(guard);
        wait();
        self.lock().ranges_in_need -= 1;
    }
}
