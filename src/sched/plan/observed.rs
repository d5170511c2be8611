//! Records of the planned tasks while they run: sums and the trace.

use std::sync::Arc;
use std::time::Duration;

use super::record::{Device, Running};
use crate::sched::estimate::makespan_bound::Tally;
use crate::sched::observe::trace::{Ending, Span, Trace};

/// Under the scheduler's lock.
#[derive(Default)]
pub struct Seen {
    /// The time that the state was last told.
    pub now: Duration,
    pub tally: Tally,
    pub trace: Option<Arc<Trace>>,
}

impl Seen {
    pub fn leased(&self, now: Duration, index: usize, device: &Device) {
        if let Some(trace) = &self.trace {
            trace.leased(now, index, device.running.iter().map(|run| run.bytes).sum());
        }
    }

    /// An attempt that does not return, nor is waited for.
    pub fn given_up(&self, now: Duration, index: usize, run: &Running) {
        if let Some(trace) = &self.trace {
            trace.attempt(span(index, run, now, Ending::GivenUp));
        }
    }
}

pub fn span(device: usize, run: &Running, end: Duration, ending: Ending) -> Span {
    Span {
        task: run.id,
        label: run.label.clone(),
        class: run.class,
        device,
        slot: run.slot,
        attempt: run.attempt,
        begin: run.since,
        end,
        ending,
        bytes: run.bytes,
        work: run.work,
    }
}
