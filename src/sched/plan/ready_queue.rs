//! The ready queue: tasks that may begin, ordered by rank.
//!
//! The queue has a line for each set of devices that a task may ever use. So the search for a
//! device's next task skips the tasks of other devices, and stops at once when no task could fit.

use std::collections::{BTreeMap, btree_map};

use super::{Rank, TaskRecord};
use crate::device::BackendKind;
use crate::sched::base::{DeviceMask, TaskId};

#[derive(Default)]
pub struct ReadyQueue {
    /// Sorted by the devices that are large enough. A line that becomes empty is removed, except
    /// the last.
    lines: Vec<(DeviceMask, MaskQueue)>,
}

#[derive(Default)]
struct MaskQueue {
    tasks: BTreeMap<Rank, TaskId>,
    /// Counts of tasks by their bytes on the CPU device, and on any other.
    of_host: Sizes,
    of_gpu: Sizes,
}

impl ReadyQueue {
    pub fn insert(&mut self, record: &TaskRecord, id: TaskId) {
        let mask = record.large_enough_devices;
        let position = self.position(mask).unwrap_or_else(|position| {
            self.lines.insert(position, (mask, MaskQueue::default()));
            position
        });
        let line = &mut self.lines[position].1;
        if line.tasks.insert(record.rank, id).is_none() {
            line.of_host.add(record.bytes.on(BackendKind::Cpu));
            line.of_gpu.add(record.bytes.device);
        }
    }

    pub fn remove(&mut self, record: &TaskRecord) {
        let Ok(position) = self.position(record.large_enough_devices) else { return };
        let line = &mut self.lines[position].1;
        if line.tasks.remove(&record.rank).is_some() {
            line.of_host.take(record.bytes.on(BackendKind::Cpu));
            line.of_gpu.take(record.bytes.device);
        }
        if line.tasks.is_empty() && self.lines.len() > 1 {
            self.lines.remove(position);
        }
    }

    /// Returns true if the task is in the queue under its rank.
    pub fn contains(&self, record: &TaskRecord, id: TaskId) -> bool {
        let position = self.position(record.large_enough_devices);
        position.is_ok_and(|position| self.lines[position].1.tasks.get(&record.rank) == Some(&id))
    }

    /// Returns the position of the line of a mask, or else where it belongs.
    fn position(&self, mask: DeviceMask) -> Result<usize, usize> {
        self.lines.binary_search_by_key(&mask, |&(mask, _)| mask)
    }

    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|(_, line)| line.tasks.is_empty())
    }

    pub fn len(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.tasks.len()).sum()
    }

    pub fn first(&self) -> Option<(Rank, TaskId)> {
        self.lines.iter().filter_map(|(_, line)| line.tasks.first_key_value()).min().map(own)
    }

    pub fn last(&self) -> Option<(Rank, TaskId)> {
        self.lines.iter().filter_map(|(_, line)| line.tasks.last_key_value()).max().map(own)
    }

    /// Returns all tasks in order.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, TaskId)> {
        self.some(|_| usize::MAX)
    }

    /// Returns the tasks that may use no devices but these.
    pub fn confined_to(&self, devices: DeviceMask) -> Vec<TaskId> {
        let lines = self.lines.iter().filter(|(reach, _)| reach.without(devices) == DeviceMask::NONE);
        lines.flat_map(|(_, line)| line.tasks.values().copied()).collect()
    }

    /// Returns the tasks that may use a device and the first few of each other line, in order.
    pub fn around(&self, device: usize, few: usize) -> impl Iterator<Item = (Rank, TaskId)> {
        self.some(move |reach| if reach.contains(device) { usize::MAX } else { few })
    }

    /// Merges the first tasks of each line, as many as `most` says, into one order. Lines are few.
    /// With one line, allocates nothing.
    fn some(&self, most: impl Fn(DeviceMask) -> usize) -> impl Iterator<Item = (Rank, TaskId)> {
        let lines = self.lines.iter().map(|(reach, line)| line.tasks.iter().take(most(*reach)));
        let mut lines = lines.filter_map(|mut line| Some((line.next()?, line)));
        // Of each line its next task, and the rest.
        let (mut current, mut others) = (lines.next(), lines.collect::<Vec<_>>());
        std::iter::from_fn(move || {
            let line = current.as_mut()?;
            if let Some(least) = others.iter_mut().min_by_key(|(first, _)| *first)
                && least.0 < line.0
            {
                std::mem::swap(line, least);
            }
            let item = own(line.0);
            match line.1.next() {
                Some(next) => line.0 = next,
                None => current = others.pop(),
            }
            Some(item)
        })
    }

    /// Returns the fewest bytes of the tasks that may use a device. `None`: there are none.
    pub fn least(&self, device: usize, kind: BackendKind) -> Option<u64> {
        let lines = self.lines.iter().filter(|(reach, _)| reach.contains(device));
        let host = kind == BackendKind::Cpu;
        lines.filter_map(|(_, line)| if host { &line.of_host } else { &line.of_gpu }.least()).min()
    }
}

