//! The queue of the waiting members: pure functions of the members' records and of the time.
//!
//! Waiters are ordered by priority, then by ticket. In that order each is placed on the device
//! where its task should end first: at once on a free slot, else when enough running tasks have
//! ended. The slots that are left after all waiters ahead of a member are available to it.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::request::NodePolicy;

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
    pub priority: i32,
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
    /// Cost of the requested task on the device. `None`: the task can't run there.
    pub cost: Option<f64>,
    /// Bytes that the requested task would reserve.
    pub bytes: u64,
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

/// Identifies a wait: member, ticket, resumptions.
pub(super) type WaitKey = (usize, u64, u32);

impl MemberRecord {
    pub fn waits(&self) -> bool {
        self.ticket != 0
    }

    pub fn wait_key(&self) -> WaitKey {
        (self.id, self.ticket, self.resumptions)
    }

    fn entry(&self, device: usize) -> Option<&DeviceEntry> {
        self.devices.iter().find(|entry| entry.device == device)
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
    /// The member whose view is computed holds it.
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
    fn occupy(&mut self, slots: u32, until: f64) {
        if let Some(begin) = self.wait_of(slots) {
            self.busy.remove(self.busy.len() - self.effective_slots(slots));
            if self.tightest.is_none_or(|(tightest, _)| slots < tightest) {
                self.tightest = Some((slots, begin));
            }
        }
        self.insert(BusySlot { until, own: false });
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
    /// Waiters ahead of the member that could begin now.
    pub ready: Vec<WaitKey>,
    /// The member waits and could begin now.
    pub is_ready: bool,
}

/// Computes the queue as `me` sees it. Waiters for which `skipped` returns true are left out.
pub(super) fn queue_view(
    others: &[MemberRecord],
    me: &MemberRecord,
    devices: usize,
    seconds: f64,
    now: u64,
    skipped: impl Fn(&MemberRecord) -> bool,
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
        for entry in other.devices.iter().filter(|entry| entry.device < devices && entry.cost.is_some()) {
            available[entry.device].waiters += 1;
        }
    }
    let ahead = |other: &&MemberRecord| other.waits() && is_ahead(other, me) && !skipped(other);
    let mut queue: Vec<&MemberRecord> = others.iter().filter(ahead).collect();
    queue.sort_by(|a, b| compare(a, b));
    let mut ready = Vec::new();
    for waiter in queue {
        if let Some((entry, until)) = earliest_finish(waiter, &timelines, seconds) {
            if timelines[entry.device].wait_of(entry.slots).is_none() {
                ready.push(waiter.wait_key());
            }
            timelines[entry.device].occupy(entry.slots, until);
        }
    }
    let first = me.waits().then(|| earliest_finish(me, &timelines, seconds)).flatten();
    let is_ready = first.is_some_and(|(entry, _)| timelines[entry.device].wait_of(entry.slots).is_none());
    for (device, timeline) in timelines.iter().enumerate() {
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

/// Returns the device where the waiter's task should end first, and the time of its end. If two
/// ends are equal, the device with less work is chosen, then the lower index. The planner's
/// `Schedule` does the same for ready tasks, with memory and slots of their own; waiters here have
/// neither, and lie in a lower layer.
fn earliest_finish<'a>(
    waiter: &'a MemberRecord,
    timelines: &[DeviceTimeline],
    seconds: f64,
) -> Option<(&'a DeviceEntry, f64)> {
    let entries = waiter.devices.iter().filter(|entry| entry.device < timelines.len() && entry.slots > 0);
    let ends = entries.filter_map(|entry| {
        Some((entry, timelines[entry.device].wait_of(entry.slots).unwrap_or(0.0) + entry.cost? * seconds))
    });
    ends.min_by(|(a, end_a), (b, end_b)| {
        let load = |entry: &DeviceEntry| timelines[entry.device].load_s();
        let sooner = end_a.total_cmp(end_b);
        sooner.then_with(|| load(a).total_cmp(&load(b))).then_with(|| a.device.cmp(&b.device))
    })
}

fn compare(a: &MemberRecord, b: &MemberRecord) -> Ordering {
    b.priority.cmp(&a.priority).then(a.ticket.cmp(&b.ticket)).then(a.id.cmp(&b.id))
}

/// Returns true if `other` is ahead of `me` in the queue. Every waiter is ahead of a member that
/// does not wait.
fn is_ahead(other: &MemberRecord, me: &MemberRecord) -> bool {
    !me.waits() || compare(other, me) == Ordering::Less
}

/// Waiters that could begin and have not, as one member has observed them, each with the time of
/// the first observation.
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

    /// Computes the queue as `me` sees it, without the waiters that exceed the limit.
    pub fn view(
        &mut self,
        others: &[MemberRecord],
        me: &MemberRecord,
        devices: usize,
        seconds: f64,
        now: u64,
    ) -> QueueView {
        self.first_seen.retain(|key, _| others.iter().any(|other| other.wait_key() == *key));
        let limit = self.limit;
        let stalled = |since: &u64| now.saturating_sub(*since) > limit;
        let view = queue_view(others, me, devices, seconds, now, |other| {
            self.first_seen.get(&other.wait_key()).is_some_and(stalled)
        });
        self.first_seen.retain(|key, since| stalled(since) || view.ready.contains(key));
        for key in &view.ready {
            self.first_seen.entry(*key).or_insert(now);
        }
        view
    }

    /// Returns the next time at which a waiter exceeds the limit.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        let ends = self.first_seen.values().map(|since| since.saturating_add(self.limit).saturating_add(1));
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests;
