//! Reports: statistics and progress of a scheduler, its tasks and running attempts; records of the log and the trace.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::{Attempt, DeadlineState, DeviceState, Effects, Planner, TaskCounts};
use crate::device::DeviceInfo;
use crate::error::Result;
use crate::sched::base::{Role, TaskId, TaskInfo, TaskStatus, nanoseconds};
use crate::sched::estimate::lower_bound;
use crate::sched::observe::{Ending, Span, Timeline, Trace};

/// Statistics of a scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that were followed by another.
    pub retried: u64,
    /// Second copies that were started.
    pub copies: u64,
    /// Time from the first submission to the last end so far.
    pub makespan_ns: u64,
    /// Lower bound of the makespan of the tasks that ended well, by the measured rates; 0 if none did.
    /// `src/sched/estimate/makespan_bound.rs` defines it.
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
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that followed a failed one.
    pub retried: u64,
    /// Since the first submission.
    pub elapsed: Duration,
    /// Estimated time until all tasks submitted so far have ended. `None`: unknown.
    pub eta: Option<Duration>,
    /// Work of all tasks that state it.
    pub work_total: f64,
    /// The part of it that is done: of ended tasks, and as running ones report.
    pub work_done: f64,
}

/// A running attempt.
pub struct AttemptProgress {
    pub role: Role,
    pub span: Span,
    /// From 0 to 1, as its job reports.
    pub progress: f64,
}

impl AttemptProgress {
    /// Returns the seconds since the attempt began.
    fn seconds(&self) -> f64 {
        (self.span.end - self.span.begin).as_secs_f64()
    }
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

    pub fn stats(&self) -> Stats {
        let TaskCounts { helpers, queued, running, done, failed, cancelled, retried, copies } = self.counts;
        let (submitted, queued, running) =
            (self.arrivals - helpers.submitted, queued - helpers.queued, running - helpers.running);
        let devices = self.devices.iter().map(|device| DeviceStats {
            device: device.info.clone(),
            retired: device.retired.clone(),
            taken: false,
            slots: device.slots,
            done: device.done,
            failed: device.failed,
            busy_ns: nanoseconds(device.busy),
            leased_bytes: device.ledger.leased(),
            peak_bytes: device.ledger.peak(),
        });
        let slots: Vec<u32> = self.devices.iter().map(|device| device.slots).collect();
        Stats {
            submitted,
            queued,
            running,
            done,
            failed,
            cancelled,
            retried,
            copies,
            makespan_ns: nanoseconds(self.estimator.table.makespan()),
            lower_bound_ns: nanoseconds(lower_bound(&self.estimator.table, &slots)),
            devices: devices.collect(),
        }
    }

    /// Returns the progress. `both`: statistics of planned and light tasks together.
    pub fn progress(&self, now: Duration, both: &Stats) -> Progress {
        let underway = self.underway(now);
        let (work_total, ended) = self.estimator.table.work();
        let reported: f64 = underway.iter().map(|run| run.span.work.unwrap_or(0.0) * run.progress).sum();
        Progress {
            queued: both.queued,
            running: both.running,
            done: both.done,
            failed: both.failed,
            cancelled: both.cancelled,
            retried: both.retried,
            elapsed: self.estimator.table.elapsed(now),
            eta: self.eta(&underway, both),
            work_total,
            work_done: (ended + reported).min(work_total),
        }
    }

    /// Returns the time until all tasks have ended if their work is spread well: what remains over all rates, and at
    /// least what the longest task needs. `None`: too few rates are known.
    fn eta(&self, underway: &[AttemptProgress], both: &Stats) -> Option<Duration> {
        let open =
            |device: &DeviceState| if device.retired.is_none() { f64::from(device.slots) } else { 0.0 };
        let slots: Vec<f64> = self.devices.iter().map(open).collect();
        let all_slots: f64 = slots.iter().sum();
        let planned = self.stats();
        let unended = self.counts.unended();
        // Tasks whose rate is not known. Ranges are not in the sums of classes; a running one reports its progress.
        let mut unknown = unended;
        let (mut seconds, mut longest) = (0.0, 0.0_f64);
        let reports = |run: &AttemptProgress| run.progress >= self.policy.least_progress;
        for run in underway.iter().filter(|run| run.role == Role::Range && reports(run)) {
            longest = longest.max(run.seconds() * (1.0 - run.progress) / run.progress);
            unknown = unknown.saturating_sub(1);
        }
        for (number, class) in self.estimator.table.classes() {
            let rate = |device| self.estimator.rate(number, device).unwrap_or(0.0);
            let mut rates: Vec<f64> = (0..slots.len()).map(rate).collect();
            let mut left = class.remaining_work();
            for run in underway.iter().filter(|run| run.role == Role::Task && run.span.class == number) {
                let work = run.span.work.unwrap_or(class.mean_work());
                let (rate, took) = (&mut rates[run.span.device], run.seconds());
                // A task's own report is better than the durations of others.
                if reports(run) {
                    let own = run.progress * work / took.max(1e-9);
                    left -= run.progress * work;
                    longest = longest.max((1.0 - run.progress) * work / own);
                    if *rate == 0.0 {
                        *rate = own;
                    }
                } else if *rate > 0.0 {
                    let done = (*rate * took).min(work);
                    left -= done;
                    longest = longest.max((work - done) / *rate);
                }
            }
            let rate: f64 = rates.iter().zip(&slots).map(|(rate, slots)| rate * slots).sum();
            if rate > 0.0 {
                seconds += left.max(0.0) / rate;
                unknown = unknown.saturating_sub(class.unended());
            }
        }
        // The first ready task is the longest of its priority.
        if let Some(record) = self.ready.first().and_then(|(_, id)| self.tasks.get(id).ok())
            && let Some(work) = record.work
        {
            let rates = (0..slots.len()).filter(|&device| slots[device] > 0.0);
            let fastest =
                rates.filter_map(|device| self.estimator.rate(record.class, device)).fold(0.0, f64::max);
            if fastest > 0.0 {
                longest = longest.max(work / fastest);
            }
        }
        let light = (both.queued + both.running).saturating_sub(unended);
        match mean_seconds(both, &planned) {
            Some(mean) if light > 0 => seconds += light as f64 * mean / all_slots,
            Some(_) => {}
            None => unknown += light,
        }
        if unknown > 0 {
            seconds += unknown as f64 * self.estimator.table.mean_seconds()? / all_slots;
        }
        // Infinite if no device is left.
        Duration::try_from_secs_f64(seconds.max(longest)).ok()
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
        let running = self.underway(now).into_iter().map(|run| run.span).collect();
        Timeline { trace, running }
    }

