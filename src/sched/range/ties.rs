//! What a range asks of the scheduler that no other task does.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sched::task::{Signal, Task, TaskId};
use crate::sched::worker::Shared;

impl Shared {
    /// Submits from inside a task.
    pub fn post(self: &Arc<Self>, task: Task) -> Result<TaskId> {
        let mut book = self.lock();
        if book.closed {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        book.check(&task)?;
        let id = book.admit(self.now(), task)?;
        self.call_workers(&mut book);
        Ok(id)
    }

    /// What a task that runs is asked by, for those who run parts of it elsewhere.
    pub fn signal_of(&self, id: TaskId) -> Result<Arc<Signal>> {
        Ok(self.lock().tasks.get(id)?.signal.clone())
    }

    /// Whether tasks are ready, besides invitations.
    pub fn others_wait(&self) -> bool {
        let book = self.lock();
        book.ready.len() as u64 > book.counts.guests.queued
    }

    /// Takes a task back that has not begun.
    pub fn withdraw(self: &Arc<Self>, id: TaskId) {
        let mut book = self.lock();
        // It may have ended meanwhile.
        let _ = book.cancel(id);
        self.settle(book);
    }

    /// While `wait` blocks the caller, who is in a task on that device, another worker may use its slot.
    pub fn aside(self: &Arc<Self>, device: usize, wait: impl FnOnce()) {
        let mut book = self.lock();
        book.devices[device].waiting += 1;
        book.blocked += 1;
        self.call_workers(&mut book);
        // Those who wait inside tasks look again whether anybody can still go on.
        self.ended.notify_all();
        drop(book);
        wait();
        let mut book = self.lock();
        book.devices[device].waiting -= 1;
        book.blocked -= 1;
        // A worker that has nothing in hand is one too many now.
        self.work[device].notify_all();
    }
}
