//! The scheduler on devices that exist only on paper, in virtual time: the same state and the same
//! policy as with real threads, driven by one loop over events instead of by workers.

mod bound;
mod events;
mod faults;
mod report;
mod scenario;
mod world;

use crate::sched::observe::trace::Timeline;
use world::Simulation;

pub use bound::lower_bound;
pub use report::{DeviceReport, SimEvent, SimEventKind, SimReport};
pub use scenario::{Fault, FaultKind, Scenario, SimDevice, SimTask};

/// Runs a scenario to its end. The same scenario gives the same report.
///
/// A simulated task looks all the time whether it should stop, unless its device hangs.
pub fn run(scenario: &Scenario) -> SimReport {
    let mut world = Simulation::new(scenario);
    world.run();
    world.report()
}

/// The same, and what ran where and when: a row a device slot, in virtual time.
pub fn run_traced(scenario: &Scenario) -> (SimReport, Timeline) {
    let mut world = Simulation::new(scenario);
    let trace = world.keep_trace();
    world.run();
    let timeline = world.timeline(trace);
    (world.report(), timeline)
}
