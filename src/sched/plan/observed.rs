//! Sums and the trace that the planner writes.

use std::sync::Arc;
use std::time::Duration;

use super::record::{Attempt, DeviceState};
use crate::sched::observe::trace::{Ending, Span, Trace};

#[derive(Default)]
pub struct PlannerObserver {
    pub(super) trace: Option<Arc<Trace>>,
}

impl PlannerObserver {
    pub fn leased(&self, now: Duration, index: usize, device: &DeviceState) {
        if let Some(trace) = &self.trace {
            trace.leased(now, index, device.attempts.iter().map(|run| run.bytes).sum());
        }
    }

    /// Traces an abandoned attempt.
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
