//! Which task begins on a device that has room.
//!
//! A device that asks for work is given the first task, in the order of the ready list, that it should
//! finish earlier than any other device would: for that the list is laid out over all devices, each
//! task where it should end first, given what runs there and how fast each device is thought to
//! be. So a slow card does not take the last long task from a fast one, and an idle one takes what was meant for
//! another as soon as it would finish it sooner. Three more rules:
//! - a device of which nothing is known gets the smallest task;
//! - a device that is nearly as fast as the fastest does not decline, for the guess may be wrong; nor does one
//!   that has declined for very long;
//! - when nothing is left to begin, a second copy of an idempotent task is started where it should end earlier
//!   than the first.
//!
//! A task that does not fit beside what runs is passed over, and after [`PATIENCE`] times the
//! device is kept for it.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::planner::Planner;
use super::record::{Attempt, DeadlineState, DeviceState, MemoryShortage, TaskRecord};
use super::schedule::Schedule;
use crate::error::Error;
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::Job;
use crate::sched::base::outcome::TaskStatus;
use crate::sched::base::policy::{
    HORIZON, LATE, LATE_LEAST, LOOK_AGAIN, NEAR, PATIENCE, PROBE_AFTER, PROBE_TIMES, remaining,
};
use crate::sched::base::reservation::DeviceLease;
use crate::sched::base::signal::Completion;
use crate::sched::base::task::Role;
use crate::sched::base::task_id::TaskId;

/// What a worker takes away to run.
pub struct Assignment {
    pub id: TaskId,
    pub attempt: u32,
    pub job: Arc<dyn Job>,
    pub signal: Arc<Completion>,
    /// A queue that was opened in an older context of the device is of no use any more.
    pub context: u32,
    /// The slot of the device, if other processes have to know.
    pub lease: Option<DeviceLease>,
}

/// What a worker is told that asks for a task.
pub enum AssignResult {
    Begins(Assignment),
    Nothing,
    /// It depends on what the device has free, which is to be asked first.
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

/// Looks whether tasks fit a device now, and remembers those that did not.
pub struct FitCheck<'a> {
    pub index: usize,
    /// What is free on the device now; `None`: nobody has asked it.
    free: Option<u64>,
    /// That would have to be known.
    unknown: bool,
    /// A task was left out for memory that others have taken.
    short: bool,
    /// As if the device had all memory of the world.
    roomy: bool,
    pub passed: Vec<TaskId>,
    /// Tasks that another slot will take, and the bytes of those on this device.
    spoken_for: &'a [TaskId],
    promised: u64,
}

