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
/// least what the longest task needs. `None`: too few rates are known.
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
    fn eta_is_that_of_the_spread_work_or_of_the_longest_task() {
        let of = |loads: &[(f64, f64)]| EtaInput {
            loads: loads.iter().map(|&(work, rate)| DeviceLoad { work, rate }).collect(),
            mean: Some(2.0),
            slots: 4,
            ..EtaInput::default()
        };
        for (input, expected, why) in [
            (EtaInput::default(), Some(0.0), "nothing is left"),
            (of(&[]), Some(0.0), "nothing is left"),
            (of(&[(30.0, 3.0), (4.0, 8.0)]), Some(10.5), "all rates share the work, and classes add"),
            (EtaInput { longest: 25.0, ..of(&[(30.0, 3.0)]) }, Some(25.0), "the longest is not divided"),
            (EtaInput { unknown: 10, ..of(&[]) }, Some(5.0), "without a rate a task counts as the mean"),
            (EtaInput { unknown: 10, mean: None, ..of(&[]) }, None, "none has ended"),
            (EtaInput { unknown: 3, slots: 0, ..of(&[]) }, None, "no device is left"),
            (of(&[(1.0, 0.0)]), None, "no device is left"),
            (of(&[(1e308, 1e-300)]), None, "beyond all times"),
            (of(&[(f64::NAN, f64::NAN)]), Some(0.0), "no number"),
        ] {
            assert_eq!(seconds(&input), expected, "{why}: {input:?}");
        }
    }

    #[test]
    fn added_tasks_have_their_own_mean() {
        let mut input = EtaInput { unknown: 10, mean: Some(2.0), slots: 4, ..EtaInput::default() };
        for (tasks, mean, expected) in [(1000, Some(0.004), 6.0), (10, None, 11.0), (10, Some(0.0), 11.0)] {
            input.add(tasks, mean);
            assert_eq!(seconds(&input), Some(expected));
        }
    }
}
