//! Reports of a runtime: progress, trace of light tasks, learned rates.

use std::time::Duration;

use super::shared::Runtime;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;
use crate::sched::observe::trace::{Ending, Span};
use crate::sched::plan::progress::Progress;
use crate::store::entries::StoredRate;
use crate::store::findings::Findings;
use crate::store::rate_store;

impl Runtime {
    pub fn progress(&self) -> Progress {
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
        store.is_some_and(|store| lock(store).is_save_due(self.now()))
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
        let store = lock(rate_store).store();
        rate_store::save(&*store, &learned);
    }
}
