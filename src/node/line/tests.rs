use testkit::Random;

use super::*;

/// What is to be done, by a member: priority, and the cost on each device.
type Job = (i32, Vec<Option<f64>>);

/// Members that obey, in virtual time. A unit of cost takes a second.
struct World {
    members: Vec<Member>,
    jobs: Vec<Vec<Job>>,
    /// Jobs that each has at a time.
    devices: usize,
    next_ticket: u64,
    now: u64,
    told: Option<f64>,
    /// Member, device, ticket, priority, when it drew it, when it began.
    begun: Vec<(usize, usize, u64, i32, u64, u64)>,
    drew: Vec<u64>,
}

impl World {
    fn new(jobs: Vec<Vec<Job>>, slots: Vec<Vec<u32>>, told: Option<f64>) -> World {
        let place = |(device, slots): (usize, &u32)| Place { device, slots: *slots, cost: None, bytes: 0 };
        let members = slots.iter().enumerate().map(|(id, slots)| Member {
            id,
            places: slots.iter().enumerate().map(place).collect(),
            ..Member::default()
        });
        let (members, devices, drew) = (members.collect(), slots[0].len(), vec![0; jobs.len()]);
        World { members, jobs, devices, next_ticket: 1, now: 1 << 40, told, begun: Vec::new(), drew }
    }

    fn view(&self, id: usize) -> (View, f64) {
        let seconds = seconds(self.told, self.members.iter(), self.now);
        let others: Vec<Member> = self.members.iter().filter(|other| other.id != id).cloned().collect();
        (view(&others, &self.members[id], self.devices, seconds, self.now, |_| false), seconds)
    }

    /// Where the member would have its task end first, as it sees things; and whether it may begin there now.
    fn choice(&self, id: usize) -> Option<(usize, bool)> {
        let (view, seconds) = self.view(id);
        let me = &self.members[id];
        let mut best: Option<(f64, f64, usize, bool)> = None;
        for place in &me.places {
            let Some(cost) = place.cost else { continue };
            let mut lanes = view.outlooks[place.device].lanes.clone();
            for held in me.holds.iter().filter(|held| held.device == place.device) {
                lanes.push((held.cost.unwrap() * seconds - elapsed(held, self.now)).abs());
            }
            lanes.sort_by(f64::total_cmp);
            let after = lanes.len().checked_sub(place.slots as usize).map(|ends| lanes[ends]);
            let load: f64 = lanes.iter().sum();
            let this = (after.unwrap_or(0.0) + cost * seconds, load, place.device, after.is_none());
            if best.is_none_or(|best| (this.0, this.1) < (best.0, best.1)) {
                best = Some(this);
            }
        }
        best.map(|(_, _, device, now)| (device, now))
    }

    /// Begins the member's next job where it may; whether it has.
    fn act(&mut self, id: usize) -> bool {
        let Some((priority, costs)) = self.jobs[id].last().cloned() else { return false };
        if !self.members[id].waits() {
            self.members[id].ticket = self.next_ticket;
            self.members[id].priority = priority;
            self.next_ticket += 1;
            self.drew[id] = self.now;
            for (place, cost) in self.members[id].places.iter_mut().zip(&costs) {
                place.cost = *cost;
            }
        }
        let Some((device, true)) = self.choice(id) else { return false };
        let ticket = std::mem::take(&mut self.members[id].ticket);
        let held = Held { device, begun: self.now, cost: costs[device], bytes: 0, in_use: 0 };
        self.members[id].holds.push(held);
        self.jobs[id].pop();
        self.begun.push((id, device, ticket, priority, self.drew[id], self.now));
        true
    }

    /// Lets all act, in any order, until nobody begins any more.
    fn settle(&mut self, random: &mut Random) {
        let mut idle = 0;
        while idle < 3 * self.members.len() {
            let acted = self.act(random.below(self.members.len()));
            idle = if acted { 0 } else { idle + 1 };
        }
        while (0..self.members.len()).any(|id| self.act(id)) {}
    }

    /// To the end of the first one; `false`: nothing runs.
    fn pass(&mut self) -> bool {
        let end = |held: &Held| held.begun + (held.cost.unwrap() * 1e9) as u64;
        let Some(next) = self.members.iter().flat_map(|member| &member.holds).map(end).min() else {
            return false;
        };
        self.now = next;
        for member in &mut self.members {
            member.holds.retain(|held| end(held) > next);
        }
        true
    }

    fn holders(&self, device: usize) -> usize {
        self.members.iter().flat_map(|member| &member.holds).filter(|held| held.device == device).count()
    }
}

