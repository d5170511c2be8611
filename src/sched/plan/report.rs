//! Reports: statistics and progress of a scheduler, its tasks and running attempts.

use std::sync::Arc;
use std::time::Duration;

use super::completion::span;
use super::{Attempt, DeadlineState, DeviceState, Planner, TaskRecord};
use crate::device::DeviceInfo;
use crate::error::Result;
use crate::sched::base::{Role, TaskCounts, TaskId, TaskInfo, TaskStatus, nanoseconds};
use crate::sched::estimate::{ClassRecord, lower_bound};
use crate::sched::observe::{Ending, Timeline, Trace};

/// Statistics of a scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub counts: TaskCounts,
    /// Time from the first submission to the last end so far.
    pub makespan_ns: u64,
    /// Lower bound of the makespan of the tasks that ended well, by the measured rates; 0 if none
    /// did. `src/sched/estimate/makespan_bound.rs` defines it.
    pub lower_bound_ns: u64,
    pub devices: Vec<DeviceStats>,
}

/// Statistics of a device. `done` and `failed` count attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStats {
    /// As found at the start, with the present health.
    pub device: DeviceInfo,
    /// Why the device was retired.
    pub retired: Option<String>,
    /// Other processes use all slots, or will before this one.
    pub taken: bool,
    /// Why the device refused the last planned task; `None` once one has reported progress there or
    /// ended well.
    pub refusal: Option<&'static str>,
    pub slots: u32,
    pub done: u64,
    pub failed: u64,
    pub busy_ns: u64,
    pub leased_bytes: u64,
    pub peak_bytes: u64,
}

/// Progress of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    pub counts: TaskCounts,
    /// Since the first submission.
    pub elapsed: Duration,
    /// Estimated time until all tasks submitted so far have ended. `None`: unknown.
    pub eta: Option<Duration>,
    /// Work of all tasks that state it.
    pub work_total: f64,
    /// The part of it that is done: of ended tasks, and as running ones report.
    pub work_done: f64,
    /// The part of `work_done` of tasks that failed or were cancelled.
    pub work_lost: f64,
}

impl Planner {
    pub fn info(&self, now: Duration, id: TaskId) -> Result<TaskInfo> {
        let record = self.tasks.get(id)?;
        let now = if record.status().is_ended() { Duration::ZERO } else { now.saturating_sub(record.since) };
        let (queued, running) = match record.status() {
            TaskStatus::Queued => (now, Duration::ZERO),
            _ => (Duration::ZERO, now),
        };
        Ok(TaskInfo {
            state: record.status(),
            label: record.label.clone(),
            device: record.device,
            slot: record.slot,
            attempts: record.attempts_begun,
            progress: record.signal.progress(),
            queued_ns: nanoseconds(record.queued + queued),
            running_ns: nanoseconds(record.ran + running),
            error: record.signal.outcome.get().and_then(|outcome| outcome.clone().err()),
        })
    }

    /// Returns the statistics. The runtime adds those of light tasks.
    pub fn stats(&self) -> Stats {
        let devices = self.devices.iter().map(|device| DeviceStats {
            device: device.info.clone(),
            retired: device.retired.clone(),
            taken: device.is_taken(),
            refusal: device
                .refusal
                .filter(|_| device.attempts.iter().all(|run| self.progress_of(run) == 0.0)),
            slots: device.slots,
            done: device.done,
            failed: device.failed,
            busy_ns: nanoseconds(device.busy),
            leased_bytes: device.ledger.leased(),
            peak_bytes: device.ledger.peak(),
        });
        let slots: Vec<u32> = self.devices.iter().map(|device| device.slots).collect();
        Stats {
            counts: self.counts,
            makespan_ns: nanoseconds(self.last_end),
            lower_bound_ns: nanoseconds(lower_bound(&self.estimator.table, &slots)),
            devices: devices.collect(),
        }
    }

