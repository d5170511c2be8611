//! Sums over tasks, from which progress and the lower bound are told.
//!
//! # The lower bound
//! How long would the same tasks have taken at least, on the same devices, in the best of all schedules?
//! Work is not known exactly, so it is measured: in class c, device d has done so much work
//! a second, `r[c][d]` (work told by the tasks that ended well on it, over the time that they took; a task
//! counts as one unit where not all of its class tell their work). A task that took t seconds on d is
//! then worth `t r[c][d]` units, and all of a class `W[c]`. With `n[d]` slots, the devices
//! together do `R[c] = sum over d of n[d] r[c][d]`. The bound is the larger of
//! - `sum over c of W[c] / R[c]`, divided by `sum over d of n[d] max over c of r[c][d] / R[c]`. For one class
//!   that is work over rate; the divisor is 1 whenever devices keep their proportions from
//!   class to class, and larger where some are better at one class than at another. (It is a feasible point
//!   of the dual of the linear program that divides work freely among devices.)
//! - the longest task on the device that is fastest for its class.
//!
//! Failed attempts, late copies and waiting are not in it: they are what a better schedule would have saved.
//! Ranges are not in it either: their pieces move from device to device. A device that has ended no task of a class well counts for nothing in it. Masks, dependencies and times of
//! submission are left out, too, as they can only make a schedule longer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sched::base::policy::{CLASSES, forgotten_until};

#[derive(Debug, Default)]
pub struct WorkTotals {
    /// When the first task came, and when the last one so far ended.
    first: Option<Duration>,
    last: Duration,
    classes: BTreeMap<u32, ClassTotals>,
    /// The sums of classes that have been forgotten: they are in no bound.
    forgotten: ClassTotals,
    /// The number of classes at which the next search for one to forget is due, if more than [`CLASSES`].
    search_at: usize,
    /// How often a class was used.
    uses: u64,
}

#[derive(Debug, Default, Clone)]
pub struct ClassTotals {
    pub all: WorkSum,
    pub ended: WorkSum,
    /// By device: attempts that ended well.
    ran: Vec<DeviceTotals>,
    /// By [`WorkTotals::uses`], the last time.
    used: u64,
}

/// Tasks, how many of them told their work, and how much that was.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct WorkSum {
    pub tasks: u64,
    pub told: u64,
    pub work: f64,
}

#[derive(Debug, Default, Clone, Copy)]
struct DeviceTotals {
    sum: WorkSum,
    seconds: f64,
    longest: f64,
}

impl WorkSum {
    fn add(&mut self, work: Option<f64>) {
        self.tasks += 1;
        self.told += u64::from(work.is_some());
        self.work += work.unwrap_or(0.0);
    }

    fn add_sum(&mut self, other: WorkSum) {
        self.tasks += other.tasks;
        self.told += other.told;
        self.work += other.work;
    }
}

impl ClassTotals {
    /// Work that has not ended; those who tell none count as the mean of those who do, or as 1.
    pub fn left(&self) -> f64 {
        let tasks = self.all.tasks - self.ended.tasks;
        let told = self.all.told - self.ended.told;
        let work = if told == 0 { 0.0 } else { (self.all.work - self.ended.work).max(0.0) };
        work + (tasks - told) as f64 * self.unit()
    }

    /// What a task counts as that tells no work.
    pub fn unit(&self) -> f64 {
        if self.all.told > 0 { self.all.work / self.all.told as f64 } else { 1.0 }
    }

    /// Work a second of a slot of each device; 0 where none was measured.
    fn rates(&self) -> Vec<f64> {
        let by_work = self.ran.iter().all(|ran| ran.sum.told == ran.sum.tasks);
        let units = |ran: &DeviceTotals| if by_work { ran.sum.work } else { ran.sum.tasks as f64 };
        self.ran.iter().map(|ran| if ran.seconds > 0.0 { units(ran) / ran.seconds } else { 0.0 }).collect()
    }
}

impl WorkTotals {
    pub fn submitted(&mut self, now: Duration, class: u32, work: Option<f64>) {
        self.first.get_or_insert(now);
        self.class(class).all.add(work);
    }

    /// Something came or ended that has no place in the sums, such as a range.
    pub fn touched(&mut self, now: Duration) {
        self.first.get_or_insert(now);
        self.last = self.last.max(now);
    }

    /// A task has ended, in whatever way.
    pub fn ended(&mut self, now: Duration, class: u32, work: Option<f64>) {
        self.last = self.last.max(now);
        self.class(class).ended.add(work);
    }

    /// An attempt ended well, and counts.
    pub fn ran(&mut self, class: u32, device: usize, work: Option<f64>, time: Duration) {
        let ran = &mut self.class(class).ran;
        if ran.len() <= device {
            ran.resize(device + 1, DeviceTotals::default());
        }
        let (ran, seconds) = (&mut ran[device], time.as_secs_f64());
        ran.sum.add(work);
        ran.seconds += seconds;
        ran.longest = ran.longest.max(seconds);
    }

