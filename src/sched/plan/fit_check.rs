//! Whether a task fits a device now.

use std::time::Duration;

use super::planner::Planner;
use super::record::{DeviceState, TaskRecord};
use crate::sched::base::{Role, TaskId};

/// Checks whether tasks fit a device now, and collects those that do not.
pub struct FitCheck<'a> {
    pub(super) now: Duration,
    pub index: usize,
    /// Free bytes of the device. `None`: not queried.
    pub(super) free: Option<u64>,
    /// The result depends on `free`, which is not known.
    pub(super) unknown: bool,
    /// A task was left out for memory that others have taken.
    pub(super) short: bool,
    /// As if the device had unlimited memory.
    pub(super) roomy: bool,
    pub passed: Vec<TaskId>,
    /// Tasks that other slots will take, and their bytes on this device.
    pub(super) spoken_for: &'a [TaskId],
    pub(super) promised: u64,
}

impl<'a> FitCheck<'a> {
    pub fn new(now: Duration, index: usize, free: Option<u64>) -> Self {
        FitCheck {
            now,
            index,
            free,
            unknown: false,
            short: false,
            roomy: false,
            passed: Vec::new(),
            spoken_for: &[],
            promised: 0,
        }
    }

    pub fn beside(self, spoken_for: &'a [TaskId], promised: u64) -> Self {
        FitCheck { spoken_for, promised, ..self }
    }

    /// Returns the bytes that the ledger has left.
    fn room(&self, device: &DeviceState) -> u64 {
        (device.ledger.limit() - device.ledger.leased()).saturating_sub(self.promised)
    }

    fn has_company(&self, device: &DeviceState) -> bool {
        !device.attempts.is_empty() || self.promised > 0 || device.peer_load.pending_bytes > 0
    }

    /// Returns true if no ready task can fit.
    pub fn nothing_fits(&mut self, planner: &Planner) -> bool {
        let device = &planner.devices[self.index];
        let Some(least) = planner.ready.least(self.index, device.info.backend) else { return true };
        if self.roomy || least > self.room(device) {
            return !self.roomy;
        }
        // An exclusive task does not depend on what other processes have left.
        let taken = self.has_company(device)
            && planner.exclusive_tasks == 0
            && self.free.is_some_and(|free| least > free);
        self.short |= taken;
        taken
    }

    /// Returns the task if it fits. Free memory matters only beside attempts of this process. Alone, a task begins
    /// whatever other processes have taken: they may never return it, and the task's own error has the numbers.
    pub fn fits(&mut self, planner: &Planner, id: TaskId, record: &TaskRecord) -> Option<TaskId> {
        if self.spoken_for.contains(&id) {
            return None;
        }
        let device = &planner.devices[self.index];
        if device.backs_off(self.now, record.known_bytes(device.info.backend)) {
            return None;
        }
        if self.roomy {
            // An invitation may be to the range that asks.
            return (record.role != Role::Helper).then_some(id);
        }
        let bytes = record.bytes.on(device.info.backend);
        let fits = if record.exclusive {
            self.promised == 0 && device.is_free_for_exclusive()
        } else {
            !self.has_company(device) || bytes == 0 || self.free.is_some_and(|free| bytes <= free)
        };
        let granted = bytes <= self.room(device);
        if fits && granted {
            return Some(id);
        }
        self.unknown |= granted && !record.exclusive && self.free.is_none();
        self.short |= granted && !record.exclusive;
        self.passed.push(id);
        None
    }
}