    /// Returns the progress; the runtime sets `elapsed`. `both`: statistics of planned and light
    /// tasks together.
    pub fn progress(&self, now: Duration, both: &Stats) -> Progress {
        let (work_total, ended) = self.estimator.table.work;
        let reported =
            self.open_attempts().map(|(run, share)| share * run.work.unwrap_or(0.0) * self.progress_of(run));
        let work_done = (ended + reported.sum::<f64>()).min(work_total);
        Progress {
            counts: both.counts,
            elapsed: Duration::ZERO,
            eta: self.eta(now, both),
            work_total,
            work_done,
            work_lost: self.work_lost,
        }
    }

    /// Returns the time until all tasks have ended if their work is spread well: what remains over
    /// all rates, and at least what the longest task needs; and before that the time for which all
    /// devices back off. `None`: too few rates are known.
    fn eta(&self, now: Duration, both: &Stats) -> Option<Duration> {
        // The longest of its priority and period.
        let first = self.ready.first().and_then(|(_, id)| self.tasks.get(id).ok());
        let is_open = |device: &DeviceState| device.retired.is_none();
        let backs_off = |device: &DeviceState| {
            let refuses = |first: &TaskRecord| device.backs_off(now, first.known_bytes(device.info.backend));
            device.attempts.is_empty() && first.is_some_and(refuses)
        };
        // A device that backs off counts only if all do.
        let all = self.devices.iter().all(|device| !is_open(device) || backs_off(device));
        let counts = |device: &DeviceState| is_open(device) && (all || !backs_off(device));
        let slots = |device| if counts(device) { f64::from(device.slots) } else { 0.0 };
        let slots: Vec<f64> = self.devices.iter().map(slots).collect();
        let all_slots: f64 = slots.iter().sum();
        let unended = self.counts.queued + self.counts.running;
        // Tasks whose rate is not known.
        let mut unknown = unended;
        let (mut seconds, mut longest) = (0.0, 0.0_f64);
        let took = |run: &Attempt| now.saturating_sub(run.started).as_secs_f64();
        let open: Vec<_> = self.open_attempts().collect();
        for (run, done) in open.iter().filter_map(|(run, _)| Some((run, self.report_of(run)?))) {
            longest = longest.max(took(run) * (1.0 - done) / done);
            // Ranges are not in the sums of classes.
            unknown = unknown.saturating_sub(u64::from(run.role == Role::Range));
        }
        for (number, class) in self.estimator.table.classes() {
            let rates = self.eta_rates(now, (number, class), &open);
            let mut left = class.remaining_work();
            for (run, share) in open.iter().filter(|(run, _)| run.role == Role::Task && run.class == number) {
                let work = run.work.unwrap_or(class.mean_work());
                let rate = rates[run.device];
                // A task's own report is better than the durations of others.
                if let Some(done) = self.report_of(run) {
                    left += share * (took(run) * (1.0 - done) / done * rate - work);
                } else if rate > 0.0 {
                    let done = (rate * took(run)).min(work);
                    left -= share * done;
                    longest = longest.max((work - done) / rate);
                }
            }
            let rate: f64 = rates.iter().zip(&slots).map(|(rate, slots)| rate * slots).sum();
            if rate > 0.0 {
                seconds += left.max(0.0) / rate;
                unknown = unknown.saturating_sub(class.unended());
            }
            let open = rates.iter().zip(&slots).filter(|&(_, &slots)| slots > 0.0);
            let fastest = open.map(|(&rate, _)| rate).fold(0.0, f64::max);
            if let Some(work) = first.filter(|first| first.class == number).and_then(|first| first.work)
                && fastest > 0.0
            {
                longest = longest.max(work / fastest);
            }
        }
        let light = (both.counts.queued + both.counts.running).saturating_sub(unended);
        match self.mean_light_seconds(both) {
            Some(mean) if light > 0 => seconds += light as f64 * mean / all_slots,
            _ => unknown += light,
        }
        if unknown > 0 {
            seconds += unknown as f64 * self.estimator.table.mean_seconds()? / all_slots;
        }
        let pause = first.filter(|_| all).map_or(Duration::ZERO, |first| self.pause(now, first));
        // Infinite if no device is left.
        Some(pause.saturating_add(Duration::try_from_secs_f64(seconds.max(longest)).ok()?))
    }

