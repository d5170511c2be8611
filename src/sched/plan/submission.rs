//! Submission of tasks.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{DeviceState, Effects, Planner, TaskRecord, WORK, task_name};
use crate::device::BackendKind;
use crate::error::{Error, Result};
use crate::sched::base::{DeviceMask, Exec, Role, Task, TaskId, TaskStatus};

impl Planner {
    /// Returns an error, with the numbers, if no device could ever run the task.
    pub fn check_task(&self, task: &Task) -> Result<()> {
        if let Some(work) = task.work
            && !WORK.contains(&work)
        {
            return Err(Error::argument(
                "the task's work",
                format_args!("{work:e}"),
                "a number from 1e-100 to 1e100, or none",
            ));
        }
        // The light tier checks the others.
        for before in task.after.iter().filter(|before| !before.is_light()) {
            self.tasks.get(*before)?;
        }
        let usable = |&(index, device): &(usize, &DeviceState)| {
            device.retired.is_none() && device.is_allowed(index, task)
        };
        let usable = || self.devices.iter().enumerate().filter(usable);
        let Some((_, best)) = usable().min_by_key(|(_, device)| Reverse(device.ledger.limit())) else {
            return Err(self.no_device(task_name(&task.label), task.devices, &task.backends));
        };
        let reach = self.possible_devices(task);
        if !usable().any(|(index, _)| reach.contains(index)) {
            return Err(Error::NoMemory {
                what: task_name(&task.label),
                needed: task.bytes().on(best.info.backend),
                place: format!("{} ({})", best.info.label(), best.info.name),
                there: best.ledger.limit(),
            });
        }
        Ok(())
    }

    /// Returns the devices that could ever run a task.
    fn possible_devices(&self, task: &Task) -> DeviceMask {
        let possible = self.devices.iter().enumerate().filter(|&(index, device)| {
            device.is_allowed(index, task) && task.bytes().on(device.info.backend) <= device.ledger.limit()
        });
        possible.map(|(index, _)| index).collect()
    }

    /// Submits a checked task.
    pub fn submit(&mut self, mut task: Task, effects: &mut Effects) -> Result<TaskId> {
        let now = effects.now;
        let (arrival, reach) = (self.arrivals, self.possible_devices(&task));
        let (after, role, class, work) = (std::mem::take(&mut task.after), task.role, task.class, task.work);
        self.tasks.check_capacity(1)?;
        let signal = self.spare_completions.pop().unwrap_or_default();
        let id = self.tasks.insert(TaskRecord::new(task, arrival, reach, now, signal))?;
        self.arrivals += 1;
        self.counts.queued += 1;
        match role {
            Role::Task | Role::Proxy => {
                self.estimator.table.task_submitted(now, class, work);
            }
            Role::Range | Role::EmptyRange => self.estimator.table.touch(now),
            Role::Helper => {
                self.counts.helpers.submitted += 1;
                self.counts.helpers.queued += 1;
            }
        }
        let mut broken = None;
        let mut behind = BTreeSet::new();
        for before in after {
            let Ok(record) = self.tasks.get_mut(before) else { continue };
            match record.status() {
                TaskStatus::Done => {}
                TaskStatus::Failed | TaskStatus::Cancelled => {
                    broken.get_or_insert(before);
                }
                _ if behind.insert(before) => record.successors.push(id),
                _ => {}
            }
        }
        if let Some(before) = broken {
            self.fail_dependent(id, before, effects);
        } else if behind.is_empty() {
            self.make_ready(id, effects);
        } else if let Ok(record) = self.tasks.get_mut(id) {
            record.predecessors = behind;
        }
        Ok(id)
    }

    /// Submits a proxy: it stands for a light task that planned ones come after, and ends with
    /// it ([`Planner::end_task`]).
    pub fn admit_proxy(&mut self, effects: &mut Effects) -> Result<TaskId> {
        let nothing = Task::new(|_: &Exec<'_>| Ok(()));
        let id = self.submit(Task { role: Role::Proxy, ..nothing }, effects)?;
        if let Ok(record) = self.tasks.get_mut(id) {
            record.detached = true;
        }
        Ok(id)
    }

    pub fn no_device(&self, what: String, mask: DeviceMask, kinds: &[BackendKind]) -> Error {
        if self.devices.is_empty() {
            let why = "the scheduler has none; see GPUSCHED_DEVICES and GPUSCHED_CPU_FALLBACK".into();
            return Error::NoDevice { what, why };
        }
        let there = self.devices.iter().map(|device| match &device.retired {
            None => device.info.label(),
            Some(why) => format!("{} (retired: {why})", device.info.label()),
        });
        let there = there.collect::<Vec<_>>().join(", ");
        let kinds = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        let kinds = if kinds.is_empty() { "any".into() } else { kinds };
        let mask = if mask.0 == u64::MAX { "(any)".into() } else { format!("{:#x}", mask.0) };
        let why = format!("device_mask {mask} and backend ({kinds}) exclude all of: {there}");
        Error::NoDevice { what, why }
    }
}
