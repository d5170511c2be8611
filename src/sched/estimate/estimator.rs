//! How fast each device is, for each class of tasks: what is guessed, and what was seen.
//!
//! A device's seconds per unit of work are those that it took, shrunk toward its prior as if
//! [`PSEUDO`] average tasks had run there at the prior's rate:
//! `(seconds seen + PSEUDO * mean * unit / prior) / (work seen + PSEUDO * mean)`.
//! Priors only have to be right relative to each other: `unit` is what all devices together have
//! shown a prior of 1 to be worth. Old samples fade, so a device that has become slow is known
//! to be. A sample counts as at most [`SURPRISE`] times what was expected, either way: one odd task or
//! clock must not condemn a device, or make it look like a marvel. The first sample of a device,
//! which may have paid for a context and for loading code, is dropped when a second one shows it
//! to have been much slower.

use std::collections::{BTreeMap, VecDeque};

use crate::sched::base::policy::{CLASSES, forgotten_until};

/// Average tasks that a prior weighs.
const PSEUDO: f64 = 2.0;
/// What a sample weighs after the next one has come.
const FADE: f64 = 0.95;
const SURPRISE: f64 = 4.0;
/// A first sample that was so many times slower than the second was a warm-up.
const WARM_UP: f64 = 1.5;
/// Remembered rates over priors differ by less from device to device.
const ODD: f64 = 30.0;
/// Durations remembered of each class, relative to what was expected of them.
const REMEMBERED: usize = 32;

/// Of all devices of a scheduler, by their position in it.
#[derive(Debug, Default)]
pub struct Estimator {
    priors: Vec<Option<f64>>,
    classes: BTreeMap<u32, ClassRates>,
    /// How often a class was used.
    uses: u64,
}

#[derive(Debug, Default)]
struct ClassRates {
    devices: Vec<DeviceSamples>,
    /// Of tasks that told their work.
    told: f64,
    told_work: f64,
    /// Seconds taken over seconds expected, the newest last.
    ratios: VecDeque<f64>,
    /// See [`Estimator::measure_worth`].
    worth: f64,
    /// By [`Estimator::uses`], the last time.
    used: u64,
}

#[derive(Debug, Default, Clone)]
struct DeviceSamples {
    /// From an earlier run, better than the device's general prior.
    prior: Option<f64>,
    seconds: f64,
    work: f64,
    samples: u64,
    first: (f64, f64),
}

impl Estimator {
    /// `priors`: a guess of each device's rate in whatever unit, the same for all; `None`: no idea.
    pub fn new(priors: Vec<Option<f64>>) -> Self {
        let sane = |prior: Option<f64>| prior.filter(|prior| prior.is_finite() && *prior > 0.0);
        Estimator { priors: priors.into_iter().map(sane).collect(), ..Estimator::default() }
    }

    /// A task of this class was submitted.
    pub fn task_submitted(&mut self, class: u32, work: Option<f64>) {
        let class = self.class(class);
        if let Some(work) = work {
            class.told += 1.0;
            class.told_work += work;
        }
    }

    /// What an earlier run has learned, in work per second.
    pub fn remember(&mut self, class: u32, device: usize, rate: f64) {
        if let Some(seen) = self.class(class).devices.get_mut(device)
            && rate.is_finite()
            && rate > 0.0
        {
            seen.prior = Some(rate);
        }
        self.measure_worth(class);
    }

    /// Forgets what was remembered of a class if the devices' speeds would stand to each other quite differently
    /// from their priors: then they are of different units, or wrong. `true` if it did.
    pub fn forget_odd(&mut self, class: u32) -> bool {
        let priors = self.priors.clone();
        let devices = &mut self.class(class).devices;
        let worths = priors.iter().zip(&*devices).filter_map(|(prior, seen)| Some(seen.prior? / (*prior)?));
        let (least, most) =
            worths.fold((f64::INFINITY, 0.0f64), |(least, most), worth| (least.min(worth), most.max(worth)));
        let odd = most > ODD * least;
        if odd {
            devices.iter_mut().for_each(|seen| seen.prior = None);
        }
        self.measure_worth(class);
        odd
    }