    /// Logs a text, and shows it in the trace of a device.
    pub(super) fn note(&self, level: Level, device: usize, text: String, effects: &mut Effects) {
        if let Some(trace) = &self.trace {
            trace.flag(effects.now, device, &text);
        }
        effects.log.push((level, text));
    }

    /// Adds an attempt that is over to the trace.
    pub fn record(&self, now: Duration, run: &Attempt, ending: Ending) {
        if let Some(trace) = &self.trace {
            trace.attempt(span(run, now, ending));
            self.record_leased(now, run.device);
        }
    }

    /// Adds the leased bytes of a device to the trace.
    pub fn record_leased(&self, now: Duration, device: usize) {
        if let Some(trace) = &self.trace {
            trace.leased(now, device, self.devices[device].attempts.iter().map(|run| run.bytes).sum());
        }
    }

    /// Returns the running attempts.
    pub fn underway(&self, now: Duration) -> Vec<AttemptProgress> {
        let runs = self.devices.iter().flat_map(|device| &device.attempts);
        runs.filter(|run| run.deadline_state != DeadlineState::Lost)
            .map(|run| AttemptProgress {
                span: span(run, now, Ending::Running),
                role: run.role,
                progress: self.tasks.get(run.id).map_or(0.0, |record| record.signal.progress()),
            })
            .collect()
    }
}

fn span(run: &Attempt, end: Duration, ending: Ending) -> Span {
    Span {
        task: run.id,
        label: run.label.clone(),
        class: run.class,
        device: run.device,
        slot: run.slot,
        attempt: run.number,
        begin: run.started,
        end,
        ending,
        bytes: run.bytes,
        work: run.work,
    }
}