    fn class(&mut self, number: u32) -> &mut ClassTotals {
        if self.classes.len() >= self.search_at.max(CLASSES) && !self.classes.contains_key(&number) {
            self.forget();
            self.search_at = self.classes.len() + self.classes.len() / 8;
        }
        self.uses += 1;
        let class = self.classes.entry(number).or_default();
        class.used = self.uses;
        class
    }

    /// Classes whose tasks have all ended.
    fn forget(&mut self) {
        let over = |class: &ClassTotals| class.all.tasks == class.ended.tasks;
        let ended = self.classes.values().filter(|class| over(class));
        let until = forgotten_until(ended.map(|class| class.used).collect());
        let forgotten = &mut self.forgotten;
        forgotten.ran.resize(1, DeviceTotals::default());
        self.classes.retain(|_, class| {
            let keep = !over(class) || class.used > until;
            if !keep {
                forgotten.all.add_sum(class.all);
                forgotten.ended.add_sum(class.ended);
                for ran in &class.ran {
                    forgotten.ran[0].sum.add_sum(ran.sum);
                    forgotten.ran[0].seconds += ran.seconds;
                }
            }
            keep
        });
    }

    /// Returns the known classes and the sums of the forgotten ones.
    fn all(&self) -> impl Iterator<Item = &ClassTotals> {
        self.classes.values().chain([&self.forgotten])
    }

    /// Seconds that a task took that ended well, on average.
    pub fn mean(&self) -> Option<f64> {
        let ran = || self.all().flat_map(|class| &class.ran);
        let tasks: u64 = ran().map(|ran| ran.sum.tasks).sum();
        let seconds: f64 = ran().map(|ran| ran.seconds).sum();
        (tasks > 0).then(|| seconds / tasks as f64)
    }

    pub fn classes(&self) -> impl Iterator<Item = (u32, &ClassTotals)> {
        self.classes.iter().map(|(&number, class)| (number, class))
    }

    /// Work that was told: of all tasks, and of those that have ended.
    pub fn work(&self) -> (f64, f64) {
        self.all().fold((0.0, 0.0), |(all, ended), class| (all + class.all.work, ended + class.ended.work))
    }

    /// Since the first task came.
    pub fn elapsed(&self, now: Duration) -> Duration {
        self.first.map_or(Duration::ZERO, |first| now.saturating_sub(first))
    }

    /// From when the first task came until the last end so far.
    pub fn makespan(&self) -> Duration {
        self.elapsed(self.last)
    }

