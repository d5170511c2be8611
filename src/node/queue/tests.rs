use testkit::Random;

use super::*;

/// Priority and cost on each device of a task that a member wants to begin.
type QueuedTask = (i32, Vec<Option<f64>>);

/// Members that keep to the queue, in virtual time. A unit of cost takes a second.
struct VirtualNode {
    members: Vec<MemberRecord>,
    /// By member: its tasks, the next one last.
    tasks: Vec<Vec<QueuedTask>>,
    devices: usize,
    next_ticket: u64,
    now: u64,
    measured: Option<f64>,
    /// Member, device, ticket, priority, time of the ticket and of the start of each task.
    started: Vec<(usize, usize, u64, i32, u64, u64)>,
    /// By member: time of its last ticket.
    ticket_drawn: Vec<u64>,
}

impl MemberRecord {
    fn request(&mut self, priority: i32, costs: &[Option<f64>]) {
        for (entry, cost) in self.devices.iter_mut().zip(costs) {
            entry.task = cost.map(|cost| RequestedTask { number: 0, priority, cost });
        }
    }
}

impl VirtualNode {
    fn new(tasks: Vec<Vec<QueuedTask>>, slots: Vec<Vec<u32>>, measured: Option<f64>) -> VirtualNode {
        let entry = |(device, slots): (usize, &u32)| DeviceEntry { device, slots: *slots, task: None };
        let members = slots.iter().enumerate().map(|(id, slots)| MemberRecord {
            id,
            devices: slots.iter().enumerate().map(entry).collect(),
            ..MemberRecord::default()
        });
        let (members, devices, ticket_drawn) = (members.collect(), slots[0].len(), vec![0; tasks.len()]);
        VirtualNode {
            members,
            tasks,
            devices,
            next_ticket: 1,
            now: 1 << 40,
            measured,
            started: Vec::new(),
            ticket_drawn,
        }
    }

    fn view(&self, id: usize) -> (QueueView, f64) {
        let seconds = seconds_per_cost(self.measured, self.members.iter(), self.now);
        let others: Vec<MemberRecord> = self.members.iter().filter(|other| other.id != id).cloned().collect();
        (queue_view(&others, &self.members[id], self.devices, seconds, self.now, |_| false), seconds)
    }

    /// Returns the device where the member expects the earliest end, and whether it may begin there
    /// now.
    fn choice(&self, id: usize) -> Option<(usize, bool)> {
        let (view, seconds) = self.view(id);
        let me = &self.members[id];
        let mut best: Option<(f64, f64, usize, bool)> = None;
        for entry in &me.devices {
            let Some(RequestedTask { cost, .. }) = entry.task else { continue };
            let mut busy = view.devices[entry.device].busy_slots.clone();
            for held in me.held_slots.iter().filter(|held| held.device == entry.device) {
                busy.push((held.cost.unwrap() * seconds - elapsed_s(held, self.now)).abs());
            }
            busy.sort_by(f64::total_cmp);
            let after = busy.len().checked_sub(entry.slots as usize).map(|ends| busy[ends]);
            let load: f64 = busy.iter().sum();
            let this = (after.unwrap_or(0.0) + cost * seconds, load, entry.device, after.is_none());
            if best.is_none_or(|best| (this.0, this.1) < (best.0, best.1)) {
                best = Some(this);
            }
        }
        best.map(|(_, _, device, now)| (device, now))
    }

    /// Begins the member's next task if its queue allows that. Returns true if it has begun.
    fn begin_next(&mut self, id: usize) -> bool {
        let Some((priority, costs)) = self.tasks[id].last().cloned() else { return false };
        if !self.members[id].waits() {
            self.members[id].ticket = self.next_ticket;
            self.next_ticket += 1;
            self.ticket_drawn[id] = self.now;
            self.members[id].request(priority, &costs);
        }
        let Some((device, true)) = self.choice(id) else { return false };
        let ticket = std::mem::take(&mut self.members[id].ticket);
        let held = HeldSlot { device, started_ns: self.now, cost: costs[device], bytes: 0, used_bytes: 0 };
        self.members[id].held_slots.push(held);
        self.tasks[id].pop();
        self.started.push((id, device, ticket, priority, self.ticket_drawn[id], self.now));
        true
    }

    /// Lets the members begin tasks in random order until none can.
    fn begin_all(&mut self, random: &mut Random) {
        let mut idle = 0;
        while idle < 3 * self.members.len() {
            let began = self.begin_next(random.below(self.members.len()));
            idle = if began { 0 } else { idle + 1 };
        }
        while (0..self.members.len()).any(|id| self.begin_next(id)) {}
    }

