//! Counts faults and wrong results of devices and tasks, and retires devices by them. `docs/scheduling.md` has the
//! rules.

use log::Level;

use super::{Attempt, Effects, Planner};
use crate::error::{DeviceFault, Error};
use crate::sched::base::{DeviceMask, Role, TaskId, WaitResult};

impl Planner {
    /// All attempts have left a poisoned context.
    pub(super) fn renew_context(&mut self, index: usize, effects: &mut Effects) {
        let device = &mut self.devices[index];
        device.context += 1;
        device.first_sound_context = device.context;
        device.renewing = true;
        effects.renewed.push(index);
    }

    /// Counts an error against its device and its task. Returns true if the task is the cause.
    pub(super) fn record_device_error(
        &mut self,
        run: &Attempt,
        error: &Error,
        effects: &mut Effects,
    ) -> bool {
        let index = run.device;
        let Error::Device { fault, .. } = error else { return false };
        // An attempt in a context that is known to be poisoned adds nothing.
        if *fault == DeviceFault::Poisoned && run.was_poisoned {
            return false;
        }
        let guilty = self.tasks.get_mut(run.id).is_ok_and(|record| {
            if record.role != Role::Task {
                return record.is_cause;
            }
            let count = match fault {
                DeviceFault::Poisoned => &mut record.poisonings,
                DeviceFault::Lost => &mut record.devices_lost,
            };
            *count += 1;
            *count >= self.policy.fault_limit(*fault)
        });
        let why = error.to_string();
        if *fault == DeviceFault::Lost {
            self.retire(index, &why, effects);
            return guilty;
        }
        if guilty {
            for device in &mut self.devices {
                device.suspects.retain(|&suspect| suspect != run.id);
            }
        }
        let device = &mut self.devices[index];
        let empty = device.attempts.is_empty();
        if empty {
            self.renew_context(index, effects);
        }
        let device = &mut self.devices[index];
        device.poisoned = !empty;
        if guilty {
            device.fault_count += 1;
        } else if run.role != Role::Task || !device.suspects.contains(&run.id) {
            // A range has failed under other elements than before.
            device.suspects.push(run.id);
        }
        if device.suspects.len() >= self.policy.suspects || device.fault_count >= self.policy.faulty_tasks {
            self.retire(index, &why, effects);
        }
        guilty
    }

    /// Elements of a range are the cause of the device faults of these tasks, its owner and its helpers. So no device is.
    pub fn blame_range(&mut self, tasks: &[TaskId]) {
        for &id in tasks {
            if let Ok(record) = self.tasks.get_mut(id) {
                record.is_cause = true;
            }
        }
        for device in &mut self.devices {
            device.suspects.retain(|suspect| !tasks.contains(suspect));
        }
    }

    /// A copy has failed after another attempt committed. A wrong result still counts against its device.
    pub(super) fn late_attempt_failed(&mut self, run: &Attempt, error: &Error, effects: &mut Effects) {
        let Ok(record) = self.tasks.get_mut(run.id) else { return };
        if error.is_suspect() {
            record.suspect_devices.add(run.device);
            if let Some(Ok(WaitResult::Done)) = record.signal.outcome.get() {
                self.count_wrong_results(run.id, effects);
            }
        }
    }

    /// Counts the wrong results of a task that ended well against the devices that computed them.
    pub(super) fn count_wrong_results(&mut self, id: TaskId, effects: &mut Effects) {
        let Ok(record) = self.tasks.get_mut(id) else { return };
        let suspects = std::mem::replace(&mut record.suspect_devices, DeviceMask::NONE);
        if suspects == DeviceMask::NONE {
            return;
        }
        let name = if record.label.is_empty() { format!("task {}", id.0) } else { record.name() };
        for suspect in (0..self.devices.len()).filter(|&suspect| suspects.contains(suspect)) {
            let device = &mut self.devices[suspect];
            device.wrong_result_tasks.push(name.clone());
            let label = device.info.label();
            let text = format!("{label} computed a wrong result for {name}; another attempt was right");
            let retired = device.wrong_result_tasks.len() >= self.policy.wrong_tasks;
            let why = format!(
                "it computed wrong results for {}; other attempts were right",
                device.wrong_result_tasks.join(" and ")
            );
            self.note(Level::Warn, suspect, text, effects);
            if retired {
                self.retire(suspect, &why, effects);
            }
        }
    }
}
