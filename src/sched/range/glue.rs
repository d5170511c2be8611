//! What a range asks of the scheduler that no other task does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::sched::base::signal::Completion;
use crate::sched::base::task::Task;
use crate::sched::base::task_id::TaskId;
use crate::sched::plan::effects::Effects;
use crate::sched::runtime::shared::Runtime;

impl Runtime {
    /// Submits from inside a task.
    pub fn post(self: &Arc<Self>, task: Task) -> Result<TaskId> {
        let mut guard = self.lock();
        // One that only drains lets a range have all the help that it had.
        if guard.planner.is_stopping() {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        guard.planner.check_task(&task)?;
        let mut effects = Effects::at(self.now());
        let id = guard.planner.submit(task, &mut effects)?;
        self.apply_effects(guard, effects);
        Ok(id)
    }

    /// What a task that runs is asked by, for those who run parts of it elsewhere.
    pub fn signal_of(&self, id: TaskId) -> Result<Arc<Completion>> {
        self.lock().planner.completion(id)
    }

    /// Whether tasks are ready, besides invitations.
    pub fn others_wait(&self) -> bool {
        self.lock().planner.others_wait()
    }

    /// Returns true if a range must take no more of a device's memory than it needs, because a task waits for it. Asked
    /// between pieces, when the last one may have released enough: then a worker is called to look.
    pub fn gives_way(self: &Arc<Self>, device: usize) -> bool {
        let wanted = self.memory_wanted.load(Ordering::Relaxed) >> device & 1 == 1;
        if wanted {
            self.wake_workers(&mut self.lock());
        }
        wanted
    }

    /// Takes a task back that has not begun.
    pub fn withdraw(self: &Arc<Self>, id: TaskId) {
        let mut guard = self.lock();
        // It may have ended meanwhile.
        let mut effects = Effects::at(self.now());
        let _ = guard.planner.cancel(id, &mut effects);
        self.apply_effects(guard, effects);
    }

    /// While `wait` lasts, the caller's range can't go on without guests.
    pub fn in_need(self: &Arc<Self>, wait: impl FnOnce()) {
        let mut guard = self.lock();
        guard.planner.add_range_in_need();
        self.wake_workers(&mut guard);
        drop(guard);
        wait();
        self.lock().planner.remove_range_in_need();
    }
}