    /// No schedule of what has ended well could have been shorter. `slots`: of each device.
    pub fn lower_bound(&self, slots: &[u32]) -> Duration {
        let slots_of = |device: usize| slots.get(device).copied().map_or(1.0, f64::from);
        let mut shares = vec![0.0_f64; slots.len()];
        let (mut total, mut longest) = (0.0, 0.0_f64);
        for class in self.classes.values() {
            let rates = class.rates();
            let fastest = rates.iter().copied().fold(0.0, f64::max);
            let together: f64 = rates.iter().enumerate().map(|(device, rate)| slots_of(device) * rate).sum();
            if !(together > 0.0 && together.is_finite()) {
                continue;
            }
            for (device, (rate, ran)) in rates.iter().zip(&class.ran).enumerate() {
                total += ran.seconds * rate / together;
                longest = longest.max(ran.longest * rate / fastest);
                if let Some(share) = shares.get_mut(device) {
                    *share = share.max(rate / together);
                }
            }
        }
        let divisor: f64 = shares.iter().enumerate().map(|(device, share)| slots_of(device) * share).sum();
        let spread = if divisor > 0.0 { total / divisor } else { 0.0 };
        Duration::try_from_secs_f64(spread.max(longest)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    /// Tasks as (class, device, told work, seconds).
    fn tally(tasks: &[(u32, usize, Option<f64>, u64)]) -> WorkTotals {
        let mut tally = WorkTotals::default();
        for &(class, device, work, seconds) in tasks {
            tally.submitted(S(1), class, work);
            tally.ran(class, device, work, S(seconds));
            tally.ended(S(1 + seconds), class, work);
        }
        tally
    }

    fn bound(tasks: &[(u32, usize, Option<f64>, u64)], slots: &[u32]) -> f64 {
        tally(tasks).lower_bound(slots).as_secs_f64()
    }

    fn near(a: f64, b: f64) -> bool {
        // Sums of a few numbers in double precision.
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn classes_that_are_forgotten_stay_in_the_sums() {
        let mut tally = WorkTotals::default();
        let count = 3 * CLASSES as u32;
        for class in 0..count {
            tally.submitted(S(0), class, Some(2.0));
            tally.submitted(S(0), class, None);
            tally.ran(class, 1, Some(2.0), S(3));
            tally.ended(S(3), class, Some(2.0));
            if class != 5 {
                tally.ended(S(3), class, None);
            }
        }
        assert!((CLASSES / 2..=CLASSES).contains(&tally.classes.len()), "{}", tally.classes.len());
        assert!(tally.classes.contains_key(&5), "a task of it has not ended");
        assert_eq!(tally.work(), (2.0 * f64::from(count), 2.0 * f64::from(count)));
        assert_eq!(tally.mean(), Some(3.0));
    }

    /// Each search walks all classes, so searches that find nothing must become rare.
    #[test]
    fn classes_of_tasks_that_have_not_ended_are_seldom_searched() {
        let mut tally = WorkTotals::default();
        let mut searches = 0;
        for class in 0..20 * CLASSES as u32 {
            let before = tally.search_at;
            tally.submitted(S(0), class, None);
            searches += u32::from(tally.search_at != before);
        }
        assert_eq!(tally.classes.len(), 20 * CLASSES);
        // From 4,096 to 20 times as many by eighths: ln 20 / ln 1.125 = 25.4.
        assert_eq!(searches, 26);
    }

    #[test]
    fn nothing_has_run_in_no_time() {
        assert_eq!(WorkTotals::default().lower_bound(&[1, 1]), Duration::ZERO);
        assert_eq!(WorkTotals::default().makespan(), Duration::ZERO);
        assert_eq!(bound(&[(0, 0, None, 0)], &[1]), 0.0);
    }

    #[test]
    fn one_device_can_not_be_better_than_busy() {
        assert!(near(bound(&[(0, 0, None, 3), (0, 0, None, 4)], &[1]), 7.0));
        assert!(near(bound(&[(0, 0, Some(30.0), 3), (0, 0, Some(1.0), 4)], &[1]), 7.0));
    }

    #[test]
    fn slots_share_and_the_longest_does_not() {
        assert!(near(bound(&[(0, 0, None, 3), (0, 0, None, 5)], &[2]), 5.0));
        assert!(near(bound(&[(0, 0, None, 3), (0, 0, None, 3), (0, 0, None, 4)], &[2]), 5.0));
    }

    /// The fast device does 2 a second, the slow one 1: 12 units take 4 s, whoever did how much of it.
    #[test]
    fn rates_are_measured_by_the_work_that_is_told() {
        let tasks: Vec<_> =
            (0..3).map(|_| (0, 0, Some(2.0), 1)).chain((0..3).map(|_| (0, 1, Some(2.0), 2))).collect();
        assert!(near(bound(&tasks, &[1, 1]), 12.0 / 3.0));
        // Without words each counts as one: the same proportions, the same bound.
        let silent: Vec<_> =
            tasks.iter().map(|&(class, device, _, seconds)| (class, device, None, seconds)).collect();
        assert!(near(bound(&silent, &[1, 1]), 4.0));
        // One silent task among them: then all are counted, none weighed.
        let mut mixed = tasks;
        mixed[0].2 = None;
        assert!(near(bound(&mixed, &[1, 1]), 4.0));
    }

    #[test]
    fn a_long_task_on_a_slow_device_counts_as_on_the_fastest() {
        // 8 units on the slow device took 8 s; the fast one would have needed 4.
        let tasks = [(0, 0, Some(2.0), 1), (0, 1, Some(8.0), 8)];
        assert!(near(bound(&tasks, &[1, 1]), 4.0));
    }

    /// Two devices, each ten times better at one class: the best division does 10 + 10 units of each in 1 s.
    /// Summing each class over all devices would claim 20/11 s, and be no lower bound.
    #[test]
    fn devices_that_are_good_at_different_things_may_specialise() {
        let tasks =
            [(0, 0, Some(10.0), 1), (0, 1, Some(1.0), 1), (1, 0, Some(1.0), 1), (1, 1, Some(10.0), 1)];
        // By hand: give device 0 all of class 0 (11 units at 10 a second) and device 1 all of class 1.
        let bound = bound(&tasks, &[1, 1]);
        assert!(bound <= 1.1 && near(bound, 1.1), "{bound}");
    }

    #[test]
    fn what_is_left_counts_those_who_tell_nothing_as_the_mean() {
        let mut tally = WorkTotals::default();
        for work in [Some(2.0), Some(4.0), None] {
            tally.submitted(S(0), 7, work);
        }
        let left = |tally: &WorkTotals| tally.classes().next().map(|(_, class)| class.left());
        assert_eq!(left(&tally), Some(9.0));
        tally.ended(S(3), 7, Some(2.0));
        tally.ended(S(5), 7, None);
        assert_eq!(left(&tally), Some(4.0));
        tally.ended(S(4), 7, Some(4.0));
        assert_eq!(left(&tally), Some(0.0));
        assert_eq!(tally.makespan(), S(5));
        assert_eq!(tally.work(), (6.0, 6.0));
    }
}
