//! Observers of a runtime: the progress notifier, the trace, the store of learned rates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::device::DeviceInfo;
use crate::sched::base::{TaskId, lock};
use crate::sched::observe::{Ending, ProgressNotifier, Span, Trace};
use crate::sched::plan::Planner;
use crate::store::entries::StoredRate;
use crate::store::findings::Findings;
use crate::store::rate_store::{self, RateStore, Store};

pub struct Observability {
    pub progress_notifier: Arc<ProgressNotifier>,
    pub trace: Option<Arc<Trace>>,
    pub rate_store: Option<Mutex<RateStore>>,
    /// `None`: findings are not kept.
    pub findings: Option<Findings>,
}

impl Observability {
    /// Passes the stored rates to a new planner, and makes it keep a trace of up to `trace_events`
    /// events.
    pub fn new(
        devices: &[DeviceInfo],
        planner: &mut Planner,
        trace_events: usize,
        rates: Option<Arc<dyn Store>>,
    ) -> Self {
        let trace = (trace_events > 0).then(|| planner.keep_trace(trace_events));
        let rate_store = rates.map(RateStore::new);
        let stored = rate_store.as_ref().map(RateStore::load).unwrap_or_default();
        for class in stored.classes() {
            for (index, device) in devices.iter().enumerate() {
                if let Some(rate) = stored.rate(device, class) {
                    planner.estimator().set_prior(class, index, rate);
                }
            }
            if planner.estimator().drop_inconsistent_priors(class) {
                log::info!("stored rates of class {class} do not fit each other and are ignored");
            }
        }
        let findings = rate_store.is_some().then(|| Findings::new(stored));
        let rate_store = rate_store.map(Mutex::new);
        Observability { progress_notifier: Arc::default(), trace, rate_store, findings }
    }

    /// Records the attempt of a light task in the trace. `times`: begin and end, in nanoseconds of
    /// the scheduler's time.
    pub fn record_light(&self, task: TaskId, device: usize, slot: u32, times: (u64, u64), ending: Ending) {
        let Some(trace) = &self.trace else { return };
        let (begin, end) = (Duration::from_nanos(times.0), Duration::from_nanos(times.1));
        let (label, class, attempt, bytes, work) = (String::new(), 0, 1, 0, None);
        trace.attempt(Span { task, label, class, device, slot, attempt, begin, end, ending, bytes, work });
    }

    /// Returns true once a minute: the caller saves the learned rates, for processes that start
    /// meanwhile and in case this one is killed.
    pub fn is_save_due(&self, now: Duration) -> bool {
        self.rate_store.as_ref().is_some_and(|store| lock(store).is_save_due(now))
    }

    /// Saves findings and the rates that `learned_rates` returns.
    pub fn save_rates(
        &self,
        devices: &[DeviceInfo],
        learned_rates: impl Fn() -> Vec<(u32, usize, f64, u64)>,
    ) {
        let Some(rate_store) = &self.rate_store else { return };
        let when = rate_store::now();
        let mut learned = self.findings.as_ref().map(Findings::own).unwrap_or_default();
        for (class, device, rate, samples) in learned_rates() {
            learned.add_rate(&devices[device], class, StoredRate { rate, samples, when });
        }
        let store = lock(rate_store).store();
        rate_store::save(&*store, &learned);
    }
}
