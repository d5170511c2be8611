//! Reports to the log, the sums and the trace; running attempts.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::effects::Effects;
use super::observed::span;
use super::planner::Planner;
use super::progress::AttemptProgress;
use super::record::{Attempt, DeadlineState};
use crate::sched::observe::trace::{Ending, Timeline, Trace};

impl Planner {
    /// Starts a trace of at most so many events.
    pub fn keep_trace(&mut self, most: usize) -> Arc<Trace> {
        let devices: Vec<_> = self.devices.iter().map(|device| device.info.clone()).collect();
        let trace = Arc::new(Trace::new(&devices, most));
        self.observer.trace = Some(trace.clone());
        trace
    }

    /// Returns the timeline of a trace, with the running attempts.
    pub fn timeline(&self, trace: Arc<Trace>, now: Duration) -> Timeline {
        let running = self.underway(now).into_iter().map(|run| run.span).collect();
        Timeline { trace, running }
    }

    /// Logs a text, and shows it in the trace of a device.
    pub(super) fn note(&self, level: Level, device: usize, text: String, effects: &mut Effects) {
        if let Some(trace) = &self.observer.trace {
            trace.flag(effects.now, device, &text);
        }
        effects.log.push((level, text));
    }

    /// Adds an attempt that has returned to the sums and the trace.
    pub fn record(&mut self, now: Duration, device: usize, run: &Attempt, ending: Ending) {
        if let Some(trace) = &self.observer.trace {
            trace.attempt(span(device, run, now, ending));
            self.observer.leased(now, device, &self.devices[device]);
        }
    }

    /// Returns the running attempts.
    pub fn underway(&self, now: Duration) -> Vec<AttemptProgress> {
        let mut underway = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            for run in device.attempts.iter().filter(|run| run.deadline_state != DeadlineState::Lost) {
                let progress = self.tasks.get(run.id).map_or(0.0, |record| record.signal.progress());
                underway.push(AttemptProgress {
                    span: span(index, run, now, Ending::Running),
                    role: run.role,
                    progress,
                });
            }
        }
        underway
    }
}
