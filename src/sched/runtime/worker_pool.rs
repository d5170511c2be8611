//! The worker threads: how many there are, on which slots, and how one is woken or started.
//!
//! Each slot of each device has a place for one worker, and for one more while a task waits inside
//! its code there. A worker that finds no place between two tasks ends. A thread is started when
//! there is work for it and no sleeping worker can do it.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::thread;
use crate::sched::base::{DeviceMask, Policy, lock};
use crate::sched::estimate::AUTO_SLOTS;
use crate::sched::sleep::EventCount;

/// Default bytes of stack for each task: what the main thread of a program usually has.
pub const DEFAULT_STACK: u64 = 8 << 20;

/// Accepted bytes of stack for each task. Less than 1 MiB would save nothing beside [`NESTING`],
/// and shots and the GPU driver's compiler run on this stack, too. 64 GiB for each of 64 slots take
/// 4 of the 128 TiB of addresses that a process has on x86-64, so a larger value is a mistake.
pub const STACKS: RangeInclusive<u64> = 1 << 20..=64 << 30;

/// Bytes that the tasks below a nested task may use. A worker's stack is this much larger than the
/// stack of a task, so a nested task has as much as any other. A waiting task that has used more is
/// not nested on: it leaves its slot to another worker. A level of nesting takes 3.8 KiB beside the
/// caller's frames (measured in a test build on x86-64), so 4 MiB hold about 1000 levels.
/// Only pages that are touched take memory: 32 workers reserve 32 * 12 MiB = 384 MiB of addresses.
pub const NESTING: usize = 4 << 20;

/// Bytes for the library's own frames between a wait and the nested task's code.
const OWN_FRAMES: usize = 64 << 10;

#[derive(Default)]
pub struct WorkerPool {
    pub event_count: EventCount,
    /// Bytes of stack for each task.
    stack: usize,
    /// Sorted by slot, then by device, so that the first workers are on different devices.
    pub worker_slots: Vec<WorkerSlot>,
    /// By device.
    slots: Vec<AtomicU32>,
    /// Bit i: the planner may have a task for device i.
    pub planned_hint: AtomicU64,
    /// Bit i: no worker starts on device i.
    pub retired: AtomicU64,
    /// Workers that have a place, by device.
    occupied: Vec<AtomicUsize>,
    /// The last thread could not be started.
    spawn_failed: AtomicBool,
    /// Threads of workers that have not ended, nor been abandoned.
    alive: Mutex<usize>,
    gone: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Abandoned threads: their jobs do not return.
    pub abandoned: AtomicUsize,
}

pub struct WorkerSlot {
    pub device: usize,
    pub slot: u32,
    /// Free places; negative: a worker has to end.
    room: AtomicI32,
}

impl WorkerPool {
    /// `slots`: of each device, or [`AUTO_SLOTS`].
    pub fn new(devices: usize, slots: u32, stack: usize, policy: &Policy) -> Self {
        let (begin, most) = if slots == AUTO_SLOTS { (1, policy.most_slots) } else { (slots, slots) };
        let worker_slots = (0..most).flat_map(|slot| {
            (0..devices).map(move |device| WorkerSlot { device, slot, room: AtomicI32::new(1) })
        });
        WorkerPool {
            stack,
            worker_slots: worker_slots.collect(),
            slots: (0..devices).map(|_| begin.into()).collect(),
            occupied: (0..devices).map(|_| AtomicUsize::new(0)).collect(),
            ..WorkerPool::default()
        }
    }

    pub fn slots(&self, device: usize) -> u32 {
        self.slots[device].load(Ordering::SeqCst)
    }

    pub fn set_slots(&self, device: usize, slots: u32) {
        if self.slots(device) != slots {
            self.slots[device].store(slots, Ordering::SeqCst);
        }
    }

    /// Returns true if another worker may start on a device that is not in `closed`.
    pub fn may_start(&self, closed: u64) -> bool {
        self.worker_slots.iter().any(|slot| closed >> slot.device & 1 == 0 && self.has_room(slot))
    }

    /// Returns whether another worker may start there.
    fn has_room(&self, slot: &WorkerSlot) -> bool {
        slot.room.load(Ordering::SeqCst) > 0
            && slot.slot < self.slots(slot.device)
            && self.retired.load(Ordering::SeqCst) >> slot.device & 1 == 0
    }

    /// Claims a place for a worker that the caller starts, on a device for which `device` returns
    /// true. Returns the index of the worker slot.
    pub fn claim(&self, device: impl Fn(usize) -> bool) -> Option<usize> {
        // A thread that finds the place taken has to find it counted, too.
        let _whole = lock(&self.alive);
        let take = |room: i32| (room > 0).then_some(room - 1);
        let found = (0..self.worker_slots.len()).find(|&number| {
            let slot = &self.worker_slots[number];
            device(slot.device)
                && self.has_room(slot)
                && slot.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
        });
        found.inspect(|&index| _ = self.occupied(index).fetch_add(1, Ordering::SeqCst))
    }

    /// Returns the count of the device of a place.
    fn occupied(&self, index: usize) -> &AtomicUsize {
        &self.occupied[self.worker_slots[index].device]
    }

