//! Who is before whom, and what that leaves of each device: pure functions of what the members have
//! written down and of the time.
//!
//! Members that wait are in line by priority, then by ticket. Each is laid out, in that order, where its task
//! should end first: on a device with a lane free for it at once, or when enough of those that run have
//! ended. What others before one leave is what one may take.

use std::cmp::Ordering;
use std::collections::HashMap;

/// What others leave of one device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outlook {
    /// For each slot that others hold, or that others who are before us in the line will take: seconds from now
    /// after which it should be free again, in ascending order. What has overrun its estimate is taken to
    /// go on for as long as it has overrun it. Who holds fewer slots than his own number of them, less these, may begin.
    pub lanes: Vec<f64>,
    /// Bytes that others have reserved there and do not use yet.
    pub pending_bytes: u64,
    /// Other members that wait and would take this device.
    pub waiting: u32,
}

/// What a member has written down.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Member {
    /// The number of its record.
    pub id: usize,
    /// 0: it does not wait.
    pub ticket: u64,
    pub priority: i32,
    /// How often it has found that it had not run for a while.
    pub revived: u32,
    pub places: Vec<Place>,
    pub holds: Vec<Held>,
}

/// What a member has to say about a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    /// In the table of the node.
    pub device: usize,
    /// Tasks at a time, of all members.
    pub slots: u32,
    /// What the task that it waits to begin costs there; `None`: it does not go there.
    pub cost: Option<f64>,
    pub bytes: u64,
}

/// A slot that is held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Held {
    pub device: usize,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub begun: u64,
    pub cost: Option<f64>,
    pub bytes: u64,
    /// Of these.
    pub in_use: u64,
}

/// Names a wait: the member, its ticket, how often it was revived.
pub(super) type Wait = (usize, u64, u32);

impl Member {
    pub fn waits(&self) -> bool {
        self.ticket != 0
    }

    pub fn wait(&self) -> Wait {
        (self.id, self.ticket, self.revived)
    }

    fn place(&self, device: usize) -> Option<&Place> {
        self.places.iter().find(|place| place.device == device)
    }
}

/// Nobody costs nothing, so that costs order things also before anybody has measured.
const LEAST: f64 = 1e-9;

/// Seconds per unit of cost: what somebody has measured. Else what runs is taken to need as long again, at
/// most: the one that has run the longest for its cost tells.
pub(super) fn seconds<'a>(worth: Option<f64>, members: impl Iterator<Item = &'a Member>, now: u64) -> f64 {
    worth.unwrap_or_else(|| {
        let held = members.flat_map(|member| &member.holds);
        let seen = held.filter_map(|held| Some(elapsed(held, now) / held.cost.filter(|cost| *cost > 0.0)?));
        seen.map(|ratio| 2.0 * ratio).filter(|ratio| ratio.is_finite()).fold(LEAST, f64::max)
    })
}

fn elapsed(held: &Held, now: u64) -> f64 {
    now.saturating_sub(held.begun) as f64 * 1e-9
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    until: f64,
    mine: bool,
}

/// A device while waiters are laid out over it.
#[derive(Debug, Clone, Default)]
struct Bench {
    /// Ascending.
    lanes: Vec<Lane>,
    /// The fewest slots of those who wait for it, and when that one begins: who allows more tasks at
    /// a time must not keep it from ever beginning.
    narrowest: Option<(u32, f64)>,
}

impl Bench {
    fn slots(&self, slots: u32) -> usize {
        self.narrowest.map_or(slots, |(narrowest, _)| slots.min(narrowest)) as usize
    }

    /// When a member with so many slots may begin; `None`: now.
    fn after(&self, slots: u32) -> Option<f64> {
        let ends = self.lanes.len().checked_sub(self.slots(slots))?;
        Some(self.lanes[ends].until)
    }

    fn add(&mut self, lane: Lane) {
        let place = self.lanes.partition_point(|other| other.until <= lane.until);
        self.lanes.insert(place, lane);
    }

    fn take(&mut self, slots: u32, until: f64) {
        if let Some(begin) = self.after(slots) {
            self.lanes.remove(self.lanes.len() - self.slots(slots));
            if self.narrowest.is_none_or(|(narrowest, _)| slots < narrowest) {
                self.narrowest = Some((slots, begin));
            }
        }
        self.add(Lane { until, mine: false });
    }

    /// Seconds of work on it.
    fn load(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.until).sum()
    }
}

/// What one member sees.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    /// By the table's device index.
    pub outlooks: Vec<Outlook>,
    /// Those before us who could begin now.
    pub ready: Vec<Wait>,
}

