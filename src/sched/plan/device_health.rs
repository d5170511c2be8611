//! Faults of devices: contexts are renewed, and devices are retired.

use log::Level;

use super::effects::Effects;
use super::planner::Planner;
use super::record::Attempt;
use crate::error::{DeviceFault, Error};
use crate::sched::base::{DeviceMask, TaskId};

impl Planner {
    /// All attempts have left a poisoned context.
    pub(super) fn renew_context(&mut self, index: usize, effects: &mut Effects) {
        let device = &mut self.devices[index];
        device.context += 1;
        device.first_sound_context = device.context;
        device.renewing = true;
        effects.renewed.push(index);
    }

    /// Counts an error against its device and its task. Returns true if the task is the cause of a poisoned context.
    pub(super) fn record_device_error(
        &mut self,
        index: usize,
        run: &Attempt,
        error: &Error,
        was_poisoned: bool,
        effects: &mut Effects,
    ) -> bool {
        let Error::Device { fault, .. } = error else { return false };
        // An attempt in a context that is known to be poisoned adds nothing.
        if *fault == DeviceFault::Poisoned && was_poisoned {
            return false;
        }
        let guilty = self.tasks.get_mut(run.id).is_ok_and(|record| {
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
        } else if !device.suspects.contains(&run.id) {
            device.suspects.push(run.id);
        }
        if device.suspects.len() >= self.policy.suspects || device.fault_count >= self.policy.faulty_tasks {
            self.retire(index, &why, effects);
        }
        guilty
    }

    /// A task has ended well: counts its earlier wrong results against the devices that computed them.
    pub(super) fn clear_suspects(&mut self, index: usize, id: TaskId, effects: &mut Effects) {
        let Ok(record) = self.tasks.get(id) else { return };
        if record.suspect_devices == DeviceMask::NONE {
            return;
        }
        let name = if record.label.is_empty() { format!("task {}", id.0) } else { record.name() };
        let suspects = record.suspect_devices;
        let well = self.devices[index].info.label();
        for suspect in (0..self.devices.len()).filter(|&suspect| suspects.contains(suspect)) {
            let device = &mut self.devices[suspect];
            device.wrong_result_tasks.push(name.clone());
            let label = device.info.label();
            let text = format!("{label} computed a wrong result for {name}; a retry on {well} was right");
            let retired = device.wrong_result_tasks.len() >= self.policy.wrong_tasks;
            let why = format!(
                "it computed wrong results for {}; retries were right",
                device.wrong_result_tasks.join(" and ")
            );
            self.note(Level::Warn, suspect, text, effects);
            if retired {
                self.retire(suspect, &why, effects);
            }
        }
    }
}
