//! Methods of a scheduler that report or save: progress, trace, learned rates.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::scheduler::Scheduler;
use crate::error::{Error, Result};
use crate::sched::base::task_id::TaskId;
use crate::sched::observe::trace::{Ending, Span, Timeline};
use crate::sched::plan::progress::Progress;
use crate::sched::runtime::shared::Runtime;
use crate::store::entries::StoredRate;
use crate::store::findings::Findings;
use crate::store::rate_store;

impl Runtime {
    fn progress(&self) -> Progress {
        let both = self.stats();
        self.lock().planner.progress(self.now(), &both)
    }

    /// Records the attempt of a light task in the trace. `times`: begin and end, in nanoseconds of
    /// the scheduler's time.
    pub fn record_light(&self, task: TaskId, device: usize, slot: u32, times: (u64, u64), ending: Ending) {
        let Some(trace) = &self.observability.trace else { return };
        let (begin, end) = (Duration::from_nanos(times.0), Duration::from_nanos(times.1));
        let (label, class, attempt, bytes, work) = (String::new(), 0, 1, 0, None);
        trace.attempt(Span { task, label, class, device, slot, attempt, begin, end, ending, bytes, work });
    }

    /// Returns true once a minute: the caller saves the learned rates, for processes that start
    /// meanwhile and in case this one is killed.
    pub fn is_save_due(&self) -> bool {
        let store = self.observability.rate_store.as_ref();
        store
            .is_some_and(|store| store.lock().unwrap_or_else(PoisonError::into_inner).is_save_due(self.now()))
    }

    pub fn save_rates(&self) {
        let Some(rate_store) = &self.observability.rate_store else { return };
        let when = rate_store::now();
        let mut learned = self.observability.findings.as_ref().map(Findings::own).unwrap_or_default();
        let guard = self.lock();
        for (class, device, rate, samples) in guard.planner.learned_rates() {
            learned.add_rate(&self.devices[device], class, StoredRate { rate, samples, when });
        }
        drop(guard);
        let store = rate_store.lock().unwrap_or_else(PoisonError::into_inner).store();
        rate_store::save(&*store, &learned);
    }
}

impl Scheduler {
    /// Returns how much of the submitted work is done, and the ETA.
    pub fn progress(&self) -> Result<Progress> {
        self.runtime.process.check()?;
        Ok(self.runtime.progress())
    }

    /// Sets the progress callback. It is called with the progress at each interval, the first time
    /// after one, until it is replaced or the scheduler ends; `None` removes it.
    ///
    /// The callback runs on a thread of the library that exists only while there is one; never
    /// twice at once, and with no lock held. It may use the scheduler, but not shut it down. When
    /// this method returns, the previous callback is not running (unless it is the caller) and is
    /// not called again.
    pub fn on_progress(
        &self,
        interval: Duration,
        callback: Option<impl Fn(&Progress) + Send + Sync + 'static>,
    ) -> Result<()> {
        self.runtime.process.check()?;
        let runtime = Arc::downgrade(&self.runtime);
        let listener = callback.map(|callback| {
            let listener = move || {
                if let Some(runtime) = runtime.upgrade() {
                    let progress = runtime.progress();
                    drop(runtime);
                    callback(&progress);
                }
            };
            (Arc::new(listener) as _, interval)
        });
        self.runtime.observability.progress_notifier.set(listener)
    }

    /// Returns [`Error::Deadlock`] inside the progress callback.
    pub(crate) fn check_outside_callback(&self, what: &'static str) -> Result<()> {
        match self.runtime.observability.progress_notifier.is_inside() {
            false => Ok(()),
            true => {
                Err(Error::Deadlock { what, why: "it was called from inside the progress callback".into() })
            }
        }
    }

    /// Returns the trace up to now. Fails if [`Builder`](super::builder::Builder) asked for no
    /// trace.
    pub fn timeline(&self) -> Result<Timeline> {
        let guard = self.lock()?;
        let Some(trace) = guard.planner.trace() else {
            let accepted = "1 or more when the scheduler is created, for a trace";
            return Err(Error::argument("trace_events", 0, accepted));
        };
        Ok(guard.planner.timeline(trace, self.runtime.now()))
    }
}