    /// Advances the time to the next end of a task. Returns false if no task runs.
    fn advance(&mut self) -> bool {
        let end = |held: &HeldSlot| held.started_ns + (held.cost.unwrap() * 1e9) as u64;
        let Some(next) = self.members.iter().flat_map(|member| &member.held_slots).map(end).min() else {
            return false;
        };
        self.now = next;
        for member in &mut self.members {
            member.held_slots.retain(|held| end(held) > next);
        }
        true
    }

    fn holders(&self, device: usize) -> usize {
        self.members.iter().flat_map(|member| &member.held_slots).filter(|held| held.device == device).count()
    }
}

/// Twelve processes call at the same moment on four GPUs, two of them 2.2 times as fast.
#[test]
fn twelve_tasks_on_four_gpus_reach_the_shortest_makespan() {
    for measured in [Some(1.0), None] {
        let costs = vec![Some(1.0 / 2.2), Some(1.0 / 2.2), Some(1.0), Some(1.0)];
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut node =
                VirtualNode::new(vec![vec![(0, costs.clone())]; 12], vec![vec![1; 4]; 12], measured);
            let begin = node.now;
            loop {
                node.begin_all(&mut random);
                // A millisecond later: without a measurement the estimate grows with the time.
                node.now += 1_000_000;
                node.begin_all(&mut random);
                if !node.advance() {
                    break;
                }
            }
            assert_eq!(node.started.len(), 12);
            let mut on = [0; 4];
            node.started.iter().for_each(|task| on[task.1] += 1);
            assert_eq!(on, [4, 4, 2, 2], "measured {measured:?}, seed {seed}");
            // Two seconds, and the moments added above.
            let took = (node.now - begin) as f64 * 1e-9;
            assert!((2.0..2.02).contains(&took), "measured {measured:?}: {took}");
        }
    }
}

fn random_node(seed: u64, same_slots: bool) -> (VirtualNode, Random, f64) {
    let mut random = Random::new(seed);
    let (members, devices) = (2 + random.below(9), 1 + random.below(4));
    let mut longest: f64 = 0.0;
    let mut tasks = Vec::new();
    for _ in 0..members {
        let count = 1 + random.below(6);
        let mut own = Vec::new();
        for _ in 0..count {
            let mut costs: Vec<Option<f64>> =
                (0..devices).map(|_| (random.below(5) > 0).then(|| 0.1 + random.unit())).collect();
            costs[random.below(devices)].get_or_insert(0.7);
            longest = costs.iter().flatten().fold(longest, |a, b| a.max(*b));
            own.push((random.below(3) as i32, costs));
        }
        tasks.push(own);
    }
    let common: Vec<u32> = (0..devices).map(|_| 1 + random.below(3) as u32).collect();
    let slots = (0..members).map(|_| match same_slots {
        true => common.clone(),
        false => (0..devices).map(|_| 1 + random.below(3) as u32).collect(),
    });
    let slots = slots.collect();
    let measured = (random.below(2) == 0).then_some(1.0);
    (VirtualNode::new(tasks, slots, measured), random, longest)
}

#[test]
fn slots_are_never_exceeded_and_every_task_begins() {
    for seed in 0..300 {
        let (mut node, mut random, _) = random_node(seed, seed % 2 == 0);
        let count: usize = node.tasks.iter().map(Vec::len).sum();
        loop {
            let before = node.started.len();
            node.begin_all(&mut random);
            for &(id, device, ..) in &node.started[before..] {
                let slots = node.members[id].devices[device].slots as usize;
                let most =
                    node.members.iter().map(|member| member.devices[device].slots as usize).max().unwrap();
                assert!(node.holders(device) <= most, "seed {seed}");
                assert!(seed % 2 == 1 || node.holders(device) <= slots, "seed {seed}");
            }
            if !node.advance() {
                break;
            }
        }
        assert_eq!(node.started.len(), count, "seed {seed}: a task never began");
    }
}

/// On one device no member begins while a waiter is ahead of it.
#[test]
fn first_come_first_served_within_a_priority() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let members = 2 + random.below(8);
        let tasks = (0..members).map(|_| {
            (0..4)
                .map(|_| (random.below(3) as i32, vec![Some(0.1 + random.unit())]))
                .collect::<Vec<QueuedTask>>()
        });
        let tasks = tasks.collect();
        let slots = 1 + random.below(2) as u32;
        let mut node = VirtualNode::new(tasks, vec![vec![slots]; members], Some(1.0));
        loop {
            for _ in 0..4 * members {
                let before = node.started.len();
                let waited = node.members.clone();
                node.begin_next(random.below(members));
                for &(id, _, ticket, priority, ..) in &node.started[before..] {
                    let precedes = |other: WaitingTask<'_>| {
                        other.priority > priority
                            || other.priority == priority && other.member.ticket < ticket
                    };
                    let mut others = waited.iter().filter(|other| other.id != id);
                    assert!(!others.any(|other| other.tasks().any(precedes)), "{seed}");
                }
            }
            node.begin_all(&mut random);
            if !node.advance() {
                break;
            }
        }
        assert_eq!(node.started.len(), 4 * members);
    }
}

