//! How far a scheduler is, and when it will be done.

use std::time::Duration;

use super::eta::{Load, Outlook, eta};
use super::state::Core;
use super::task::Role;
use super::trace::Span;

/// How far a scheduler is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that followed a failed one.
    pub retried: u64,
    /// Since the first task came.
    pub elapsed: Duration,
    /// Until all tasks will have ended that were submitted so far. `None`: nothing is known to tell it by.
    pub eta: Option<Duration>,
    /// Work of all tasks that told it.
    pub work_total: f64,
    /// What of it is over: of tasks that have ended in any way, and what running ones report.
    pub work_done: f64,
}

/// An attempt that runs.
pub struct Underway {
    pub role: Role,
    pub span: Span,
    /// As its code reports, from 0 to 1.
    pub progress: f64,
}

/// A report of less is too little to tell a duration from.
const ENOUGH: f64 = 0.02;

impl Core {
    pub fn progress(&self, now: Duration) -> Progress {
        let counts = self.counts;
        let underway = self.underway(now);
        let (queued, running) =
            (counts.queued - counts.guests.queued, counts.running - counts.guests.running);
        let (work_total, ended) = self.seen.tally.work();
        let reported: f64 = underway.iter().map(|run| run.span.work.unwrap_or(0.0) * run.progress).sum();
        Progress {
            queued,
            running,
            done: counts.done,
            failed: counts.failed,
            cancelled: counts.cancelled,
            retried: counts.retried,
            elapsed: self.seen.tally.elapsed(now),
            eta: eta(&self.outlook(&underway, queued + running)),
            work_total,
            work_done: (ended + reported).min(work_total),
        }
    }

    fn outlook(&self, underway: &[Underway], unended: u64) -> Outlook {
        let alive = self.devices.iter().map(|device| match device.retired {
            None => f64::from(device.slots),
            Some(_) => 0.0,
        });
        let slots: Vec<f64> = alive.collect();
        let mut outlook = Outlook {
            mean: self.seen.tally.mean(),
            slots: slots.iter().sum::<f64>() as u64,
            ..Outlook::default()
        };
        // Ranges are not tallied; one that has begun tells how far it is.
        let mut ranges = unended;
        for run in underway.iter().filter(|run| run.role == Role::Range && run.progress >= ENOUGH) {
            let took = (run.span.end - run.span.begin).as_secs_f64();
            outlook.longest = outlook.longest.max(took * (1.0 - run.progress) / run.progress);
            ranges = ranges.saturating_sub(1);
        }
        for (number, class) in self.seen.tally.classes() {
            let rate = |device| self.rates.rate(number, device).unwrap_or(0.0);
            let mut rates: Vec<f64> = (0..slots.len()).map(rate).collect();
            let mut left = class.left();
            for run in underway.iter().filter(|run| run.role == Role::Task && run.span.class == number) {
                let work = run.span.work.unwrap_or(class.unit());
                let (span, device) = (&run.span, run.span.device);
                let took = (span.end - span.begin).as_secs_f64();
                // What a task reports of itself is worth more than what others took.
                if run.progress >= ENOUGH {
                    let rate = run.progress * work / took.max(1e-9);
                    left -= run.progress * work;
                    outlook.longest = outlook.longest.max((1.0 - run.progress) * work / rate);
                    if rates[device] == 0.0 {
                        rates[device] = rate;
                    }
                } else if rates[device] > 0.0 {
                    let done = (rates[device] * took).min(work);
                    left -= done;
                    outlook.longest = outlook.longest.max((work - done) / rates[device]);
                }
            }
            let open = class.all.tasks - class.ended.tasks;
            ranges = ranges.saturating_sub(open);
            let rate: f64 = rates.iter().zip(&slots).map(|(rate, slots)| rate * slots).sum();
            if rate > 0.0 {
                outlook.loads.push(Load { work: left.max(0.0), rate });
            } else {
                outlook.unknown += open;
            }
        }
        outlook.unknown += ranges;
        // Within a priority the first of the list is the longest.
        if let Some(entry) = self.ready.values().next().and_then(|&id| self.tasks.get(id).ok())
            && let Some(work) = entry.work
        {
            let rates = (0..slots.len()).filter(|&device| slots[device] > 0.0);
            let fastest = rates.filter_map(|device| self.rates.rate(entry.class, device)).fold(0.0, f64::max);
            if fastest > 0.0 {
                outlook.longest = outlook.longest.max(work / fastest);
            }
        }
        outlook
    }
}
