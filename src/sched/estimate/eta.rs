//! When all will be done: a pure function of what is left.

use std::time::Duration;

/// What is left to do, in seconds or in whatever unit the work of a class is told in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EtaInput {
    /// One for each class of tasks whose rate is known somewhere.
    pub loads: Vec<DeviceLoad>,
    /// Tasks of classes of which no rate is known.
    pub unknown: u64,
    /// Seconds that a task took so far, on average. `None`: none has ended.
    pub mean: Option<f64>,
    /// Tasks that can run at a time, over all devices that are left.
    pub slots: u64,
    /// Seconds that the longest task will need: a running one on its device, a queued one on the fastest.
    pub longest: f64,
}

/// What is left of a class: `work`, of which all devices together do `rate` a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceLoad {
    pub work: f64,
    pub rate: f64,
}

impl EtaInput {
    /// Tasks that tell nothing, and took so many seconds each so far.
    pub fn add(&mut self, tasks: u64, mean: Option<f64>) {
        match mean {
            Some(mean) if mean > 0.0 => {
                self.loads.push(DeviceLoad { work: tasks as f64, rate: self.slots as f64 / mean });
            }
            Some(_) => {}
            None => self.unknown += tasks,
        }
    }
}

/// Time until all is done, if it is spread well: all that is left by all rates, but not less than the longest
/// task needs. `None`: nothing is known to tell it by.
pub fn eta(outlook: &EtaInput) -> Option<Duration> {
    let mut seconds = 0.0;
    for DeviceLoad { work, rate } in &outlook.loads {
        if *work > 0.0 {
            seconds += work / rate;
        }
    }
    if outlook.unknown > 0 {
        seconds += outlook.unknown as f64 * outlook.mean? / outlook.slots as f64;
    }
    // Infinite or no number: where nothing is left that could do it.
    Duration::try_from_secs_f64(seconds.max(outlook.longest).max(0.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(outlook: &EtaInput) -> Option<f64> {
        eta(outlook).map(|eta| eta.as_secs_f64())
    }

    #[test]
    fn nothing_left_is_no_time() {
        assert_eq!(seconds(&EtaInput::default()), Some(0.0));
        let idle = EtaInput { mean: Some(3.0), slots: 2, ..EtaInput::default() };
        assert_eq!(seconds(&idle), Some(0.0));
    }

    #[test]
    fn work_is_divided_by_all_rates_and_classes_add() {
        let loads = vec![DeviceLoad { work: 30.0, rate: 3.0 }, DeviceLoad { work: 4.0, rate: 8.0 }];
        assert_eq!(seconds(&EtaInput { loads, ..EtaInput::default() }), Some(10.5));
    }

    #[test]
    fn the_longest_task_can_not_be_divided() {
        let loads = vec![DeviceLoad { work: 30.0, rate: 3.0 }];
        assert_eq!(seconds(&EtaInput { loads, longest: 25.0, ..EtaInput::default() }), Some(25.0));
    }

    #[test]
    fn without_rates_the_mean_of_what_has_ended_counts() {
        let outlook = EtaInput { unknown: 10, mean: None, slots: 4, ..EtaInput::default() };
        assert_eq!(seconds(&outlook), None);
        assert_eq!(seconds(&EtaInput { mean: Some(2.0), ..outlook }), Some(5.0));
    }

    #[test]
    fn tasks_of_two_kinds_have_each_their_mean() {
        let mut outlook = EtaInput { unknown: 10, mean: Some(2.0), slots: 4, ..EtaInput::default() };
        outlook.add(1000, Some(0.004));
        assert_eq!(seconds(&outlook), Some(6.0));
        outlook.add(10, None);
        assert_eq!(seconds(&outlook), Some(11.0));
        outlook.add(10, Some(0.0));
        assert_eq!(seconds(&outlook), Some(11.0));
    }

    #[test]
    fn where_nothing_can_do_it_there_is_no_time() {
        let loads = vec![DeviceLoad { work: 1.0, rate: 0.0 }];
        assert_eq!(seconds(&EtaInput { loads, ..EtaInput::default() }), None);
        let lost = EtaInput { unknown: 3, mean: Some(1.0), slots: 0, ..EtaInput::default() };
        assert_eq!(seconds(&lost), None);
        let absurd = vec![DeviceLoad { work: 1e308, rate: 1e-300 }];
        assert_eq!(seconds(&EtaInput { loads: absurd, ..EtaInput::default() }), None);
        let odd = vec![DeviceLoad { work: f64::NAN, rate: f64::NAN }];
        assert_eq!(seconds(&EtaInput { loads: odd, ..EtaInput::default() }), Some(0.0));
    }
}
