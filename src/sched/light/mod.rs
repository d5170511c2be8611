//! Structures of light tasks: many, small, and run by whichever worker is free.
//!
//! | file | contents |
//! |---|---|
//! | `job.rs` | the code of a light task |
//! | `lifecycle.rs`, `task.rs` | a task with an id: its states and transitions |
//! | `slab.rs` | the table of those, and their ids |
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

/// Why nothing is accepted: bits of [`LightTasks::gate`].
pub const CLOSED: u8 = 1;
pub const STOPPING: u8 = 2;
pub const NO_DEVICE: u8 = 4;

pub struct LightTasks {
    pub slab: LightSlab,
    pub queues: LightQueues,
    // Every submit reads these two: nothing that changes lies beside them.
    pub epochs: CachePadded<EpochCounter>,
    /// Who submits counts its task first and looks here then; who changes it looks at the counts after.
    pub stop_flags: CachePadded<AtomicU8>,
    pub gate: CachePadded<LightGate>,
    pub proxies: Proxies,
    /// Tasks that were counted as begun, and then refused.
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

    /// A worker comes.
    pub fn add_worker(&self, device: usize, slot: u32) -> LocalQueue {
        let queue = self.queues.add_worker(device, slot);
        self.epochs.source_added();
        queue
    }

    /// Where the calling thread counts.
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

    /// Counts tasks that are being submitted; the gate's bits if none are accepted.
    pub fn count_submitted(
        &self,
        queue: Option<&LocalQueue>,
        tasks: u64,
    ) -> std::result::Result<Epoch, (Epoch, u8)> {
        let phase = self.epochs.begin(self.epoch_counts(queue), tasks);
        match self.stop_flags.load(Ordering::SeqCst) {
            0 => Ok(phase),
            gate => Err((phase, gate)),
        }
    }

    /// Asks all that runs to stop.
    pub fn cancel_running(&self) {
        self.slab.for_each(LightTask::stop);
        self.queues.for_each_worker(|worker| worker.stats.signal.cancel());
    }

    /// Tasks begun, less the refused ones, and how many have ended: done, failed, cancelled.
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

    /// Everything has ended, and the last are about to be counted as such.
    pub fn is_ending(&self) -> bool {
        let (begun, ends) = self.totals();
        // One of them may be below nothing, where the plan counts an end instead.
        begun == ends.into_iter().fold(0, u64::wrapping_add)
            && self.proxies.made() == 0
            && !self.queues.is_drained()
    }

    /// Those were not submitted after all.
    pub fn count_refused(&self, tasks: u64) {
        self.refused_tasks.fetch_add(tasks, Ordering::Relaxed);
    }
}
