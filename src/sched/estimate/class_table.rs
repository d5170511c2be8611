//! Work and time of ended tasks by class and device: the table behind estimates, ETA and bound.
//!
//! The table keeps every class with tasks that have not ended. When it is full, it forgets all
//! others.

use std::collections::BTreeMap;

use crate::sched::base::Policy;

#[derive(Debug, Default)]
pub struct ClassTable {
    devices: usize,
    /// Before it gets one more class than this, the table forgets those whose tasks have all ended.
    most: usize,
    /// The same number if it is larger: twice the classes that stayed at the last search, so that
    /// searches that find little are rare.
    search_at: usize,
    classes: BTreeMap<u32, ClassRecord>,
    /// The stated work of all tasks, and of those that have ended.
    pub work: (f64, f64),
    /// The attempts that ended well, of tasks and ranges, and their seconds.
    pub attempts: (u64, f64),
}

#[derive(Debug, Default)]
pub struct ClassRecord {
    /// All tasks of the class.
    pub submitted: WorkSum,
    /// Tasks that have ended, in whatever way.
    pub ended: WorkSum,
    /// By device.
    pub devices: Vec<DeviceRecord>,
    /// Seconds times prior per unit of work; see [`Estimator`](super::estimator::Estimator).
    pub unit_scale: f64,
}

/// The number of tasks, how many of them state their work, and the sum of that.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct WorkSum {
    pub tasks: u64,
    pub with_work: u64,
    pub work: f64,
}

/// The attempts of a class that ended well on a device.
#[derive(Debug, Default, Clone)]
pub struct DeviceRecord {
    pub sum: WorkSum,
    pub seconds: f64,
    pub longest: f64,
    pub samples: DeviceSamples,
}

/// Faded sums of the same attempts, from which their durations are estimated.
#[derive(Debug, Default, Clone)]
pub struct DeviceSamples {
    /// Work per second in an earlier run: better than the device's general prior.
    pub prior: Option<f64>,
    pub seconds: f64,
    pub work: f64,
    /// Seconds and work of the first sample, which may be a warm-up.
    pub first: (f64, f64),
    /// Seconds and work, faded, of the samples as measured, for the ETA.
    pub recent: (f64, f64),
}

impl WorkSum {
    fn add(&mut self, work: Option<f64>) {
        self.tasks += 1;
        self.with_work += u64::from(work.is_some());
        self.work += work.unwrap_or(0.0);
    }
}

impl ClassRecord {
    /// Returns the mean work of the tasks that state it; 1 where none does.
    pub fn mean_work(&self) -> f64 {
        let WorkSum { with_work, work, .. } = self.submitted;
        if with_work > 0 { work / with_work as f64 } else { 1.0 }
    }

    /// Returns the seconds that a unit of work should take on a device; see
    /// [`Estimator::seconds`](super::estimator::Estimator::seconds). `general`: the device's prior.
    pub fn seconds_per_work(&self, policy: &Policy, general: Option<f64>, device: usize) -> Option<f64> {
        let samples = &self.devices.get(device)?.samples;
        // An earlier run's rate is absolute; a general prior is scaled by what devices have shown.
        let guess = samples.prior.map(|rate| 1.0 / rate).or_else(|| Some(self.unit_scale / general?));
        match guess {
            Some(guess) => {
                let weight = policy.prior_weight * self.mean_work();
                Some((samples.seconds + weight * guess) / (samples.work + weight))
            }
            None if samples.work > 0.0 => Some(samples.seconds / samples.work),
            None => None,
        }
    }

    /// Returns the number of attempts that ended well.
    pub fn samples(&self) -> u64 {
        self.devices.iter().map(|record| record.sum.tasks).sum()
    }

    /// Returns the number of tasks that have not ended.
    pub fn unended(&self) -> u64 {
        self.submitted.tasks - self.ended.tasks
    }

    /// Returns the work that has not ended. Tasks that state none count as the mean.
    pub fn remaining_work(&self) -> f64 {
        let with_work = self.submitted.with_work - self.ended.with_work;
        let work = if with_work == 0 { 0.0 } else { (self.submitted.work - self.ended.work).max(0.0) };
        work + (self.unended() - with_work) as f64 * self.mean_work()
    }
}

