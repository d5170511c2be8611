//! The planner on simulated devices, in virtual time: driven by one loop over events instead of by
//! workers.

mod bound;
mod faults;
mod report;
mod scenario;
#[cfg(test)]
mod tests;
mod world;

pub use bound::lower_bound;
pub use report::{SimEvent, SimEventKind, SimReport};
pub use scenario::{Fault, FaultKind, Scenario, SimDevice, SimTask};
pub use world::Simulation;

use crate::sched::observe::Timeline;

/// Runs a scenario to its end. The same scenario gives the same report.
///
/// A simulated task stops at once when asked, unless its device hangs.
pub fn run(scenario: &Scenario) -> SimReport {
    let mut world = Simulation::new(scenario);
    world.run();
    world.report()
}

/// Runs a scenario and returns its timeline, too, in virtual time.
pub fn run_traced(scenario: &Scenario) -> (SimReport, Timeline) {
    let mut world = Simulation::new(scenario);
    // All events: a scenario has an end.
    let trace = world.planner.keep_trace(usize::MAX);
    world.run();
    let timeline = world.planner.timeline(trace, world.effects.now);
    (world.report(), timeline)
}
