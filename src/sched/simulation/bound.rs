//! Lower bound of the makespan of a scenario.

use super::{FaultKind, Scenario, SimDevice};

/// Returns the larger of two times: that of all work on all slots of all devices, each until it is
/// lost and at the best speed that it ever has; and that of the longest task on the fastest device.
/// Infinite if all devices are lost before the work could be done.
pub fn lower_bound(scenario: &Scenario) -> f64 {
    let work: f64 = scenario.tasks.iter().map(|task| task.work).sum();
    let longest = scenario.tasks.iter().map(|task| task.work).fold(0.0, f64::max);
    let fastest = scenario.devices.iter().map(best).fold(0.0, f64::max);
    let mut ends: Vec<f64> = scenario.devices.iter().filter_map(|device| device.fail_at).collect();
    ends.push(f64::INFINITY);
    ends.sort_by(f64::total_cmp);
    let (mut time, mut done) = (0.0, 0.0);
    for end in ends {
        let alive =
            scenario.devices.iter().filter(|device| device.fail_at.is_none_or(|fail_at| fail_at >= end));
        let speed: f64 = alive.map(|device| best(device) * f64::from(device.slots)).sum();
        let needed = if speed > 0.0 { (work - done) / speed } else { f64::INFINITY };
        if time + needed <= end {
            return (time + needed).max(longest / fastest);
        }
        done += speed * (end - time);
        time = end;
    }
    f64::INFINITY
}

/// A fault may also make a device faster than it was at first.
fn best(device: &SimDevice) -> f64 {
    let mut faults: Vec<_> = device.faults.iter().collect();
    faults.sort_by(|a, b| a.at.total_cmp(&b.at));
    let speeds = faults.iter().scan(device.speed, |speed, fault| {
        if let FaultKind::Slow { factor } = fault.kind {
            *speed *= factor;
        }
        Some(*speed)
    });
    speeds.fold(device.speed, f64::max)
}