/// What `others` leave to `me`, where `passed` tells who in the line is not waited for.
pub(super) fn view(
    others: &[Member],
    me: &Member,
    devices: usize,
    seconds: f64,
    now: u64,
    passed: impl Fn(&Member) -> bool,
) -> View {
    let mut benches = vec![Bench::default(); devices];
    let mut outlooks = vec![Outlook::default(); devices];
    for (member, mine) in others.iter().map(|other| (other, false)).chain([(me, true)]) {
        for held in member.holds.iter().filter(|held| held.device < devices) {
            let until = (held.cost.unwrap_or(0.0) * seconds - elapsed(held, now)).abs();
            benches[held.device].lanes.push(Lane { until, mine });
            if !mine {
                let pending = &mut outlooks[held.device].pending_bytes;
                *pending = pending.saturating_add(held.bytes.saturating_sub(held.in_use));
            }
        }
    }
    for bench in &mut benches {
        bench.lanes.sort_by(|a, b| a.until.total_cmp(&b.until));
    }
    for other in others.iter().filter(|other| other.waits()) {
        for place in other.places.iter().filter(|place| place.device < devices && place.cost.is_some()) {
            outlooks[place.device].waiting += 1;
        }
    }
    let mut line: Vec<&Member> =
        others.iter().filter(|other| other.waits() && before(other, me) && !passed(other)).collect();
    line.sort_by(|a, b| order(a, b));
    let mut ready = Vec::new();
    for waiter in line {
        if let Some((place, until)) = goes_to(waiter, &benches, seconds) {
            if benches[place.device].after(place.slots).is_none() {
                ready.push(waiter.wait());
            }
            benches[place.device].take(place.slots, until);
        }
    }
    for (device, bench) in benches.iter().enumerate() {
        let lanes = &mut outlooks[device].lanes;
        lanes.extend(bench.lanes.iter().filter(|lane| !lane.mine).map(|lane| lane.until));
        let slots = me.place(device).map_or(0, |place| place.slots);
        if let Some((narrowest, begin)) = bench.narrowest {
            lanes.extend((narrowest..slots).map(|_| begin));
            lanes.sort_by(f64::total_cmp);
        }
    }
    View { outlooks, ready }
}

/// Where the waiter's task should end first, and when.
fn goes_to<'a>(waiter: &'a Member, benches: &[Bench], seconds: f64) -> Option<(&'a Place, f64)> {
    let places = waiter.places.iter().filter(|place| place.device < benches.len() && place.slots > 0);
    let ends = places.filter_map(|place| {
        Some((place, benches[place.device].after(place.slots).unwrap_or(0.0) + place.cost? * seconds))
    });
    ends.min_by(|(a, ends_a), (b, ends_b)| {
        let load = |place: &Place| benches[place.device].load();
        let sooner = ends_a.total_cmp(ends_b);
        sooner.then_with(|| load(a).total_cmp(&load(b))).then_with(|| a.device.cmp(&b.device))
    })
}

fn order(a: &Member, b: &Member) -> Ordering {
    b.priority.cmp(&a.priority).then(a.ticket.cmp(&b.ticket)).then(a.id.cmp(&b.id))
}

/// All who wait are before one who does not.
fn before(other: &Member, me: &Member) -> bool {
    !me.waits() || order(other, me) == Ordering::Less
}

/// Nanoseconds in which one who could begin does, unless its process is stopped.
pub(super) const PATIENCE: u64 = 1_000_000_000;

/// Since when others, as one member has seen them, could have begun and have not.
#[derive(Debug, Default)]
pub(super) struct Stopped(HashMap<Wait, u64>);

impl Stopped {
    /// What others leave to `me`, past those who do not take what they could.
    pub fn view(&mut self, others: &[Member], me: &Member, devices: usize, seconds: f64, now: u64) -> View {
        self.0.retain(|wait, _| others.iter().any(|other| other.wait() == *wait));
        let passed = |since: &u64| now.saturating_sub(*since) > PATIENCE;
        let view =
            view(others, me, devices, seconds, now, |other| self.0.get(&other.wait()).is_some_and(passed));
        self.0.retain(|wait, since| passed(since) || view.ready.contains(wait));
        for wait in &view.ready {
            self.0.entry(*wait).or_insert(now);
        }
        view
    }

    /// When somebody's time is up whom we still wait for.
    pub fn next(&self, now: u64) -> Option<u64> {
        self.0.values().map(|since| since.saturating_add(PATIENCE + 1)).filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests;
