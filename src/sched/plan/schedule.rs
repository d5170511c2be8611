//! Where a task may begin, whether it fits a device, how long it should take, and on which device
//! it should end first.

use std::cell::OnceCell;
use std::ops::Range;
use std::time::Duration;

use super::{Attempt, DeadlineState, DeviceState, Planner, TaskRecord};
use crate::device::BackendKind;
use crate::sched::base::{DeviceMask, Role, TaskId};

impl Planner {
    /// Returns the devices where a task may begin as soon as they have room: those that it may use,
    /// without those that refused it and still back off, without those where it failed unless it
    /// can't have another, and without those of another task that may poison contexts, too.
    pub(super) fn eligible(&self, now: Duration, record: &TaskRecord) -> DeviceMask {
        let may = self.possible(record);
        if record.poisonings == 0
            && record.refused_devices == DeviceMask::NONE
            && record.avoided_devices == DeviceMask::NONE
        {
            return may;
        }
        let backs_off = |&index: &usize| {
            let device = &self.devices[index];
            let bytes = record.known_bytes(device.info.backend);
            record.refused_devices.contains(index) && device.backs_off(now, bytes)
        };
        let may = may.without((0..self.devices.len()).filter(backs_off).collect());
        let better = may.without(record.avoided_devices);
        // A task that waits inside its code may wait for this one, and keep the other devices until
        // then.
        let waits = || self.devices.iter().any(|device| device.waiting_slots > 0);
        let is_urgent = record.live_attempts == 0 && (!record.shuns || waits());
        let is_free = |index| better.contains(index) && self.is_free_for(now, record, index);
        let all = better == DeviceMask::NONE || is_urgent && !(0..self.devices.len()).any(is_free);
        (if all { may } else { better }).without(self.kept_apart(record))
    }

    /// Returns the devices where no attempt may begin at a task that may poison contexts: those
    /// where another such task runs, so that two poisoned contexts show the cause; all while an
    /// attempt of its own runs. While a task waits inside its code on a device, others may run
    /// there: it may wait for one of them.
    fn kept_apart(&self, record: &TaskRecord) -> DeviceMask {
        let may_poison = |record: &TaskRecord| record.poisonings > 0;
        if !may_poison(record) {
            return DeviceMask::NONE;
        }
        if record.live_attempts > 0 {
            return DeviceMask::ALL;
        }
        let is_other = |run: &Attempt| self.tasks.get(run.id).is_ok_and(may_poison);
        let devices = self.devices.iter().enumerate();
        let apart =
            devices.filter(|(_, device)| device.waiting_slots == 0 && device.attempts.iter().any(is_other));
        apart.map(|(index, _)| index).collect()
    }

    /// Returns true if a device has a slot and memory for a task now.
    fn is_free_for(&self, now: Duration, record: &TaskRecord, index: usize) -> bool {
        let device = &self.devices[index];
        device.has_room(now)
            && device.reserved_for.is_none()
            && (device.is_free_for_exclusive() || !record.exclusive)
            && !device.backs_off(now, record.known_bytes(device.info.backend))
            && record.bytes.on(device.info.backend) <= free_now(device, now)
    }

    /// Returns the seconds that a task should take on a device. `None`: the rate is unknown.
    pub fn task_seconds(&self, record: &TaskRecord, index: usize) -> Option<f64> {
        self.estimator.seconds(record.class, index, record.work)
    }

    /// Returns the expected seconds of an attempt. A device of unknown rate counts as the fastest.
    pub fn attempt_seconds(&self, run: &Attempt) -> Option<f64> {
        if run.role != Role::Task {
            return None;
        }
        let known = |index| self.estimator.seconds(run.class, index, run.work);
        known(run.device).or_else(|| (0..self.devices.len()).filter_map(known).min_by(f64::total_cmp))
    }

    /// Returns the seconds until a slot should be free. Work on a range has no known end.
    pub fn seconds_until_free(&self, now: Duration, run: &Attempt) -> f64 {
        let unknown = if run.role == Role::Task { 0.0 } else { f64::INFINITY };
        self.remaining_seconds(now, run).unwrap_or(unknown)
    }

