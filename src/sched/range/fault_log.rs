//! Chunks under which devices failed: from them follows whether the elements are to blame.

use std::ops::Range;

use crate::error::DeviceFault;
use crate::sched::base::{DeviceMask, Policy};

#[derive(Default)]
pub struct FaultLog(Vec<(usize, Range<u64>)>);

impl FaultLog {
    /// Records a fault of a device. Returns true if the elements of the chunk are to blame: as many
    /// devices have failed under some of them as the planner allows a task.
    pub fn record(&mut self, policy: &Policy, device: usize, chunk: &Range<u64>, fault: DeviceFault) -> bool {
        self.0.push((device, chunk.clone()));
        let mut failed = DeviceMask::NONE;
        for (device, other) in &self.0 {
            if other.start < chunk.end && chunk.start < other.end {
                failed.add(*device);
            }
        }
        failed.0.count_ones() >= policy.fault_limit(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_to_blame_when_several_devices_failed_under_them() {
        use DeviceFault::{Lost, Poisoned};
        let mut log = FaultLog::default();
        let mut record = |device, chunk, fault| log.record(&Policy::default(), device, chunk, fault);
        assert!(!record(0, &(0..10), Poisoned));
        assert!(!record(0, &(0..10), Poisoned), "the same device");
        assert!(!record(1, &(10..20), Poisoned), "other elements");
        assert!(!record(1, &(9..12), Lost), "two devices");
        assert!(record(1, &(9..10), Poisoned));
        assert!(record(2, &(9..10), Lost));
    }
}
