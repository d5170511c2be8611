//! `gpusched devices`: lists the devices, whether a run uses them, and notes on missing ones.

use gpusched::device::{DeviceInfo, Health, SELECTIONS, Selection};
use gpusched::error::human;
use gpusched::sched::{discover, discover_all};
use gpusched::{Error, Result};
use serde_json::{Value, json};

use crate::say::say;

/// Refuses a list of devices that is empty, or that the library does not accept.
pub fn check_selection(named: &str, list: &str) -> Result<()> {
    if list.trim().is_empty() {
        return Err(Error::argument(named, "an empty list", SELECTIONS));
    }
    Selection::parse(named, list).map(drop)
}

pub fn list(as_json: bool) -> Result<bool> {
    let (devices, notes) = discover_all()?;
    let used = discover(None)?;
    let used = |device: &DeviceInfo| used.iter().any(|other| other.id == device.id);
    if as_json {
        let described = devices.iter().map(|device| {
            let mut described = describe(device);
            described["used"] = used(device).into();
            described
        });
        say!("{}", json!({ "devices": described.collect::<Vec<_>>(), "notes": notes }));
        return Ok(true);
    }
    say!("{:<9} {:<4} {:>10} {:>10}  {:<8} NAME", "DEVICE", "USED", "TOTAL", "FREE", "HEALTH");
    for device in &devices {
        say!(
            "{:<9} {:<4} {:>10} {:>10}  {:<8} {}{}",
            device.label(),
            if used(device) { "yes" } else { "no" },
            human(device.total_bytes),
            human(device.free_bytes),
            health(device),
            device.name,
            extra(device),
        );
    }
    for note in notes {
        say!("note: {note}");
    }
    Ok(true)
}

/// Returns the threads of the CPU device, or capability, bus address and UUID of a GPU.
fn extra(device: &DeviceInfo) -> String {
    if let Some(threads) = device.cpu_threads {
        return format!(", {threads} threads");
    }
    let capability = device.compute_capability.map(|(major, minor)| format!(", {major}.{minor}"));
    let place = device.pci_bus_id.as_ref().map(|place| format!(", {place}"));
    format!("{}{}, {}", capability.unwrap_or_default(), place.unwrap_or_default(), device.id)
}

pub fn describe(device: &DeviceInfo) -> Value {
    json!({
        "device": device.label(),
        "backend": device.backend.name(),
        "ordinal": device.ordinal,
        "uuid": device.id.as_str(),
        "name": device.name,
        "pci_bus_id": device.pci_bus_id,
        "compute_capability": device.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
        "cpu_threads": device.cpu_threads,
        "total_bytes": device.total_bytes,
        "free_bytes": device.free_bytes,
        "health": health(device),
    })
}

fn health(device: &DeviceInfo) -> &'static str {
    match device.health {
        Health::Good => "good",
        Health::Retired => "retired",
        Health::Barred => "barred",
    }
}
