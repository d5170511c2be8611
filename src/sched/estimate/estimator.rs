//! Estimates how long a task takes on each device, by class, from priors and measurements.
//! `docs/scheduling.md` has the formula.
//!
//! Priors have to be right only relative to each other: the *unit scale* is the time that a unit of
//! work takes on a device of prior 1, measured over all devices together.
//!
//! Old samples fade, so that a device that slows down is noticed. A sample counts as at most
//! `surprise` times the expected one, either way: one odd task or clock must not condemn a
//! device, or make it seem very fast. The first sample of a device may have paid for a context
//! and for loading code. It is dropped if the second one shows it to be a warm-up.

use std::sync::Arc;

use super::{ClassRecord, ClassTable, DeviceRecord};
use crate::sched::base::Policy;

/// The estimator of all devices of a scheduler, by their position in it.
#[derive(Debug, Default)]
pub struct Estimator {
    policy: Arc<Policy>,
    priors: Vec<Option<f64>>,
    pub table: ClassTable,
}

impl Estimator {
    /// `priors`: a guess of each device's rate, all in the same unit; `None`: no guess.
    pub fn new(priors: Vec<Option<f64>>, policy: Arc<Policy>) -> Self {
        let valid = |prior: Option<f64>| prior.filter(|prior| prior.is_finite() && *prior > 0.0);
        let table = ClassTable::new(priors.len(), policy.classes);
        Estimator { policy, priors: priors.into_iter().map(valid).collect(), table }
    }

    /// Sets the rates of a class from an earlier run, in work per second, by device. Returns false
    /// if they relate to each other quite differently from the devices' priors: then they are of
    /// different units, or wrong, and none is kept.
    pub fn set_stored_rates(&mut self, class: u32, rates: impl Iterator<Item = Option<f64>>) -> bool {
        let record = self.table.class_mut(class);
        record.devices.iter_mut().zip(rates).for_each(|(record, rate)| record.samples.prior = rate);
        let scales = self.priors.iter().zip(&record.devices);
        let scales = scales.filter_map(|(prior, record)| Some(record.samples.prior? / (*prior)?));
        let (least, most) =
            scales.fold((f64::INFINITY, 0.0f64), |(least, most), scale| (least.min(scale), most.max(scale)));
        let consistent = most <= self.policy.inconsistent * least;
        if !consistent {
            record.devices.iter_mut().for_each(|record| record.samples.prior = None);
        }
        record.unit_scale = unit_scale(&self.priors, record);
        consistent
    }

    /// Records an attempt that ended well.
    pub fn record_sample(&mut self, class: u32, device: usize, work: Option<f64>, seconds: f64) {
        let (policy, priors) = (&self.policy, &self.priors);
        let record = self.table.attempt_ended(class, device, work, seconds);
        let (known, work) = (record.samples() > 1, work.unwrap_or_else(|| record.mean_work()));
        let expected = record.seconds_per_work(policy, priors[device], device).map(|each| work * each);
        let expected = expected.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        let seconds = seconds.max(1e-9);
        let DeviceRecord { samples, sum, .. } = &mut record.devices[device];
        let mut counted = match expected {
            Some(expected) if known => seconds.clamp(expected / policy.surprise, expected * policy.surprise),
            _ => seconds,
        };
        if sum.tasks == 1 {
            samples.first = (counted, work);
        }
        if sum.tasks == 2 {
            let (first_seconds, first_work) = samples.first;
            if first_seconds / first_work > policy.warm_up * seconds / work {
                (samples.seconds, samples.work, samples.recent) = (0.0, 0.0, (0.0, 0.0));
                counted = seconds;
            }
        }
        samples.seconds = samples.seconds * policy.fade + counted;
        samples.work = samples.work * policy.fade + work;
        samples.recent = (samples.recent.0 * policy.fade + seconds, samples.recent.1 * policy.fade + work);
        record.unit_scale = unit_scale(priors, record);
    }

    /// Returns a task's work in average tasks of its class.
    pub fn relative_work(&self, class: u32, work: Option<f64>) -> f64 {
        work.map_or(1.0, |work| work / self.mean_work(class))
    }

    /// Returns how long a task should take on a device, in seconds, or in the unit of the priors
    /// before anything was measured. `None`: nothing is known of the device.
    pub fn seconds(&self, class: u32, device: usize, work: Option<f64>) -> Option<f64> {
        let each = self.seconds_per_work(class, device)?;
        Some(work.unwrap_or_else(|| self.mean_work(class)) * each)
    }

    /// Returns [`Estimator::seconds`] of a unit of work.
    pub fn seconds_per_work(&self, class: u32, device: usize) -> Option<f64> {
        let general = self.priors.get(device).copied().flatten();
        match self.table.class(class) {
            Some(class) => class.seconds_per_work(&self.policy, general, device),
            None => general.map(f64::recip),
        }
    }

