//! Reads the scenario file of `gpusched simulate`, in JSON. Each error names the file, the key, the
//! value and the accepted values.

use std::path::Path;

use gpusched::sched::DeviceMask;
use gpusched::sched::simulation::{Fault, FaultKind, Scenario, SimDevice, SimTask};
use gpusched::{Error, Result};
use serde_json::{Map, Value};

use crate::document::read_text;

/// Maximum bytes of a file. A million tasks have about a tenth.
const LARGEST: u64 = 1 << 30;
/// Maximum virtual time in seconds of all work on the slowest device: about 30 thousand years.
const LONGEST: f64 = 1e12;

pub const SCENARIO: &[&str] = &["seed", "devices", "tasks"];
pub const DEVICE: &[&str] = &["name", "speed", "prior", "memory_bytes", "slots", "fail_at_s", "faults"];
pub const FAULT: &[&str] = &["at_s", "kind", "seconds", "factor"];
pub const TASK: &[&str] = &[
    "work",
    "hint",
    "device_bytes",
    "devices",
    "priority",
    "retries",
    "idempotent",
    "deadline_s",
    "after",
    "submit_at_s",
    "cancel_at_s",
    "failures",
    "poison",
    "stumble",
];

const POSITIVE: &str = "a positive, finite number";
const WHOLE: &str = "a whole number, 0 or more";
const TIME: &str = "a finite number of seconds, 0 or more";

pub fn read(path: &Path) -> Result<Scenario> {
    let text = read_text(path, LARGEST, "larger than any scenario, 1 GiB")?;
    let value: Value = serde_json::from_str(&text).map_err(|why| {
        let what = format!("{}: the text", path.display());
        Error::argument(what, format!("not JSON ({why})"), "one JSON object")
    })?;
    scenario(&Table::new(path, "the scenario", "", &value, SCENARIO)?)
}

fn scenario(table: &Table<'_>) -> Result<Scenario> {
    let mut devices = Vec::new();
    for (position, value) in table.list("devices", "at least one device", 1..=64)?.iter().enumerate() {
        let place = format!("devices[{position}]");
        devices.push(device(&Table::new(table.file, &place, &place, value, DEVICE)?, position)?);
    }
    let mut tasks = Vec::new();
    for (position, value) in table.list("tasks", "at least one task", 1..=usize::MAX)?.iter().enumerate() {
        let place = format!("tasks[{position}]");
        let table = Table::new(table.file, &place, &place, value, TASK)?;
        tasks.push(task(&table, position, devices.len())?);
    }
    // Generators of scenarios state their seed. The simulation has no random numbers.
    table.whole("seed", u64::MAX)?;
    let scenario = Scenario { devices, tasks };
    let slowest = scenario.devices.iter().map(slowest).fold(f64::INFINITY, f64::min);
    let attempts = |task: &SimTask| f64::from(task.failures.min(task.retries)) + task.stumble.max(1.0);
    let seconds = scenario.tasks.iter().map(|task| task.work * attempts(task)).sum::<f64>() / slowest;
    if seconds > LONGEST {
        let what = format!("{}: all work over the slowest device's speed", table.file.display());
        return Err(Error::argument(what, format!("{seconds:e} s"), format!("at most {LONGEST:e} s")));
    }
    Ok(scenario)
}

fn slowest(device: &SimDevice) -> f64 {
    let slower = device.faults.iter().filter_map(|fault| match fault.kind {
        FaultKind::Slow { factor } => Some(factor.min(1.0)),
        _ => None,
    });
    device.speed * slower.product::<f64>()
}

fn device(table: &Table<'_>, position: usize) -> Result<SimDevice> {
    let mut faults = Vec::new();
    for (number, value) in table.list("faults", "a list", 0..=usize::MAX)?.iter().enumerate() {
        let place = format!("{}[{number}]", table.way("faults"));
        faults.push(fault(&Table::new(table.file, &place, &place, value, FAULT)?)?);
    }
    Ok(SimDevice {
        name: table.text("name")?.map_or_else(|| format!("device {position}"), str::to_owned),
        speed: table.needed("speed", table.positive("speed")?, POSITIVE)?,
        prior: table.positive("prior")?,
        // Without the key, the memory has no limit.
        memory_bytes: table.whole("memory_bytes", u64::MAX)?.unwrap_or(u64::MAX),
        slots: match table.whole("slots", 64)? {
            Some(0) => return Err(table.refuse("slots", "1 to 64")),
            slots => slots.unwrap_or(1) as u32,
        },
        fail_at: table.seconds("fail_at_s")?,
        faults,
    })
}

fn fault(table: &Table<'_>) -> Result<Fault> {
    const KINDS: &str = "\"out_of_memory\", \"launch_resources\", \"wrong\" (these with `seconds`), \"poisoned\", \
                         \"slow\" (with `factor`) or \"hang\"";
    let seconds = || table.needed("seconds", table.seconds("seconds")?, TIME);
    let kind = match table.text("kind")? {
        Some("out_of_memory") => FaultKind::OutOfMemory { seconds: seconds()? },
        Some("launch_resources") => FaultKind::LaunchResources { seconds: seconds()? },
        Some("wrong") => FaultKind::Wrong { seconds: seconds()? },
        Some("poisoned") => FaultKind::Poisoned,
        Some("hang") => FaultKind::Hang,
        Some("slow") => {
            FaultKind::Slow { factor: table.needed("factor", table.positive("factor")?, POSITIVE)? }
        }
        _ => return Err(table.refuse("kind", KINDS)),
    };
    Ok(Fault { at: table.needed("at_s", table.seconds("at_s")?, TIME)?, kind })
}

