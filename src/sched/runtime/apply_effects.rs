//! Applies what the planner returns, publishes its state to the light tier, and calls it at its
//! deadlines.
//!
//! Deadlines end tasks and write to the log. Both may run callers' code, a `drop` or a log
//! function, that blocks for as long as it likes. So a timer thread with such effects first starts
//! another in its place.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use log::Level;

use super::{PlannerGuarded, Runtime, log_all};
use crate::sched::light::NO_DEVICE;
use crate::sched::plan::{Effects, EndedTask, Planner};
use crate::sched::sleep::{BLOCKED_TASKS, HELPERS_NEEDED};

impl Runtime {
    /// Calls `change` with the planner locked, and applies its effects.
    pub fn step<T>(self: &Arc<Self>, change: impl FnOnce(&mut Planner, &mut Effects) -> T) -> T {
        let mut guard = self.lock();
        let mut effects = Effects::at(self.now());
        let result = change(&mut guard.planner, &mut effects);
        self.apply_effects(guard, effects);
        result
    }

    /// Applies the effects of planner calls made under this guard, by the protocol of
    /// [`Runtime::apply_with`].
    pub fn apply_effects<'a>(self: &'a Arc<Self>, guard: MutexGuard<'a, PlannerGuarded>, effects: Effects) {
        self.apply_with(guard, effects, |_, _| ());
    }

    /// Runs `code` with the planner unlocked. Meanwhile so many tasks count as ending: a deadlock
    /// check or a shutdown, which locks the planner, never sees one that has neither ended nor is
    /// counted.
    fn unlocked<'a>(
        &'a self,
        guard: MutexGuard<'a, PlannerGuarded>,
        ending: usize,
        code: impl FnOnce(),
    ) -> MutexGuard<'a, PlannerGuarded> {
        self.jobs_dropping.fetch_add(ending, Ordering::SeqCst);
        drop(guard);
        code();
        let guard = self.lock();
        self.jobs_dropping.fetch_sub(ending, Ordering::SeqCst);
        guard
    }

    /// Applies effects, unlocks the planner, and returns the result of `then`. Each thread drops the
    /// jobs of those tasks that it has itself ended, and no others: it may hold whatever their drop
    /// needs.
    ///
    /// The order is a protocol:
    /// 1. Under the lock, abandoned attempts are taken off the worker pool. Whenever the lock is
    ///    released before all ends are published, the others are counted ([`Runtime::unlocked`]).
    /// 2. Without the lock, backends renew contexts. Nothing begins there before the planner knows
    ///    of it.
    /// 3. For each ended task: without the lock, first the log, then the drop of the job; under the
    ///    lock, the end is published. So a thread that sees the end finds the record logged and the
    ///    job dropped. Ends of successors join the list. The lock is kept if there is no record and
    ///    the drop runs no code of the caller.
    /// 4. Under the lock, flags are published for light tasks, before `wake_workers` reads the
    ///    light-task gate; then `then` is called, for a worker that takes its next task; workers
    ///    are woken and the timer is set.
    /// 5. Without the lock, tasks nested in abandoned attempts end; then waiters are notified:
    ///    ranges in need of helpers, and those blocked inside tasks.
    /// 6. Workers are woken for light tasks if a device has opened; light tasks end with an error
    ///    if no device is left, and planned ones if the system gives their devices no thread.
    ///    Records of steps 4 to 6 are logged last.
    pub fn apply_with<'a, T>(
        self: &'a Arc<Self>,
        mut guard: MutexGuard<'a, PlannerGuarded>,
        mut effects: Effects,
        then: impl FnOnce(&mut PlannerGuarded, Duration) -> T,
    ) -> T {
        let abandoned = std::mem::take(&mut effects.abandoned);
        for &(id, attempt, _) in &abandoned {
            // Its thread counts neither as blocked nor as awake from now on.
            self.light.queues.for_each_worker(|worker| worker.stats.nested.abandon((id, attempt)));
            self.wait_queues.notify(id);
            self.wait_queues.notify(BLOCKED_TASKS);
            self.pool.abandon();
            // Until the tasks inside have ended.
            self.jobs_dropping.fetch_add(1, Ordering::SeqCst);
        }
        effects.owners.drain(..).for_each(|owner| self.wait_queues.notify(owner));
        if !effects.renewed.is_empty() {
            guard = self.unlocked(guard, effects.ended.len(), || {
                for &device in &effects.renewed {
                    self.backends[device].renew(self.devices[device].ordinal);
                }
            });
            effects.now = self.now();
            for device in effects.renewed.drain(..) {
                guard.planner.context_renewed(device);
            }
        }
        while !effects.ended.is_empty() || !effects.log.is_empty() {
            let (unlocks, ending) = (effects.runs_callers_code(), effects.ended.len());
            let (log, mut next) = (std::mem::take(&mut effects.log), effects.ended.pop());
            let job = next.as_mut().and_then(|ended| ended.job.take());
            if unlocks {
                guard = self.unlocked(guard, ending, || {
                    log_all(log);
                    self.drop_job(job);
                });
                effects.now = self.now();
            }
            if let Some(ended) = next {
                self.publish(&mut guard, ended, &mut effects);
            }
        }
        let now = effects.now;
        let opened = self.publish_flags(&guard, now);
        let result = then(&mut guard, now);
        guard.planner.check_step();
        self.wake_workers(&mut guard, now);
        self.ensure_timer(&mut guard, now);
        let log = std::mem::take(&mut guard.log);
        let deserted = self.light.stop_flags.load(Ordering::SeqCst) & NO_DEVICE != 0;
        let needy = guard.planner.range_needs_helpers();
        let refused = guard.refused_threads.iter().any(|&times| times > 1);
        drop(guard);
        for (id, attempt, limit_s) in abandoned {
            self.end_nested(id, attempt, limit_s);
            self.jobs_dropping.fetch_sub(1, Ordering::SeqCst);
        }
        if needy {
            self.wait_queues.notify(HELPERS_NEEDED);
        }
        self.wait_queues.notify_blocked();
        self.wake_if_opened(opened);
        if deserted {
            self.end_all_queued();
        }
        if refused {
            self.fail_if_deserted();
        }
        log_all(log);
        result
    }

    fn publish(&self, guard: &mut PlannerGuarded, ended: EndedTask, effects: &mut Effects) {
        let EndedTask { id, known_as, epoch, outcome, .. } = ended;
        let promoted = known_as.is_light().then(|| outcome.clone());
        let is_awaited = guard.planner.publish(id, outcome, effects);
        if let Some(outcome) = promoted {
            self.end_promoted(guard, known_as, id, &outcome, effects);
        }
        if let Some(epoch) = epoch {
            self.count_ended(None, epoch, 1);
        }
        if is_awaited {
            self.wait_queues.notify(id);
        }
    }

    /// Publishes the planner's flags for the light tier. Returns true if light tasks may begin
    /// again on some device.
    pub fn publish_flags(&self, guard: &PlannerGuarded, now: Duration) -> bool {
        let (mut reserved, mut retired) = (0, 0);
        for (index, device) in guard.planner.devices().iter().enumerate() {
            self.light.gate.set_context(index, device.context);
            self.pool.set_slots(index, device.slots);
            reserved |= u64::from(guard.planner.is_reserved(now, index)) << index;
            retired |= u64::from(device.retired.is_some()) << index;
        }
        let opened = self.light.gate.publish(reserved, guard.planner.has_exclusive_tasks());
        let freed = self.publish_free_slots(guard);
        if opened && self.pool.event_count.asleep() > 0 {
            self.pool.event_count.wake_all();
        }
        if self.pool.retired.load(Ordering::Relaxed) != retired {
            self.pool.retired.store(retired, Ordering::SeqCst);
            if guard.planner.devices().iter().all(|device| device.retired.is_some()) {
                self.light.stop_flags.fetch_or(NO_DEVICE, Ordering::SeqCst);
            }
            self.pool.event_count.wake_all();
        }
        opened || freed
    }

    /// Starts the timer thread, or wakes it for an earlier deadline.
    pub fn ensure_timer(self: &Arc<Self>, guard: &mut PlannerGuarded, now: Duration) {
        let Some(deadline) = guard.planner.next_deadline(now) else { return };
        if guard.timer_until.is_some_and(|until| deadline < until) {
            guard.timer_until = Some(deadline);
            self.timer_wakeup.notify_all();
        }
        if guard.timer_until.is_some() {
            return;
        }
        let shared = self.clone();
        let started = self.pool.start("gpusched time".into(), None, move || run_timer(&shared));
        let failed_before = self.no_timer.swap(started.is_err(), Ordering::Relaxed);
        match started {
            // The thread reads the deadline before it sleeps.
            Ok(()) => guard.timer_until = Some(Duration::ZERO),
            Err(error) if !failed_before => {
                // Those that sleep do so without a limit.
                self.pool.event_count.wake_all();
                let text =
                    format!("could not start the thread for deadlines, so idle workers check them: {error}");
                guard.log.push((Level::Error, text));
            }
            Err(_) => {}
        }
    }

    fn advance(&self, planner: &mut Planner, effects: &mut Effects) {
        for (index, device) in self.devices.iter().enumerate() {
            if let Some(since) = self.backends[index].since_preparation(device.ordinal) {
                planner.postpone_deadlines(index, effects.now.saturating_sub(since));
            }
        }
        planner.advance(effects);
    }

    /// Does what is due, if there is no timer thread.
    pub fn advance_without_timer(self: &Arc<Self>) {
        if self.no_timer.load(Ordering::Relaxed) {
            self.step(|planner, effects| self.advance(planner, effects));
        }
    }
}

