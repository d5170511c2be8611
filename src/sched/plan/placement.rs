//! Chooses the task that begins on a device that has room.
//!
//! The device gets the first task, in the order of the ready queue, that it should finish earlier
//! than any other device would. For that the queue is laid out over all devices, each task where it
//! should end first, given what runs there and how fast each device is for it. `docs/scheduling.md`
//! has the other rules.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::{
    Attempt, DeadlineState, Effects, FitCheck, MemoryShortage, Planner, Schedule, TaskRecord, TaskState,
};
use crate::device::BackendKind;
use crate::error::Result;
use crate::sched::base::{Completion, DeviceMask, Epoch, Exec, Job, Role, Task, TaskId};

/// An attempt for a worker to run.
pub struct Assignment {
    pub id: TaskId,
    /// The id by which callers know the task.
    pub known_as: TaskId,
    pub attempt: u32,
    pub began: Duration,
    pub job: Arc<dyn Job>,
    pub signal: Arc<Completion>,
    /// Context of the device. A queue that was opened in an older one is useless.
    pub context: u32,
}

/// The result of a worker's request for a task.
pub enum AssignResult {
    Begins(Assignment),
    Nothing,
    /// Depends on the device's free memory, which the worker has to query first.
    Unknown,
}

impl AssignResult {
    pub fn begun(self) -> Option<Assignment> {
        match self {
            AssignResult::Begins(assignment) => Some(assignment),
            AssignResult::Nothing | AssignResult::Unknown => None,
        }
    }
}

impl Planner {
    /// Begins an attempt on a slot of a device, if any should begin. `free`: free bytes of the
    /// device, if the worker has queried it; that may take long, so it is done only when needed.
    pub fn assign(
        &mut self,
        index: usize,
        slot: u32,
        free: Option<u64>,
        effects: &mut Effects,
    ) -> AssignResult {
        let now = effects.now;
        if !self.devices[index].has_room(now) {
            return AssignResult::Nothing;
        }
        self.age_priorities(now);
        let pending = self.devices[index].peer_load.pending_bytes;
        let mut fitting = FitCheck::new(now, index, free.map(|free| free.saturating_sub(pending)));
        let id = self.choose_task(now, &mut fitting);
        if fitting.unknown {
            return AssignResult::Unknown;
        }
        if self.refused_before_attempt(&fitting, effects) {
            return self.assign(index, slot, free, effects);
        }
        let leased = self.devices[index].ledger.leased();
        let until = now.saturating_add(self.policy.shortage_memory);
        self.devices[index].shortage =
            fitting.free.filter(|_| fitting.short).map(|free| MemoryShortage { free, leased, until });
        // A task that was refused for the last time fails; its attempt reports the numbers.
        let Some(id) = fitting.refused.or(id) else { return AssignResult::Nothing };
        for other in fitting.passed {
            if let Ok(record) = self.tasks.get_mut(other) {
                record.times_passed += 1;
                if record.times_passed >= self.policy.patience && self.devices[index].reserved_for.is_none() {
                    self.devices[index].reserved_for = Some(other);
                }
            }
        }
        self.start_attempt(now, index, slot, id, effects).map_or(AssignResult::Nothing, AssignResult::Begins)
    }

    /// Returns the devices where an attempt should begin now, or as soon as a worker gives up its
    /// slot for light tasks.
    pub fn runnable_devices(&self, now: Duration) -> DeviceMask {
        let has_room = |&index: &usize| self.devices[index].has_room_but_for_light(now);
        let mut open: Vec<usize> = (0..self.devices.len()).filter(has_room).collect();
        // The least loaded first: a task begins there.
        open.sort_by_key(|&index| self.devices[index].load());
        let (mut runnable, mut spoken_for) = (DeviceMask::NONE, Vec::new());
        for index in open {
            let free = Some(self.devices[index].known_free_bytes(now).unwrap_or(u64::MAX));
            let mut fitting = FitCheck { spoken_for: &spoken_for, ..FitCheck::new(now, index, free) };
            if let Some(choice) = self.choose_task(now, &mut fitting) {
                runnable.add(index);
                spoken_for.push(choice);
            }
        }
        runnable
    }

    pub fn choose_task(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        self.choose_ready_task(now, fitting).or_else(|| self.choose_copy(now, fitting))
    }