impl ClassTable {
    /// `most`: classes that are kept, unless more have tasks that have not ended.
    pub fn new(devices: usize, most: usize) -> Self {
        ClassTable { devices, most, ..ClassTable::default() }
    }

    pub fn task_submitted(&mut self, class: u32, work: Option<f64>) {
        self.work.0 += work.unwrap_or(0.0);
        self.class_mut(class).submitted.add(work);
    }

    /// Counts a task that has ended, in whatever way.
    pub fn task_ended(&mut self, class: u32, work: Option<f64>) {
        self.work.1 += work.unwrap_or(0.0);
        self.class_mut(class).ended.add(work);
    }

    /// Counts an attempt at a task that ended well, and returns the record of its class.
    pub fn attempt_ended(
        &mut self,
        class: u32,
        device: usize,
        work: Option<f64>,
        seconds: f64,
    ) -> &mut ClassRecord {
        let record = self.class_mut(class);
        let on_device = &mut record.devices[device];
        on_device.sum.add(work);
        on_device.seconds += seconds;
        on_device.longest = on_device.longest.max(seconds);
        record
    }

    pub fn class(&self, number: u32) -> Option<&ClassRecord> {
        self.classes.get(&number)
    }

    pub fn class_mut(&mut self, number: u32) -> &mut ClassRecord {
        if self.classes.len() >= self.search_at.max(self.most) && !self.classes.contains_key(&number) {
            self.classes.retain(|_, class| class.unended() > 0);
            self.search_at = 2 * self.classes.len();
        }
        let devices = self.devices;
        self.classes.entry(number).or_insert_with(|| ClassRecord {
            devices: vec![DeviceRecord::default(); devices],
            unit_scale: 1.0,
            ..ClassRecord::default()
        })
    }

    pub fn classes(&self) -> impl Iterator<Item = (u32, &ClassRecord)> {
        self.classes.iter().map(|(&number, class)| (number, class))
    }

    /// Returns the mean duration in seconds of the attempts that ended well.
    pub fn mean_seconds(&self) -> Option<f64> {
        let (count, seconds) = self.attempts;
        (count > 0).then(|| seconds / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: usize = 4096;

    #[test]
    fn forgotten_classes_stay_in_the_sums() {
        let mut table = ClassTable::new(2, CLASSES);
        let count = 3 * CLASSES as u32;
        for class in 0..count {
            table.task_submitted(class, Some(2.0));
            table.task_submitted(class, None);
            table.attempt_ended(class, 1, Some(2.0), 3.0);
            table.task_ended(class, Some(2.0));
            if class != 5 {
                table.task_ended(class, None);
            }
        }
        assert!(table.classes.len() <= CLASSES, "{}", table.classes.len());
        assert!(table.classes.contains_key(&5), "a task of it has not ended");
        assert_eq!(table.work, (2.0 * f64::from(count), 2.0 * f64::from(count)));
    }

    /// Each search walks all classes, so searches that find nothing must become rare.
    #[test]
    fn classes_with_unended_tasks_are_rarely_searched() {
        let mut table = ClassTable::new(0, CLASSES);
        let mut searches = 0;
        for class in 0..20 * CLASSES as u32 {
            let before = table.search_at;
            table.task_submitted(class, None);
            searches += u32::from(table.search_at != before);
        }
        assert_eq!(table.classes.len(), 20 * CLASSES);
        // From 4,096 to 20 times as many by doubling: log2 20 = 4.3.
        assert_eq!(searches, 5);
    }

    #[test]
    fn remaining_tasks_without_work_count_as_the_mean() {
        let mut table = ClassTable::new(0, CLASSES);
        for work in [Some(2.0), Some(4.0), None] {
            table.task_submitted(7, work);
        }
        let remaining = |table: &ClassTable| table.class(7).map(ClassRecord::remaining_work);
        assert_eq!(remaining(&table), Some(9.0));
        table.task_ended(7, Some(2.0));
        table.task_ended(7, None);
        assert_eq!(remaining(&table), Some(4.0));
        table.task_ended(7, Some(4.0));
        assert_eq!(remaining(&table), Some(0.0));
        assert_eq!(table.work, (6.0, 6.0));
    }
}