impl<'a> FitCheck<'a> {
    pub fn new(index: usize, free: Option<u64>) -> Self {
        FitCheck {
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

    fn beside(self, spoken_for: &'a [TaskId], promised: u64) -> Self {
        FitCheck { spoken_for, promised, ..self }
    }

    /// Bytes that the ledger has left.
    fn room(&self, device: &DeviceState) -> u64 {
        (device.ledger.limit() - device.ledger.leased()).saturating_sub(self.promised)
    }

    fn has_company(&self, device: &DeviceState) -> bool {
        !device.attempts.is_empty() || self.promised > 0 || device.peer_load.pending_bytes > 0
    }

    /// Whether nothing that is ready can fit, however long one looks.
    fn nothing_fits(&mut self, planner: &Planner) -> bool {
        let device = &planner.devices[self.index];
        let Some(least) = planner.ready.least(self.index, device.info.backend) else { return true };
        if self.roomy || least > self.room(device) {
            return !self.roomy;
        }
        // What is to run alone does not ask what others have left.
        let taken = self.has_company(device)
            && planner.exclusive_tasks == 0
            && self.free.is_some_and(|free| least > free);
        self.short |= taken;
        taken
    }

    /// What is free now is asked only when something of ours runs on the device. When nothing does, a
    /// task starts whatever other processes have taken: waiting for them could last for ever, and
    /// its own error will tell the numbers.
    pub fn fits(&mut self, planner: &Planner, id: TaskId, record: &TaskRecord) -> Option<TaskId> {
        if self.spoken_for.contains(&id) {
            return None;
        }
        if self.roomy {
            // An invitation to a range may be one to the range that asks.
            return (record.role != Role::Helper).then_some(id);
        }
        let device = &planner.devices[self.index];
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

impl Planner {
    /// The task that begins now on a slot of a device, if any should. `free`: what the device has free now, if
    /// it was asked; asking may take long, so nobody asks before it is needed.
    pub fn assign(&mut self, now: Duration, index: usize, slot: u32, free: Option<u64>) -> AssignResult {
        if !self.devices[index].has_room(now) {
            return AssignResult::Nothing;
        }
        self.age_priorities(now);
        let pending = self.devices[index].peer_load.pending_bytes;
        let mut fitting = FitCheck::new(index, free.map(|free| free.saturating_sub(pending)));
        let id = self.choose_task(now, &mut fitting);
        if fitting.unknown {
            return AssignResult::Unknown;
        }
        let leased = self.devices[index].ledger.leased();
        let until = now.saturating_add(LOOK_AGAIN);
        self.devices[index].shortage =
            fitting.free.filter(|_| fitting.short).map(|free| MemoryShortage { free, leased, until });
        let Some(id) = id else { return AssignResult::Nothing };
        for other in fitting.passed {
            if let Ok(record) = self.tasks.get_mut(other) {
                record.times_passed += 1;
                if record.times_passed >= PATIENCE && self.devices[index].reserved_for.is_none() {
                    self.devices[index].reserved_for = Some(other);
                }
            }
        }
        self.start_attempt(now, index, slot, id).map_or(AssignResult::Nothing, AssignResult::Begins)
    }

    /// The devices where something should begin now, each as often as it has slots for it.
    pub fn runnable_devices(&self, now: Duration) -> Vec<usize> {
        let mut spoken_for = Vec::new();
        let mut wanted = Vec::new();
        let mut promised = vec![0; self.devices.len()];
        let mut load: Vec<usize> =
            self.devices.iter().map(|device| device.attempts.len() + device.peer_load.ends.len()).collect();
        let mut open: Vec<usize> =
            (0..load.len()).filter(|&index| self.devices[index].has_room(now)).collect();
        // Those that have the least to do first.
        while let Some(&index) = open.iter().min_by_key(|&&index| load[index]) {
            let free = self.devices[index].known_free_bytes(now).unwrap_or(u64::MAX);
            let mut fitting = FitCheck::new(index, Some(free)).beside(&spoken_for, promised[index]);
            let choice = if load[index] < self.devices[index].capacity(now) {
                self.choose_task(now, &mut fitting)
            } else {
                None
            };
            let Some(choice) = choice else {
                open.retain(|&other| other != index);
                continue;
            };
            load[index] += 1;
            wanted.push(index);
            spoken_for.push(choice);
            // At least something, so that what wants to be alone sees that it is not.
            let kind = self.devices[index].info.backend;
            promised[index] += self.tasks.get(choice).map_or(0, |record| record.bytes.on(kind)).max(1);
        }
        wanted
    }

    pub fn choose_task(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        self.choose_first_copy(now, fitting).or_else(|| self.choose_copy(now, fitting))
    }

    fn choose_first_copy(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        let index = fitting.index;
        if let Some(held) = self.devices[index].reserved_for
            && let Ok(record) = self.tasks.get(held)
            && self.ready.contains(record)
            && self.may_begin(record, held, index)
        {
            let fits = fitting.fits(self, held, record);
            // What waits inside its code, and holds memory, may wait for another.
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

    pub fn may_begin(&self, record: &TaskRecord, id: TaskId, index: usize) -> bool {
        self.eligible(record).without(self.devices_in_use(record, id)).contains(index)
            && (record.role != Role::Helper || !self.is_crowded())
    }

    /// So many tasks wait inside their code that one more worker on a range would rather add to them. Where a
    /// range needs guests, that is better than to stand still.
    fn is_crowded(&self) -> bool {
        let (waiting, slots) = self
            .devices
            .iter()
            .fold((0, 0), |(waiting, slots), device| (waiting + device.waiting_slots, slots + device.slots));
        waiting >= slots && self.ranges_in_need == 0
    }

    /// The devices where no copy of a task may begin: those where one runs; all, once it is decided how it ends.
    fn devices_in_use(&self, record: &TaskRecord, id: TaskId) -> DeviceMask {
        let mut devices = DeviceMask::NONE;
        if record.live_attempts > 0 {
            if record.signal.is_decided() {
                return DeviceMask::ALL;
            }
            for (index, device) in self.devices.iter().enumerate() {
                if device.attempts.iter().any(|run| run.id == id) {
                    devices.add(index);
                }
            }
        }
        devices
    }

    fn first_that_fits(&self, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        self.ready.of(fitting.index).find_map(|(_, id)| {
            let record = self.tasks.get(id).ok()?;
            self.may_begin(record, id, fitting.index).then(|| fitting.fits(self, id, record)).flatten()
        })
    }

    /// Lays the ready list out over all devices, until something falls to this one now.
    fn choose_by_schedule(&self, now: Duration, fitting: &mut FitCheck<'_>) -> Option<TaskId> {
        let index = fitting.index;
        let mut plan = Schedule::new(self, now, fitting.roomy);
        // What it could begin, though others should finish it earlier; when they should; and how it ranks.
        let mut left: Option<(f64, TaskId)> = None;
        let mut smallest: Option<(f64, TaskId)> = None;
        // So many not for this device, and so many for it.
        let mut looked_at = [0; 2];
        for (_, id) in self.ready.around(index, HORIZON) {
            let Ok(record) = self.tasks.get(id) else { continue };
            let may = self.eligible(record).without(self.devices_in_use(record, id));
            let may = self.exclusive_devices(record, id, may);
            let here = may.contains(index);
            let so_far = &mut looked_at[usize::from(here)];
            *so_far += 1;
            if *so_far > HORIZON {
                if here {
                    break;
                }
                continue;
            }
            if record.role != Role::Task {
                // Whoever is free works on a range; what a slow device takes it takes in small pieces.
                if here
                    && self.may_begin(record, id, index)
                    && let Some(choice) = fitting.fits(self, id, record)
                {
                    return Some(choice);
                }
                continue;
            }
            let unknown = self.task_seconds(record, index).is_none();
            if here && unknown && !fitting.spoken_for.contains(&id) {
                if self.another_is_less_loaded(now, index, may) {
                    continue;
                }
                // Nothing is known of this device: the smallest of what has this priority.
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
                // No device that it may use is known yet.
                None => {}
            }
        }
        let choice = smallest.or_else(|| {
            left.filter(|&(_, id)| self.tasks.get(id).is_ok_and(|e| self.must_not_decline(now, index, e)))
        });
        let choice = choice.and_then(|(_, id)| fitting.fits(self, id, self.tasks.get(id).ok()?));
        // While a task waits inside its code, perhaps for what is to be kept for its device, nothing is kept.
        let waits = || self.devices.iter().any(|device| device.waiting_slots > 0);
        choice.or_else(|| if waits() { self.first_that_fits(fitting) } else { None })
    }

    /// One that is to be alone goes where it is at once, if there is such a device: what runs on another may wait
    /// for it.
    fn exclusive_devices(&self, record: &TaskRecord, id: TaskId, may: DeviceMask) -> DeviceMask {
        let mut idle = DeviceMask::NONE;
        for (index, device) in self.devices.iter().enumerate() {
            let kept = device.poisoned || device.reserved_for.is_some_and(|held| held != id);
            if record.exclusive && may.contains(index) && device.is_free_for_exclusive() && !kept {
                idle.add(index);
            }
        }
        if idle == DeviceMask::NONE { may } else { idle }
    }

    /// Of devices that nothing is known of, the one that has the least to do is first.
    fn another_is_less_loaded(&self, now: Duration, index: usize, may: DeviceMask) -> bool {
        let here = self.devices[index].attempts.len();
        self.devices.iter().enumerate().any(|(other, device)| {
            may.contains(other) && device.has_room(now) && device.attempts.len() < here
        })
    }

    fn must_not_decline(&self, now: Duration, index: usize, record: &TaskRecord) -> bool {
        let here = self.task_seconds(record, index).unwrap_or(0.0);
        let fastest = self.eligible_devices(record).filter_map(|other| self.task_seconds(record, other));
        let fastest = fastest.fold(f64::INFINITY, f64::min);
        let probe = (PROBE_TIMES * here).max(PROBE_AFTER.as_secs_f64());
        let idle = now.saturating_sub(self.devices[index].last_start).as_secs_f64();
        let doubt = self.estimator.uncertainty(record.class, index, record.work.is_some());
        here <= NEAR * doubt * fastest || idle > probe
    }

    fn eligible_devices(&self, record: &TaskRecord) -> impl Iterator<Item = usize> {
        let may = self.eligible(record);
        (0..self.devices.len()).filter(move |&index| may.contains(index))
    }

    /// How long a task should take on a device; `None`: nothing is known of the device.
    pub fn task_seconds(&self, record: &TaskRecord, index: usize) -> Option<f64> {
        self.estimator.seconds(record.class, index, record.work).map(|seconds| seconds * record.slowdown)
    }

    /// How long an attempt was to take. A device of which nothing is known is taken to be as fast as the
    /// fastest, until the attempt is late.
    pub fn attempt_seconds(&self, index: usize, run: &Attempt) -> Option<f64> {
        if run.role != Role::Task {
            return None;
        }
        let known = |index| self.estimator.seconds(run.class, index, run.work);
        known(index).or_else(|| (0..self.devices.len()).filter_map(known).min_by(f64::total_cmp))
    }

    /// When a slot should be free, for a plan. One that works on a range may be there for long.
    pub fn seconds_until_free(&self, now: Duration, index: usize, run: &Attempt) -> f64 {
        let unknown = if run.role == Role::Task { 0.0 } else { f64::INFINITY };
        self.remaining_seconds(now, index, run).unwrap_or(unknown)
    }

    /// Seconds that an attempt should still take.
    pub fn remaining_seconds(&self, now: Duration, index: usize, run: &Attempt) -> Option<f64> {
        if run.deadline_state == DeadlineState::Lost {
            return None;
        }
        let expected = self.attempt_seconds(index, run)?;
        Some(remaining(expected, now.saturating_sub(run.started).as_secs_f64(), run.work.is_some()))
    }

    fn could_begin(&self, index: usize, id: TaskId) -> bool {
        let device = &self.devices[index];
        let Ok(record) = self.tasks.get(id) else { return false };
        self.may_begin(record, id, index)
            && !device.poisoned
            && (device.waiting_slots > 0 || device.reserved_for.is_none_or(|held| held == id))
            && !device.runs_exclusive()
            && (device.is_free_for_exclusive() || !record.exclusive)
            && device.ledger.limit() - device.ledger.leased() >= record.bytes.on(device.info.backend)
    }

    /// No task can begin beside what runs.
    pub fn nothing_can_begin(&self) -> bool {
        self.delayed.is_empty()
            && self
                .ready
                .iter()
                .all(|(_, id)| !(0..self.devices.len()).any(|index| self.could_begin(index, id)))
    }

    /// The priority that the first ready task was given by its caller.
    pub fn first_priority(&self) -> Option<i32> {
        let (rank, id) = self.ready.first()?;
        let raised = self.tasks.get(id).map_or(0, |record| record.priority_gain);
        Some(rank.priority().saturating_sub_unsigned(raised))
    }

    /// Whether a task should begin on a device now, and only memory may be in its way.
    pub fn waits_for_memory(&self, now: Duration, index: usize) -> bool {
        let device = &self.devices[index];
        let mut fitting = FitCheck { roomy: true, ..FitCheck::new(index, None) };
        let first = if device.has_room(now) { self.choose_first_copy(now, &mut fitting) } else { None };
        let record = first.and_then(|id| self.tasks.get(id).ok());
        record.is_some_and(|record| record.bytes.on(device.info.backend) > 0)
    }

    /// Whether nothing that is not planned may begin on a device.
    pub fn is_reserved(&self, index: usize) -> bool {
        let device = &self.devices[index];
        let alone = |id: TaskId| self.tasks.get(id).is_ok_and(|record| record.exclusive);
        device.poisoned
            || device.renewing
            || device.reserved_for.is_some_and(alone)
            || device.runs_exclusive()
    }

    /// A task that failed outside of the plan goes on inside as the one that stands for it, as if that had begun
    /// here then, with company on the device or without. It is to be judged next, as attempt 1.
    /// `Err`: that one is over.
    pub fn adopt_promoted(
        &mut self,
        began: Duration,
        id: TaskId,
        job: Arc<dyn Job>,
        (index, slot, context): (usize, u32, u32),
        company: bool,
    ) -> std::result::Result<TaskId, Arc<dyn Job>> {
        let Some(record) = self.tasks.get_mut(id).ok().filter(|record| record.job.is_some()) else {
            return Err(job);
        };
        record.job = Some(job);
        record.role = Role::Task;
        record.detached = false;
        if self.start_attempt(began, index, slot, id).is_none() {
            self.end_task(id, Err(Error::Cancelled));
        } else if let Some(run) = self.devices[index].attempts.last_mut() {
            run.shared_device = company;
            run.context = context;
        }
        Ok(id)
    }

    fn start_attempt(&mut self, now: Duration, index: usize, slot: u32, id: TaskId) -> Option<Assignment> {
        let late = self.late_after(index, id);
        let device = &self.devices[index];
        let lease = device.ledger.lease(self.tasks.get(id).ok()?.bytes.on(device.info.backend))?;
        self.release_reservations(id);
        let record = self.tasks.get_mut(id).ok()?;
        let job = record.job.clone()?;
        self.ready.remove(record);
        record.attempts_begun += 1;
        record.device = Some(index);
        record.slot = slot;
        if record.live_attempts == 0 {
            record.queued += now.saturating_sub(record.since);
            record.since = now;
            record.status = TaskStatus::Running;
            self.counts.queued -= 1;
            self.counts.running += 1;
            let guest = u64::from(record.role == Role::Helper);
            self.counts.guests.queued -= guest;
            self.counts.guests.running += guest;
        } else {
            self.counts.copies += 1;
        }
        let copy = (record.live_attempts > 0).then(|| format!("{} is started once more, on ", record.name()));
        record.live_attempts += 1;
        let device = &mut self.devices[index];
        device.last_start = now;
        for run in &mut device.attempts {
            run.shared_device = true;
        }
        let company = !device.attempts.is_empty() || device.runs_light;
        let watched = DeadlineState::InTime(late.and_then(|late| now.checked_add(late)));
        device.attempts.push(Attempt::new(id, record, device.context, now, lease, company, watched));
        let (attempt, context) = (record.attempts_begun, device.context);
        let signal = record.signal.clone();
        if let Some(text) = copy {
            let place = self.devices[index].info.label();
            self.observer.now = now;
            self.note(Level::Info, index, text + &place);
        }
        self.observer.leased(now, index, &self.devices[index]);
        Some(Assignment { id, attempt, job, signal, context, lease: None })
    }

    /// How long an attempt may take here: as its caller says, else much longer than its like.
    pub fn late_after(&self, index: usize, id: TaskId) -> Option<Duration> {
        let record = self.tasks.get(id).ok()?;
        if record.deadline.is_some() {
            return record.deadline;
        }
        if record.role != Role::Task {
            return None;
        }
        let usual = self.estimator.trimmed_ratio(record.class)?;
        let expected = self.estimator.seconds(record.class, index, record.work)?;
        Duration::try_from_secs_f64(LATE * usual * expected).ok().map(|late| late.max(LATE_LEAST))
    }
}