    /// A task has taken so long on a device.
    pub fn record_sample(&mut self, class: u32, device: usize, work: Option<f64>, seconds: f64) {
        let expected =
            self.seconds(class, device, work).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        let known = self.has_samples(class);
        let number = class;
        let class = self.class(class);
        let work = work.unwrap_or_else(|| class.unit());
        let seconds = seconds.max(1e-9);
        if let Some(expected) = expected.filter(|_| known) {
            if class.ratios.len() == REMEMBERED {
                class.ratios.pop_front();
            }
            class.ratios.push_back(seconds / expected);
        }
        let Some(seen) = class.devices.get_mut(device) else { return };
        let mut counted = match expected {
            Some(expected) if known => seconds.clamp(expected / SURPRISE, expected * SURPRISE),
            _ => seconds,
        };
        if seen.samples == 0 {
            seen.first = (counted, work);
        }
        if seen.samples == 1 {
            let (first_seconds, first_work) = seen.first;
            if first_seconds / first_work > WARM_UP * seconds / work {
                (seen.seconds, seen.work) = (0.0, 0.0);
                counted = seconds;
            }
        }
        seen.seconds = seen.seconds * FADE + counted;
        seen.work = seen.work * FADE + work;
        seen.samples += 1;
        self.measure_worth(number);
    }

    /// A task's work in average tasks of its class.
    pub fn relative_work(&self, class: u32, work: Option<f64>) -> f64 {
        let unit = self.classes.get(&class).map_or(1.0, ClassRates::unit);
        work.map_or(1.0, |work| work / unit)
    }

    /// How long a task should take on a device. `None`: nothing is known of the device.
    pub fn seconds(&self, class: u32, device: usize, work: Option<f64>) -> Option<f64> {
        let general = self.priors.get(device).copied().flatten();
        let Some(class) = self.classes.get(&class) else {
            return general.map(|prior| work.unwrap_or(1.0) / prior);
        };
        let mean = class.unit();
        let work = work.unwrap_or(mean);
        let seen = class.devices.get(device)?;
        // An earlier run's rate is absolute; a general prior is worth what devices have shown it to be.
        let guess = seen.prior.map(|rate| 1.0 / rate).or_else(|| Some(class.worth / general?));
        let each = match guess {
            Some(guess) => (seen.seconds + PSEUDO * mean * guess) / (seen.work + PSEUDO * mean),
            None if seen.samples > 0 => seen.seconds / seen.work,
            None => return None,
        };
        Some(work * each)
    }

    /// The same in units of the devices' priors, which do not depend on what any process has seen; and how many seconds
    /// such a unit is worth, where that can be told.
    pub fn cost(&self, class: u32, device: usize, work: Option<f64>) -> Option<f64> {
        let worth = self.classes.get(&class).map_or(1.0, |class| class.worth);
        Some(self.seconds(class, device, work)? / worth)
    }

    pub fn unit_scale_of(&self, class: u32) -> Option<f64> {
        let class = self.classes.get(&class)?;
        let seen = class.devices.iter().any(|seen| seen.samples > 0 || seen.prior.is_some());
        seen.then_some(class.worth)
    }

    /// By what factor a device may really be faster or slower than [`Estimator::seconds`] tells, roughly: tasks
    /// that tell their work scatter by a fifth, others by two thirds, and two devices of which nothing
    /// was known are compared by few such tasks.
    pub fn uncertainty(&self, class: u32, device: usize, told: bool) -> f64 {
        let seen = self.classes.get(&class).and_then(|class| class.devices.get(device));
        let (samples, guess) = seen.map_or((0, false), |seen| (seen.samples, seen.prior.is_some()));
        let guess = guess || self.priors.get(device).is_some_and(Option::is_some);
        let weight = samples as f64 + if guess { PSEUDO } else { 0.0 };
        let scatter = match (told, guess) {
            (true, _) => 0.2,
            (false, true) => 0.7,
            (false, false) => 4.0,
        };
        1.0 + scatter / weight.max(0.5).sqrt()
    }

    /// Seconds times prior per unit of work, over all devices that have both a prior and samples; where none has,
    /// the mean over those that have both a prior and a remembered rate. Each estimate needs it, so it is kept.
    fn measure_worth(&mut self, number: u32) {
        let Some(class) = self.classes.get(&number) else { return };
        let worth = self.unit_scale(class);
        self.class(number).worth = worth;
    }

