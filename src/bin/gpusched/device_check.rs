//! `--check-devices`: a shot with a known result on each device, before the survey.

use gpusched::fd::check;
use gpusched::sched::Scheduler;
use gpusched::{Error, Result};
use serde_json::json;

use crate::say::{self, say};

/// A device that failed the check shot, and why.
pub struct Unfit {
    pub device: String,
    pub why: Error,
}

/// Checks the selected devices in a separate scheduler, so that check shots do not count as shots
/// of the survey. Returns the devices that failed.
pub fn check_devices(devices: Option<&str>, as_json: bool) -> Result<Vec<Unfit>> {
    let mut builder = Scheduler::builder();
    builder.devices = devices.map(str::to_owned);
    builder.slots = Some(1);
    // A check should not wait an hour for other processes.
    builder.policy.rounds_beside_others = builder.policy.backoff.len();
    // The command prints each failure itself.
    builder.policy.failure_level = log::Level::Info;
    let scheduler = builder.build()?;
    if !as_json {
        let labels: Vec<String> = scheduler.devices().iter().map(|device| device.label()).collect();
        say!("check shot on {}; a device that hangs is excluded after four minutes", labels.join(", "));
    }
    let mut unfit = Vec::new();
    for (device, outcome) in scheduler.devices().iter().zip(check::devices(&scheduler)?) {
        let label = device.label();
        if as_json {
            let error = outcome.as_ref().err().map(ToString::to_string);
            say!(
                "{}",
                json!({ "event": "check", "device": label, "passed": error.is_none(), "error": error })
            );
        }
        match outcome {
            Ok(()) if as_json => {}
            Ok(()) => say!("{label}, {}: passed the check shot", device.name),
            Err(why) => {
                if !as_json {
                    say::alert(&format!("warning: {label}, {} is not used: {why}", device.name));
                }
                unfit.push(Unfit { device: label, why });
            }
        }
    }
    Ok(unfit)
}
