//! Faults of devices under the elements of a range: [`FaultLog`] finds the elements that are the
//! cause. The planner's rules for tasks and devices (`plan/device_health.rs`) have the same limits,
//! but count attempts at one task, where this counts overlaps of chunks.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::DeviceFault;
use crate::sched::base::{DeviceMask, TaskId};

/// A device that failed under a chunk.
pub struct ChunkFault {
    pub device: usize,
    /// Number of the device's context: two participants may report the same failure of a context.
    pub context: u32,
    pub fault: DeviceFault,
    /// The participant's own task.
    pub task: TaskId,
    pub chunk: Range<u64>,
}

#[derive(Default)]
pub struct FaultLog(Vec<ChunkFault>);

impl FaultLog {
    /// Adds a fault. Returns true if elements of its chunk are the cause: `limit` devices have
    /// failed in this way under some of them, or as many contexts if no other device is `usable`.
    pub fn add(&mut self, new: ChunkFault, limit: u32, usable: DeviceMask) -> bool {
        let ChunkFault { fault, chunk: Range { start, end }, .. } = new;
        self.0.push(new);
        let same =
            |other: &&ChunkFault| other.fault == fault && other.chunk.start < end && start < other.chunk.end;
        let contexts: BTreeSet<_> =
            self.0.iter().filter(same).map(|other| (other.device, other.context)).collect();
        let failed: DeviceMask = contexts.iter().map(|&(device, _)| device).collect();
        let is_left = usable.without(failed) != DeviceMask::NONE;
        failed.0.count_ones() >= limit || contexts.len() >= limit as usize && !is_left
    }

    /// Returns the tasks under which devices have failed.
    pub fn tasks(&self) -> Vec<TaskId> {
        self.0.iter().map(|fault| fault.task).collect()
    }
}
