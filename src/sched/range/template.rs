//! Properties that all tasks of a range have in common.

use crate::device::BackendKind;
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::Job;
use crate::sched::base::task::{Role, Task};

pub struct TaskTemplate {
    pub label: String,
    pub device_bytes: u64,
    pub priority: i32,
    pub devices: DeviceMask,
    pub backends: Vec<BackendKind>,
}

impl TaskTemplate {
    /// Returns a task of the range.
    pub fn task(&self, job: impl Job + 'static, role: Role) -> Task {
        Task {
            label: self.label.clone(),
            device_bytes: self.device_bytes,
            priority: self.priority,
            devices: self.devices,
            backends: self.backends.clone(),
            role,
            ..Task::new(job)
        }
    }
}