/// Twelve processes call at the same moment on four cards, two of them 2.2 times as fast.
#[test]
fn twelve_tasks_on_four_cards_end_as_early_as_they_can() {
    for told in [Some(1.0), None] {
        let costs = vec![Some(1.0 / 2.2), Some(1.0 / 2.2), Some(1.0), Some(1.0)];
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut world = World::new(vec![vec![(0, costs.clone())]; 12], vec![vec![1; 4]; 12], told);
            let begin = world.now;
            loop {
                world.settle(&mut random);
                // A moment later, too: with nothing told the guess grows with the time.
                world.now += 1_000_000;
                world.settle(&mut random);
                if !world.pass() {
                    break;
                }
            }
            assert_eq!(world.begun.len(), 12);
            let mut on = [0; 4];
            world.begun.iter().for_each(|begun| on[begun.1] += 1);
            assert_eq!(on, [4, 4, 2, 2], "told {told:?}, seed {seed}");
            // The moments that the looks take, beside the two seconds.
            let took = (world.now - begin) as f64 * 1e-9;
            assert!((2.0..2.02).contains(&took), "told {told:?}: {took}");
        }
    }
}

fn random_world(seed: u64, same_slots: bool) -> (World, Random, f64) {
    let mut random = Random::new(seed);
    let (members, devices) = (2 + random.below(9), 1 + random.below(4));
    let mut longest: f64 = 0.0;
    let mut jobs = Vec::new();
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
        jobs.push(own);
    }
    let common: Vec<u32> = (0..devices).map(|_| 1 + random.below(3) as u32).collect();
    let slots = (0..members).map(|_| match same_slots {
        true => common.clone(),
        false => (0..devices).map(|_| 1 + random.below(3) as u32).collect(),
    });
    let slots = slots.collect();
    let told = (random.below(2) == 0).then_some(1.0);
    (World::new(jobs, slots, told), random, longest)
}

#[test]
fn never_more_holders_than_slots_and_everybody_has_a_turn() {
    for seed in 0..300 {
        let (mut world, mut random, _) = random_world(seed, seed % 2 == 0);
        let count: usize = world.jobs.iter().map(Vec::len).sum();
        loop {
            let before = world.begun.len();
            world.settle(&mut random);
            for &(id, device, ..) in &world.begun[before..] {
                let slots = world.members[id].places[device].slots as usize;
                let most =
                    world.members.iter().map(|member| member.places[device].slots as usize).max().unwrap();
                assert!(world.holders(device) <= most, "seed {seed}");
                assert!(seed % 2 == 1 || world.holders(device) <= slots, "seed {seed}");
            }
            if !world.pass() {
                break;
            }
        }
        assert_eq!(world.begun.len(), count, "seed {seed}: somebody was never let begin");
    }
}

/// One device: nobody begins while one waits who is before him.
#[test]
fn first_come_first_served_within_a_priority() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let members = 2 + random.below(8);
        let jobs = (0..members).map(|_| {
            (0..4).map(|_| (random.below(3) as i32, vec![Some(0.1 + random.unit())])).collect::<Vec<Job>>()
        });
        let jobs = jobs.collect();
        let slots = 1 + random.below(2) as u32;
        let mut world = World::new(jobs, vec![vec![slots]; members], Some(1.0));
        loop {
            for _ in 0..4 * members {
                let before = world.begun.len();
                let waited = world.members.clone();
                world.act(random.below(members));
                for &(id, _, ticket, priority, ..) in &world.begun[before..] {
                    let me = Member { id, ticket, priority, ..Member::default() };
                    assert!(
                        !waited.iter().any(|other| other.id != id && other.waits() && is_before(other, &me)),
                        "{seed}"
                    );
                }
            }
            world.settle(&mut random);
            if !world.pass() {
                break;
            }
        }
        assert_eq!(world.begun.len(), 4 * members);
    }
}

fn is_before(other: &Member, me: &Member) -> bool {
    other.priority > me.priority || other.priority == me.priority && other.ticket < me.ticket
}

/// One who allows a single task on a device, among others that allow three and never pause.
#[test]
fn who_allows_fewer_tasks_at_a_time_begins_all_the_same() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let others = 5;
        let mut jobs: Vec<Vec<Job>> = vec![Vec::new(); others];
        for own in &mut jobs {
            own.extend((0..60).map(|_| (0, vec![Some(0.2 + random.unit())])));
        }
        jobs.push((0..3).map(|_| (0, vec![Some(1.0)])).collect());
        let mut slots = vec![vec![3]; others];
        slots.push(vec![1]);
        let mut world = World::new(jobs, slots, Some(1.0));
        loop {
            world.settle(&mut random);
            if !world.pass() {
                break;
            }
        }
        // Each other is before it once, and three were there: none takes longer than 1.2 s.
        let waits = world.begun.iter().filter(|begun| begun.0 == others).map(|begun| begun.5 - begun.4);
        let longest = waits.max().unwrap() as f64 * 1e-9;
        assert!(longest <= 8.0 * 1.2, "seed {seed}: it waited {longest} s");
    }
}

