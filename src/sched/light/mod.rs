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
pub mod job;
mod lifecycle;
pub mod nested;
pub mod queues;
pub mod slab;
pub mod task;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::Result;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;

use epochs::{Epoch, EpochCounter, EpochCounts, EpochSources};
use queues::{LightQueues, LocalQueue};
use slab::LightSlab;
use task::LightTask;

/// Why nothing is accepted: bits of [`LightTasks::gate`].
pub const CLOSED: u8 = 1;
pub const STOPPING: u8 = 2;
pub const NO_DEVICE: u8 = 4;

pub struct LightTasks {
    pub slots: LightSlab,
    pub queues: LightQueues,
    // Every submit reads these two: nothing that changes lies beside them.
    pub tally: CachePadded<EpochCounter>,
    /// Who submits counts its task first and looks here then; who changes it looks at the counts after.
    pub gate: CachePadded<AtomicU8>,
    /// Light tasks by the planned ones that stand for them, see `runtime/promotion.rs`.
    pub stand_ins: Mutex<HashMap<TaskId, TaskId>>,
    /// How many go on in the plan now.
    pub handing: AtomicUsize,
    /// Planned tasks that ever stood for light ones: the plan counts them.
    pub told_there: AtomicU64,
    /// Tasks that were counted as begun, and then refused.
    pub refused: AtomicU64,
}

impl LightTasks {
    pub fn new(has_device: bool) -> Self {
        LightTasks {
            slots: LightSlab::new(),
            queues: LightQueues::new(),
            tally: CachePadded::new(EpochCounter::new()),
            gate: CachePadded::new(AtomicU8::new(if has_device { 0 } else { NO_DEVICE })),
            stand_ins: Mutex::default(),
            handing: AtomicUsize::new(0),
            told_there: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.gate.load(Ordering::SeqCst) & STOPPING != 0
    }

    /// A worker comes.
    pub fn enter(&self, device: usize, slot: u32) -> LocalQueue {
        let hand = self.queues.enter(device, slot);
        self.tally.joined();
        hand
    }

    /// Where the calling thread counts.
    pub fn count<'a>(&'a self, hand: Option<&'a LocalQueue>) -> &'a EpochCounts {
        match hand {
            Some(hand) => &hand.station.books.count,
            None => &self.queues.outside.count,
        }
    }

    pub fn count_end(&self, hand: Option<&LocalQueue>, outcome: &Result<()>) {
        match hand {
            Some(hand) => hand.station.books.ends.add(outcome),
            None => self.queues.outside.ends.add(outcome),
        }
    }

    /// Counts tasks that are being submitted; the gate's bits if none are accepted.
    pub fn accept(&self, hand: Option<&LocalQueue>, tasks: u64) -> std::result::Result<Epoch, (Epoch, u8)> {
        let phase = self.tally.begin(self.count(hand), tasks);
        match self.gate.load(Ordering::SeqCst) {
            0 => Ok(phase),
            gate => Err((phase, gate)),
        }
    }

    /// Asks all that runs to stop.
    pub fn cancel_running(&self) {
        self.slots.each(LightTask::stop);
        self.queues.each_station(|station| station.books.signal.cancel());
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
        add(&self.queues.outside.ends);
        self.queues.each_station(|station| add(&station.books.ends));
        let mut begun = 0_u64;
        self.queues.each(&mut |count| begun += count.begun());
        (begun.saturating_sub(self.refused.load(Ordering::Relaxed)), ends)
    }

    /// Everything has ended, and the last are about to be counted as such.
    pub fn is_ending(&self) -> bool {
        let (begun, ends) = self.totals();
        // One of them may be below nothing, where the plan counts an end instead.
        begun == ends.into_iter().fold(0, u64::wrapping_add)
            && self.told_there.load(Ordering::SeqCst) == 0
            && !self.queues.is_drained()
    }

    /// Those were not submitted after all.
    pub fn refuse(&self, tasks: u64) {
        self.refused.fetch_add(tasks, Ordering::Relaxed);
    }

    /// The id by which the caller knows a planned task.
    pub fn known_as(&self, planned: TaskId) -> TaskId {
        if self.told_there.load(Ordering::Acquire) == 0 {
            return planned;
        }
        lock(&self.stand_ins).get(&planned).copied().unwrap_or(planned)
    }
}
