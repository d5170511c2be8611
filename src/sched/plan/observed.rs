//! Records of the planned tasks while they run: sums and the trace.

use std::sync::Arc;
use std::time::Duration;

use super::record::{Attempt, DeviceState};
use crate::sched::observe::trace::{Ending, Span, Trace};

/// Under the scheduler's lock.
#[derive(Default)]
pub struct PlannerObserver {
    /// The time that the state was last told.
    pub now: Duration,
    pub trace: Option<Arc<Trace>>,
}

impl PlannerObserver {
    pub fn leased(&self, now: Duration, index: usize, device: &DeviceState) {
        if let Some(trace) = &self.trace {
            trace.leased(now, index, device.attempts.iter().map(|run| run.bytes).sum());
        }
    }

    /// An attempt that does not return, nor is waited for.
    pub fn given_up(&self, now: Duration, index: usize, run: &Attempt) {
        if let Some(trace) = &self.trace {
            trace.attempt(span(index, run, now, Ending::GivenUp));
        }
    }
}

pub fn span(device: usize, run: &Attempt, end: Duration, ending: Ending) -> Span {
    Span {
        task: run.id,
        label: run.label.clone(),
        class: run.class,
        device,
        slot: run.slot,
        attempt: run.number,
        begin: run.started,
        end,
        ending,
        bytes: run.bytes,
        work: run.work,
    }
}
