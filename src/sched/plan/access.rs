//! Reads and small changes of the planner that its two drivers need: of a device, of a task, of
//! all.

use std::sync::Arc;
use std::time::Duration;

use super::{DeadlineState, DeviceState, Effects, PeerLoad, Planner, TaskRecord, TaskState};
use crate::error::{Error, Result};
use crate::node::{RequestedTask, SlotRequest};
use crate::sched::base::{Completion, DeviceMask, Role, Task, TaskId, detached};

/// Devices.
impl Planner {
    pub fn devices(&self) -> &[DeviceState] {
        &self.devices
    }

    /// The driver has seen whether light tasks may be running on the device.
    pub fn set_runs_light(&mut self, index: usize, runs_light: bool) {
        self.devices[index].runs_light = runs_light;
    }

    /// Light tasks have run on the device beside an attempt.
    pub fn set_shared(&mut self, index: usize, attempt: (TaskId, u32)) {
        if let Some(run) = self.devices[index].attempt(Some(attempt)) {
            run.shared_device = true;
        }
    }

    /// Returns the number of slots of the devices that a task allows.
    pub fn slots_for(&self, task: &Task) -> usize {
        let devices = self.devices.iter().enumerate();
        let allowed =
            devices.filter(|(index, device)| device.is_allowed(*index, task.devices, &task.backends));
        allowed.map(|(_, device)| device.slots as usize).sum()
    }

    /// Returns the devices that may run a task, now or later.
    pub fn usable_devices(&self, task: &Task) -> DeviceMask {
        self.possible_devices(task.devices, &task.backends, task.bytes()).without(self.retired)
    }

    /// Returns true if the next assignment on the device depends on whether light tasks run there.
    pub fn depends_on_light(&self, index: usize) -> bool {
        self.exclusive_tasks > 0 || self.devices[index].reserved_for.is_some()
    }

    /// Returns the number of tasks that wait inside their code.
    pub fn waiting_tasks(&self) -> usize {
        self.devices.iter().map(|device| device.waiting_slots as usize + device.waiting_light).sum()
    }

    /// A light task on the device begins or ends a wait inside its code. `leased`: it runs in a
    /// leased slot.
    pub fn set_light_waits(&mut self, index: usize, leased: bool, waits: bool) {
        let device = &mut self.devices[index];
        let change = |count: &mut usize| *count = if waits { *count + 1 } else { *count - 1 };
        change(&mut device.waiting_light);
        if leased {
            change(&mut device.waiting_light_slots);
        }
    }

    /// An attempt on the device waits inside its code: another may run meanwhile.
    /// `waiter`: the attempt, if it waits for other tasks.
    pub fn open_slot(&mut self, index: usize, waiter: Option<(TaskId, u32)>) {
        self.devices[index].waiting_slots += 1;
        if let Some(run) = self.devices[index].attempt(waiter) {
            run.awaits_tasks = true;
        }
    }

    /// An attempt that waited inside its code goes on. If it was asked to stop, its time to return
    /// begins now.
    pub fn close_slot(&mut self, now: Duration, index: usize, waiter: Option<(TaskId, u32)>) {
        let least = now.saturating_add(self.policy.grace);
        self.devices[index].waiting_slots -= 1;
        let Some(run) = self.devices[index].attempt(waiter) else { return };
        run.awaits_tasks = false;
        if let DeadlineState::Stopping(until) = &mut run.deadline_state {
            *until = least.max(*until);
        }
    }
}

/// Other processes of the node: how long they hold slots of each device, and what this scheduler
/// requests of them.
impl Planner {
    /// The driver has seen whether other processes share the GPUs.
    pub fn set_has_peers(&mut self, has_peers: bool) {
        self.has_peers = has_peers;
    }

    /// Sets the seconds of a unit of the costs that processes state. `None`: none has measured it.
    pub fn set_seconds_per_cost(&mut self, seconds: Option<f64>) {
        self.seconds_per_cost = seconds;
    }

    /// Sets the share of a device that other processes hold. `seconds`: after which each of their
    /// slots should be free. `is_wanted`: they wait for the device.
    pub fn set_peer_load(
        &mut self,
        now: Duration,
        index: usize,
        seconds: &[f64],
        pending_bytes: u64,
        is_wanted: bool,
    ) {
        let end = |&seconds: &f64| {
            let left = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
            now.saturating_add(left)
        };
        let ends = seconds.iter().map(end).collect();
        self.devices[index].peer_load = PeerLoad { ends, pending_bytes, is_wanted };
    }

    /// Returns how long a task takes on a device, in the unit that all processes of a node share.
    /// `None`: unknown.
    pub fn cost(&self, record: &TaskRecord, index: usize) -> Option<f64> {
        if record.role != Role::Task {
            return None;
        }
        self.estimator.cost(record.class, index, record.work, self.seconds_per_cost)
    }

    /// Returns the request for the first ready task of each device, if other processes keep a ready
    /// task from a device.
    pub fn slot_request(&self, now: Duration) -> Option<SlotRequest> {
        let waits_for_peers = |index: usize| {
            !self.devices[index].peer_load.ends.is_empty() && self.first_for(index, now, |_| true).is_some()
        };
        // Peers would wait for a task that does not begin on a device that backs off.
        let task = |index: usize| {
            let device = &self.devices[index];
            let (record, id) = self.first_for(index, now, |record| {
                !device.backs_off(now, record.known_bytes(device.info.backend))
            })?;
            let (number, cost) = (id.0 as u32, self.cost(record, index).unwrap_or(1.0));
            Some(RequestedTask { number, priority: record.own_priority(), cost })
        };
        let devices = 0..self.devices.len();
        devices.clone().any(waits_for_peers).then(|| SlotRequest(devices.map(task).collect()))
    }

