//! `--check-devices`: a shot with a known result on each device, before the survey.

use gpusched::fd::check;
use gpusched::sched::Scheduler;
use gpusched::{Error, Result};
use serde_json::json;

use crate::say;

/// Checks the selected devices in a separate scheduler, so that check shots do not count as shots
/// of the survey. Returns the labels of the devices that failed, and why.
pub fn check_devices(devices: Option<&str>) -> Result<Vec<(String, Error)>> {
    let mut builder = Scheduler::builder();
    builder.devices = devices.map(str::to_owned);
    builder.slots = Some(1);
    // A check should not wait an hour for other processes.
    builder.policy.rounds_beside_others = builder.policy.backoff.len();
    // The command prints each failure itself.
    builder.policy.failure_level = log::Level::Info;
    let scheduler = builder.build()?;
    let labels: Vec<String> = scheduler.devices().iter().map(|device| device.label()).collect();
    let labels = labels.join(", ");
    say::for_people(&format!("check shot on {labels}; a device that hangs is excluded after four minutes"));
    let mut unfit = Vec::new();
    for (device, outcome) in scheduler.devices().iter().zip(check::devices(&scheduler)?) {
        let (label, name) = (device.label(), &device.name);
        let checked = !outcome.as_ref().is_err_and(may_pass);
        let passed = checked.then_some(outcome.is_ok());
        let error = outcome.as_ref().err().map(ToString::to_string);
        let event = json!({ "event": "check", "device": label, "passed": passed, "error": error });
        match &outcome {
            Ok(()) => say::report(&format!("{label}, {name}: passed the check shot"), &event),
            Err(why) => {
                let state = if checked { " is not used" } else { ": not checked" };
                say::report_problem(&format!("warning: {label}, {name}{state}: {why}"), &event);
            }
        }
        unfit.extend(outcome.err().filter(|_| checked).map(|why| (label, why)));
    }
    Ok(unfit)
}

/// Returns true if a check could not run for a reason that passes: the device is in use, or something
/// is short that others release.
fn may_pass(error: &Error) -> bool {
    error.is_shortage() || matches!(error, Error::Busy { .. } | Error::NoThread { .. })
}