    /// Returns the mean work of the class's tasks that state it; 1 where none does.
    pub fn mean_work(&self, class: u32) -> f64 {
        self.table.class(class).map_or(1.0, ClassRecord::mean_work)
    }

    /// Returns [`Estimator::seconds`] in a unit that all processes have. `unit`: its seconds. If
    /// these are unknown, or nothing is measured, the unit is that of the devices' priors.
    pub fn cost(&self, class: u32, device: usize, work: Option<f64>, unit: Option<f64>) -> Option<f64> {
        let scale = self.unit_scale_of(class).map_or(1.0, |own| unit.unwrap_or(own));
        Some(self.seconds(class, device, work)? / scale)
    }

    /// Returns the seconds of a unit of [`Estimator::cost`], once they are measured.
    pub fn unit_scale_of(&self, class: u32) -> Option<f64> {
        let class = self.table.class(class)?;
        let known = class.devices.iter().any(|record| record.sum.tasks > 0 || record.samples.prior.is_some());
        known.then_some(class.unit_scale)
    }

    /// Returns the factor by which a device may be faster or slower than [`Estimator::seconds`]
    /// says, roughly.
    pub fn uncertainty(&self, class: u32, device: usize, has_work: bool) -> f64 {
        let record = self.table.class(class).and_then(|class| class.devices.get(device));
        let (count, guess) =
            record.map_or((0, false), |record| (record.sum.tasks, record.samples.prior.is_some()));
        let guess = guess || self.priors.get(device).is_some_and(Option::is_some);
        let weight = count as f64 + if guess { self.policy.prior_weight } else { 0.0 };
        let scatter = match (has_work, guess) {
            (true, _) => self.policy.scatter_with_work,
            (false, true) => self.policy.scatter_without_work,
            (false, false) => self.policy.scatter_unknown,
        };
        1.0 + scatter / weight.max(0.5).sqrt()
    }

    /// Returns the work per second of a slot of a device, where the rate is absolute.
    pub fn rate(&self, class: u32, device: usize) -> Option<f64> {
        // A prior of the device alone is only relative.
        let known = self.table.class(class)?;
        let is_absolute = known.samples() > 0 || known.devices[device].samples.prior.is_some();
        is_absolute.then(|| self.seconds_per_work(class, device))?.map(f64::recip)
    }

    /// Returns after how many seconds an attempt is late. `None` before enough of its class have
    /// ended.
    pub fn late_after(&self, class: u32, device: usize, work: Option<f64>) -> Option<f64> {
        let known = self.table.class(class)?.samples() >= self.policy.usual_after;
        known.then(|| Some(self.policy.late_factor * self.seconds(class, device, work)?))?
    }

    /// Returns the measured rates: class, device, work per second, number of samples.
    pub fn learned_rates(&self) -> impl Iterator<Item = (u32, usize, f64, u64)> {
        self.table.classes().flat_map(|(number, class)| {
            let measured = class.devices.iter().enumerate().filter(|(_, record)| record.sum.tasks > 0);
            measured.map(move |(device, DeviceRecord { sum, samples, .. })| {
                (number, device, samples.work / samples.seconds, sum.tasks)
            })
        })
    }
}

