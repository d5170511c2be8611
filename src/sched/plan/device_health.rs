//! Counts faults and wrong results of devices and tasks, and retires devices by them.
//! `docs/scheduling.md` has the rules.

use log::Level;

use super::{Attempt, Effects, Planner};
use crate::device::Health;
use crate::error::{DeviceFault, Error};
use crate::sched::base::{DeviceMask, Role, TaskId, WaitResult};

impl Planner {
    /// Retires a device. Ends the ready tasks that no other device may run.
    pub fn retire(&mut self, index: usize, why: &str, effects: &mut Effects) {
        let device = &mut self.devices[index];
        if device.retired.is_none() {
            let text = format!("device {} ({}) is retired: {why}", device.info.label(), device.info.id);
            device.retired = Some(why.into());
            self.retired.add(index);
            device.info.health = Health::Retired;
            device.reserved_for = None;
            self.note(self.policy.failure_level, index, text, effects);
        }
        self.end_deviceless(effects);
    }

    /// Ends the ready tasks that no device may run.
    pub(super) fn end_deviceless(&mut self, effects: &mut Effects) {
        for id in self.ready.confined_to(self.retired) {
            if self.tasks.get(id).is_ok_and(|record| record.live_attempts == 0) {
                self.end_without_device(id, effects);
            }
        }
    }

    /// The backend has retired the device's poisoned context.
    pub fn context_renewed(&mut self, index: usize) {
        self.devices[index].renewing = false;
    }

    /// Renews a poisoned context if all tasks have left it.
    pub fn renew_if_left(&mut self, index: usize, effects: &mut Effects) {
        let device = &mut self.devices[index];
        if !device.poisoned || !device.attempts.is_empty() || device.holds_light() {
            return;
        }
        device.poisoned = false;
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
        let why = error.to_string();
        let device = &self.devices[index];
        let was_poisoned = device.poisoned || run.context < device.first_sound_context;
        if *fault == DeviceFault::Poisoned && was_poisoned {
            return self.record_late_report(run, &why, effects);
        }
        let limit_reached = self.tasks.get_mut(run.id).is_ok_and(|record| {
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
        if *fault == DeviceFault::Lost {
            self.retire(index, &why, effects);
            return limit_reached;
        }
        let other = self.count_exposures(run);
        let is_cause = limit_reached && (run.role != Role::Task || !other);
        if is_cause {
            self.count_faulty_task(run);
        }
        self.devices[index].poisoned = true;
        self.renew_if_left(index, effects);
        let device = &mut self.devices[index];
        if !is_cause && !other && (run.role != Role::Task || !device.suspects.contains(&run.id)) {
            // A range has failed under other elements than before.
            device.suspects.push(run.id);
        }
        if device.suspects.len() >= self.policy.suspects || device.fault_count >= self.policy.faulty_tasks {
            self.retire(index, &why, effects);
        }
        is_cause
    }

    /// An attempt returns from a context that is known to be poisoned. Returns true if its task is
    /// the cause: kernels run after their launches, so the task that reports a failure first need
    /// not have caused it.
    fn record_late_report(&mut self, run: &Attempt, why: &str, effects: &mut Effects) -> bool {
        let index = run.device;
        let inside = &mut self.devices[index].poisoned_tasks;
        let is_light = !inside.is_empty() && !inside.contains(&run.id);
        if let Ok(record) = self.tasks.get_mut(run.id)
            && is_light
        {
            // The planner did not know that it was inside.
            record.poisonings += 1;
            inside.push(run.id);
        }
        if inside.is_empty() || !self.stands_out(index, run.id) {
            return false;
        }
        self.count_faulty_task(run);
        if self.devices[index].fault_count >= self.policy.faulty_tasks {
            self.retire(index, why, effects);
        }
        true
    }

    /// Counts the poisoned context for the tasks that are still inside. Returns true if one of them
    /// stands out.
    fn count_exposures(&mut self, run: &Attempt) -> bool {
        let inside: Vec<_> = self.devices[run.device].attempts.iter().map(|other| other.id).collect();
        for &other in &inside {
            if let Ok(record) = self.tasks.get_mut(other) {
                record.poisonings += u32::from(record.role == Role::Task);
            }
        }
        self.devices[run.device].poisoned_tasks.clone_from(&inside);
        self.devices[run.device].poisoned_tasks.push(run.id);
        inside.into_iter().any(|other| other != run.id && self.stands_out(run.device, other))
    }

    /// Returns true if a task was inside enough poisoned contexts to be their cause, and inside
    /// more of them than any other that was in the last one of this device.
    fn stands_out(&self, index: usize, id: TaskId) -> bool {
        let times = |id| self.tasks.get(id).map_or(0, |record| record.poisonings);
        let others = self.devices[index].poisoned_tasks.iter().filter(|&&other| other != id);
        let most = others.map(|&other| times(other)).max().unwrap_or(0);
        times(id) > most && times(id) >= self.policy.fault_limit(DeviceFault::Poisoned)
    }

    /// The task of an attempt is the cause of a poisoned context, so no other is, nor a device.
    fn count_faulty_task(&mut self, run: &Attempt) {
        let device = &mut self.devices[run.device];
        device.fault_count += 1;
        for other in std::mem::take(&mut device.poisoned_tasks) {
            if let Ok(record) = self.tasks.get_mut(other)
                && other != run.id
            {
                record.poisonings -= u32::from(record.role == Role::Task);
            }
        }
        for device in &mut self.devices {
            device.suspects.retain(|&suspect| suspect != run.id);
        }
    }

    /// Elements of a range are the cause of the device faults of these tasks, its owner and its
    /// helpers. So no device is.
    pub fn mark_range_as_cause(&mut self, tasks: &[TaskId]) {
        for &id in tasks {
            if let Ok(record) = self.tasks.get_mut(id) {
                record.is_cause = true;
            }
        }
        for device in &mut self.devices {
            device.suspects.retain(|suspect| !tasks.contains(suspect));
        }
    }

    /// A copy has failed after another attempt committed. A wrong result still counts against its
    /// device.
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
