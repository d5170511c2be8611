//! Methods of a scheduler that report: progress, trace.

use std::sync::Arc;
use std::time::Duration;

use super::Scheduler;
use crate::error::{Error, Result};
use crate::sched::observe::Timeline;
use crate::sched::plan::Progress;

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

    /// Returns the trace up to now. Fails if [`Builder`](super::builder::Builder) asked for no
    /// trace.
    pub fn timeline(&self) -> Result<Timeline> {
        self.runtime.process.check()?;
        let Some(trace) = self.runtime.observability.trace.clone() else {
            let accepted = "1 or more, set when the scheduler is created";
            return Err(Error::argument("trace_events", 0, accepted));
        };
        Ok(self.runtime.lock().planner.timeline(trace, self.runtime.now()))
    }
}
