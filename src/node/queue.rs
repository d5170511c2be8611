//! The queue of the waiting members: pure functions of the members' records and of the time.
//!
//! The tasks that the waiters request are ordered by priority, then by the waiter's ticket. In that
//! order each is placed on the device where it should end first: at once on a free slot, else when
//! enough running tasks have ended. The slots of a device that are left after all tasks ahead of
//! the one that a member requests there are available to it; after all tasks, if it requests none.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::request::{NodePolicy, RequestedTask};

/// The slots and memory of one device that other members use or will use first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceAvailability {
    /// Seconds from now until each occupied slot should be free, ascending. Occupied slots are
    /// those that others hold, and those that waiters ahead of this member will take. A task that
    /// has overrun its estimate is expected to run as long again as it has overrun. A member may
    /// begin if it holds fewer slots than its limit minus the length of this list.
    pub busy_slots: Vec<f64>,
    /// Bytes that others have reserved there and do not use yet.
    pub pending_bytes: u64,
    /// Other members that wait and accept this device.
    pub waiters: u32,
}

/// The record of a member in the shared table.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct MemberRecord {
    /// Index of the record.
    pub id: usize,
    /// Order of arrival among the waiters. 0: the member does not wait.
    pub ticket: u64,
    /// Number of times that the member resumed after its process had been stopped, or that others
    /// began in its place. After each, others wait for it again.
    pub resumptions: u32,
    pub devices: Vec<DeviceEntry>,
    pub held_slots: Vec<HeldSlot>,
}

/// A member's entry for one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DeviceEntry {
    /// Index in the device list of the table.
    pub device: usize,
    /// Maximum number of tasks at a time, of all members together.
    pub slots: u32,
    /// The task that the member would begin on the device.
    pub task: Option<RequestedTask>,
}

/// A slot that a member holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HeldSlot {
    pub device: usize,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub started_ns: u64,
    pub cost: Option<f64>,
    /// Reserved bytes.
    pub bytes: u64,
    /// Part of the reserved bytes that is allocated.
    pub used_bytes: u64,
}

/// Identifies the wait of a task: member, ticket, resumptions, number of the task.
pub(super) type WaitKey = (usize, u64, u32, u32);

impl MemberRecord {
    pub fn waits(&self) -> bool {
        self.ticket != 0
    }

    /// Takes the member out of the queue.
    pub fn end_wait(&mut self) {
        self.ticket = 0;
        self.devices.iter_mut().for_each(|entry| entry.task = None);
    }

    /// A task begins on a device, and leaves the request. The wait ends if nothing is left of it, or
    /// if another member holds a slot of the device or waits for it.
    pub fn begin_on(&mut self, device: usize, others: &[MemberRecord]) {
        let number = |entry: &DeviceEntry| entry.task.map(|task| task.number);
        if let Some(begun) = self.entry(device).and_then(number) {
            let same = |entry: &&mut DeviceEntry| number(entry) == Some(begun);
            self.devices.iter_mut().filter(same).for_each(|entry| entry.task = None);
        }
        let uses = |other: &MemberRecord| {
            let held = other.held_slots.iter().any(|held| held.device == device);
            held || other.waits() && other.entry(device).is_some_and(|entry| entry.task.is_some())
        };
        if others.iter().any(uses) || self.devices.iter().all(|entry| entry.task.is_none()) {
            self.end_wait();
        }
    }

    /// Takes the tasks out of the request whose numbers `is_wanted` refuses. The wait ends if nothing
    /// is left of it.
    pub fn retain_tasks(&mut self, is_wanted: impl Fn(u32) -> bool) {
        for entry in &mut self.devices {
            entry.task = entry.task.filter(|task| is_wanted(task.number));
        }
        if self.devices.iter().all(|entry| entry.task.is_none()) {
            self.end_wait();
        }
    }

    /// Returns the requested tasks. An invalid table may give one several priorities: the highest
    /// counts.
    fn tasks(&self) -> impl Iterator<Item = WaitingTask<'_>> {
        let entries = self.devices.iter().filter(|_| self.waits());
        let mut tasks: Vec<_> = entries.filter_map(|entry| entry.task).collect();
        tasks.sort_by_key(|task| (task.number, Reverse(task.priority)));
        tasks.dedup_by_key(|task| task.number);
        tasks.into_iter().map(|RequestedTask { number, priority, .. }| WaitingTask {
            member: self,
            number,
            priority,
        })
    }

    fn entry(&self, device: usize) -> Option<&DeviceEntry> {
        self.devices.iter().find(|entry| entry.device == device)
    }
}

/// A task that a member requests.
struct WaitingTask<'a> {
    member: &'a MemberRecord,
    number: u32,
    priority: i32,
}

