//! Which task a worker gets, and which worker is called for a task.

use std::time::Instant;

use super::policy::PATIENCE;
use super::state::{Assignment, Core, Device, Entry};
use super::task::{State, TaskId};

impl Core {
    /// The next task for a device, in the order of the ready list, if the ledger grants it.
    ///
    /// `free_bytes` is asked only when something of ours runs on the device. When nothing does, a
    /// task starts whatever other processes have taken: waiting for them could last for ever, and
    /// its own error will tell the numbers.
    pub fn take(&mut self, index: usize, slot: u32, free_bytes: &dyn Fn() -> u64) -> Option<Assignment> {
        let device = &self.devices[index];
        if device.retired.is_some() || device.alone {
            return None;
        }
        let mut passed = Vec::new();
        let mut found = None;
        let mut free = None;
        for &id in self.ready.values() {
            let Ok(entry) = self.tasks.get(id) else { continue };
            if !entry.may_run_on(index, device) || device.hold.is_some_and(|held| held != id) {
                continue;
            }
            let fits = device.running == 0
                || !entry.alone
                    && (entry.device_bytes == 0
                        || entry.device_bytes <= *free.get_or_insert_with(free_bytes));
            match fits.then(|| device.ledger.lease(entry.device_bytes)).flatten() {
                Some(lease) => {
                    found = Some((id, lease));
                    break;
                }
                None => passed.push(id),
            }
        }
        let (id, lease) = found?;
        for other in passed {
            if let Ok(entry) = self.tasks.get_mut(other) {
                entry.passed += 1;
                if entry.passed >= PATIENCE {
                    self.devices[index].hold = Some(other);
                }
            }
        }
        self.release_holds(id);
        let entry = self.tasks.get_mut(id).ok()?;
        let job = entry.job.take()?;
        self.ready.remove(&entry.rank);
        let now = Instant::now();
        entry.queued += now - entry.since;
        entry.since = now;
        entry.state = State::Running;
        entry.attempts += 1;
        entry.device = Some(index);
        entry.slot = slot;
        let device = &mut self.devices[index];
        let alone = device.running == 0;
        device.running += 1;
        device.alone = entry.alone;
        self.counts.queued -= 1;
        self.counts.running += 1;
        Some(Assignment { id, job, signal: entry.signal.clone(), attempt: entry.attempts, lease, alone })
    }

    /// A ready task to call a worker for: if there are more than have been called, and room for any.
    pub fn callable(&self) -> Option<TaskId> {
        let room = |device: &Device| {
            device.retired.is_none() && device.running + device.called < device.slots + device.waiting
        };
        let called: usize = self.devices.iter().map(|device| device.called as usize).sum();
        if self.ready.len() <= called || !self.devices.iter().any(room) {
            return None;
        }
        self.ready.values().copied().find(|&id| self.device_for(id).is_some())
    }

    /// The device whose worker is to be called for a ready task: of those with a slot and memory for
    /// it now, the one with the fewest tasks. `None`: a worker that ends its task will look anyway.
    pub fn device_for(&self, id: TaskId) -> Option<usize> {
        let entry = self.tasks.get(id).ok()?;
        let load = |device: &Device| device.running + device.called;
        let could = |&index: &usize| {
            let device = &self.devices[index];
            entry.may_run_on(index, device)
                && load(device) < device.slots + device.waiting
                && self.could_start(id, entry, device)
        };
        (0..self.devices.len()).filter(could).min_by_key(|&index| load(&self.devices[index]))
    }

    /// Whether a device would start the task beside what it runs, as far as our own books tell.
    fn could_start(&self, id: TaskId, entry: &Entry, device: &Device) -> bool {
        device.hold.is_none_or(|held| held == id)
            && !device.alone
            && (device.running == 0 || !entry.alone)
            && device.ledger.limit() - device.ledger.leased() >= entry.device_bytes
    }

    /// Nothing can go on: all that runs waits for tasks, and no ready task can start beside it.
    pub fn stuck(&self) -> bool {
        self.counts.running == self.blocked
            && self.ready.values().all(|&id| {
                let Ok(entry) = self.tasks.get(id) else { return true };
                let mut devices = self.devices.iter().enumerate();
                !devices.any(|(i, device)| entry.may_run_on(i, device) && self.could_start(id, entry, device))
            })
    }

    pub fn release_holds(&mut self, id: TaskId) {
        for device in &mut self.devices {
            if device.hold == Some(id) {
                device.hold = None;
            }
        }
    }
}
