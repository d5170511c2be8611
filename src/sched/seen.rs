//! What is told of a scheduler: hooks in its state for sums and the trace, and what stands outside its lock.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use log::Level;

use super::cache::{self, Cache, Known, Store};
use super::common::Shared;
use super::findings::Findings;
use super::parts::{Device, Running, Watched};
use super::progress::{Progress, Underway};
use super::scheduler::Scheduler;
use super::state::Core;
use super::tally::Tally;
use super::task::{Role, TaskId};
use super::teller::Teller;
use super::trace::{Ending, Span, Trace};
use crate::error::{Error, Result};

/// Under the scheduler's lock.
#[derive(Default)]
pub struct Seen {
    /// The time that the state was last told.
    pub now: Duration,
    pub tally: Tally,
    pub trace: Option<Arc<Trace>>,
}

/// Outside of it.
pub struct Seeing {
    pub teller: Arc<Teller>,
    trace: Option<Arc<Trace>>,
    cache: Option<Mutex<Cache>>,
    /// `None`: they are not kept.
    pub findings: Option<Findings>,
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

fn span(device: usize, run: &Running, end: Duration, ending: Ending) -> Span {
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

impl Core {
    /// From now on, up to so many events.
    pub fn keep_trace(&mut self, most: usize) -> Arc<Trace> {
        let devices: Vec<_> = self.devices.iter().map(|device| device.info.clone()).collect();
        let trace = Arc::new(Trace::new(&devices, most));
        self.seen.trace = Some(trace.clone());
        trace
    }

    /// What such a trace has, and what runs now.
    pub fn timeline(&self, trace: Arc<Trace>, now: Duration) -> Timeline {
        let running = self.underway(now).into_iter().map(|run| run.span).collect();
        Timeline { trace, running }
    }

    /// To be logged once the lock is free, and shown where it happened.
    pub fn note(&mut self, level: Level, device: usize, text: String) {
        if let Some(trace) = &self.seen.trace {
            trace.flag(self.seen.now, device, &text);
        }
        self.notes.push((level, text));
    }

    /// An attempt has returned.
    pub fn record(&mut self, now: Duration, device: usize, run: &Running, ending: Ending) {
        if ending == Ending::Done && run.role == Role::Task {
            self.seen.tally.ran(run.class, device, run.work, now.saturating_sub(run.since));
        }
        if let Some(trace) = &self.seen.trace {
            trace.attempt(span(device, run, now, ending));
            self.seen.leased(now, device, &self.devices[device]);
        }
    }

    /// The attempts that run now.
    pub fn underway(&self, now: Duration) -> Vec<Underway> {
        let mut underway = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            for run in device.running.iter().filter(|run| run.watched != Watched::Lost) {
                let progress = self.tasks.get(run.id).map_or(0.0, |entry| entry.signal.progress());
                underway.push(Underway {
                    span: span(index, run, now, Ending::Running),
                    role: run.role,
                    progress,
                });
            }
        }
        underway
    }
}

impl Seeing {
    /// Gives a new state what is remembered from earlier runs, and a trace if one is wanted.
    pub fn new(core: &mut Core, trace_events: usize, rates: Option<Arc<dyn Store>>) -> Self {
        if trace_events > 0 {
            core.keep_trace(trace_events);
        }
        let cache = rates.map(Cache::new);
        let remembered = cache.as_ref().map(Cache::load).unwrap_or_default();
        for class in remembered.classes() {
            for (index, device) in core.devices.iter().enumerate() {
                if let Some(rate) = remembered.prior(&device.info, class) {
                    core.rates.remember(class, index, rate);
                }
            }
            if core.rates.forget_odd(class) {
                log::info!("remembered rates of class {class} do not fit each other, and are not used");
            }
        }
        let findings = cache.is_some().then(|| Findings::new(remembered));
        let (trace, cache) = (core.seen.trace.clone(), cache.map(Mutex::new));
        Seeing { teller: Arc::default(), trace, cache, findings }
    }
}

impl Shared {
    fn progress(&self) -> Progress {
        let both = self.stats();
        self.lock().progress(self.now(), &both)
    }

    /// An attempt at a task that states nothing has returned; nanoseconds since the scheduler was made.
    pub fn record_light(&self, task: TaskId, device: usize, slot: u32, times: (u64, u64), ending: Ending) {
        let Some(trace) = &self.seeing.trace else { return };
        let (begin, end) = (Duration::from_nanos(times.0), Duration::from_nanos(times.1));
        let (label, class, attempt, bytes, work) = (String::new(), 0, 1, 0, None);
        trace.attempt(Span { task, label, class, device, slot, attempt, begin, end, ending, bytes, work });
    }

    /// For another process that begins meanwhile, or if this one is killed.
    pub fn save_rates_now_and_then(&self) {
        let Some(cache) = &self.seeing.cache else { return };
        if cache.lock().unwrap_or_else(PoisonError::into_inner).due(self.now()) {
            self.save_rates();
        }
    }

    pub fn save_rates(&self) {
        let Some(cache) = &self.seeing.cache else { return };
        let when = cache::now();
        let mut learned = self.seeing.findings.as_ref().map(Findings::own).unwrap_or_default();
        let core = self.lock();
        for (class, device, rate, samples) in core.rates.learned() {
            learned.learned(&self.devices[device], class, Known { rate, samples, when });
        }
        drop(core);
        let store = cache.lock().unwrap_or_else(PoisonError::into_inner).store();
        cache::save(&*store, &learned);
    }
}

impl Scheduler {
    /// How far it is.
    pub fn progress(&self) -> Result<Progress> {
        self.shared.born.check()?;
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
        self.shared.born.check()?;
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
        self.shared.seeing.teller.set(listener)
    }

    pub(super) fn not_telling(&self, what: &'static str) -> Result<()> {
        match self.shared.seeing.teller.is_inside() {
            false => Ok(()),
            true => {
                Err(Error::Deadlock { what, why: "it was called from inside the progress callback".into() })
            }
        }
    }

    /// What ran where and when, up to now. Refused if no trace was asked for in [`Builder`](super::Builder).
    pub fn timeline(&self) -> Result<Timeline> {
        let core = self.lock()?;
        let Some(trace) = core.seen.trace.clone() else {
            let accepted = "1 or more where the scheduler is made, for a trace of what it does";
            return Err(Error::argument("trace_events", 0, accepted));
        };
        Ok(core.timeline(trace, self.shared.now()))
    }
}

/// What a scheduler has done, and what it was doing when this was made.
pub struct Timeline {
    trace: Arc<Trace>,
    running: Vec<Span>,
}

impl Timeline {
    /// As JSON in the Chrome trace event format, which chrome://tracing and <https://ui.perfetto.dev> show.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.trace.write(out, &self.running)
    }

    /// Events that came when the trace was full.
    pub fn left_out(&self) -> u64 {
        self.trace.left_out()
    }
}
