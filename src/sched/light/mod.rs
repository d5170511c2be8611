//! The structures of light tasks: many, small, run by any free worker.

pub mod epochs;
pub mod gate;
pub mod job;
pub mod queues;
pub mod slab;
pub mod task;

pub use epochs::{EpochCounter, EpochCounts};
pub use gate::LightGate;
pub use job::{InlineJob, InlineJobKind, LightJob};
pub use queues::{EndCounts, LightItem, LightQueues, LocalQueue, NestedTask, WorkerShared};
pub use slab::LightSlab;
pub use task::{EndActions, LightAttempt, LightTask};

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
pub use crate::sched::base::STOPPING;
use crate::sched::base::sync::Arc;
use crate::sched::base::{Epoch, TaskCounts};

/// Bits of [`LightTasks::stop_flags`]: why no task is accepted.
pub const CLOSED: u8 = 1;
pub const NO_DEVICE: u8 = 4;

pub struct LightTasks {
    pub slab: LightSlab,
    pub queues: LightQueues,
    // Every submit reads `epochs` and `stop_flags`: no cache line with data that changes.
    pub epochs: CachePadded<EpochCounter>,
    /// The counts of all threads that are no workers.
    caller_epochs: Arc<EpochCounts>,
    caller_ends: CachePadded<EndCounts>,
    /// A submitter counts its task before it reads this; the thread that sets a flag reads the
    /// counts afterwards. So one of the two sees the other (Dekker).
    pub stop_flags: CachePadded<AtomicU8>,
    pub gate: CachePadded<LightGate>,
    /// When the first task of either tier was submitted. Every submit reads it.
    first_ns: CachePadded<OnceLock<u64>>,
    /// Tasks that were counted as submitted, and then refused.
    pub refused_tasks: AtomicU64,
}

impl LightTasks {
    pub fn new(devices: usize) -> Self {
        let epochs = EpochCounter::new();
        LightTasks {
            slab: LightSlab::new(),
            queues: LightQueues::default(),
            caller_epochs: epochs.add_counts(),
            caller_ends: CachePadded::default(),
            epochs: CachePadded::new(epochs),
            stop_flags: CachePadded::new(AtomicU8::new(if devices > 0 { 0 } else { NO_DEVICE })),
            gate: CachePadded::new(LightGate::new(devices)),
            first_ns: CachePadded::default(),
            refused_tasks: AtomicU64::new(0),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stop_flags.load(Ordering::SeqCst) & STOPPING != 0
    }

    fn epoch_counts<'a>(&'a self, queue: Option<&'a LocalQueue>) -> &'a EpochCounts {
        queue.map_or(&self.caller_epochs, |queue| &queue.shared.epochs)
    }

    /// Counts the outcome of a task, before [`LightTasks::count_ended`] counts its end.
    pub fn count_outcome(&self, queue: Option<&LocalQueue>, outcome: &Result<()>) {
        let ends = queue.map_or(&*self.caller_ends, |queue| &queue.shared.stats.ends);
        let count = match outcome {
            Ok(()) => &ends.done,
            Err(Error::Cancelled) => &ends.cancelled,
            Err(_) => &ends.failed,
        };
        match queue {
            // Only the worker writes its own.
            Some(_) => count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
            None => drop(count.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Counts tasks that have ended in their epoch. Returns true if the caller has to notify the
    /// threads that wait for all.
    pub fn count_ended(&self, queue: Option<&LocalQueue>, epoch: Epoch, tasks: u64) -> bool {
        self.epochs.end(self.epoch_counts(queue), epoch, tasks)
    }

    /// Counts tasks that are being submitted. Returns the stop flags if none are accepted.
    pub fn count_submitted(
        &self,
        queue: Option<&LocalQueue>,
        tasks: u64,
    ) -> std::result::Result<Epoch, (Epoch, u8)> {
        let epoch = self.epochs.begin(self.epoch_counts(queue), tasks);
        match self.stop_flags.load(Ordering::SeqCst) {
            0 => Ok(epoch),
            flags => Err((epoch, flags)),
        }
    }

    /// Notes the time of the first submission.
    pub fn note_submission(&self, clock: impl FnOnce() -> u64) {
        self.first_ns.get_or_init(clock);
    }

    /// Returns the time from the first submission of either tier to `until`, in nanoseconds; 0
    /// before.
    pub fn since_first(&self, until: u64) -> u64 {
        self.first_ns.get().map_or(0, |first| until.saturating_sub(*first))
    }

    /// Sets the number of accepted tasks of both tiers, and adds how many light ones have ended.
    pub fn add_counts(&self, counts: &mut TaskCounts) {
        let mut add = |one: &EndCounts| {
            counts.done += one.done.load(Ordering::Relaxed);
            counts.failed += one.failed.load(Ordering::Relaxed);
            counts.cancelled += one.cancelled.load(Ordering::Relaxed);
        };
        add(&self.caller_ends);
        self.queues.for_each_worker(|worker| add(&worker.stats.ends));
        let refused = self.refused_tasks.load(Ordering::Relaxed);
        counts.submitted = self.epochs.begun().saturating_sub(refused);
    }
}