/// Who looks on sees begin just those who find themselves that they may, and in whatever order the members are read.
#[test]
fn all_see_the_same() {
    let mut seen = 0;
    for seed in 0..300 {
        let (mut world, mut random, _) = random_world(seed, true);
        // Any moment of a night that was played by the rules so far.
        for _ in 0..random.below(6) {
            world.settle(&mut random);
            world.pass();
        }
        for id in 0..world.members.len() {
            if !world.members[id].waits() && !world.jobs[id].is_empty() {
                world.members[id].ticket = world.next_ticket;
                world.next_ticket += 1;
                let (priority, costs) = world.jobs[id].last().cloned().unwrap();
                world.members[id].priority = priority;
                world.members[id].places.iter_mut().zip(costs).for_each(|(place, cost)| place.cost = cost);
            }
        }
        let nobody = Member { id: 999, ..Member::default() };
        let guess = seconds(world.told, world.members.iter(), world.now);
        let look = |members: &[Member]| view(members, &nobody, world.devices, guess, world.now, |_| false);
        let first = look(&world.members);
        let mut turned = world.members.clone();
        turned.reverse();
        assert_eq!(look(&turned), first, "seed {seed}");
        let may = (0..world.members.len())
            .filter(|id| world.members[*id].waits() && matches!(world.choice(*id), Some((_, true))));
        let mut may: Vec<usize> = may.collect();
        let mut ready: Vec<usize> = first.ready.iter().map(|wait| wait.0).collect();
        may.sort_unstable();
        ready.sort_unstable();
        assert_eq!(may, ready, "seed {seed}");
        seen += ready.len();
    }
    assert!(seen > 100, "{seen}: too few to say anything");
}

fn one(id: usize, ticket: u64) -> Member {
    let place = Place { device: 0, slots: 1, cost: Some(1.0), bytes: 0 };
    Member { id, ticket, places: vec![place], ..Member::default() }
}

#[test]
fn who_does_not_take_what_he_could_is_passed_for_a_while() {
    let (first, me) = (one(0, 1), one(1, 2));
    let mut stopped = Stopped::default();
    let mut lanes = |first: &Member, now: u64| {
        let view = stopped.view(std::slice::from_ref(first), &me, 1, 1.0, now);
        (view.outlooks[0].lanes.len(), stopped.next(now))
    };
    assert_eq!(lanes(&first, 5), (1, Some(6 + PATIENCE)));
    assert_eq!(lanes(&first, 5 + PATIENCE), (1, Some(6 + PATIENCE)));
    assert_eq!(lanes(&first, 6 + PATIENCE), (0, None));
    assert_eq!(lanes(&first, 7 + PATIENCE), (0, None));
    // It runs again, and says so; then it waits anew.
    let revived = Member { revived: 1, ..first.clone() };
    assert_eq!(lanes(&revived, 8 + PATIENCE).0, 1);
    assert_eq!(lanes(&revived, 9 + 2 * PATIENCE).0, 0);
    let anew = Member { ticket: 9, ..revived };
    assert_eq!(lanes(&anew, 10 + 2 * PATIENCE).0, 0, "it is behind us");
}

#[test]
fn who_can_not_begin_is_waited_for_however_long() {
    let held = Held { device: 0, begun: 0, cost: Some(1e6), bytes: 0, in_use: 0 };
    let holder = Member { holds: vec![held], ..one(2, 0) };
    let others = [one(0, 1), holder];
    let mut stopped = Stopped::default();
    for second in 0..5 {
        let view = stopped.view(&others, &one(1, 2), 1, 1.0, second * PATIENCE);
        assert_eq!(view.outlooks[0].lanes.len(), 1, "its lane is the one that ends");
        let left = 1e6 - second as f64;
        assert!(view.outlooks[0].lanes[0] > left, "after the holder comes the first in line");
        assert_eq!(stopped.next(second * PATIENCE), None);
    }
}

#[test]
fn what_an_outlook_says() {
    let second = 1_000_000_000;
    let held = |cost, begun, bytes, in_use| Held { device: 0, begun, cost, bytes, in_use };
    let holds = vec![
        held(Some(4.0), 10 * second, 100, 30),
        held(Some(1.0), 10 * second, u64::MAX, 0),
        held(None, 12 * second, 5, 50),
    ];
    let other = Member { id: 1, holds, ..Member::default() };
    let mine = Member { holds: vec![held(Some(1.0), 10 * second, 7, 0)], ..one(0, 0) };
    let waiter = one(2, 4);
    let view = view(&[other, waiter], &mine, 2, 2.0, 13 * second, |_| false);
    let look = &view.outlooks[0];
    // Of 8 s, 5 are left; 2 s are overrun by 1; nothing is known of one that has run for 1 s; and the one that waits
    // goes on for 2 s when all, the last of them in 5 s, have ended.
    assert_eq!(look.lanes, [1.0, 1.0, 7.0]);
    assert_eq!((look.pending_bytes, look.waiting), (u64::MAX, 1));
    assert_eq!(view.outlooks[1], Outlook::default());
    assert!(view.ready.is_empty());
}