    /// Returns the seconds that an attempt should still take.
    pub fn remaining_seconds(&self, now: Duration, run: &Attempt) -> Option<f64> {
        if run.deadline_state == DeadlineState::Lost {
            return None;
        }
        let expected = self.attempt_seconds(run)?;
        let elapsed = now.saturating_sub(run.started).as_secs_f64();
        Some(self.policy.remaining(expected, elapsed, run.work.is_some()))
    }

    /// Returns after which time an attempt is late: its deadline, else much longer than its class
    /// takes.
    pub fn late_after(&self, index: usize, id: TaskId) -> Option<Duration> {
        let record = self.tasks.get(id).ok()?;
        if record.deadline.is_some() {
            return record.deadline;
        }
        if record.role != Role::Task {
            return None;
        }
        let late = self.estimator.late_after(record.class, index, record.work)?;
        Some(Duration::try_from_secs_f64(late).ok()?.max(self.policy.late_least))
    }
}

/// The place of a task in the schedule.
pub struct PlacedTask {
    pub device: usize,
    pub end: f64,
    pub begins_now: bool,
}

/// When each slot of each device should be free, in seconds from now.
pub struct Schedule {
    now: Duration,
    devices: Vec<ScheduledDevice>,
    /// The slots' times, device by device.
    lanes: Vec<f64>,
    /// Rates of each class asked for, device by device.
    rates: Vec<ClassRates>,
}

struct ScheduledDevice {
    kind: BackendKind,
    lanes: Range<usize>,
    /// The lane that is free first, and when; infinite without lanes.
    first: usize,
    free_from: f64,
    /// The number of lanes that are not free now.
    busy: usize,
    free_now: u64,
    /// Free memory by time: now, and after each running attempt. Computed when `free_now` is too
    /// little.
    free: OnceCell<Vec<(f64, u64)>>,
}

struct ClassRates {
    class: u32,
    /// Work of a task that states none.
    mean: f64,
    /// Seconds per unit of work on each device. `None`: unknown.
    each: Vec<Option<f64>>,
}

impl Schedule {
    /// Lays out what runs. `roomy`: as if no device lacked memory.
    pub fn new(planner: &Planner, now: Duration, roomy: bool) -> Self {
        let count = planner.devices.len();
        let mut schedule = Schedule {
            now,
            devices: Vec::with_capacity(count),
            lanes: Vec::with_capacity(count),
            rates: Vec::new(),
        };
        for (index, device) in planner.devices.iter().enumerate() {
            let begin = schedule.lanes.len();
            schedule.add_lanes(planner, index);
            let free_now = if roomy { u64::MAX } else { free_now(device, now) };
            schedule.devices.push(ScheduledDevice {
                kind: device.info.backend,
                lanes: begin..schedule.lanes.len(),
                first: begin,
                free_from: f64::INFINITY,
                busy: 0,
                free_now,
                free: OnceCell::new(),
            });
            schedule.count_lanes(index);
        }
        schedule
    }

    fn add_lanes(&mut self, planner: &Planner, index: usize) {
        let (now, lanes, device) = (self.now, &mut self.lanes, &planner.devices[index]);
        // A task that waits inside its code in a poisoned context may wait for one that would be
        // kept for this device.
        if device.retired.is_some() || device.poisoned && (device.waiting_slots > 0 || device.holds_light()) {
            return;
        }
        let begin = lanes.len();
        lanes.extend(device.attempts.iter().map(|run| planner.seconds_until_free(now, run)));
        lanes.extend(device.peer_load.ends.iter().map(|end| end.saturating_sub(now).as_secs_f64()));
        let held = device.reserved_for.is_some() && device.waiting_slots == 0;
        let closed = device.poisoned || held || device.runs_exclusive();
        // Nothing begins on a closed device before all running attempts have ended.
        let open = if closed { lanes[begin..].iter().copied().fold(0.0, f64::max) } else { 0.0 };
        let open = device
            .backoff
            .filter(|backoff| backoff.least_bytes == 0)
            .map_or(open, |backoff| open.max(backoff.until.saturating_sub(now).as_secs_f64()));
        let capacity = device.capacity(now);
        lanes.resize(lanes.len().max(begin + capacity), 0.0);
        lanes[begin..].iter_mut().for_each(|lane| *lane = lane.max(open));
        // With more attempts than may run at a time, the first to end make no room.
        lanes[begin..].sort_by(f64::total_cmp);
        lanes.drain(begin..lanes.len() - capacity);
        // Waiters of other processes come later than a task that begins in the slot of one that
        // waits.
        lanes[begin..].iter_mut().take(device.idle_slots()).for_each(|lane| *lane = open);
    }