    fn unit_scale(&self, class: &ClassRates) -> f64 {
        let mut both =
            self.priors.iter().zip(&class.devices).filter_map(|(prior, seen)| Some(((*prior)?, seen)));
        let (seconds, work) = both.by_ref().fold((0.0, 0.0), |(seconds, work), (prior, seen)| {
            (seconds + seen.seconds * prior, work + seen.work)
        });
        if work > 0.0 {
            return seconds / work;
        }
        let remembered =
            self.priors.iter().zip(&class.devices).filter_map(|(prior, seen)| Some((*prior)? / seen.prior?));
        let (sum, count) = remembered.fold((0.0, 0.0), |(sum, count), worth| (sum + worth, count + 1.0));
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// Whether an absolute duration can be told: a prior alone is only relative.
    pub fn has_samples(&self, class: u32) -> bool {
        self.classes.get(&class).is_some_and(|class| class.devices.iter().any(|seen| seen.samples > 0))
    }

    /// Work a second of a slot of a device, where that can be told: a prior alone is only relative.
    pub fn rate(&self, class: u32, device: usize) -> Option<f64> {
        let remembered =
            || self.classes.get(&class).is_some_and(|class| class.devices[device].prior.is_some());
        (self.has_samples(class) || remembered())
            .then(|| self.seconds(class, device, Some(1.0)))?
            .map(f64::recip)
    }

    /// So many times longer than expected is what tasks of this class take, robustly: the mean without
    /// the fifth at either end. `None` before three have ended.
    pub fn trimmed_ratio(&self, class: u32) -> Option<f64> {
        let class = self.classes.get(&class)?;
        let mut ratios: Vec<f64> = class.ratios.iter().copied().collect();
        if ratios.len() < 3 {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        let cut = ratios.len() / 5;
        let kept = &ratios[cut..ratios.len() - cut];
        Some(kept.iter().sum::<f64>() / kept.len() as f64)
    }

    /// Work per second that was seen of a device, and in how many tasks.
    pub fn learned(&self) -> impl Iterator<Item = (u32, usize, f64, u64)> {
        self.classes.iter().flat_map(|(&number, class)| {
            class
                .devices
                .iter()
                .enumerate()
                .filter(|(_, seen)| seen.samples > 0)
                .map(move |(device, seen)| (number, device, seen.work / seen.seconds, seen.samples))
        })
    }

    fn class(&mut self, number: u32) -> &mut ClassRates {
        if self.classes.len() >= CLASSES && !self.classes.contains_key(&number) {
            let until = forgotten_until(self.classes.values().map(|class| class.used).collect());
            self.classes.retain(|_, class| class.used > until);
        }
        self.uses += 1;
        let devices = self.priors.len();
        let class = self.classes.entry(number).or_insert_with(|| ClassRates {
            devices: vec![DeviceSamples::default(); devices],
            worth: 1.0,
            ..ClassRates::default()
        });
        class.used = self.uses;
        class
    }
}

impl ClassRates {
    /// Mean work of the tasks that told it; 1, as if each were one unit, where none did.
    fn unit(&self) -> f64 {
        if self.told > 0.0 { self.told_work / self.told } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 0.03 * b.abs()
    }

    #[test]
    fn priors_are_relative_until_one_device_has_shown_their_worth() {
        let mut rates = Estimator::new(vec![Some(200.0), Some(100.0), None]);
        rates.task_submitted(0, Some(6.0));
        let ratio = rates.seconds(0, 1, Some(6.0)).unwrap() / rates.seconds(0, 0, Some(6.0)).unwrap();
        assert!(close(ratio, 2.0));
        assert_eq!(rates.seconds(0, 2, Some(6.0)), None);
        rates.record_sample(0, 0, Some(6.0), 3.0);
        assert!(close(rates.seconds(0, 1, Some(6.0)).unwrap(), 6.0), "half as fast as the other");
    }

    #[test]
    fn a_device_that_is_new_beside_a_remembered_one_is_compared_by_the_priors() {
        let mut rates = Estimator::new(vec![Some(4e11), Some(2e11), None]);
        rates.task_submitted(0, Some(1e8));
        rates.remember(0, 0, 1e8);
        assert!(close(rates.seconds(0, 0, Some(1e8)).unwrap(), 1.0));
        assert!(close(rates.seconds(0, 1, Some(1e8)).unwrap(), 2.0));
        assert_eq!(rates.seconds(0, 2, Some(1e8)), None);
    }

    #[test]
    fn remembered_rates_that_do_not_fit_each_other_are_forgotten() {
        let of = |remembered: [f64; 2]| {
            let mut rates = Estimator::new(vec![Some(4e11), Some(2e11), None]);
            rates.task_submitted(0, Some(1.0));
            (0..2).for_each(|device| rates.remember(0, device, remembered[device]));
            rates.remember(0, 2, 1e9);
            let forgotten = rates.forget_odd(0);
            let ratio = rates.seconds(0, 1, Some(1.0)).unwrap() / rates.seconds(0, 0, Some(1.0)).unwrap();
            (forgotten, ratio, rates.seconds(0, 2, Some(1.0)))
        };
        assert_eq!(of([8.0, 1.0]), (false, 8.0, Some(1e-9)));
        assert_eq!(of([8e3, 1.0]), (true, 2.0, None), "one in another unit");
        assert_eq!(of([1e-30, 1e30]), (true, 2.0, None));
        let mut alone = Estimator::new(vec![None, Some(2e11)]);
        alone.remember(0, 0, 1e-9);
        alone.remember(0, 1, 1.0);
        assert!(!alone.forget_odd(0), "nothing to compare with");
    }

    #[test]
    fn what_is_seen_wins_over_a_wrong_prior_and_a_change_is_noticed() {
        let mut rates = Estimator::new(vec![Some(1.0), Some(1.0)]);
        for _ in 0..60 {
            rates.record_sample(0, 0, Some(1.0), 1.0);
            rates.record_sample(0, 1, Some(1.0), 3.0);
        }
        assert!(
            close(rates.seconds(0, 1, Some(1.0)).unwrap(), 3.0)
                || rates.seconds(0, 1, Some(1.0)).unwrap() > 2.7
        );
        for _ in 0..60 {
            rates.record_sample(0, 1, Some(1.0), 1.0);
        }
        assert!(rates.seconds(0, 1, Some(1.0)).unwrap() < 1.15, "it has recovered");
    }

    #[test]
    fn one_odd_sample_changes_little() {
        let mut rates = Estimator::new(vec![Some(1.0)]);
        for _ in 0..20 {
            rates.record_sample(0, 0, Some(1.0), 1.0);
        }
        rates.record_sample(0, 0, Some(1.0), 1e-6);
        assert!(rates.seconds(0, 0, Some(1.0)).unwrap() > 0.9);
        rates.record_sample(0, 0, Some(1.0), 1e6);
        assert!(rates.seconds(0, 0, Some(1.0)).unwrap() < 1.4);
    }

    #[test]
    fn what_is_beyond_all_numbers_teaches_nothing_and_harms_nothing() {
        let mut rates = Estimator::new(vec![Some(1.0), Some(1e-300)]);
        for work in [1e308, 1e308, 1e-308, 1.0] {
            rates.task_submitted(0, Some(work));
            for device in [0, 1] {
                rates.record_sample(0, device, Some(work), 2.0);
            }
        }
        let _ = (rates.trimmed_ratio(0), rates.rate(0, 0));
    }

    #[test]
    fn a_warm_up_is_forgotten() {
        let mut rates = Estimator::new(vec![None]);
        rates.record_sample(0, 0, Some(1.0), 20.0);
        rates.record_sample(0, 0, Some(1.0), 1.0);
        assert!(rates.seconds(0, 0, Some(1.0)).unwrap() < 1.1);
    }

    #[test]
    fn the_usual_needs_three_and_ignores_the_odd() {
        let mut rates = Estimator::new(vec![Some(1.0)]);
        for (count, seconds) in [1.0, 1.0, 1.0, 500.0, 1.0, 1.0].into_iter().enumerate() {
            assert_eq!(rates.trimmed_ratio(0).is_some(), count > 3, "the first tells only the unit");
            rates.record_sample(0, 0, Some(1.0), seconds);
        }
        assert!(rates.trimmed_ratio(0).unwrap() < 1.5);
    }

    #[test]
    fn of_many_classes_those_that_were_used_last_are_known() {
        let mut rates = Estimator::new(vec![Some(1.0)]);
        for class in 0..3 * CLASSES as u32 {
            rates.record_sample(class, 0, Some(1.0), 2.0);
            rates.task_submitted(0, Some(1.0));
        }
        assert!((CLASSES / 2..=CLASSES).contains(&rates.classes.len()), "{}", rates.classes.len());
        let last = 3 * CLASSES as u32 - 1;
        assert!(
            rates.has_samples(0) && rates.has_samples(last) && rates.has_samples(last - CLASSES as u32 / 2)
        );
        assert!(!rates.has_samples(1));
    }

    #[test]
    fn unit_of_a_class_is_the_mean_work_of_its_tasks() {
        let mut rates = Estimator::new(vec![Some(1.0), None]);
        [2.0, 6.0].iter().for_each(|&work| rates.task_submitted(7, Some(work)));
        assert_eq!(
            [
                rates.relative_work(7, Some(8.0)),
                rates.relative_work(7, None),
                rates.relative_work(9, Some(8.0))
            ],
            [2.0, 1.0, 8.0]
        );
        rates.record_sample(7, 1, None, 2.0);
        assert_eq!(rates.learned().collect::<Vec<_>>(), [(7, 1, 2.0, 1)]);
    }
}
