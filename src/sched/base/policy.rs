//! The tuning numbers of a scheduler.
//!
//! Constants stay beside their code where they are sizes of data structures, limits of the
//! interface, or read for each light task.

use std::time::Duration;

use log::Level;

use crate::error::DeviceFault;
use crate::node::NodePolicy;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// Defines a struct whose fields have default values.
macro_rules! with_defaults {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $value:expr,)* }) => {
        $(#[$about])*
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $value,)* }
            }
        }
    };
}

with_defaults! {
/// The tuning numbers of a scheduler. Each scheduler has its own, which do not change while it
/// runs.
#[derive(Debug, Clone)]
Policy {
    // Placement.

    /// Times that a task is passed over on a device for want of memory, before the device starts no
    /// other task. Then the memory that it waits for becomes free.
    patience: u32 = 8,
    /// Ready tasks that a placement considers: of those that may begin on the device, and of those
    /// that keep other devices busy. Beyond it the longest come first anyway.
    horizon: usize = 512,
    /// Factor. A device at most so many times slower than the fastest never declines a task: the
    /// estimates are no better.
    near: f64 = 1.5,
    /// A device that has declined for so many average tasks, and for at least
    /// [`Policy::probe_after`], gets one: its rate may come from an accident.
    probe_tasks: f64 = 10.0,
    /// Least time between such tasks: each may delay the end by a slow task.
    probe_after: Duration = 300 * S,

    // Copies of idempotent tasks.

    /// Share of the first attempt's remaining time in which a copy must end. Less than 1, since a
    /// copy costs a device that others could use, and both times are estimates.
    copy_gain: f64 = 0.9,
    /// Attempts at a task that run at a time: the first and its copies. A third helps where two
    /// devices are bad at once.
    copies: u32 = 3,
    /// Factor. An attempt at a task of stated work is odd after so many times its estimate: such
    /// tasks scatter by a fifth.
    odd_with_work: f64 = 1.25,
    /// The same for tasks without stated work, which scatter by two thirds.
    odd_without_work: f64 = 2.0,
    /// Share of the estimate that an attempt at a task of stated work still needs, at least, until
    /// it is odd.
    rest_with_work: f64 = 0.05,
    /// The same for tasks without stated work.
    rest_without_work: f64 = 0.3,

    // Late attempts.

    /// Factor. An attempt is late after so many times the estimate.
    late_factor: f64 = 5.0,
    /// Attempts of a class that end well before others of it may be late: one or two may be odd
    /// themselves.
    usual_after: u64 = 3,
    /// Least time after which an attempt is late: the machine may be busy with other programs for
    /// that long.
    late_least: Duration = S,
    /// Least time that an attempt has to return after a stop request. It has at least its deadline.
    /// Beyond that its device counts as hung.
    grace: Duration = 10 * S,
    /// Longest time for which the deadlines of a new device's attempts begin again, while it
    /// creates its context or compiles kernels. Beyond that it counts as hung.
    preparation: Duration = 600 * S,
    /// Factor. An attempt that lost against another copy has so many times its estimate from its
    /// begin, if that is later: its code may be unable to stop early. No scatter explains more, see
    /// [`Policy::is_odd`].
    loser_time: f64 = 2.0,
    /// Least time until an idle device that declined a task reconsiders: each time costs a search.
    reconsider_least: Duration = 10 * MS,

    // Ageing.

    /// Average durations after which a waiting task gains one priority, and those that arrive come
    /// after all earlier ones of their priority: so a task waits for a bounded time.
    ageing: f64 = 10.0,
    /// Least interval of ageing, for each ready task. Ageing then costs a hundredth of the time.
    ageing_interval: Duration = 100 * US,

    // Faults.

    /// Contexts that fail under a task, or under elements of a range, before that is the cause.
    poisoned_contexts: u32 = 2,
    /// Devices that are lost under a task, or under elements of a range, before that is the cause.
    /// One more than contexts: lost devices are rare, and a wrong decision fails the task.
    lost_devices: u32 = 3,
    /// Tasks that poison a context of a device once, before the device is the cause: one may be the
    /// cause itself, two of the same device hardly.
    suspects: usize = 2,
    /// Tasks in a row that are the cause of a poisoned context, before the device is: a survey whose
    /// tasks are all wrong should not use up its other devices.
    faulty_tasks: u32 = 3,
    /// Attempts with a wrong result, before the task is the cause: the second is on another device
    /// if there is one.
    wrong_attempts: u32 = 2,
    /// Tasks with a wrong result on a device that were right when computed again, before the device
    /// is the cause. A single flipped bit may have another cause.
    wrong_tasks: usize = 2,

    // Shortages.

    /// Time for which fewer attempts run on a device that was short of something in company: a few
    /// tasks, after which the shortage may be over.
    throttle: Duration = 60 * S,
    /// Times for which a device begins no task like one that it refused, because it or its memory
    /// is in use, by the rounds in which all devices have refused the task. After one round more
    /// the task fails.
    backoff: [Duration; 3] = [S, 4 * S, 16 * S],
    /// Rounds after which a task fails if other processes have what it needs: an hour. They end
    /// some time, and thousands of tasks may be queued, none of which could begin.
    rounds_beside_others: usize = 227,
    /// Time for which a device counts as full after other processes had taken the memory that a
    /// task needs. Nothing reports when they release it.
    shortage_memory: Duration = S,

    // Estimates.

    /// Classes whose rates are kept. Beyond that, those are forgotten whose tasks have all ended. A
    /// class takes some 400 bytes, and 100 for each device.
    classes: usize = 4096,
    /// Average tasks that a prior weighs: after two samples, the measured rate counts as much.
    prior_weight: f64 = 2.0,
    /// Weight of a sample once the next one is recorded: the last 20 or so count.
    fade: f64 = 0.95,
    /// Factor. A sample counts as at most so many times the estimate, either way.
    surprise: f64 = 4.0,
    /// Factor. A first sample that is so many times slower than the second is a warm-up, and
    /// dropped.
    warm_up: f64 = 1.5,
    /// Factor. Stored rates over priors differ by less from device to device, or the stored ones
    /// are of another unit.
    inconsistent: f64 = 30.0,
    /// Factor less 1 by which one task of stated work may take longer or shorter than its estimate.
    scatter_with_work: f64 = 0.2,
    /// The same for tasks without stated work.
    scatter_without_work: f64 = 0.7,
    /// The same where nothing was known of the device: two such devices are compared by few tasks.
    scatter_unknown: f64 = 4.0,
    /// Least reported progress of an attempt from which its duration is estimated: the beginning
    /// may be unlike the rest.
    least_progress: f64 = 0.02,

    // Slots.

    /// Tasks of a window of the concurrency tuner, for each slot: the mean of fewer scatters more
    /// than [`Policy::tuner_gain`].
    tuner_window: u32 = 4,
    /// Factor of throughput that another slot has to bring: less may be scatter.
    tuner_gain: f64 = 1.05,
    /// Slots of a device that the tuner tries, at most: each has a thread and its own memory.
    most_slots: u32 = 8,
    /// Tasks that may wait inside their code at a time. Each may need another thread.
    blocked_tasks: usize = 64,
    /// Time that the owner of a range keeps its slot while it waits for helpers: most return sooner
    /// than another worker could begin.
    slot_kept: Duration = 2 * MS,

    // Light and planned tasks.

    /// Time of planned tasks after which light ones have a slice, and of light tasks after which a
    /// worker releases its slot of the node if other processes wait: long against the cost of a
    /// switch, short for a user.
    turn: Duration = 100 * MS,
    /// The slice of light tasks after a turn of planned ones: a tenth of the time.
    light_slice: Duration = 10 * MS,
    /// Longest time for which planned tasks of negative priority give way to light ones, so that
    /// they do not starve.
    stand_back: Duration = 100 * MS,

    // Threads.

    /// Longest time that an idle worker spins before it sleeps: waking it takes about as long. The
    /// time doubles when work came meanwhile, and halves when not.
    spin_most: Duration = 50 * US,
    /// Shortest such time: a few looks at the queues.
    spin_least: Duration = 2 * US,
    /// Time that a waiting thread spins before it sleeps.
    wait_spin: Duration = 20 * US,
    /// Time that a submitter waits for a busy worker before it starts another thread, which takes
    /// about as long.
    before_start: Duration = 50 * US,
    /// Time between two saves of the learned rates: a killed process loses what it learned since.
    save_interval: Duration = 60 * S,
    /// Time after which an idle worker frees what it caches on a device that processes share. Also
    /// the interval at which it advances the planner if there is no timer thread, and after which a
    /// thread is started again that the system has refused.
    rest: Duration = S,

    // Other processes of the node.

    /// Interval at which the watcher reads the leases even if nothing has changed: a process may
    /// have been stopped.
    lease_interval: Duration = S,
    /// Time limits of the table that they share.
    node: NodePolicy = NodePolicy::default(),
    /// Time for which the shared table is not locked after that has failed.
    suspension: Duration = 30 * S,

    // Ranges.

    /// Seconds that a call for a chunk should take: long enough to make handing out cheap, short
    /// enough for the last calls to end at about the same time.
    chunk_seconds: f64 = 0.75e-3,
    /// Factor by which chunks grow from one call to the next, at most: the first elements may be
    /// unlike the others.
    chunk_growth: u64 = 16,
    /// Chunks into which a worker's part of the rest of a range is divided, at least, so that all end
    /// at about the same time.
    chunks_of_part: u64 = 4,
    /// Factor. A device that needs so many times as long as the fastest checks before each chunk
    /// whether the others end sooner without it. Below it the check costs more than it saves.
    slow_device: f64 = 1.5,
    /// Time that a helper stays while other tasks wait for its slot: a few chunks.
    helper_stay: Duration = 10 * MS,

    // Log.

    /// Level of the lines for a task that fails for good and for a retired device. A program that
    /// prints them itself lowers it.
    failure_level: Level = Level::Warn,
}
}

