//! The structures of light tasks: many, small, run by any free worker.
//!
//! | file | contents |
//! |---|---|
//! | `gate.rs` | on which devices light tasks may begin |
//! | `job.rs` | the job of a light task |
//! | `lifecycle.rs`, `task.rs` | a task with an id: its states and transitions |
//! | `slab.rs` | the table of tasks with an id |
//! | `proxies.rs` | planned tasks that stand for light ones |
//! | `nested.rs` | light tasks that run inside a planned one |
//! | `queues.rs` | deques, the injector, stealing |
//! | `epochs.rs` | whether all tasks that were submitted before a moment have ended |

pub mod epochs;
pub mod gate;
pub mod job;
mod lifecycle;
pub mod nested;
pub mod proxies;
pub mod queues;
pub mod slab;
pub mod task;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::Result;

use epochs::{Epoch, EpochCounter, EpochCounts, EpochSources};
use gate::LightGate;
use proxies::Proxies;
use queues::{LightQueues, LocalQueue};
use slab::LightSlab;
use task::LightTask;

/// Bits of [`LightTasks::stop_flags`]: why no task is accepted.
pub const CLOSED: u8 = 1;
pub const STOPPING: u8 = 2;
pub const NO_DEVICE: u8 = 4;

pub struct LightTasks {
    pub slab: LightSlab,
    pub queues: LightQueues,
    // Every submit reads `epochs` and `stop_flags`: no cache line with data that changes.
    pub epochs: CachePadded<EpochCounter>,
    /// A submitter counts its task before it reads this; the thread that sets a flag reads the counts
    /// afterwards. So one of the two sees the other (Dekker).
    pub stop_flags: CachePadded<AtomicU8>,
    pub gate: CachePadded<LightGate>,
    pub proxies: Proxies,
    /// Tasks that were counted as submitted, and then refused.
    pub refused_tasks: AtomicU64,
}

impl LightTasks {
    pub fn new(devices: usize) -> Self {
        LightTasks {
            slab: LightSlab::new(),
            queues: LightQueues::new(),
            epochs: CachePadded::new(EpochCounter::new()),
            stop_flags: CachePadded::new(AtomicU8::new(if devices > 0 { 0 } else { NO_DEVICE })),
            gate: CachePadded::new(LightGate::new(devices)),
            proxies: Proxies::new(),
            refused_tasks: AtomicU64::new(0),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stop_flags.load(Ordering::SeqCst) & STOPPING != 0
    }

    /// Returns the queue of a new worker.
    pub fn add_worker(&self, device: usize, slot: u32) -> LocalQueue {
        let queue = self.queues.add_worker(device, slot);
        self.epochs.source_added();
        queue
    }

    /// Returns the counters of the calling thread.
    pub fn epoch_counts<'a>(&'a self, queue: Option<&'a LocalQueue>) -> &'a EpochCounts {
        match queue {
            Some(queue) => &queue.shared.stats.epochs,
            None => &self.queues.callers.epochs,
        }
    }

    pub fn count_end(&self, queue: Option<&LocalQueue>, outcome: &Result<()>) {
        match queue {
            Some(queue) => queue.shared.stats.ends.add(outcome),
            None => self.queues.callers.ends.add(outcome),
        }
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

    /// Requests that all running tasks stop.
    pub fn cancel_running(&self) {
        self.slab.for_each(LightTask::stop);
        self.queues.for_each_worker(|worker| worker.stats.signal.cancel());
    }

    /// Returns the number of accepted tasks, and how many of them are done, failed and cancelled.
    pub fn totals(&self) -> (u64, [u64; 3]) {
        let mut ends = [0_u64; 3];
        let mut add = |one: &queues::EndCounts| {
            let counts = [&one.done, &one.failed, &one.cancelled];
            for (sum, count) in ends.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        };
        add(&self.queues.callers.ends);
        self.queues.for_each_worker(|worker| add(&worker.stats.ends));
        let mut begun = 0_u64;
        self.queues.for_each(&mut |count| begun += count.begun());
        (begun.saturating_sub(self.refused_tasks.load(Ordering::Relaxed)), ends)
    }

    /// Returns true if all tasks have ended and the last ends are about to be counted in their epoch.
    pub fn is_ending(&self) -> bool {
        let (begun, ends) = self.totals();
        // A count may be negative where the planner counts an end instead.
        begun == ends.into_iter().fold(0, u64::wrapping_add)
            && self.proxies.made() == 0
            && !self.queues.is_drained()
    }

    /// Takes back submits that were refused.
    pub fn count_refused(&self, tasks: u64) {
        self.refused_tasks.fetch_add(tasks, Ordering::Relaxed);
    }
}