/// Returns the mean seconds of a light task: sums of both tiers less those of the planned one.
fn mean_seconds(both: &Stats, planned: &Stats) -> Option<f64> {
    let sums = |stats: &Stats| {
        let devices = stats.devices.iter();
        devices.fold((0, 0), |(busy, attempts), one| (busy + one.busy_ns, attempts + one.done + one.failed))
    };
    let ((busy, attempts), (busy_planned, attempts_planned)) = (sums(both), sums(planned));
    let attempts = attempts.saturating_sub(attempts_planned);
    (attempts > 0).then(|| busy.saturating_sub(busy_planned) as f64 * 1e-9 / attempts as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BackendKind;
    use crate::sched::base::{Exec, Task};
    use crate::sched::plan::AttemptEnd;

    const S: fn(u64) -> Duration = Duration::from_secs;

    /// A planner with so many devices of one slot, all unknown.
    fn planner(devices: u32) -> Planner {
        let device =
            |ordinal| DeviceInfo::new(&format!("GPU-{ordinal}"), BackendKind::Cuda, ordinal, "paper");
        Planner::new((0..devices).map(|ordinal| (device(ordinal), 1)).collect(), Arc::default())
    }

    fn submit(planner: &mut Planner, now: u64, work: Option<f64>) -> TaskId {
        let task = Task { work, ..Task::new(|_: &Exec<'_>| Ok(())) };
        planner.submit(task, &mut Effects::at(S(now))).unwrap()
    }

    fn begin(planner: &mut Planner, now: u64, device: usize) -> (TaskId, u32) {
        let assignment = planner.assign(device, 0, Some(u64::MAX), &mut Effects::at(S(now))).begun().unwrap();
        (assignment.id, assignment.attempt)
    }

    fn end(planner: &mut Planner, now: u64, device: usize, (id, attempt): (TaskId, u32)) {
        let mut effects = Effects::at(S(now));
        planner.on_attempt_end(device, id, attempt, AttemptEnd::Ran(Ok(())), &mut effects);
        while let Some(ended) = effects.ended.pop() {
            planner.publish(ended.id, ended.outcome, &mut effects);
        }
    }

    fn eta_of(planner: &Planner, now: u64) -> Option<f64> {
        planner.progress(S(now), &planner.stats()).eta.map(|eta| eta.as_secs_f64())
    }

    /// The numbers are whole seconds and small ratios: a millisecond is more than their rounding.
    fn near(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() < 1e-3)
    }

    #[test]
    fn on_one_device_it_is_what_is_left_over_the_rate() {
        let mut planner = planner(1);
        for _ in 0..3 {
            submit(&mut planner, 5, Some(10.0));
        }
        let first = begin(&mut planner, 5, 0);
        // Nothing has ended, nothing is reported.
        assert_eq!(eta_of(&planner, 10), None);
        end(&mut planner, 25, 0, first);
        // Half a unit a second.
        assert!(near(eta_of(&planner, 25), 40.0), "{:?}", eta_of(&planner, 25));
        let second = begin(&mut planner, 25, 0);
        assert!(near(eta_of(&planner, 30), 35.0), "{:?}", eta_of(&planner, 30));
        // The second task reports less speed than the first: 2 units in 5 s, so 20 s more; then the third.
        planner.tasks.get(second.0).unwrap().signal.report(0.2);
        assert!(near(eta_of(&planner, 30), 36.0), "{:?}", eta_of(&planner, 30));
        let told = planner.progress(S(30), &planner.stats());
        assert_eq!((told.elapsed, told.work_total, told.work_done), (S(25), 30.0, 12.0));
        // The second task is late without a report: it may end at any moment, and the third follows.
        planner.tasks.get(second.0).unwrap().signal.report(0.0);
        assert!(near(eta_of(&planner, 1000), 20.0), "{:?}", eta_of(&planner, 1000));
    }

    #[test]
    fn devices_share_what_is_left_but_not_the_longest() {
        let mut planner = planner(2);
        for work in [4.0, 4.0, 2.0, 2.0, 2.0, 2.0] {
            submit(&mut planner, 0, Some(work));
        }
        let (a, b) = (begin(&mut planner, 0, 0), begin(&mut planner, 0, 1));
        let took =
            |planner: &Planner, (id, _): (TaskId, u32)| planner.tasks.get(id).unwrap().work.unwrap() as u64;
        // Both do a unit a second.
        let (a_took, b_took) = (took(&planner, a), took(&planner, b));
        end(&mut planner, a_took, 0, a);
        end(&mut planner, b_took, 1, b);
        let left = (16 - a_took - b_took) as f64;
        let longest: f64 = if a_took + b_took == 8 { 2.0 } else { 4.0 };
        assert!(near(eta_of(&planner, 4), (left / 2.0).max(longest)), "{:?}", eta_of(&planner, 4));
        planner.retire(1, "of a test", &mut Effects::default());
        assert!(near(eta_of(&planner, 4), left), "{:?}", eta_of(&planner, 4));
        submit(&mut planner, 4, Some(100.0));
        assert!(near(eta_of(&planner, 4), left + 100.0));
        planner.retire(0, "of a test", &mut Effects::default());
        assert_eq!(eta_of(&planner, 4), None, "no device is left");
    }

    #[test]
    fn tasks_without_work_count_as_mean_ones() {
        let mut planner = planner(1);
        for _ in 0..4 {
            submit(&mut planner, 0, None);
        }
        let first = begin(&mut planner, 0, 0);
        assert_eq!(eta_of(&planner, 3), None);
        end(&mut planner, 6, 0, first);
        assert!(near(eta_of(&planner, 6), 18.0), "{:?}", eta_of(&planner, 6));
        for at in [6, 12, 18] {
            let next = begin(&mut planner, at, 0);
            end(&mut planner, at + 6, 0, next);
        }
        assert_eq!(eta_of(&planner, 24), Some(0.0));
        assert_eq!(planner.estimator.table.makespan(), S(24));
        assert!(near(Some(lower_bound(&planner.estimator.table, &[1]).as_secs_f64()), 24.0));
    }

    #[test]
    fn stored_rate_gives_an_eta_at_once() {
        let mut planner = planner(1);
        planner.estimator.set_prior(0, 0, 4.0);
        submit(&mut planner, 0, Some(10.0));
        assert!(near(eta_of(&planner, 0), 2.5), "{:?}", eta_of(&planner, 0));
    }

    #[test]
    fn mean_of_light_tasks_leaves_out_the_planned_ones() {
        let stats = |done, failed, busy_s: u64| {
            let mut stats = planner(1).stats();
            (stats.devices[0].done, stats.devices[0].failed) = (done, failed);
            stats.devices[0].busy_ns = busy_s * 1_000_000_000;
            stats
        };
        assert!(near(mean_seconds(&stats(4, 2, 8), &stats(1, 1, 2)), 1.5));
        assert_eq!(mean_seconds(&stats(1, 1, 2), &stats(1, 1, 2)), None);
    }
}
