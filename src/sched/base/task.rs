//! Tasks as callers describe them.

use std::sync::Arc;
use std::time::Duration;

use super::{Job, TaskId};
use crate::device::BackendKind;
use crate::memory::Bytes;

/// A job and its requirements. Start from [`Task::new`] and set the fields that matter.
#[derive(Clone)]
pub struct Task {
    pub job: Arc<dyn Job>,
    pub label: String,
    /// Peak of the device memory that the job allocates; reserved while an attempt runs.
    pub device_bytes: u64,
    /// Host memory that the job needs in addition, on any device. On the CPU device the two add up.
    pub host_bytes: u64,
    /// The amount of work, in any unit that all tasks of a scheduler share. `None`: unknown.
    pub work: Option<f64>,
    /// Higher runs earlier.
    pub priority: i32,
    /// The number of retries after failed attempts.
    pub retries: u32,
    pub devices: DeviceMask,
    /// Empty: every kind of device.
    pub backends: Vec<BackendKind>,
    /// The id is released when the task ends; nobody can wait for it.
    pub detached: bool,
    /// Tasks of a class are alike: the scheduler learns the rate of each device, and how long a
    /// task may take, for each class. 0 is a class, too.
    pub class: u32,
    /// The time after which an attempt is asked to stop. `None`: no limit; the scheduler warns of
    /// attempts that take much longer than others of the class.
    pub deadline: Option<Duration>,
    /// Tasks that have to end well before this one starts; if one does not, this one fails.
    pub after: Vec<TaskId>,
    /// The scheduler may start copies on other devices while the first attempt runs, and restart
    /// the task when an attempt hangs. The first attempt to commit, or to succeed, counts; the
    /// others are asked to stop.
    pub idempotent: bool,
    /// [`Scheduler::wait_next`](crate::sched::api::scheduler::Scheduler::wait_next) returns the
    /// task in the order of submission.
    pub ordered: bool,
    #[doc(hidden)]
    pub role: Role,
    /// The epoch in which the task is counted for waits for all tasks. `None`: in none.
    #[doc(hidden)]
    pub epoch: Option<Epoch>,
}

/// The index of an epoch.
pub type Epoch = u8;

/// The role of a planned task. The tasks of a range take as long as the range does, so their
/// durations teach nothing.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    #[default]
    Task,
    /// The owner of a range: the task that the caller submitted.
    Range,
    /// A range without elements: it ends as soon as it is ready.
    EmptyRange,
    /// A helper of the range with this task, unknown to callers.
    Helper(TaskId),
}

impl Role {
    pub(crate) fn is_helper(self) -> bool {
        matches!(self, Role::Helper(_))
    }
}

impl Task {
    pub fn new(job: impl Job + 'static) -> Self {
        Task {
            job: Arc::new(job),
            label: String::new(),
            device_bytes: 0,
            host_bytes: 0,
            work: None,
            priority: 0,
            retries: 0,
            devices: DeviceMask::ALL,
            backends: Vec::new(),
            detached: false,
            class: 0,
            deadline: None,
            after: Vec::new(),
            idempotent: false,
            ordered: false,
            role: Role::Task,
            epoch: None,
        }
    }

    /// Returns true if no requirement is set: any worker may run the task at any time.
    pub(crate) fn is_light(&self) -> bool {
        self.work.is_none()
            && self.class == 0
            && self.bytes() == Bytes::default()
            && self.devices == DeviceMask::ALL
            && self.backends.is_empty()
            && self.priority == 0
            && self.retries == 0
            && self.deadline.is_none()
            && self.after.is_empty()
            && !self.idempotent
            && !self.ordered
            && self.label.is_empty()
            && self.role == Role::Task
    }

    pub(crate) fn bytes(&self) -> Bytes {
        Bytes { device: self.device_bytes, host: self.host_bytes }
    }
}

/// A set of devices, by their position in
/// [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceMask(pub u64);

impl DeviceMask {
    pub const ALL: DeviceMask = DeviceMask(u64::MAX);
    pub const NONE: DeviceMask = DeviceMask(0);

    pub fn contains(self, index: usize) -> bool {
        index < 64 && self.0 >> index & 1 == 1
    }

    /// Returns the mask of one device, or an empty one for a position beyond 63.
    pub fn only(index: usize) -> DeviceMask {
        DeviceMask(u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0))
    }

    pub fn add(&mut self, index: usize) {
        self.0 |= DeviceMask::only(index).0;
    }

    pub fn without(self, other: DeviceMask) -> DeviceMask {
        DeviceMask(self.0 & !other.0)
    }
}

impl FromIterator<usize> for DeviceMask {
    fn from_iter<I: IntoIterator<Item = usize>>(devices: I) -> DeviceMask {
        devices
            .into_iter()
            .fold(DeviceMask::NONE, |mask, index| DeviceMask(mask.0 | DeviceMask::only(index).0))
    }
}
