//! The time until all tasks have ended: a pure function of what remains.

use std::time::Duration;

/// Remaining work, in seconds or in the unit of work of a class.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EtaInput {
    /// An entry for each class of tasks whose rate is known on some device.
    pub loads: Vec<DeviceLoad>,
    /// Tasks of classes whose rate is not known.
    pub unknown: u64,
    /// Mean seconds of the tasks that have ended. `None`: none has ended.
    pub mean: Option<f64>,
    /// Tasks that can run at a time, over all devices that are not retired.
    pub slots: u64,
    /// Seconds that the longest task needs: a running one on its device, a queued one on the
    /// fastest.
    pub longest: f64,
}

/// Remaining work of a class: `work`, of which all devices together do `rate` per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceLoad {
    pub work: f64,
    pub rate: f64,
}

impl EtaInput {
    /// Adds tasks without stated work that take `mean` seconds each.
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

/// Returns the time until all is done if it is spread well: what remains over all rates, and at
/// least what the longest task needs. `None`: too little is known.
pub fn eta(input: &EtaInput) -> Option<Duration> {
    let mut seconds = 0.0;
    for DeviceLoad { work, rate } in &input.loads {
        if *work > 0.0 {
            seconds += work / rate;
        }
    }
    if input.unknown > 0 {
        seconds += input.unknown as f64 * input.mean? / input.slots as f64;
    }
    // Infinite or NaN if no device is left.
    Duration::try_from_secs_f64(seconds.max(input.longest).max(0.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(input: &EtaInput) -> Option<f64> {
        eta(input).map(|eta| eta.as_secs_f64())
    }

    #[test]
    fn nothing_left_takes_no_time() {
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
    fn longest_task_is_not_divided() {
        let loads = vec![DeviceLoad { work: 30.0, rate: 3.0 }];
        assert_eq!(seconds(&EtaInput { loads, longest: 25.0, ..EtaInput::default() }), Some(25.0));
    }

    #[test]
    fn tasks_without_rates_count_as_the_mean_of_ended_ones() {
        let input = EtaInput { unknown: 10, mean: None, slots: 4, ..EtaInput::default() };
        assert_eq!(seconds(&input), None);
        assert_eq!(seconds(&EtaInput { mean: Some(2.0), ..input }), Some(5.0));
    }

    #[test]
    fn added_tasks_have_their_own_mean() {
        let mut input = EtaInput { unknown: 10, mean: Some(2.0), slots: 4, ..EtaInput::default() };
        input.add(1000, Some(0.004));
        assert_eq!(seconds(&input), Some(6.0));
        input.add(10, None);
        assert_eq!(seconds(&input), Some(11.0));
        input.add(10, Some(0.0));
        assert_eq!(seconds(&input), Some(11.0));
    }

    #[test]
    fn work_without_devices_has_no_eta() {
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