impl<'a> WaitingTask<'a> {
    fn key(&self) -> WaitKey {
        let MemberRecord { id, ticket, resumptions, .. } = *self.member;
        (id, ticket, resumptions, self.number)
    }

    fn rank(&self) -> (Reverse<i32>, u64, usize, u32) {
        (Reverse(self.priority), self.member.ticket, self.member.id, self.number)
    }

    /// Returns the first so many devices on which it may begin, each with its cost there.
    fn entries(&self, devices: usize) -> impl Iterator<Item = (&'a DeviceEntry, f64)> {
        let number = self.number;
        let cost = move |entry: &DeviceEntry| Some(entry.task.filter(|task| task.number == number)?.cost);
        let entries = self.member.devices.iter().filter(move |entry| entry.device < devices);
        entries.filter_map(move |entry| Some((entry, cost(entry)?)))
    }
}

/// Lower bound of the estimate, so that costs order tasks also before the first measurement.
const MIN_SECONDS_PER_COST: f64 = 1e-9;

/// Returns the seconds per unit of cost: the measured value if there is one. Else the estimate
/// assumes that the running task with the longest time for its cost is half done.
pub(super) fn seconds_per_cost<'a>(
    measured: Option<f64>,
    members: impl Iterator<Item = &'a MemberRecord>,
    now: u64,
) -> f64 {
    measured.unwrap_or_else(|| {
        let held = members.flat_map(|member| &member.held_slots);
        let ratios =
            held.filter_map(|held| Some(elapsed_s(held, now) / held.cost.filter(|cost| *cost > 0.0)?));
        let doubled = ratios.map(|ratio| 2.0 * ratio).filter(|ratio| ratio.is_finite());
        doubled.fold(MIN_SECONDS_PER_COST, f64::max)
    })
}

fn elapsed_s(held: &HeldSlot, now: u64) -> f64 {
    now.saturating_sub(held.started_ns) as f64 * 1e-9
}

#[derive(Debug, Clone, Copy)]
struct BusySlot {
    /// Seconds from now.
    until: f64,
    /// The member whose view is computed holds it, or will take it.
    own: bool,
}

/// The occupied slots of a device while the waiters are placed.
#[derive(Debug, Clone, Default)]
struct DeviceTimeline {
    /// Ascending.
    busy: Vec<BusySlot>,
    /// Smallest slot limit of a waiter placed here that can't begin at once, and its start. Members
    /// with a larger limit must leave it room, or it would starve.
    tightest: Option<(u32, f64)>,
}

impl DeviceTimeline {
    fn effective_slots(&self, slots: u32) -> usize {
        self.tightest.map_or(slots, |(tightest, _)| slots.min(tightest)) as usize
    }

    /// Returns the seconds until a member with this slot limit may begin. `None`: at once.
    fn wait_of(&self, slots: u32) -> Option<f64> {
        let ends = self.busy.len().checked_sub(self.effective_slots(slots))?;
        Some(self.busy[ends].until)
    }

    fn insert(&mut self, slot: BusySlot) {
        let position = self.busy.partition_point(|other| other.until <= slot.until);
        self.busy.insert(position, slot);
    }

    /// Places a task of a waiter with this slot limit.
    fn occupy(&mut self, slots: u32, slot: BusySlot) {
        if let Some(begin) = self.wait_of(slots) {
            self.busy.remove(self.busy.len() - self.effective_slots(slots));
            if self.tightest.is_none_or(|(tightest, _)| slots < tightest) {
                self.tightest = Some((slots, begin));
            }
        }
        self.insert(slot);
    }

    /// Returns the seconds of work on the device.
    fn load_s(&self) -> f64 {
        self.busy.iter().map(|slot| slot.until).sum()
    }
}

/// The queue as one member sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueView {
    /// By the table's device index.
    pub devices: Vec<DeviceAvailability>,
    /// Tasks of other waiters that could begin now.
    pub ready: Vec<WaitKey>,
    /// The member waits and could begin a task now.
    pub is_ready: bool,
}