    /// Chooses among the ready tasks. Late ones are ready, too, for a copy.
    fn choose_ready_task(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        let index = fitting.index;
        if let Some(held) = self.devices[index].reserved_for
            && let Ok(record) = self.tasks.get(held)
            && record.state.is_ready()
            && self.may_begin(now, record, held, index)
            && !self.devices[index].backs_off(now, record.known_bytes(self.devices[index].info.backend))
        {
            let fits = fitting.fits(self, held, record);
            // A task that waits inside its code, and holds memory, may wait for another one.
            if fits.is_some() || self.devices[index].waiting_slots == 0 {
                return fits;
            }
        }
        if fitting.nothing_fits(self) {
            return None;
        }
        if self.devices.iter().filter(|device| device.retired.is_none()).count() == 1 {
            return self.first_that_fits(fitting);
        }
        self.choose_by_schedule(now, fitting)
    }

    pub fn may_begin(&self, now: Duration, record: &TaskRecord, id: TaskId, index: usize) -> bool {
        self.eligible(now, record).without(self.devices_in_use(record, id)).contains(index)
            && !(record.role.is_helper() && self.is_crowded())
    }

    /// Returns true if as many tasks wait inside their code as there are slots: one more helper of
    /// a range would probably wait, too. A range that needs helpers gets them nevertheless.
    fn is_crowded(&self) -> bool {
        let open = || self.devices.iter().filter(|device| device.retired.is_none());
        let waiting: u32 = open().map(|device| device.waiting_slots).sum();
        let slots: u32 = open().map(|device| device.slots).sum();
        waiting >= slots && !self.range_needs_helpers()
    }

    /// Returns true if idle slots of a device are for other processes: a copy would open a context
    /// there.
    pub(super) fn is_left_to_peers(&self, index: usize) -> bool {
        self.has_peers && self.devices[index].info.backend == BackendKind::Cuda
    }

    /// Returns the devices where no copy of a task may begin: those where one runs, and those left
    /// to other processes; all, once an attempt has committed.
    pub(super) fn devices_in_use(&self, record: &TaskRecord, id: TaskId) -> DeviceMask {
        if record.live_attempts == 0 {
            return DeviceMask::NONE;
        }
        if record.signal.is_decided() {
            return DeviceMask::ALL;
        }
        let runs = |index: usize| self.devices[index].attempts.iter().any(|run| run.id == id);
        (0..self.devices.len()).filter(|&index| runs(index) || self.is_left_to_peers(index)).collect()
    }

    fn first_that_fits(&self, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        self.ready.around(fitting.index, 0).find_map(|(_, id)| {
            let record = self.tasks.get(id).ok()?;
            self.may_begin(fitting.now, record, id, fitting.index)
                .then(|| fitting.fits(self, id, record))
                .flatten()
        })
    }

