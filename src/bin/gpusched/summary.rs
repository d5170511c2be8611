//! Prints the summary of a run: statistics of each device, and the makespan beside its lower bound.

use gpusched::sched::{DeviceStats, Stats};
use serde_json::{Value, json};

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// Returns the fraction of the time of its slots that a device spent in shots.
fn busy_share(stats: &Stats, device: &DeviceStats) -> f64 {
    let there = seconds(stats.makespan_ns) * f64::from(device.slots);
    if there > 0.0 { seconds(device.busy_ns) / there } else { 0.0 }
}

pub fn lines(stats: &Stats) -> Vec<String> {
    let mut lines: Vec<String> = stats
        .devices
        .iter()
        .map(|one| {
            let failed = match one.failed {
                0 => String::new(),
                1 => ", 1 attempt failed or stopped".into(),
                many => format!(", {many} attempts failed or stopped"),
            };
            let retired = one.retired.as_ref().map_or(String::new(), |why| format!(", retired: {why}"));
            format!(
                "{}, {}: busy {:.0} % of the time, {}{failed}{retired}",
                one.device.label(),
                one.device.name,
                100.0 * busy_share(stats, one),
                count(one.done, "shot")
            )
        })
        .collect();
    if stats.counts.done > 0 {
        let bound = match stats.lower_bound_ns {
            0 => String::new(),
            bound => format!("; no schedule could have taken less than {:.1} s", seconds(bound)),
        };
        lines.push(format!(
            "{} in {:.1} s on {}{bound}",
            count(stats.counts.done, "shot"),
            seconds(stats.makespan_ns),
            count(stats.devices.len() as u64, "device"),
        ));
    }
    lines
}

pub fn object(stats: &Stats) -> Value {
    let device = |one: &DeviceStats| {
        json!({
            "device": one.device.label(),
            "name": one.device.name,
            "slots": one.slots,
            "busy_s": seconds(one.busy_ns),
            "busy_share": busy_share(stats, one),
            "done": one.done,
            "attempts_failed": one.failed,
            "retired": one.retired,
        })
    };
    json!({
        "makespan_s": seconds(stats.makespan_ns),
        "lower_bound_s": seconds(stats.lower_bound_ns),
        "retried": stats.counts.retried,
        "copies": stats.counts.copies,
        "devices": stats.devices.iter().map(device).collect::<Vec<_>>(),
    })
}

/// Adds the statistics of the earlier processes of a run, which computed so many shots. Their
/// schedule is an [`object`], or null if there are none. The lower bound is of one process and
/// becomes 0.
pub fn add(stats: &mut Stats, computed: usize, earlier: &Value) {
    if earlier.is_null() {
        return;
    }
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let nanoseconds = |value: &Value| (value.as_f64().unwrap_or_default() * 1e9) as u64;
    stats.counts.done += computed as u64;
    stats.counts.retried += number(&earlier["retried"]);
    stats.counts.copies += number(&earlier["copies"]);
    stats.makespan_ns += nanoseconds(&earlier["makespan_s"]);
    stats.lower_bound_ns = 0;
    for one in &mut stats.devices {
        let is_same = |other: &&Value| {
            other["device"] == one.device.label() && other["name"] == one.device.name.as_str()
        };
        if let Some(other) = earlier["devices"].as_array().into_iter().flatten().find(is_same) {
            one.done += number(&other["done"]);
            one.failed += number(&other["attempts_failed"]);
            one.busy_ns += nanoseconds(&other["busy_s"]);
        }
    }
}

/// Returns the number with the noun, which has an s unless the number is 1.
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use gpusched::sched::Builder;

    use super::*;

    #[test]
    fn summary_states_why_a_device_was_retired() {
        let cpu = Builder { devices: Some("cpu".into()), ..Builder::default() };
        let mut stats = cpu.build().unwrap().stats().unwrap();
        assert!(!lines(&stats)[0].contains("retired"));
        assert_eq!(object(&stats)["devices"][0]["retired"], Value::Null);
        stats.devices[0].retired = Some("it fell off the bus".into());
        assert!(lines(&stats)[0].ends_with("0 shots, retired: it fell off the bus"), "{:?}", lines(&stats));
        assert_eq!(object(&stats)["devices"][0]["retired"], "it fell off the bus");
    }
}