/// One member allows a single task on the device; the others allow three and never pause.
#[test]
fn member_with_fewer_slots_is_not_starved() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let others = 5;
        let mut tasks: Vec<Vec<QueuedTask>> = vec![Vec::new(); others];
        for own in &mut tasks {
            own.extend((0..60).map(|_| (0, vec![Some(0.2 + random.unit())])));
        }
        tasks.push((0..3).map(|_| (0, vec![Some(1.0)])).collect());
        let mut slots = vec![vec![3]; others];
        slots.push(vec![1]);
        let mut node = VirtualNode::new(tasks, slots, Some(1.0));
        loop {
            node.begin_all(&mut random);
            if !node.advance() {
                break;
            }
        }
        // Each other member is ahead of it once, and three tasks ran: none takes longer than 1.2 s.
        let waits = node.started.iter().filter(|task| task.0 == others).map(|task| task.5 - task.4);
        let longest = waits.max().unwrap() as f64 * 1e-9;
        assert!(longest <= 8.0 * 1.2, "seed {seed}: it waited {longest} s");
    }
}

/// An observer finds the same members ready as these do themselves, in any order of the records.
#[test]
fn all_members_compute_the_same_queue() {
    let mut seen = 0;
    for seed in 0..300 {
        let (mut node, mut random, _) = random_node(seed, true);
        // The members reach a random state by the rules.
        for _ in 0..random.below(6) {
            node.begin_all(&mut random);
            node.advance();
        }
        for id in 0..node.members.len() {
            if !node.members[id].waits() && !node.tasks[id].is_empty() {
                node.members[id].ticket = node.next_ticket;
                node.next_ticket += 1;
                let (priority, costs) = node.tasks[id].last().cloned().unwrap();
                node.members[id].request(priority, &costs);
            }
        }
        let nobody = MemberRecord { id: 999, ..MemberRecord::default() };
        let guess = seconds_per_cost(node.measured, node.members.iter(), node.now);
        let look =
            |members: &[MemberRecord]| queue_view(members, &nobody, node.devices, guess, node.now, |_| false);
        let first = look(&node.members);
        let mut turned = node.members.clone();
        turned.reverse();
        assert_eq!(look(&turned), first, "seed {seed}");
        let may = (0..node.members.len())
            .filter(|id| node.members[*id].waits() && matches!(node.choice(*id), Some((_, true))));
        let mut may: Vec<usize> = may.collect();
        let mut ready: Vec<usize> = first.ready.iter().map(|key| key.0).collect();
        may.sort_unstable();
        ready.sort_unstable();
        assert_eq!(may, ready, "seed {seed}");
        seen += ready.len();
    }
    assert!(seen > 100, "only {seen} members were ready");
}

fn one(id: usize, ticket: u64) -> MemberRecord {
    requests(id, ticket, &[Some((0, 0))])
}

/// Returns a member with a slot of each device, where it requests a task of this number and
/// priority.
fn requests(id: usize, ticket: u64, tasks: &[Option<(u32, i32)>]) -> MemberRecord {
    let task = |(number, priority)| RequestedTask { number, priority, cost: 1.0 };
    let entry = |(device, of): (usize, &Option<_>)| DeviceEntry { device, slots: 1, task: of.map(task) };
    let devices = tasks.iter().enumerate().map(entry).collect();
    MemberRecord { id, ticket, devices, ..MemberRecord::default() }
}

fn holds(id: usize, device: usize) -> MemberRecord {
    let held = HeldSlot { device, started_ns: 0, cost: Some(1e6), bytes: 0, used_bytes: 0 };
    MemberRecord { held_slots: vec![held], ..one(id, 0) }
}

/// In nanoseconds.
const STALL_LIMIT: u64 = 1_000_000_000;