impl Policy {
    /// Returns true if an attempt has run for longer than the scatter of its class explains.
    pub fn is_odd(&self, expected: f64, elapsed: f64, has_work: bool) -> bool {
        elapsed > if has_work { self.odd_with_work } else { self.odd_without_work } * expected
    }

    /// Returns how many seconds more an attempt should take that was expected to take `expected`
    /// and has run for `elapsed`. A little late it should be nearly done; an odd one should take as
    /// long again, since it or its estimate is wrong.
    pub fn remaining(&self, expected: f64, elapsed: f64, has_work: bool) -> f64 {
        if self.is_odd(expected, elapsed, has_work) {
            elapsed
        } else {
            let least = if has_work { self.rest_with_work } else { self.rest_without_work };
            (expected - elapsed).max(least * expected)
        }
    }

    /// Returns the number of devices that have to fail under a task, or under elements of a range,
    /// before that is the cause.
    pub fn fault_limit(&self, fault: DeviceFault) -> u32 {
        match fault {
            DeviceFault::Poisoned => self.poisoned_contexts,
            DeviceFault::Lost => self.lost_devices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_too_late_attempt_is_not_nearly_done() {
        let remaining = |elapsed, has_work| Policy::default().remaining(10.0, elapsed, has_work);
        assert_eq!([4.0, 11.0, 12.4].map(|elapsed| remaining(elapsed, true)), [6.0, 0.5, 0.5]);
        assert_eq!([12.6, 300.0].map(|elapsed| remaining(elapsed, true)), [12.6, 300.0]);
        assert_eq!([11.0, 19.9, 20.1].map(|elapsed| remaining(elapsed, false)), [3.0, 3.0, 20.1]);
    }
}
