//! `gpusched devices`: what is there.

use gpusched::Result;
use gpusched::device::{DeviceInfo, Health};
use gpusched::sched::Scheduler;
use serde_json::{Value, json};

use crate::say::say;

pub fn list(as_json: bool) -> Result<bool> {
    let scheduler = Scheduler::builder().build()?;
    let devices = scheduler.devices();
    if as_json {
        say!("{}", json!({ "devices": devices.iter().map(describe).collect::<Vec<_>>() }));
        return Ok(true);
    }
    say!("{:<9} {:>9} {:>9}  {:<8} NAME", "DEVICE", "TOTAL", "FREE", "HEALTH");
    for device in devices {
        say!(
            "{:<9} {:>9} {:>9}  {:<8} {}{}",
            device.label(),
            bytes(device.total_bytes),
            bytes(device.free_bytes),
            health(device),
            device.name,
            device.cpu_threads.map_or(String::new(), |threads| format!(", {threads} threads")),
        );
    }
    Ok(true)
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
    }
}

pub fn bytes(count: u64) -> String {
    let (mut value, mut unit) = (count as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}