#[test]
fn stalled_waiter_is_skipped_until_it_resumes() {
    let (first, me) = (one(0, 1), one(1, 2));
    let mut stalled = StalledWaiters::new(NodePolicy::default());
    let mut busy = |first: &MemberRecord, now: u64| {
        let view = stalled.view(std::slice::from_ref(first), &me, 1, 1.0, now);
        (view.devices[0].busy_slots.len(), stalled.next_deadline(now))
    };
    assert_eq!(busy(&first, 5), (1, Some(6 + STALL_LIMIT)));
    assert_eq!(busy(&first, 5 + STALL_LIMIT), (1, Some(6 + STALL_LIMIT)));
    assert_eq!(busy(&first, 6 + STALL_LIMIT), (0, None));
    assert_eq!(busy(&first, 7 + STALL_LIMIT), (0, None));
    // After the member has resumed, the others wait for it again.
    let resumed = MemberRecord { resumptions: 1, ..first.clone() };
    assert_eq!(busy(&resumed, 8 + STALL_LIMIT).0, 1);
    assert_eq!(busy(&resumed, 9 + 2 * STALL_LIMIT).0, 0);
    let later = MemberRecord { ticket: 9, ..resumed };
    assert_eq!(busy(&later, 10 + 2 * STALL_LIMIT).0, 0, "it is behind the observer");
}

#[test]
fn blocked_waiter_is_never_skipped() {
    let others = [one(0, 1), holds(2, 0)];
    let mut stalled = StalledWaiters::new(NodePolicy::default());
    for second in 0..5 {
        let view = stalled.view(&others, &one(1, 2), 1, 1.0, second * STALL_LIMIT);
        assert_eq!(view.devices[0].busy_slots.len(), 1, "its slot is the one that becomes free");
        let left = 1e6 - second as f64;
        assert!(view.devices[0].busy_slots[0] > left, "the first waiter follows the holder");
        assert_eq!(stalled.next_deadline(second * STALL_LIMIT), None);
    }
}

#[test]
fn availability_counts_holders_waiters_and_reserved_bytes() {
    let second = 1_000_000_000;
    let held =
        |cost, started_ns, bytes, used_bytes| HeldSlot { device: 0, started_ns, cost, bytes, used_bytes };
    let held_slots = vec![
        held(Some(4.0), 10 * second, 100, 30),
        held(Some(1.0), 10 * second, u64::MAX, 0),
        held(None, 12 * second, 5, 50),
    ];
    let other = MemberRecord { id: 1, held_slots, ..MemberRecord::default() };
    let mine = MemberRecord { held_slots: vec![held(Some(1.0), 10 * second, 7, 0)], ..one(0, 0) };
    let waiter = one(2, 4);
    let view = queue_view(&[other, waiter], &mine, 2, 2.0, 13 * second, |_| false);
    let device = &view.devices[0];
    // A task of 8 s has 5 s left. A task of 2 s has overrun by 1 s. A task without a cost has run
    // for 1 s. The waiter runs for 2 s after the last of these ends.
    assert_eq!(device.busy_slots, [1.0, 1.0, 7.0]);
    assert_eq!((device.pending_bytes, device.waiters), (u64::MAX, 1));
    assert_eq!(view.devices[1], DeviceAvailability::default());
    assert!(view.ready.is_empty());
}

fn busy_slots(others: &[MemberRecord], me: &MemberRecord) -> Vec<usize> {
    let view = queue_view(others, me, me.devices.len(), 1.0, 0, |_| false);
    view.devices.iter().map(|device| device.busy_slots.len()).collect()
}

/// A member of priority 5 waits for a busy device; its other tasks begin on the next.
#[test]
fn priority_counts_on_the_devices_of_its_task() {
    let other = requests(1, 2, &[None, Some((0, 0))]);
    let urgent = |second| requests(0, 1, &[Some((0, 5)), second]);
    let mut others = [holds(2, 0), other];
    assert_eq!(busy_slots(&others, &urgent(None)), [1, 1]);
    assert_eq!(busy_slots(&others, &urgent(Some((1, -1)))), [1, 1], "its other task has a lower priority");
    assert_eq!(busy_slots(&others, &urgent(Some((1, 0)))), [1, 0], "it has the earlier ticket");
    others[1] = urgent(Some((1, 0)));
    assert_eq!(busy_slots(&others, &requests(1, 2, &[None, Some((0, 0))])), [1, 1]);
    assert_eq!(busy_slots(&others, &requests(1, 2, &[None, Some((0, 1))])), [1, 0]);
}

/// Each of two tasks takes a slot, and a task that may begin on both devices only one.
#[test]
fn waiter_takes_a_slot_for_each_of_its_tasks() {
    let me = requests(1, 2, &[Some((0, 0)); 2]);
    let two = requests(0, 1, &[Some((3, 0)), Some((4, 0))]);
    assert_eq!(busy_slots(&[two], &me), [1, 1]);
    assert_eq!(busy_slots(&[requests(0, 1, &[Some((3, 0)); 2])], &me), [1, 0]);
}
