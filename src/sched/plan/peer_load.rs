//! Other processes of the node: how long they hold slots of each device, and what this scheduler requests of them.

use std::time::Duration;

use super::planner::Planner;
use super::record::{PeerLoad, TaskRecord};
use crate::sched::base::Role;

/// A request for a device that other processes hold.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceRequest {
    pub priority: i32,
    /// By device: cost of the task there, in the unit of [`Planner::cost`], and its bytes. `None`: not there.
    pub costs: Vec<Option<f64>>,
    pub bytes: Vec<u64>,
}

impl Planner {
    pub fn set_others(&mut self, now: Duration, index: usize, seconds: &[f64], pending_bytes: u64) {
        let end = |&seconds: &f64| {
            let left = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
            now.saturating_add(left)
        };
        self.devices[index].peer_load = PeerLoad { ends: seconds.iter().map(end).collect(), pending_bytes };
    }

    /// Returns how long a task takes on a device, in the unit of the devices' priors, which all processes of a
    /// node share. `None`: unknown.
    pub fn cost(&self, record: &TaskRecord, index: usize) -> Option<f64> {
        if record.role != Role::Task {
            return None;
        }
        self.estimator.cost(record.class, index, record.work)
    }

    /// Returns the request of the first ready task that other processes keep from a device.
    pub fn desire(&self) -> Option<ResourceRequest> {
        let taken = |index: usize| self.devices[index].has_others();
        if !(0..self.devices.len()).any(taken) {
            return None;
        }
        let kept = self.ready.iter().take(self.policy.horizon).find_map(|(_, id)| {
            let record = self.tasks.get(id).ok()?;
            let may = self.eligible(record);
            (0..self.devices.len()).any(|index| may.contains(index) && taken(index)).then_some((record, may))
        });
        let (record, may) = kept?;
        let cost = |index: usize| {
            let here = may.contains(index) && self.shares(index);
            here.then(|| self.cost(record, index).unwrap_or(1.0))
        };
        let bytes = |index: usize| record.bytes.on(self.devices[index].info.backend);
        Some(ResourceRequest {
            priority: record.rank.priority(),
            costs: (0..self.devices.len()).map(cost).collect(),
            bytes: (0..self.devices.len()).map(bytes).collect(),
        })
    }
}
