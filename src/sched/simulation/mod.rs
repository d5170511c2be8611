//! The scheduler on devices that exist only on paper, in virtual time: the same state and the same
//! policy as with real threads, driven by one loop over events instead of by workers.

mod report;
mod scenario;

pub use report::{DeviceReport, Event, EventKind, Report};
pub use scenario::{Fault, FaultKind, Scenario, SimDevice, SimTask};

use crate::error::Result;

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario) -> Result<Report> {
    Ok(Report::empty(scenario))
}
