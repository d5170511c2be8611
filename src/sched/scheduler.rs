//! The scheduler as its callers see it.

use std::sync::Arc;
use std::time::Duration;

use super::task::{Task, TaskId, TaskInfo, Wait};
use crate::backend::Backend;
use crate::device::DeviceInfo;
use crate::error::{Error, Result};

/// What a scheduler is made of. Everything has a default.
#[derive(Default)]
pub struct Builder {
    /// `all`, `none`, or a list such as `cpu,cuda:0,cuda:GPU-5b…`; `None`: what `GPUSCHED_DEVICES` says, else `all`.
    pub devices: Option<String>,
    /// Tasks at a time on a device. `None`: what `GPUSCHED_SLOTS` says, else 1.
    pub slots: Option<u32>,
    /// Threads of the CPU device, over all its slots. `None`: all that the process may use.
    pub cpu_threads: Option<u32>,
    /// Instead of the backends that are compiled in.
    pub backends: Option<Vec<Arc<dyn Backend>>>,
}

impl Builder {
    pub fn build(self) -> Result<Scheduler> {
        Err(Error::Internal("not built yet".into()))
    }
}

/// Runs tasks on the devices that it was given. Dropping it cancels what is queued,
/// asks what runs to stop, and waits.
pub struct Scheduler {
    _private: (),
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStats {
    pub device: DeviceInfo,
    pub slots: u32,
    pub done: u64,
    pub failed: u64,
    pub busy_ns: u64,
    pub leased_bytes: u64,
    pub peak_bytes: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub retried: u64,
    pub devices: Vec<DeviceStats>,
}

impl Scheduler {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The scheduler that all of a process share, made on first use from the environment.
    pub fn process_default() -> Result<&'static Scheduler> {
        Err(Error::Internal("not built yet".into()))
    }

    pub fn devices(&self) -> &[DeviceInfo] {
        &[]
    }

    /// Takes a task. Refused at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, task: Task) -> Result<TaskId> {
        let _ = task;
        Err(Error::Internal("not built yet".into()))
    }

    /// `Err` if the task failed (with the task's own error) or can't be waited for. `None`: for ever.
    pub fn wait(&self, id: TaskId, timeout: Option<Duration>) -> Result<Wait> {
        let _ = (id, timeout);
        Err(Error::Internal("not built yet".into()))
    }

    /// Waits until every task submitted so far has ended; their outcomes stay to be asked for.
    pub fn wait_all(&self, timeout: Option<Duration>) -> Result<Wait> {
        let _ = timeout;
        Err(Error::Internal("not built yet".into()))
    }

    /// The position in `ids` of a task that has ended, whatever its outcome. `None`: the time was up.
    pub fn wait_any(&self, ids: &[TaskId], timeout: Option<Duration>) -> Result<Option<usize>> {
        let _ = (ids, timeout);
        Err(Error::Internal("not built yet".into()))
    }

    /// Asks a task to stop: a queued one never starts, a running one sees it in
    /// [`Exec::cancelled`](super::Exec::cancelled). No error if it has ended already.
    pub fn cancel(&self, id: TaskId) -> Result<()> {
        let _ = id;
        Err(Error::Internal("not built yet".into()))
    }

    /// Forgets the outcome of a task; one that has not ended yet becomes detached.
    pub fn release(&self, id: TaskId) -> Result<()> {
        let _ = id;
        Err(Error::Internal("not built yet".into()))
    }

    pub fn info(&self, id: TaskId) -> Result<TaskInfo> {
        let _ = id;
        Err(Error::Internal("not built yet".into()))
    }

    pub fn stats(&self) -> Result<Stats> {
        Err(Error::Internal("not built yet".into()))
    }

    /// Accepts no more tasks and waits until all have ended.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<Wait> {
        let _ = timeout;
        Err(Error::Internal("not built yet".into()))
    }

    /// Cancels what is queued, asks what runs to stop, waits for it, ends the workers.
    /// Returns how many tasks it cancelled. Not possible from inside a task.
    pub fn shutdown(&self) -> Result<u64> {
        Err(Error::Internal("not built yet".into()))
    }
}