fn task(table: &Table<'_>, position: usize, devices: usize) -> Result<SimTask> {
    let mut mask = DeviceMask::ALL;
    if table.get("devices").is_some() {
        let accepted = format!("positions of devices, 0 to {}", devices - 1);
        let allowed = table.positions("devices", devices, &accepted)?;
        mask = DeviceMask(allowed.iter().fold(0, |mask, &device| mask | 1 << device));
    }
    let priority = table.read("priority", "a whole number, -2147483648 to 2147483647", |value| {
        i32::try_from(value.as_i64()?).ok()
    })?;
    let earlier = format!("positions of tasks before this one, {position}");
    let most = u64::from(u32::MAX);
    Ok(SimTask {
        work: table.needed("work", table.positive("work")?, POSITIVE)?,
        hint: table.positive("hint")?,
        device_bytes: table.whole("device_bytes", u64::MAX)?.unwrap_or(0),
        devices: mask,
        priority: priority.unwrap_or(0),
        retries: table.whole("retries", most)?.unwrap_or(0) as u32,
        idempotent: table.yes("idempotent", true)?,
        deadline: match table.positive("deadline_s")? {
            Some(deadline) if deadline > LONGEST => return Err(table.refuse("deadline_s", TIME)),
            deadline => deadline,
        },
        after: table.positions("after", position, &earlier)?,
        submit_at: table.seconds("submit_at_s")?.unwrap_or(0.0),
        cancel_at: table.seconds("cancel_at_s")?,
        failures: table.whole("failures", most)?.unwrap_or(0) as u32,
        poison: table.yes("poison", false)?,
        stumble: table.positive("stumble")?.unwrap_or(1.0),
    })
}

/// An object of the file, and its path.
struct Table<'a> {
    file: &'a Path,
    place: String,
    entries: &'a Map<String, Value>,
}

impl<'a> Table<'a> {
    fn new(file: &'a Path, what: &str, place: &str, value: &'a Value, known: &[&str]) -> Result<Self> {
        let Value::Object(entries) = value else {
            let what = format!("{}: {what}", file.display());
            return Err(Error::argument(what, short(value), format!("an object with {}", names(known))));
        };
        let table = Table { file, place: place.into(), entries };
        match entries.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                let what = format!("{}: key {}", file.display(), table.way(key));
                Err(Error::argument(what, "unknown", names(known)))
            }
            None => Ok(table),
        }
    }

    fn way(&self, key: &str) -> String {
        if self.place.is_empty() { key.into() } else { format!("{}.{key}", self.place) }
    }

    /// Returns the value of a key; `null` means absent.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.entries.get(key).filter(|value| !value.is_null())
    }

    fn refuse(&self, key: &str, accepted: &str) -> Error {
        let what = format!("{}: {}", self.file.display(), self.way(key));
        Error::argument(what, self.get(key).map_or("missing".into(), short), accepted)
    }

    fn needed<T>(&self, key: &str, value: Option<T>, accepted: &str) -> Result<T> {
        value.ok_or_else(|| self.refuse(key, accepted))
    }

    /// Returns the converted value of a key, or an error if the conversion returns `None`.
    fn read<T>(
        &self,
        key: &str,
        accepted: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        self.get(key).map(|value| convert(value).ok_or_else(|| self.refuse(key, accepted))).transpose()
    }

    fn positive(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, POSITIVE, |value| value.as_f64().filter(|number| number.is_normal() && *number > 0.0))
    }

    fn seconds(&self, key: &str) -> Result<Option<f64>> {
        let accepted = format!("{TIME}, at most {LONGEST:e}");
        self.read(key, &accepted, |value| value.as_f64().filter(|number| (0.0..=LONGEST).contains(number)))
    }

    /// Reads an integer, also in the form `11e9`.
    fn whole(&self, key: &str, most: u64) -> Result<Option<u64>> {
        let accepted = if most == u64::MAX { WHOLE.into() } else { format!("{WHOLE}, at most {most}") };
        let written = |number: &f64| number.fract() == 0.0 && (0.0..1.8e19).contains(number);
        self.read(key, &accepted, |value| {
            let number =
                value.as_u64().or_else(|| value.as_f64().filter(written).map(|number| number as u64));
            number.filter(|&number| number <= most)
        })
    }

    fn yes(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.read(key, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.read(key, "a text", Value::as_str)
    }

    fn list(&self, key: &str, accepted: &str, count: std::ops::RangeInclusive<usize>) -> Result<&'a [Value]> {
        let list = self.read(key, accepted, Value::as_array)?.map_or(&[][..], Vec::as_slice);
        if list.len() > *count.end() {
            let what = format!("{}: {}", self.file.display(), self.way(key));
            return Err(Error::argument(
                what,
                format!("a list of {}", list.len()),
                format!("at most {}", count.end()),
            ));
        }
        if list.len() < *count.start() { Err(self.refuse(key, accepted)) } else { Ok(list) }
    }

    fn positions(&self, key: &str, end: usize, accepted: &str) -> Result<Vec<usize>> {
        let list = self.list(key, accepted, 0..=usize::MAX)?;
        let position = |value: &Value| value.as_u64().filter(|&at| at < end as u64).map(|at| at as usize);
        list.iter().map(|value| position(value).ok_or_else(|| self.refuse(key, accepted))).collect()
    }
}

fn names(known: &[&str]) -> String {
    known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn short(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
