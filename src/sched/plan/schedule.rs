//! The schedule: when each slot should be free, and on which device a task should end first.

use std::time::Duration;

use super::planner::Planner;
use super::record::TaskRecord;
use crate::sched::base::device_mask::DeviceMask;

/// The place of a task in the schedule.
pub struct PlacedTask {
    pub device: usize,
    pub lane: usize,
    pub end: f64,
    /// Busy slots of the device.
    pub load: usize,
    pub begins_now: bool,
}

/// When each slot of each device should be free, in seconds from now.
pub struct Schedule {
    lanes: Vec<Vec<f64>>,
    /// Free memory of each device by time: now, and after each running attempt.
    free: Vec<Vec<(f64, u64)>>,
}

impl Schedule {
    /// Lays out what runs. `roomy`: as if no device lacked memory.
    pub fn new(planner: &Planner, now: Duration, roomy: bool) -> Self {
        let lanes = planner.devices.iter().enumerate().map(|(index, device)| {
            // A task that waits inside its code in a poisoned context may wait for one that would be kept for this device.
            if device.retired.is_some() || device.poisoned && device.waiting_slots > 0 {
                return Vec::new();
            }
            let mut lanes: Vec<f64> =
                device.attempts.iter().map(|run| planner.seconds_until_free(now, index, run)).collect();
            lanes.extend(device.peer_load.ends.iter().map(|end| end.saturating_sub(now).as_secs_f64()));
            let held = device.reserved_for.is_some() && device.waiting_slots == 0;
            let closed = device.poisoned || held || device.runs_exclusive();
            let open = if closed { lanes.iter().copied().fold(0.0, f64::max) } else { 0.0 };
            let open = device
                .backoff
                .filter(|backoff| backoff.least_bytes == 0)
                .map_or(open, |backoff| open.max(backoff.until.saturating_sub(now).as_secs_f64()));
            lanes.resize(lanes.len().max(device.capacity(now)), 0.0);
            // Nothing begins before all running attempts have ended.
            lanes.iter_mut().for_each(|lane| *lane = lane.max(open));
            // With more attempts than may run at a time, the first to end make no room.
            lanes.sort_by(f64::total_cmp);
            lanes.drain(..lanes.len() - device.capacity(now));
            lanes
        });
        let free = planner.devices.iter().enumerate().map(|(index, device)| {
            if roomy {
                return vec![(0.0, u64::MAX)];
            }
            let mut bytes = device.ledger.limit() - device.ledger.leased();
            let mut runs: Vec<(f64, u64)> = device
                .attempts
                .iter()
                .map(|run| (planner.seconds_until_free(now, index, run), run.lease.bytes()))
                .collect();
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            // Beside running attempts, memory of other processes counts as used.
            let mut others = if runs.is_empty() { None } else { device.known_free_bytes(now) };
            let mut free = vec![(0.0, bytes.min(others.unwrap_or(u64::MAX)))];
            let last = runs.len();
            for (number, (end, more)) in (1..).zip(runs) {
                bytes += more;
                others = others.filter(|_| number < last).map(|free| free.saturating_add(more));
                free.push((end, bytes.min(others.unwrap_or(u64::MAX))));
            }
            // Until its back-off is over, the device has no memory for tasks of the size that it refused.
            if let Some(backoff) = device.backoff.filter(|backoff| now < backoff.until) {
                let end = (backoff.until - now).as_secs_f64();
                let later = free.partition_point(|&(from, _)| from <= end);
                let then = free[later - 1].1;
                for (_, bytes) in &mut free[..later] {
                    *bytes = (*bytes).min(backoff.least_bytes.saturating_sub(1));
                }
                free.insert(later, (end, then));
            }
            free
        });
        Schedule { lanes: lanes.collect(), free: free.collect() }
    }

    /// Returns when a device should have so much free memory, in seconds from now.
    pub fn has_memory(&self, device: usize, bytes: u64) -> Option<f64> {
        self.free[device].iter().find(|&&(_, free)| bytes <= free).map(|&(from, _)| from)
    }

    /// Returns where the task should end first, of the devices whose rate is known.
    pub fn place(&self, planner: &Planner, record: &TaskRecord, may: DeviceMask) -> Option<PlacedTask> {
        let mut best: Option<PlacedTask> = None;
        for (device, lanes) in self.lanes.iter().enumerate() {
            if !may.contains(device) {
                continue;
            }
            let Some(seconds) = planner.task_seconds(record, device) else { continue };
            let first = lanes.iter().copied().enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
            let Some((lane, free)) = first else { continue };
            let Some(memory) = self.has_memory(device, record.bytes.on(planner.devices[device].info.backend))
            else {
                continue;
            };
            let free = free.max(memory);
            let end = free + seconds;
            let load = lanes.iter().filter(|&&free| free > 0.0).count();
            if best.as_ref().is_none_or(|best| (end, load) < (best.end, best.load)) {
                best = Some(PlacedTask { device, lane, end, load, begins_now: free <= 0.0 });
            }
        }
        best
    }

    pub fn occupy(&mut self, place: &PlacedTask) {
        self.lanes[place.device][place.lane] = place.end;
    }
}