    /// Lays the ready queue out over all devices, until a task begins on this one now.
    fn choose_by_schedule(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        let index = fitting.index;
        let mut plan = Schedule::new(self, now, fitting.roomy);
        // The last task that others should finish earlier, and when; the smallest task.
        let mut left: Option<(f64, TaskId)> = None;
        let mut smallest: Option<(f64, TaskId)> = None;
        // Tasks not for this device, and for it.
        let mut looked_at = [0; 2];
        for (_, id) in self.ready.around(index, self.policy.horizon) {
            let Ok(record) = self.tasks.get(id) else { continue };
            let may = self.eligible(now, record).without(self.devices_in_use(record, id));
            let may = self.exclusive_devices(record, id, may);
            let here = may.contains(index);
            let so_far = &mut looked_at[usize::from(here)];
            *so_far += 1;
            if *so_far > self.policy.horizon {
                if here {
                    break;
                }
                continue;
            }
            if record.role != Role::Task {
                // Every free device helps a range, after tasks of unknown duration that came
                // before.
                if here && self.may_begin(now, record, id, index) {
                    let mut fit = |id| fitting.fits(self, id, self.tasks.get(id).ok()?);
                    if let Some(choice) = smallest.take().and_then(|(_, id)| fit(id)).or_else(|| fit(id)) {
                        return Some(choice);
                    }
                }
                continue;
            }
            let unknown = self.task_seconds(record, index).is_none();
            if here && unknown && !fitting.spoken_for.contains(&id) {
                // Nothing is known of this device: it gets the smallest task of the first priority.
                let first = smallest.and_then(|(_, id)| self.tasks.get(id).ok());
                if first.is_some_and(|first| first.rank.priority() != record.rank.priority()) {
                    break;
                }
                let work = record.work.unwrap_or(f64::INFINITY);
                if smallest.is_none_or(|(least, _)| work < least) {
                    smallest = Some((work, id));
                }
                continue;
            }
            match plan.place(self, record, may) {
                Some(place) if fitting.spoken_for.contains(&id) => plan.occupy(&place),
                Some(place) if place.device == index && place.begins_now => {
                    let fits = fitting.fits(self, id, record);
                    if fits.is_some() {
                        return fits;
                    }
                }
                Some(place) => {
                    plan.occupy(&place);
                    if here && !place.begins_now && left.is_none_or(|(latest, _)| place.end > latest) {
                        left = Some((place.end, id));
                    }
                }
                // Nothing is known of any device that it may use.
                None => {}
            }
        }
        let choice = smallest.or_else(|| {
            left.filter(|&(_, id)| self.tasks.get(id).is_ok_and(|e| self.must_not_decline(now, index, e)))
        });
        let choice = choice.and_then(|(_, id)| fitting.fits(self, id, self.tasks.get(id).ok()?));
        // A task that waits inside its code may wait for one that would decline: then none
        // declines.
        let waits = || self.devices.iter().any(|device| device.waiting_slots > 0);
        choice.or_else(|| if waits() { self.first_that_fits(fitting) } else { None })
    }

    /// Returns the devices of `may` where an exclusive task could begin at once, if there are any:
    /// tasks on the others may wait for it.
    fn exclusive_devices(&self, record: &TaskRecord, id: TaskId, may: DeviceMask) -> DeviceMask {
        if !record.exclusive {
            return may;
        }
        let is_idle = |&index: &usize| {
            let device = &self.devices[index];
            let kept = device.poisoned || device.reserved_for.is_some_and(|held| held != id);
            may.contains(index) && device.is_free_for_exclusive() && !kept
        };
        let idle: DeviceMask = (0..self.devices.len()).filter(is_idle).collect();
        if idle == DeviceMask::NONE { may } else { idle }
    }

    fn must_not_decline(&self, now: Duration, index: usize, record: &TaskRecord) -> bool {
        let here = self.task_seconds(record, index).unwrap_or(0.0);
        let may = self.eligible(now, record);
        let others = (0..self.devices.len()).filter(|&other| may.contains(other));
        let fastest =
            others.filter_map(|other| self.task_seconds(record, other)).fold(f64::INFINITY, f64::min);
        let probe = (self.policy.probe_tasks * here).max(self.policy.probe_after.as_secs_f64());
        let idle = now.saturating_sub(self.devices[index].last_start).as_secs_f64();
        let doubt = self.estimator.uncertainty(record.class, index, record.work.is_some());
        here <= self.policy.near * doubt * fastest || idle > probe
    }

    fn could_begin(&self, now: Duration, index: usize, id: TaskId) -> bool {
        let device = &self.devices[index];
        let Ok(record) = self.tasks.get(id) else { return false };
        self.may_begin(now, record, id, index)
            && !device.poisoned
            && (device.waiting_slots > 0 || device.reserved_for.is_none_or(|held| held == id))
            && !device.runs_exclusive()
            && (device.is_free_for_exclusive() || !record.exclusive)
            && device.unleased_bytes() >= record.bytes.on(device.info.backend)
    }

    /// Returns true if no task can begin beside those that run, nor will by the passage of time
    /// alone.
    pub fn nothing_can_begin(&self, now: Duration) -> bool {
        !self.devices.iter().any(|device| device.backs_off(now, u64::MAX))
            && !self
                .ready
                .iter()
                .any(|(_, id)| (0..self.devices.len()).any(|index| self.could_begin(now, index, id)))
    }

    /// Returns the first ready task's priority as its caller set it.
    pub fn first_priority(&self) -> Option<i32> {
        let (_, id) = self.ready.first()?;
        Some(self.tasks.get(id).ok()?.own_priority())
    }