/// Runs the timer thread: calls `advance` when it is due, until the scheduler has stopped. Callers'
/// code that it would then run may block for as long as it likes, so another thread becomes the
/// timer meanwhile.
fn run_timer(shared: &Arc<Runtime>) {
    let mut guard = shared.lock();
    // Until another thread is the timer.
    while !guard.planner.is_stopping() || shared.pool.has_worker() {
        let now = shared.now();
        let deadline = guard.planner.next_deadline(now).unwrap_or(Duration::MAX);
        guard.timer_until = Some(deadline);
        shared.no_timer.store(false, Ordering::Relaxed);
        if deadline > now {
            let waited = shared.timer_wakeup.wait_timeout(guard, deadline - now);
            let (held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            guard = held;
            // A reconsideration that is due would be put off if it were computed again.
            if !waited.timed_out() {
                continue;
            }
        }
        let mut effects = Effects::at(shared.now());
        shared.advance(&mut guard.planner, &mut effects);
        let hands_over =
            !(effects.ended.is_empty() && effects.log.is_empty() && effects.abandoned.is_empty());
        if hands_over {
            guard.timer_until = None;
            shared.ensure_timer(&mut guard, effects.now);
        }
        shared.apply_effects(guard, effects);
        guard = shared.lock();
        if hands_over && guard.timer_until.is_some() {
            return;
        }
    }
    guard.timer_until = None;
}