    /// Returns true if the task that a slot request names by this number is ready.
    pub fn is_ready(&self, number: u32) -> bool {
        self.tasks.find(number).is_some_and(|record| record.state.is_ready())
    }

    /// Returns the first ready task that may begin on a device and for which `accepts` returns true.
    fn first_for(
        &self,
        index: usize,
        now: Duration,
        accepts: impl Fn(&TaskRecord) -> bool,
    ) -> Option<(&TaskRecord, TaskId)> {
        self.ready.around(index, 0).take(self.policy.horizon).find_map(|(_, id)| {
            let record = self.tasks.get(id).ok()?;
            let may = self.eligible(now, record).without(self.devices_in_use(record, id));
            (may.contains(index) && accepts(record)).then_some((record, id))
        })
    }

    /// Returns true if a late task may get a copy once there are no other processes.
    pub fn copy_waits_for_peers(&self) -> bool {
        let is_late = |id| self.tasks.get(id).is_ok_and(|record| record.live_attempts > 0);
        self.has_peers && self.ready.iter().take(self.policy.horizon).any(|(_, id)| is_late(id))
    }

    /// Returns the bytes and the cost (`None`: unknown) with which a task leases a slot of a device,
    /// and the measured seconds per unit of cost, if no process has reported them.
    pub fn lease_terms(&self, id: TaskId, index: usize) -> Option<(u64, Option<f64>, Option<f64>)> {
        let record = self.tasks.get(id).ok()?;
        let bytes = record.bytes.on(self.devices[index].info.backend);
        // Costs in the table have the unit of the first report, so it stays.
        let report = || self.estimator.unit_scale_of(record.class);
        let report = if self.seconds_per_cost.is_none() { report() } else { None };
        Some((bytes, self.cost(record, index), report))
    }
}

/// Tasks.
impl Planner {
    /// Allocates memory for so many more tasks.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.tasks.reserve(more)
    }

    /// Returns what the code of a task and those who wait for it share.
    pub fn completion(&self, id: TaskId) -> Result<Arc<Completion>> {
        Ok(self.tasks.get(id)?.signal.clone())
    }

    /// Returns the completion of a task for a thread that waits for it. Fails for a detached task.
    pub fn start_wait(&mut self, id: TaskId) -> Result<Arc<Completion>> {
        let record = self.tasks.get_mut(id)?;
        if record.detached {
            return Err(detached(id));
        }
        record.awaited = true;
        Ok(record.signal.clone())
    }

    pub fn is_range(&self, id: TaskId) -> bool {
        self.tasks.get(id).is_ok_and(|record| record.role == Role::Range)
    }

    /// Returns the tasks of abandoned attempts that have not returned.
    pub fn abandoned_tasks(&self) -> Vec<TaskId> {
        let runs = self.devices.iter().flat_map(|device| &device.attempts);
        runs.filter(|run| run.deadline_state == DeadlineState::Lost).map(|run| run.id).collect()
    }

    /// Returns the tasks that a task which has not begun still waits for.
    pub fn predecessors(&self, id: TaskId) -> Vec<TaskId> {
        let record = self.tasks.get(id).ok().filter(|record| record.state.is_queued());
        record.map(|record| record.predecessors.iter().copied().collect()).unwrap_or_default()
    }

    /// Forgets the outcome of a task. A task that has not ended becomes detached.
    pub fn release(&mut self, id: TaskId) -> Result<()> {
        let record = self.tasks.get_mut(id)?;
        if record.state == TaskState::Ended {
            self.forget(id);
        } else {
            record.detached = true;
        }
        Ok(())
    }

    /// Fails the ready tasks that no device but these may run.
    pub fn fail_ready(&mut self, devices: DeviceMask, why: &Error, effects: &mut Effects) {
        for id in self.ready.confined_to(DeviceMask(self.retired.0 | devices.0)) {
            if self.tasks.get(id).is_ok_and(|record| record.live_attempts == 0) {
                self.end_task(id, Err(why.clone()), effects);
            }
        }
    }
}

/// The whole.
impl Planner {
    /// Sets the rates of a class from an earlier run, by device. Returns false if they don't fit
    /// each other: then none is kept.
    pub fn set_stored_rates(&mut self, class: u32, rates: impl Iterator<Item = Option<f64>>) -> bool {
        self.estimator.set_stored_rates(class, rates)
    }

    /// Returns the measured rates: class, device, work per second, number of samples.
    pub fn learned_rates(&self) -> impl Iterator<Item = (u32, usize, f64, u64)> {
        self.estimator.learned_rates()
    }

    /// The owner of a range can't go on without helpers, or can again.
    pub fn set_needs_helpers(&mut self, needs: bool) {
        self.ranges_in_need = if needs { self.ranges_in_need + 1 } else { self.ranges_in_need - 1 };
    }

    /// Returns true if the owner of a range can't go on without helpers.
    pub fn range_needs_helpers(&self) -> bool {
        self.ranges_in_need > 0
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Returns true if a task that has not ended must run alone.
    pub fn has_exclusive_tasks(&self) -> bool {
        self.exclusive_tasks > 0
    }

    pub fn has_ready_tasks(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if tasks are ready besides helpers of ranges.
    pub fn others_wait(&self) -> bool {
        let is_other = |id| self.tasks.get(id).is_ok_and(|record| !record.role.is_helper());
        self.ready.iter().any(|(_, id)| is_other(id))
    }
}