    /// Returns the devices, as bits, where ranges should take no more memory than they must: a
    /// ready task waits for what they lease.
    pub fn memory_wanted(&self, now: Duration) -> u64 {
        let leases = |run: &Attempt| run.role != Role::Task && run.lease.bytes() > 0;
        let wanted = |&index: &usize| {
            self.devices[index].attempts.iter().any(leases) && self.waits_for_memory(now, index)
        };
        (0..self.devices.len()).filter(wanted).fold(0, |bits, index| bits | 1 << index)
    }

    /// Returns true if a task should begin on a device now, and only memory may be in its way.
    pub(super) fn waits_for_memory(&self, now: Duration, index: usize) -> bool {
        let device = &self.devices[index];
        let mut fitting = FitCheck { roomy: true, ..FitCheck::new(now, index, None) };
        let first = if device.has_room(now) { self.choose_ready_task(now, &mut fitting) } else { None };
        let record = first.and_then(|id| self.tasks.get(id).ok());
        record.is_some_and(|record| record.bytes.on(device.info.backend) > 0)
    }

    /// Returns true if no light task may begin on a device.
    pub fn is_reserved(&self, now: Duration, index: usize) -> bool {
        let device = &self.devices[index];
        let alone = |id: TaskId| self.tasks.get(id).is_ok_and(|record| record.exclusive);
        device.poisoned
            || device.renewing
            || device.reserved_for.is_some_and(alone)
            || device.runs_exclusive()
            || device.backs_off(now, 0)
    }

    /// Takes over a light task whose attempt failed, as if that had begun here at the time of
    /// `effects`. The caller ends the attempt, which has number 1, next. `light`: 0 if it has no
    /// id. Fails if there is no room.
    pub fn promote(
        &mut self,
        (light, epoch): (TaskId, Epoch),
        job: Arc<dyn Job>,
        (index, slot, context): (usize, u32, u32),
        shared_device: bool,
        effects: &mut Effects,
    ) -> Result<TaskId> {
        let (detached, epoch) = (light.0 == 0, Some(epoch));
        let task = Task { job, detached, epoch, ..Task::new(|_: &Exec<'_>| Ok(())) };
        let id = self.add(task, effects.now)?;
        if let Ok(record) = self.tasks.get_mut(id) {
            record.light = Some(light);
        }
        self.start_attempt(effects.now, index, slot, id, effects);
        if let Some(run) = self.devices[index].attempts.last_mut() {
            run.shared_device = shared_device;
            run.context = context;
        }
        Ok(id)
    }

    fn start_attempt(
        &mut self,
        now: Duration,
        index: usize,
        slot: u32,
        id: TaskId,
        effects: &mut Effects,
    ) -> Option<Assignment> {
        let late = self.late_after(index, id);
        let device = &self.devices[index];
        let lease = device.ledger.lease(self.tasks.get(id).ok()?.bytes.on(device.info.backend))?;
        self.release_reservations(id);
        let job = self.tasks.get(id).ok()?.job.clone()?;
        self.change_state(now, id, TaskState::Running { speculate: false });
        let record = self.tasks.get_mut(id).ok()?;
        let is_copy = record.begin_attempt(index, slot);
        self.counts.copies += u64::from(is_copy);
        let copy = is_copy.then(|| format!("{} gets a copy, on ", record.name()));
        let device = &mut self.devices[index];
        device.last_start = now;
        for run in &mut device.attempts {
            run.shared_device = true;
        }
        let company = !device.attempts.is_empty() || device.runs_light;
        let (attempt, context) = (record.attempts_begun, device.context);
        device.take_slot();
        device.attempts.push(Attempt {
            id,
            device: index,
            number: attempt,
            slot,
            context,
            label: record.label.clone(),
            started: now,
            class: record.class,
            role: record.role,
            work: record.work,
            lease,
            shared_device: company,
            exclusive: record.exclusive,
            deadline_state: DeadlineState::InTime(late.and_then(|late| now.checked_add(late))),
            awaits_tasks: false,
        });
        let (signal, known_as) = (record.signal.clone(), record.known_as(id));
        if let Some(text) = copy {
            let place = self.devices[index].info.label();
            self.note(Level::Info, index, text + &place, effects);
        }
        self.record_leased(now, index);
        Some(Assignment { id, known_as, attempt, began: now, job, signal, context })
    }
}