    /// Returns true if any worker has a place.
    pub fn is_occupied(&self) -> bool {
        self.occupied.iter().any(|count| count.load(Ordering::SeqCst) > 0)
    }

    /// Returns the bytes of a worker's stack.
    pub fn stack_bytes(&self) -> usize {
        self.stack.saturating_add(NESTING + OWN_FRAMES)
    }

    /// Starts the thread of a worker.
    pub fn spawn(&self, name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        *lock(&self.alive) += 1;
        let started = self.start(name, Some(self.stack_bytes()), work);
        self.spawn_failed.store(started.is_err(), Ordering::SeqCst);
        started.inspect_err(|_| self.thread_ended())
    }

    /// Returns true if the last thread could not be started.
    pub fn lacks_threads(&self) -> bool {
        self.spawn_failed.load(Ordering::SeqCst)
    }

    pub fn has_worker(&self) -> bool {
        *lock(&self.alive) > 0
    }

    pub fn thread_ended(&self) {
        let mut alive = lock(&self.alive);
        *alive -= 1;
        if *alive == 0 {
            self.gone.notify_all();
        }
    }

    /// Abandons a thread: no thread waits for its end.
    pub fn abandon(&self) {
        self.abandoned.fetch_add(1, Ordering::SeqCst);
        self.thread_ended();
    }

    pub fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Waits until all workers have ended. Returns false on a timeout.
    pub fn wait_until_ended(&self, end: Option<Instant>) -> bool {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        let waited = self.gone.wait_timeout_while(lock(&self.alive), left, |alive| *alive > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }

    /// Starts a thread that is joined with all others. `stack`: its bytes; `None`: the default of
    /// the system.
    pub fn start(
        &self,
        name: String,
        stack: Option<usize>,
        code: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let mut threads = lock(&self.threads);
        threads.retain(|other| !other.is_finished());
        threads.push(thread::spawn(name, stack, code)?);
        Ok(())
    }

    /// Joins all threads but the caller and the abandoned ones. Workers have ended or are
    /// about to; a thread that saves rates may wait for the file system.
    pub fn join(&self) {
        let mut threads = std::mem::take(&mut *lock(&self.threads));
        threads.retain(|other| !thread::is_current_thread(other));
        while self.abandoned() > 0 {
            let running = threads.iter().filter(|thread| !thread.is_finished()).count();
            if running <= self.abandoned() {
                threads.retain(JoinHandle::is_finished);
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        threads.into_iter().for_each(thread::join);
    }

    /// Frees the caller's place and returns true if the slot has a worker too many.
    pub fn leave_if_surplus(&self, index: usize) -> bool {
        let surplus = |room: i32| (room < 0).then_some(room + 1);
        let room = &self.worker_slots[index].room;
        let go = room.load(Ordering::Relaxed) < 0
            && room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, surplus).is_ok();
        self.occupied(index).fetch_sub(usize::from(go), Ordering::SeqCst);
        go
    }

    /// Returns whether the slot has a worker too many.
    pub fn has_surplus(&self, index: usize) -> bool {
        self.worker_slots[index].room.load(Ordering::SeqCst) < 0
    }

    /// Returns the devices that have no worker, and none being started, because the system starts
    /// no thread. A worker that ends and wakes another is no such case.
    pub fn deserted(&self) -> DeviceMask {
        if !self.lacks_threads() {
            return DeviceMask::NONE;
        }
        let _whole = lock(&self.alive);
        let is_empty = |&device: &usize| self.occupied[device].load(Ordering::SeqCst) == 0;
        (0..self.occupied.len()).filter(|device| is_empty(device) && self.lacks_threads()).collect()
    }

    /// Frees the place of a worker that ends.
    pub fn vacate(&self, index: usize) {
        self.spawn_failed.store(false, Ordering::SeqCst);
        self.free_place(index);
    }

    /// Frees a place that was claimed.
    pub fn free_place(&self, index: usize) {
        self.worker_slots[index].room.fetch_add(1, Ordering::SeqCst);
        self.occupied(index).fetch_sub(1, Ordering::SeqCst);
    }

    /// Adds a place to a slot whose task waits inside its code.
    pub fn add_place(&self, index: usize) {
        self.worker_slots[index].room.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes the place when the task goes on.
    pub fn remove_place(&self, index: usize) {
        if self.worker_slots[index].room.fetch_sub(1, Ordering::SeqCst) <= 0 {
            // The worker too many may sleep.
            self.event_count.wake_slot(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// The thread may start a worker, so no task fails.
    #[test]
    fn pool_is_not_deserted_while_a_thread_claims_a_place() {
        let pool = WorkerPool::new(1, 1, 0, &Policy::default());
        pool.spawn_failed.store(true, Ordering::SeqCst);
        assert_eq!(pool.deserted(), DeviceMask(1));
        let (sender, claims) = channel();
        let slow = |_| {
            sender.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            true
        };
        std::thread::scope(|scope| {
            scope.spawn(|| pool.claim(slow));
            claims.recv().unwrap();
            assert_eq!(pool.deserted(), DeviceMask::NONE);
        });
    }
}