    fn count_lanes(&mut self, device: usize) {
        let device = &mut self.devices[device];
        let lanes = device.lanes.clone().zip(&self.lanes[device.lanes.clone()]);
        device.busy = lanes.clone().filter(|&(_, &free)| free > 0.0).count();
        if let Some((lane, &free)) = lanes.min_by(|(_, a), (_, b)| a.total_cmp(b)) {
            (device.first, device.free_from) = (lane, free);
        }
    }

    /// Returns when a device should have so much free memory, in seconds from now.
    pub fn has_memory(&self, planner: &Planner, index: usize, bytes: u64) -> Option<f64> {
        let device = &self.devices[index];
        if bytes <= device.free_now {
            return Some(0.0);
        }
        let free = device.free.get_or_init(|| free_by_time(planner, self.now, index));
        free.iter().find(|&&(_, free)| bytes <= free).map(|&(from, _)| from)
    }

    /// Returns where the task should end first, of the devices whose rate is known.
    pub fn place(&mut self, planner: &Planner, record: &TaskRecord, may: DeviceMask) -> Option<PlacedTask> {
        let rates = self.rates_of(planner, record.class);
        let rates = &self.rates[rates];
        let work = record.work.unwrap_or(rates.mean);
        let mut best: Option<PlacedTask> = None;
        for (index, device) in self.devices.iter().enumerate() {
            let (true, Some(each)) = (may.contains(index), rates.each[index]) else { continue };
            if device.lanes.is_empty() {
                continue;
            }
            let free = device.free_from;
            let seconds = work * each;
            // No later than another: most devices are left out by that.
            let is_later = |end: f64, best: &PlacedTask| {
                (end, device.busy) >= (best.end, self.devices[best.device].busy)
            };
            if best.as_ref().is_some_and(|best| is_later(free + seconds, best)) {
                continue;
            }
            let Some(memory) = self.has_memory(planner, index, record.bytes.on(device.kind)) else {
                continue;
            };
            let free = free.max(memory);
            let end = free + seconds;
            if !best.as_ref().is_some_and(|best| is_later(end, best)) {
                best = Some(PlacedTask { device: index, end, begins_now: free <= 0.0 });
            }
        }
        best
    }

    fn rates_of(&mut self, planner: &Planner, class: u32) -> usize {
        self.rates.iter().position(|rates| rates.class == class).unwrap_or_else(|| {
            let (estimator, devices) = (&planner.estimator, 0..self.devices.len());
            let each = devices.map(|device| estimator.seconds_per_work(class, device)).collect();
            self.rates.push(ClassRates { class, mean: estimator.mean_work(class), each });
            self.rates.len() - 1
        })
    }

    pub fn occupy(&mut self, place: &PlacedTask) {
        self.lanes[self.devices[place.device].first] = place.end;
        self.count_lanes(place.device);
    }
}

/// Returns the free bytes of a device now. Beside running attempts, memory of other processes
/// counts as used. Until its back-off is over, the device has no memory for tasks of the size that
/// it refused.
fn free_now(device: &DeviceState, now: Duration) -> u64 {
    let own = device.unleased_bytes();
    let others = device.known_free_bytes(now).filter(|_| !device.attempts.is_empty());
    let refused = device.backoff.filter(|backoff| now < backoff.until);
    let refused = refused.map(|backoff| backoff.least_bytes.saturating_sub(1));
    own.min(others.unwrap_or(u64::MAX)).min(refused.unwrap_or(u64::MAX))
}