fn own((&rank, &id): (&Rank, &TaskId)) -> (Rank, TaskId) {
    (rank, id)
}

/// A multiset of sizes.
#[derive(Default)]
struct Sizes(BTreeMap<u64, usize>);

impl Sizes {
    fn add(&mut self, size: u64) {
        *self.0.entry(size).or_default() += 1;
    }

    fn take(&mut self, size: u64) {
        if let btree_map::Entry::Occupied(mut count) = self.0.entry(size) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn least(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::base::Task;
    use crate::sched::plan::tests::{driver, task};

    fn ids(tasks: impl Iterator<Item = (Rank, TaskId)>) -> Vec<TaskId> {
        tasks.map(|(_, id)| id).collect()
    }

    #[test]
    fn lines_are_read_in_one_order_and_counted_by_size() {
        let mut driver = driver(2);
        let only = |device, work, device_bytes| Task {
            devices: DeviceMask::only(device),
            work: Some(work),
            device_bytes,
            host_bytes: 5,
            ..task()
        };
        let any = Task { work: Some(4.0), ..task() };
        let tasks = [only(0, 5.0, 70), any, only(1, 3.0, 50), only(0, 2.0, 30), only(0, 1.0, 0)];
        let [a, b, c, d, e] = tasks.map(|task| driver.submit(0, task));
        let ready = &mut driver.planner.ready;
        assert_eq!(ids(ready.iter()), [a, b, c, d, e]);
        assert_eq!((ids(ready.around(0, 0)), ids(ready.around(1, 0))), (vec![a, b, d, e], vec![b, c]));
        assert_eq!(ids(ready.around(1, 1)), [a, b, c]);
        assert_eq!(ready.confined_to(DeviceMask::only(0)), [a, d, e]);
        assert_eq!(ready.confined_to(DeviceMask::only(2)), []);
        assert_eq!((ready.first().map(|(_, id)| id), ready.last().map(|(_, id)| id)), (Some(a), Some(e)));
        let kinds = [BackendKind::Cuda, BackendKind::Cpu];
        assert_eq!(kinds.map(|kind| ready.least(0, kind)), [Some(0); 2]);
        for (id, left, bytes) in [(b, 4, [0, 5]), (e, 3, [30, 35]), (d, 2, [70, 75])] {
            ready.remove(driver.planner.tasks.get(id).unwrap());
            assert_eq!((ready.len(), kinds.map(|kind| ready.least(0, kind))), (left, bytes.map(Some)));
        }
        assert_eq!(ids(ready.around(0, 0)), [a]);
        ready.remove(driver.planner.tasks.get(c).unwrap());
        assert_eq!((ready.least(1, BackendKind::Cuda), ready.is_empty()), (None, false));
    }
}
