//! Prints the summary of a run: statistics of each device, and the makespan beside its lower bound.

use gpusched::device::{BackendKind, DeviceInfo};
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
            "uuid": one.device.id.as_str(),
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
/// schedule is an [`object`], or null if there are none. A device that this process does not find is
/// added. The lower bound is of one process and becomes 0.
pub fn add(stats: &mut Stats, computed: usize, earlier: &Value) {
    if earlier.is_null() {
        return;
    }
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    stats.counts.done += computed as u64;
    stats.counts.retried += number(&earlier["retried"]);
    stats.counts.copies += number(&earlier["copies"]);
    stats.makespan_ns += nanoseconds(&earlier["makespan_s"]);
    stats.lower_bound_ns = 0;
    for other in earlier["devices"].as_array().into_iter().flatten() {
        let Some(before) = device(other) else { continue };
        match stats.devices.iter_mut().find(|one| one.device.id == before.device.id) {
            Some(one) => {
                one.done += before.done;
                one.failed += before.failed;
                one.busy_ns += before.busy_ns;
            }
            None => stats.devices.push(before),
        }
    }
}

/// Returns the statistics of a device in an [`object`], as of one that this process does not find.
fn device(from: &Value) -> Option<DeviceStats> {
    const NOT_FOUND: &str = "not found after a restart";
    let text = |key: &str| from[key].as_str();
    let number = |key: &str| from[key].as_u64().unwrap_or_default();
    let (kind, ordinal) = text("device")?.split_once(':')?;
    let backend = [BackendKind::Cpu, BackendKind::Cuda].into_iter().find(|one| one.name() == kind)?;
    let retired = match text("retired") {
        None => NOT_FOUND.into(),
        Some(why) if why.ends_with(NOT_FOUND) => why.into(),
        Some(why) => format!("{why}; {NOT_FOUND}"),
    };
    Some(DeviceStats {
        device: DeviceInfo::new(text("uuid")?, backend, ordinal.parse().ok()?, text("name")?),
        retired: Some(retired),
        taken: false,
        refusal: None,
        slots: number("slots") as u32,
        done: number("done"),
        failed: number("attempts_failed"),
        busy_ns: nanoseconds(&from["busy_s"]),
        leased_bytes: 0,
        peak_bytes: 0,
    })
}

fn nanoseconds(seconds: &Value) -> u64 {
    (seconds.as_f64().unwrap_or_default() * 1e9) as u64
}

/// Returns the number with the noun, which has an s unless the number is 1.
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use gpusched::sched::Builder;

    use super::*;

    /// After a restart the GPU that was cuda:1 is cuda:0.
    #[test]
    fn devices_of_earlier_processes_keep_their_statistics_if_a_new_process_does_not_find_them() {
        let stats = |gpus: &[&str]| {
            let cpu = Builder { devices: Some("cpu".into()), ..Builder::default() };
            let mut stats = cpu.build().unwrap().stats().unwrap();
            let one = stats.devices.remove(0);
            let gpu = |(ordinal, id): (usize, &&str)| {
                let device = DeviceInfo::new(id, BackendKind::Cuda, ordinal as u32, "H100");
                DeviceStats {
                    device,
                    done: 2 + ordinal as u64,
                    failed: 1,
                    busy_ns: 1 << 30,
                    slots: 3,
                    ..one.clone()
                }
            };
            stats.devices = gpus.iter().enumerate().map(gpu).collect();
            stats.makespan_ns = 1 << 30;
            stats
        };
        let mut first = stats(&["GPU-a", "GPU-b"]);
        first.devices[0].retired = Some("it fell off the bus".into());
        let mut second = stats(&["GPU-b"]);
        add(&mut second, 4, &object(&first));
        let mut third = stats(&["GPU-b"]);
        add(&mut third, 6, &object(&second));
        let counts = |one: &DeviceStats| (one.device.id.clone(), one.done, one.failed, one.slots);
        let expected = [("GPU-b".to_owned(), 7, 3, 3), ("GPU-a".to_owned(), 2, 1, 3)];
        assert_eq!(third.devices.iter().map(counts).collect::<Vec<_>>(), expected);
        assert!(!lines(&third)[0].contains("retired"), "{:?}", lines(&third));
        let end = "% of the time, 2 shots, 1 attempt failed or stopped, retired: it fell off the bus; not found after a restart";
        assert!(
            lines(&third)[1].starts_with("cuda:0, H100: ") && lines(&third)[1].ends_with(end),
            "{:?}",
            lines(&third)
        );
    }
}