/// Returns the free bytes of a device now and after each running attempt, in seconds from now; see
/// [`free_now`].
fn free_by_time(planner: &Planner, now: Duration, index: usize) -> Vec<(f64, u64)> {
    let device = &planner.devices[index];
    let attempts = device.attempts.iter();
    let mut runs: Vec<(f64, u64)> =
        attempts.map(|run| (planner.seconds_until_free(now, run), run.lease.bytes())).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut bytes = device.unleased_bytes();
    let mut others = if runs.is_empty() { None } else { device.known_free_bytes(now) };
    let mut free = vec![(0.0, bytes.min(others.unwrap_or(u64::MAX)))];
    let last = runs.len();
    for (number, (end, more)) in (1..).zip(runs) {
        bytes += more;
        others = others.filter(|_| number < last).map(|free| free.saturating_add(more));
        free.push((end, bytes.min(others.unwrap_or(u64::MAX))));
    }
    if let Some(backoff) = device.backoff.filter(|backoff| now < backoff.until) {
        let end = (backoff.until - now).as_secs_f64();
        let later = free.partition_point(|&(from, _)| from <= end);
        let then = free[later - 1].1;
        for (_, bytes) in &mut free[..later] {
            *bytes = (*bytes).min(backoff.least_bytes.saturating_sub(1));
        }
        free.insert(later, (end, then));
    }
    free
}

/// Checks whether tasks fit a device now, and collects those that do not.
#[derive(Default)]
pub struct FitCheck<'a> {
    pub(super) now: Duration,
    pub index: usize,
    /// Free bytes of the device. `None`: not queried.
    pub(super) free: Option<u64>,
    /// The result depends on `free`, which is not known.
    pub(super) unknown: bool,
    /// A task was left out for memory that others have taken.
    pub(super) short: bool,
    /// A task that all its devices have refused, and that states more bytes than are free here.
    pub(super) refused: Option<TaskId>,
    /// As if the device had unlimited memory.
    pub(super) roomy: bool,
    pub passed: Vec<TaskId>,
    /// Tasks that other devices will take.
    pub(super) spoken_for: &'a [TaskId],
}

impl FitCheck<'_> {
    pub fn new(now: Duration, index: usize, free: Option<u64>) -> Self {
        FitCheck { now, index, free, ..FitCheck::default() }
    }

    /// Returns true if no ready task can fit.
    pub fn nothing_fits(&mut self, planner: &Planner) -> bool {
        let device = &planner.devices[self.index];
        let Some(least) = planner.ready.least(self.index, device.info.backend) else { return true };
        if device.backs_off(self.now, least) {
            return true;
        }
        if self.roomy || least > device.unleased_bytes() {
            return !self.roomy;
        }
        // An exclusive task does not depend on what other processes have left.
        let taken = device.has_company()
            && planner.exclusive_tasks == 0
            && self.free.is_some_and(|free| least > free);
        self.short |= taken;
        taken
    }

    /// Returns the task if it fits. Free memory matters only beside attempts of this process.
    /// Alone, a task begins whatever other processes have taken: they may never return it, and the
    /// task's own error has the numbers. Once all its devices have refused it, its attempts would
    /// only take the turns of smaller tasks.
    pub fn fits(&mut self, planner: &Planner, id: TaskId, record: &TaskRecord) -> Option<TaskId> {
        if self.spoken_for.contains(&id) {
            return None;
        }
        let device = &planner.devices[self.index];
        if device.backs_off(self.now, record.known_bytes(device.info.backend)) {
            return None;
        }
        if self.roomy {
            // A helper task may be of the range that asks.
            return (!record.role.is_helper()).then_some(id);
        }
        let bytes = record.bytes.on(device.info.backend);
        let fits = if record.exclusive {
            device.is_free_for_exclusive()
        } else {
            !device.has_company() || bytes == 0 || self.free.is_some_and(|free| bytes <= free)
        };
        let granted = bytes <= device.unleased_bytes();
        if fits && granted {
            let alone = record.refused_rounds > 0 && !device.has_company();
            if alone && self.free.is_none_or(|free| bytes > free) && bytes > 0 {
                self.unknown |= self.free.is_none();
                self.refused = self.refused.or(Some(id));
                return None;
            }
            return Some(id);
        }
        self.unknown |= granted && !record.exclusive && self.free.is_none();
        self.short |= granted && !record.exclusive;
        self.passed.push(id);
        None
    }
}
