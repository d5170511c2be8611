//! Slots of a device: those that this process owns, those in which its tasks run, and those of
//! other processes.
//!
//! A task that waits inside its code keeps its slot, and its lease where processes share the
//! device. Meanwhile another task of the process may run in that slot, and waiters of other
//! processes do not come first there: the waiting task may wait for it, and they wait for the
//! waiting task. So the process may own fewer slots than it has tasks on the device.
//!
//! Light tasks count on shared devices only, where each worker leases a slot for them.

use std::time::Duration;

use super::{DeviceState, Planner};

impl DeviceState {
    /// Returns how many attempts may run at a time, besides those that wait inside their code.
    fn slot_limit(&self, now: Duration) -> u32 {
        let throttles = self.throttles.iter().filter(|(_, until)| now < *until);
        throttles.map(|&(slots, _)| slots).fold(self.slots, u32::min)
    }

    /// Returns how many attempts may have begun and not ended.
    pub fn capacity(&self, now: Duration) -> usize {
        (self.slot_limit(now) + self.waiting_slots) as usize
    }

    /// Returns how many slots this and other processes use.
    pub fn load(&self) -> usize {
        self.attempts.len() + self.light_slots + self.peer_load.ends.len()
    }

    /// Returns the number of tasks of this process that run and do not wait inside their code.
    fn running(&self) -> usize {
        let waiting = self.waiting_slots as usize + self.waiting_light_slots;
        (self.attempts.len() + self.light_slots).saturating_sub(waiting)
    }

    /// Returns the number of slots that this process owns and in which no task runs.
    pub fn idle_slots(&self) -> usize {
        self.owned_slots.saturating_sub(self.running())
    }

    /// Returns true if another task may begin beside so many of this process, within so many slots.
    fn has_slot(&self, running: usize, limit: u32) -> bool {
        let limit = limit as usize;
        running < limit && (running < self.owned_slots || running + self.peer_load.ends.len() < limit)
    }

    /// Returns true if the device has a free slot and is usable.
    pub fn has_room(&self, now: Duration) -> bool {
        self.is_usable() && self.has_slot(self.running(), self.slot_limit(now))
    }

    /// Returns true if the device has room once the workers that run light tasks have given up their
    /// slots. They do that for a planned task.
    pub fn has_room_but_for_light(&self, now: Duration) -> bool {
        let light = self.light_slots - self.waiting_light_slots;
        self.is_usable() && self.has_slot(self.running().saturating_sub(light), self.slot_limit(now))
    }

    fn is_usable(&self) -> bool {
        self.retired.is_none() && !self.poisoned && !self.renewing && !self.runs_exclusive()
    }

    /// Returns true if a worker may lease a slot for light tasks.
    pub fn has_slot_for_light(&self) -> bool {
        self.has_slot(self.running(), self.slots)
    }

    /// Returns true if other processes use all slots, or will before this one.
    pub fn is_taken(&self) -> bool {
        self.peer_load.ends.len() >= self.slots as usize && self.idle_slots() == 0
    }

    /// Counts a task that begins: in a slot that the process owns, if one is idle.
    pub(super) fn take_slot(&mut self) {
        if self.idle_slots() == 0 {
            self.owned_slots += 1;
        }
    }

    /// Counts a task that has ended. Its slot goes to another task that runs in a slot of a waiting
    /// one, if there is one.
    pub(super) fn return_slot(&mut self) {
        self.owned_slots = self.owned_slots.min(self.attempts.len() + self.light_slots);
    }
}

impl Planner {
    /// Begins nothing on a device until then: the system gives it no thread.
    pub fn suspend(&mut self, index: usize, until: Duration) {
        self.devices[index].throttles.push((0, until));
    }

    /// A worker has leased a slot of the device for light tasks.
    pub fn take_light_slot(&mut self, index: usize) {
        self.devices[index].take_slot();
        self.devices[index].light_slots += 1;
    }

    /// A worker ends its lease of a slot for light tasks.
    pub fn return_light_slot(&mut self, index: usize) {
        self.devices[index].light_slots -= 1;
        self.devices[index].return_slot();
    }
}
