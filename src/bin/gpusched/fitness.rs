//! `--check-devices`: a shot with a known answer on each device, before the survey.

use gpusched::fd::check;
use gpusched::sched::Scheduler;
use gpusched::{Error, Result};
use serde_json::json;

use crate::say::say;

/// A device that can't compute the check shot, by its label, and why.
pub struct Unfit {
    pub device: String,
    pub why: Error,
}

/// Looks at the devices of this selection, in a scheduler of their own: the check shots are none of the survey's.
pub fn look(devices: Option<&str>, as_json: bool) -> Result<Vec<Unfit>> {
    let mut builder = Scheduler::builder();
    builder.devices = devices.map(str::to_owned);
    builder.slots = Some(1);
    let scheduler = builder.build()?;
    if !as_json {
        let labels: Vec<String> = scheduler.devices().iter().map(|device| device.label()).collect();
        say!("a check shot on {}; a device that hangs is given up after four minutes", labels.join(", "));
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
            Ok(()) => say!("{label}, {}: the check shot has its known answer", device.name),
            Err(why) => {
                if !as_json {
                    say!("{label}, {}: NOT USED: {why}", device.name);
                }
                unfit.push(Unfit { device: label, why });
            }
        }
    }
    Ok(unfit)
}
