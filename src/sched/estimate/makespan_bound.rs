//! A lower bound of the makespan: no schedule of the same tasks on the same devices is shorter.
//!
//! `docs/seeing.md` defines it. The divisor there is a feasible point of the dual of the linear
//! program that divides work freely among devices. The bound leaves out masks, dependencies and
//! times of submission, which can only make a schedule longer, and devices that ended no task of a
//! class well.

use std::time::Duration;

use super::{ClassRecord, ClassTable, DeviceRecord};

/// Returns the bound for all that has ended well. `slots`: of each device.
pub fn lower_bound(table: &ClassTable, slots: &[u32]) -> Duration {
    let slots_of = |device: usize| f64::from(slots[device]);
    let mut shares = vec![0.0_f64; slots.len()];
    let (mut total, mut longest) = (0.0, 0.0_f64);
    for (_, class) in table.classes() {
        let rates = rates(class);
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        let together: f64 = rates.iter().enumerate().map(|(device, rate)| slots_of(device) * rate).sum();
        if !(together > 0.0 && together.is_finite()) {
            continue;
        }
        for (device, (rate, record)) in rates.iter().zip(&class.devices).enumerate() {
            total += record.seconds * rate / together;
            longest = longest.max(record.longest * rate / fastest);
            shares[device] = shares[device].max(rate / together);
        }
    }
    let divisor: f64 = shares.iter().enumerate().map(|(device, share)| slots_of(device) * share).sum();
    let spread = if divisor > 0.0 { total / divisor } else { 0.0 };
    Duration::try_from_secs_f64(spread.max(longest)).unwrap_or_default()
}

/// Returns the work per second of a slot of each device; 0 where nothing was measured.
fn rates(class: &ClassRecord) -> Vec<f64> {
    let by_work = class.devices.iter().all(|record| record.sum.with_work == record.sum.tasks);
    let units = |record: &DeviceRecord| if by_work { record.sum.work } else { record.sum.tasks as f64 };
    let rate =
        |record: &DeviceRecord| if record.seconds > 0.0 { units(record) / record.seconds } else { 0.0 };
    class.devices.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bound of tasks given as (class, device, stated work, seconds).
    fn bound(tasks: &[(u32, usize, Option<f64>, u64)], slots: &[u32]) -> f64 {
        let mut table = ClassTable::new(slots.len(), 64);
        for &(class, device, work, seconds) in tasks {
            table.attempt_ended(class, device, work, seconds as f64);
        }
        lower_bound(&table, slots).as_secs_f64()
    }

    #[track_caller]
    fn assert_bound(tasks: &[(u32, usize, Option<f64>, u64)], slots: &[u32], expected: f64) {
        let bound = bound(tasks, slots);
        // Sums of a few numbers in double precision.
        assert!((bound - expected).abs() <= 1e-9 * expected.max(1.0), "{bound}, not {expected}");
    }

    #[test]
    fn slots_share_the_work_but_not_the_longest_task() {
        let unstated = |seconds: u64| (0, 0, None, seconds);
        let stated = [(0, 0, Some(30.0), 3), (0, 0, Some(1.0), 4)];
        assert_bound(&[], &[1, 1], 0.0);
        assert_bound(&[unstated(0)], &[1], 0.0);
        // On one slot it is the busy time.
        assert_bound(&[unstated(3), unstated(4)], &[1], 7.0);
        assert_bound(&stated, &[1], 7.0);
        assert_bound(&[unstated(3), unstated(5)], &[2], 5.0);
        assert_bound(&[unstated(3), unstated(3), unstated(4)], &[2], 5.0);
    }

    /// The fast device does 2 a second, the slow one 1: 12 units take 4 s, however they were
    /// divided.
    #[test]
    fn rates_are_measured_by_the_stated_work() {
        let tasks = |work| [[(0, 0, work, 1); 3], [(0, 1, work, 2); 3]].concat();
        assert_bound(&tasks(Some(2.0)), &[1, 1], 4.0);
        // Without stated work each counts as one: the same proportions, the same bound.
        assert_bound(&tasks(None), &[1, 1], 4.0);
        // With one such task among them all are counted, none weighed.
        let mut mixed = tasks(Some(2.0));
        mixed[0].2 = None;
        assert_bound(&mixed, &[1, 1], 4.0);
        // 8 units on the slow device took 8 s; the fast one would have needed 4.
        assert_bound(&[(0, 0, Some(2.0), 1), (0, 1, Some(8.0), 8)], &[1, 1], 4.0);
    }

    /// Two devices, each ten times better at one class: the best division does 10 + 10 units of
    /// each in 1 s. Summing each class over all devices would claim 20/11 s, and be no lower bound.
    #[test]
    fn devices_may_specialise_in_classes() {
        let tasks =
            [(0, 0, Some(10.0), 1), (0, 1, Some(1.0), 1), (1, 0, Some(1.0), 1), (1, 1, Some(10.0), 1)];
        // By hand: give device 0 all of class 0 (11 units at 10 a second) and device 1 all of class
        // 1.
        assert_bound(&tasks, &[1, 1], 1.1);
    }
}
