//! What a range asks of the scheduler that no other task does.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sched::base::signal::Completion;
use crate::sched::base::task::Task;
use crate::sched::base::task_id::TaskId;
use crate::sched::runtime::shared::Runtime;

impl Runtime {
    /// Submits from inside a task.
    pub fn post(self: &Arc<Self>, task: Task) -> Result<TaskId> {
        let mut guard = self.lock();
        // One that only drains lets a range have all the help that it had.
        if guard.stopping {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        guard.check_task(&task)?;
        let id = guard.submit(self.now(), task)?;
        self.apply_effects(guard);
        Ok(id)
    }

    /// What a task that runs is asked by, for those who run parts of it elsewhere.
    pub fn signal_of(&self, id: TaskId) -> Result<Arc<Completion>> {
        Ok(self.lock().tasks.get(id)?.signal.clone())
    }

    /// Whether tasks are ready, besides invitations.
    pub fn others_wait(&self) -> bool {
        let guard = self.lock();
        guard.ready.len() as u64 > guard.counts.guests.queued
    }

    /// Whether a range is to take no more of a device's memory than it must, because a task waits for it. Asked
    /// between pieces, when what the one before gave back may be enough: somebody comes to look.
    pub fn gives_way(self: &Arc<Self>, device: usize) -> bool {
        let mut guard = self.lock();
        let wanted = guard.waits_for_memory(self.now(), device);
        if wanted {
            self.wake_workers(&mut guard);
        }
        wanted
    }

    /// Takes a task back that has not begun.
    pub fn withdraw(self: &Arc<Self>, id: TaskId) {
        let mut guard = self.lock();
        // It may have ended meanwhile.
        let _ = guard.cancel(id);
        self.apply_effects(guard);
    }

    /// While `wait` lasts, the caller's range can't go on without guests.
    pub fn in_need(self: &Arc<Self>, wait: impl FnOnce()) {
        let mut guard = self.lock();
        guard.ranges_in_need += 1;
        self.wake_workers(&mut guard);
        drop(guard);
        wait();
        self.lock().ranges_in_need -= 1;
    }
}