    /// Returns the time until a device may begin a ready task. All back off.
    fn pause(&self, now: Duration, record: &TaskRecord) -> Duration {
        let may = self.possible(record);
        let devices = self.devices.iter().enumerate().filter(|(index, _)| may.contains(*index));
        devices.filter_map(|(_, device)| Some(device.backoff?.until - now)).min().unwrap_or_default()
    }

    /// Returns the work per second of a slot of each device for the ETA; 0: unknown. Attempts of
    /// this run replace a stored rate by the share of an average task that they have done, or should
    /// have done by that rate; not those of which copies run, since all report to one progress.
    fn eta_rates(&self, now: Duration, known: (u32, &ClassRecord), open: &[(&Attempt, f64)]) -> Vec<f64> {
        let (number, class) = known;
        let mean = class.mean_work();
        let mut measured: Vec<_> = class.devices.iter().map(|device| device.samples.recent).collect();
        let alone = open.iter().filter(|(_, share)| *share == 1.0);
        for (run, _) in alone.filter(|(run, _)| run.role == Role::Task && run.class == number) {
            if let Some(done) = self.report_of(run) {
                let (seconds, work) = &mut measured[run.device];
                *work += done * run.work.unwrap_or(mean);
                *seconds += now.saturating_sub(run.started).as_secs_f64();
            }
        }
        let rate = |(device, (seconds, work)): (usize, (f64, f64))| {
            let measured = work / seconds.max(1e-9);
            match self.estimator.rate(number, device) {
                None => measured,
                Some(rate) if class.devices[device].samples.prior.is_none() => rate,
                Some(rate) => rate + (work.max(rate * seconds) / mean).min(1.0) * (measured - rate),
            }
        };
        measured.into_iter().enumerate().map(rate).collect()
    }

    /// Starts a trace of at most so many events.
    pub fn keep_trace(&mut self, most: usize) -> Arc<Trace> {
        let devices: Vec<_> = self.devices.iter().map(|device| device.info.clone()).collect();
        let trace = Arc::new(Trace::new(&devices, most));
        self.trace = Some(trace.clone());
        trace
    }

    /// Returns the timeline of a trace, with the running attempts.
    pub fn timeline(&self, trace: Arc<Trace>, now: Duration) -> Timeline {
        let running = self.underway().map(|run| span(run, now, Ending::Running)).collect();
        Timeline::new(trace, running)
    }

    /// Returns the mean seconds of a light task: sums of both tiers less those of the planned one.
    pub(super) fn mean_light_seconds(&self, both: &Stats) -> Option<f64> {
        let (mut busy_ns, mut attempts) = (0, 0);
        for (both, planned) in both.devices.iter().zip(&self.devices) {
            busy_ns += both.busy_ns.saturating_sub(nanoseconds(planned.busy));
            attempts += (both.done + both.failed).saturating_sub(planned.done + planned.failed);
        }
        (attempts > 0).then(|| busy_ns as f64 * 1e-9 / attempts as f64)
    }

    fn underway(&self) -> impl Iterator<Item = &Attempt> {
        let runs = self.devices.iter().flat_map(|device| &device.attempts);
        runs.filter(|run| run.deadline_state != DeadlineState::Lost)
    }

    /// Returns the attempts at tasks that have not ended, and the share of the task that each counts
    /// for: 1, or less while copies run.
    fn open_attempts(&self) -> impl Iterator<Item = (&Attempt, f64)> {
        self.underway().filter_map(|run| {
            let record = self.tasks.get(run.id).ok().filter(|record| record.state.is_open())?;
            Some((run, 1.0 / f64::from(record.live_attempts)))
        })
    }

    /// Returns which part of an attempt is done, from 0 to 1, as its job reports.
    fn progress_of(&self, run: &Attempt) -> f64 {
        self.tasks.get(run.id).map_or(0.0, |record| record.signal.progress())
    }

    /// Returns [`Planner::progress_of`] if it is enough to estimate the attempt's duration.
    fn report_of(&self, run: &Attempt) -> Option<f64> {
        Some(self.progress_of(run)).filter(|&done| done >= self.policy.least_progress)
    }
}
