//! Observers of a scheduler outside of its lock: the progress thread, the trace, remembered rates.

use std::sync::{Arc, Mutex};

use crate::device::DeviceInfo;
use crate::sched::observe::progress_notifier::ProgressNotifier;
use crate::sched::observe::trace::Trace;
use crate::sched::plan::planner::Planner;
use crate::store::findings::Findings;
use crate::store::rate_store::{Cache, Store};

pub struct Observability {
    pub teller: Arc<ProgressNotifier>,
    pub trace: Option<Arc<Trace>>,
    pub cache: Option<Mutex<Cache>>,
    /// `None`: they are not kept.
    pub findings: Option<Findings>,
}

impl Observability {
    /// Gives a new state what is remembered from earlier runs, and a trace if one is wanted.
    pub fn new(
        devices: &[DeviceInfo],
        planner: &mut Planner,
        trace_events: usize,
        rates: Option<Arc<dyn Store>>,
    ) -> Self {
        if trace_events > 0 {
            planner.keep_trace(trace_events);
        }
        let cache = rates.map(Cache::new);
        let remembered = cache.as_ref().map(Cache::load).unwrap_or_default();
        for class in remembered.classes() {
            for (index, device) in devices.iter().enumerate() {
                if let Some(rate) = remembered.prior(device, class) {
                    planner.remember_rate(class, index, rate);
                }
            }
            if planner.forget_odd_rates(class) {
                log::info!("remembered rates of class {class} do not fit each other, and are not used");
            }
        }
        let findings = cache.is_some().then(|| Findings::new(remembered));
        let (trace, cache) = (planner.trace(), cache.map(Mutex::new));
        Observability { teller: Arc::default(), trace, cache, findings }
    }
}
