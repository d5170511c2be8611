//! Methods of a scheduler that report or save: progress, trace, learned rates.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::scheduler::Scheduler;
use crate::error::{Error, Result};
use crate::sched::base::task_id::TaskId;
use crate::sched::observe::trace::{Ending, Span, Timeline};
use crate::sched::plan::progress::Progress;
use crate::sched::runtime::shared::Runtime;
use crate::store::findings::Findings;
use crate::store::rate_store::{self, StoredRate};

impl Runtime {
    fn progress(&self) -> Progress {
        let both = self.stats();
        self.lock().progress(self.now(), &both)
    }

    /// An attempt at a task that states nothing has returned; nanoseconds since the scheduler was made.
    pub fn record_light(&self, task: TaskId, device: usize, slot: u32, times: (u64, u64), ending: Ending) {
        let Some(trace) = &self.observability.trace else { return };
        let (begin, end) = (Duration::from_nanos(times.0), Duration::from_nanos(times.1));
        let (label, class, attempt, bytes, work) = (String::new(), 0, 1, 0, None);
        trace.attempt(Span { task, label, class, device, slot, attempt, begin, end, ending, bytes, work });
    }

    /// For another process that begins meanwhile, or if this one is killed.
    pub fn save_rates_if_due(&self) {
        let Some(cache) = &self.observability.cache else { return };
        if cache.lock().unwrap_or_else(PoisonError::into_inner).due(self.now()) {
            self.save_rates();
        }
    }

    pub fn save_rates(&self) {
        let Some(cache) = &self.observability.cache else { return };
        let when = rate_store::now();
        let mut learned = self.observability.findings.as_ref().map(Findings::own).unwrap_or_default();
        let planner = self.lock();
        for (class, device, rate, samples) in planner.estimator.learned() {
            learned.learned(&self.devices[device], class, StoredRate { rate, samples, when });
        }
        drop(planner);
        let store = cache.lock().unwrap_or_else(PoisonError::into_inner).store();
        rate_store::save(&*store, &learned);
    }
}

impl Scheduler {
    /// How far it is.
    pub fn progress(&self) -> Result<Progress> {
        self.shared.process.check()?;
        Ok(self.shared.progress())
    }

    /// Calls `tell` every so often with the progress, first after that time, until another call of this
    /// changes it or the scheduler ends; `None` calls nobody. `tell` is called on a thread of the library,
    /// which exists only meanwhile; never twice at once, and with no lock held: it may use the scheduler, but
    /// not shut it down. When this returns, what was set before is not running (unless this is called
    /// from inside it) and is not called again.
    pub fn on_progress(
        &self,
        every: Duration,
        tell: Option<impl Fn(&Progress) + Send + Sync + 'static>,
    ) -> Result<()> {
        self.shared.process.check()?;
        let shared = Arc::downgrade(&self.shared);
        let listener = tell.map(|tell| {
            let listener = move || {
                if let Some(shared) = shared.upgrade() {
                    let progress = shared.progress();
                    drop(shared);
                    tell(&progress);
                }
            };
            (Arc::new(listener) as _, every)
        });
        self.shared.observability.teller.set(listener)
    }

    pub(crate) fn not_telling(&self, what: &'static str) -> Result<()> {
        match self.shared.observability.teller.is_inside() {
            false => Ok(()),
            true => {
                Err(Error::Deadlock { what, why: "it was called from inside the progress callback".into() })
            }
        }
    }

    /// Returns the trace up to now. Refused if [`Builder`](super::builder::Builder) asked for no trace.
    pub fn timeline(&self) -> Result<Timeline> {
        let planner = self.lock()?;
        let Some(trace) = planner.observer.trace.clone() else {
            let accepted = "1 or more where the scheduler is made, for a trace of what it does";
            return Err(Error::argument("trace_events", 0, accepted));
        };
        Ok(planner.timeline(trace, self.shared.now()))
    }
}