/// Computes the queue as `me` sees it. Tasks for which `skipped` returns true are left out.
pub(super) fn queue_view(
    others: &[MemberRecord],
    me: &MemberRecord,
    devices: usize,
    seconds: f64,
    now: u64,
    skipped: impl Fn(&WaitKey) -> bool,
) -> QueueView {
    let mut timelines = vec![DeviceTimeline::default(); devices];
    let mut available = vec![DeviceAvailability::default(); devices];
    for (member, own) in others.iter().map(|other| (other, false)).chain([(me, true)]) {
        for held in member.held_slots.iter().filter(|held| held.device < devices) {
            let until = (held.cost.unwrap_or(0.0) * seconds - elapsed_s(held, now)).abs();
            timelines[held.device].busy.push(BusySlot { until, own });
            if !own {
                let pending = &mut available[held.device].pending_bytes;
                *pending = pending.saturating_add(held.bytes.saturating_sub(held.used_bytes));
            }
        }
    }
    for timeline in &mut timelines {
        timeline.busy.sort_by(|a, b| a.until.total_cmp(&b.until));
    }
    for other in others.iter().filter(|other| other.waits()) {
        for entry in other.devices.iter().filter(|entry| entry.device < devices && entry.task.is_some()) {
            available[entry.device].waiters += 1;
        }
    }
    let others = others.iter().flat_map(MemberRecord::tasks).filter(|task| !skipped(&task.key()));
    let mut queue: Vec<(WaitingTask<'_>, bool)> =
        others.map(|task| (task, false)).chain(me.tasks().map(|task| (task, true))).collect();
    queue.sort_by_key(|(task, _)| task.rank());
    let (mut ready, mut is_ready) = (Vec::new(), false);
    // The devices as the tasks ahead of the member's own leave them.
    let mut ahead = vec![None; devices];
    for (task, own) in queue {
        for (entry, _) in task.entries(devices).filter(|_| own) {
            ahead[entry.device] = Some(timelines[entry.device].clone());
        }
        let Some((entry, until)) = earliest_finish(&task, &timelines, seconds) else { continue };
        let begins = timelines[entry.device].wait_of(entry.slots).is_none();
        is_ready |= begins && own;
        if begins && !own {
            ready.push(task.key());
        }
        timelines[entry.device].occupy(entry.slots, BusySlot { until, own });
    }
    for (device, (timeline, ahead)) in timelines.iter().zip(&ahead).enumerate() {
        let timeline = ahead.as_ref().unwrap_or(timeline);
        let busy = &mut available[device].busy_slots;
        busy.extend(timeline.busy.iter().filter(|slot| !slot.own).map(|slot| slot.until));
        let slots = me.entry(device).map_or(0, |entry| entry.slots);
        if let Some((tightest, begin)) = timeline.tightest {
            busy.extend((tightest..slots).map(|_| begin));
            busy.sort_by(f64::total_cmp);
        }
    }
    QueueView { devices: available, ready, is_ready }
}

/// Returns the device where the task should end first, and the time of its end. If two ends are
/// equal, the device with less work is chosen, then the lower index. The planner's `Schedule` does
/// the same for ready tasks, with memory and slots of their own; requested tasks have neither, and
/// lie in a lower layer.
fn earliest_finish<'a>(
    task: &WaitingTask<'a>,
    timelines: &[DeviceTimeline],
    seconds: f64,
) -> Option<(&'a DeviceEntry, f64)> {
    let entries = task.entries(timelines.len()).filter(|(entry, _)| entry.slots > 0);
    let ends = entries.map(|(entry, cost)| {
        (entry, timelines[entry.device].wait_of(entry.slots).unwrap_or(0.0) + cost * seconds)
    });
    ends.min_by(|(a, end_a), (b, end_b)| {
        let load = |entry: &DeviceEntry| timelines[entry.device].load_s();
        let sooner = end_a.total_cmp(end_b);
        sooner.then_with(|| load(a).total_cmp(&load(b))).then_with(|| a.device.cmp(&b.device))
    })
}

/// Tasks of waiters that could begin and have not, as one member has observed them, each with
/// the time of the first observation.
#[derive(Debug)]
pub(super) struct StalledWaiters {
    first_seen: HashMap<WaitKey, u64>,
    /// Nanoseconds, see [`NodePolicy::stall_limit`].
    limit: u64,
}

impl StalledWaiters {
    pub fn new(policy: NodePolicy) -> Self {
        StalledWaiters { first_seen: HashMap::new(), limit: policy.stall_ns() }
    }

    /// Computes the queue as `me` sees it, without the tasks that exceed the limit.
    pub fn view(
        &mut self,
        others: &[MemberRecord],
        me: &MemberRecord,
        devices: usize,
        seconds: f64,
        now: u64,
    ) -> QueueView {
        let waits =
            |key: &WaitKey| others.iter().flat_map(MemberRecord::tasks).any(|task| task.key() == *key);
        self.first_seen.retain(|key, _| waits(key));
        let limit = self.limit;
        let stalled = |since: &u64| now.saturating_sub(*since) > limit;
        let skipped = |key: &WaitKey| self.first_seen.get(key).is_some_and(stalled);
        let view = queue_view(others, me, devices, seconds, now, skipped);
        self.first_seen.retain(|key, since| stalled(since) || view.ready.contains(key));
        for key in &view.ready {
            self.first_seen.entry(*key).or_insert(now);
        }
        view
    }

    /// Returns the next time at which a task exceeds the limit.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        let ends = self.first_seen.values().map(|since| since.saturating_add(self.limit).saturating_add(1));
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests;