/// Returns seconds times prior per unit of work, over all devices that have both a prior and
/// samples; where none has, the mean over those that have both a prior and a stored rate.
fn unit_scale(priors: &[Option<f64>], class: &ClassRecord) -> f64 {
    let both = || {
        let devices = priors.iter().zip(&class.devices);
        devices.filter_map(|(prior, record)| Some(((*prior)?, &record.samples)))
    };
    let (seconds, work) = both().fold((0.0, 0.0), |(seconds, work), (prior, samples)| {
        (seconds + samples.seconds * prior, work + samples.work)
    });
    if work > 0.0 {
        return seconds / work;
    }
    let stored = both().filter_map(|(prior, samples)| Some(prior / samples.prior?));
    let (sum, count) = stored.fold((0.0, 0.0), |(sum, count), scale| (sum + scale, count + 1.0));
    if count > 0.0 { sum / count } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 0.03 * b.abs()
    }

    /// An estimator of devices with these priors, and a task of class 0 for each work.
    fn estimator<const N: usize>(priors: [Option<f64>; N], works: &[f64]) -> Estimator {
        let mut estimator = Estimator::new(priors.into(), Arc::default());
        let table = &mut estimator.table;
        works.iter().for_each(|&work| table.task_submitted(0, Some(work)));
        estimator
    }

    /// The seconds of a task of class 0.
    fn seconds(estimator: &Estimator, device: usize, work: f64) -> f64 {
        estimator.seconds(0, device, Some(work)).unwrap()
    }

    #[test]
    fn priors_are_relative_until_one_device_is_measured() {
        let mut estimator = estimator([Some(200.0), Some(100.0), None], &[6.0]);
        assert!(close(seconds(&estimator, 1, 6.0) / seconds(&estimator, 0, 6.0), 2.0));
        assert_eq!(estimator.seconds(0, 2, Some(6.0)), None);
        estimator.record_sample(0, 0, Some(6.0), 3.0);
        assert!(close(seconds(&estimator, 1, 6.0), 6.0), "half as fast as the other");
    }

    #[test]
    fn new_device_is_compared_with_a_stored_one_by_priors() {
        let mut estimator = estimator([Some(4e11), Some(2e11), None], &[1e8]);
        estimator.set_stored_rates(0, [Some(1e8)].into_iter());
        assert!(close(seconds(&estimator, 0, 1e8), 1.0));
        assert!(close(seconds(&estimator, 1, 1e8), 2.0));
        assert_eq!(estimator.seconds(0, 2, Some(1e8)), None);
    }

    #[test]
    fn inconsistent_stored_rates_are_dropped() {
        let of = |stored: [f64; 2]| {
            let mut estimator = estimator([Some(4e11), Some(2e11), None], &[1.0]);
            let fit = estimator.set_stored_rates(0, [stored[0], stored[1], 1e9].map(Some).into_iter());
            let ratio = seconds(&estimator, 1, 1.0) / seconds(&estimator, 0, 1.0);
            (fit, ratio, estimator.seconds(0, 2, Some(1.0)))
        };
        assert_eq!(of([8.0, 1.0]), (true, 8.0, Some(1e-9)));
        assert_eq!(of([8e3, 1.0]), (false, 2.0, None), "one in another unit");
        assert_eq!(of([1e-30, 1e30]), (false, 2.0, None));
        let mut alone = estimator([None, Some(2e11)], &[]);
        assert!(alone.set_stored_rates(0, [1e-9, 1.0].map(Some).into_iter()), "nothing to compare with");
    }

    #[test]
    fn samples_outweigh_a_wrong_prior_and_changes_are_noticed() {
        let mut estimator = estimator([Some(1.0); 2], &[]);
        for _ in 0..60 {
            estimator.record_sample(0, 0, Some(1.0), 1.0);
            estimator.record_sample(0, 1, Some(1.0), 3.0);
        }
        assert!(seconds(&estimator, 1, 1.0) > 2.7);
        (0..60).for_each(|_| estimator.record_sample(0, 1, Some(1.0), 1.0));
        assert!(seconds(&estimator, 1, 1.0) < 1.15, "it has recovered");
    }

    #[test]
    fn one_odd_sample_changes_little() {
        let mut estimator = estimator([Some(1.0)], &[]);
        (0..20).for_each(|_| estimator.record_sample(0, 0, Some(1.0), 1.0));
        estimator.record_sample(0, 0, Some(1.0), 1e-6);
        assert!(seconds(&estimator, 0, 1.0) > 0.9);
        estimator.record_sample(0, 0, Some(1.0), 1e6);
        assert!(seconds(&estimator, 0, 1.0) < 1.4);
    }

    #[test]
    fn numbers_out_of_range_do_no_harm() {
        let mut estimator = estimator([Some(1.0), Some(1e-300)], &[]);
        for work in [1e308, 1e308, 1e-308, 1.0] {
            estimator.table.task_submitted(0, Some(work));
            (0..2).for_each(|device| estimator.record_sample(0, device, Some(work), 2.0));
        }
        let _ = (estimator.late_after(0, 0, None), estimator.rate(0, 0));
    }

    #[test]
    fn warm_up_is_dropped() {
        let mut estimator = estimator([None], &[]);
        [20.0, 1.0].iter().for_each(|&seconds| estimator.record_sample(0, 0, Some(1.0), seconds));
        assert!(seconds(&estimator, 0, 1.0) < 1.1);
    }

    #[test]
    fn attempts_are_late_by_the_usual_duration_of_three_others() {
        let mut estimator = estimator([Some(1.0)], &[]);
        for (count, seconds) in [1.0, 1.0, 1.0, 500.0].into_iter().enumerate() {
            assert_eq!(estimator.late_after(0, 0, Some(1.0)).is_some(), count >= 3);
            estimator.record_sample(0, 0, Some(1.0), seconds);
        }
        let late = estimator.late_after(0, 0, Some(1.0)).unwrap();
        assert!((5.0..10.0).contains(&late), "{late}");
    }

    #[test]
    fn unit_of_a_class_is_the_mean_work_of_its_tasks() {
        let mut estimator = estimator([Some(1.0), None], &[2.0, 6.0]);
        let relative = [(0, Some(8.0)), (0, None), (9, Some(8.0))];
        assert_eq!(relative.map(|(class, work)| estimator.relative_work(class, work)), [2.0, 1.0, 8.0]);
        estimator.record_sample(0, 1, None, 2.0);
        assert_eq!(estimator.learned_rates().collect::<Vec<_>>(), [(0, 1, 2.0, 1)]);
    }
}
