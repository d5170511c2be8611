//! What becomes of a device on which an attempt has failed or was wrong: its context is made anew, or it is retired.

use log::Level;

use super::planner::Planner;
use super::record::Attempt;
use crate::error::{DeviceFault, Error};
use crate::sched::base::policy::{CONVICTIONS, WRONG_TASKS};
use crate::sched::base::task_id::TaskId;

/// Returns the number of devices that have to fail under a task, or under elements of a range, before
/// that is to blame.
pub fn fault_limit(fault: DeviceFault) -> u32 {
    match fault {
        DeviceFault::Poisoned => 2,
        DeviceFault::Lost => 3,
    }
}

impl Planner {
    /// All have left a poisoned context.
    pub fn renew_context(&mut self, index: usize) {
        let device = &mut self.devices[index];
        device.context += 1;
        device.first_sound_context = device.context;
        device.renewing = true;
        self.contexts_to_renew.push(index);
    }

    /// What the error says of the device. True: the task is found guilty of having poisoned it.
    pub fn record_device_error(
        &mut self,
        index: usize,
        run: &Attempt,
        error: &Error,
        was_poisoned: bool,
    ) -> bool {
        let Error::Device { fault, .. } = error else { return false };
        // Who fails in a context that is known to be poisoned only tells that.
        if *fault == DeviceFault::Poisoned && was_poisoned {
            return false;
        }
        let guilty = self.tasks.get_mut(run.id).is_ok_and(|record| {
            let count = match fault {
                DeviceFault::Poisoned => &mut record.poisonings,
                DeviceFault::Lost => &mut record.devices_lost,
            };
            *count += 1;
            *count >= fault_limit(*fault)
        });
        let why = error.to_string();
        if *fault == DeviceFault::Lost {
            self.retire(index, &why);
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
            self.renew_context(index);
        }
        let device = &mut self.devices[index];
        device.poisoned = !empty;
        if guilty {
            device.fault_count += 1;
        } else if !device.suspects.contains(&run.id) {
            device.suspects.push(run.id);
        }
        if device.suspects.len() >= 2 || device.fault_count >= CONVICTIONS {
            self.retire(index, &why);
        }
        guilty
    }

    /// A task whose result was wrong before has ended well on a device: it was the others, or this one the first time.
    pub fn clear_suspects(&mut self, index: usize, id: TaskId) {
        let Ok(record) = self.tasks.get(id) else { return };
        let name = if record.label.is_empty() { format!("task {}", id.0) } else { record.name() };
        let suspects = record.suspect_devices;
        let well = self.devices[index].info.label();
        for suspect in (0..self.devices.len()).filter(|&suspect| suspects.contains(suspect)) {
            let device = &mut self.devices[suspect];
            device.wrong_result_tasks.push(name.clone());
            let label = device.info.label();
            let text = format!("what {label} computed for {name} was wrong, and right again on {well}");
            let retired = device.wrong_result_tasks.len() >= WRONG_TASKS;
            let why = format!(
                "what it computed was wrong for {}, and right when computed again",
                device.wrong_result_tasks.join(" and ")
            );
            self.note(Level::Warn, suspect, text);
            if retired {
                self.retire(suspect, &why);
            }
        }
    }
}
