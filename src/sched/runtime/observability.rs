//! Observers outside of the planner lock: the progress notifier, the trace, the rate store.

use std::sync::{Arc, Mutex};

use crate::device::DeviceInfo;
use crate::sched::observe::progress_notifier::ProgressNotifier;
use crate::sched::observe::trace::Trace;
use crate::sched::plan::planner::Planner;
use crate::store::findings::Findings;
use crate::store::rate_store::{RateStore, Store};

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
        if trace_events > 0 {
            planner.keep_trace(trace_events);
        }
        let rate_store = rates.map(RateStore::new);
        let stored = rate_store.as_ref().map(RateStore::load).unwrap_or_default();
        for class in stored.classes() {
            for (index, device) in devices.iter().enumerate() {
                if let Some(rate) = stored.rate(device, class) {
                    planner.set_prior(class, index, rate);
                }
            }
            if planner.drop_inconsistent_priors(class) {
                log::info!("stored rates of class {class} do not fit each other and are ignored");
            }
        }
        let findings = rate_store.is_some().then(|| Findings::new(stored));
        let (trace, rate_store) = (planner.trace(), rate_store.map(Mutex::new));
        Observability { progress_notifier: Arc::default(), trace, rate_store, findings }
    }
}
