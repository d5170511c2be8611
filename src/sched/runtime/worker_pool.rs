//! The worker threads: how many there are, where they sit, and how one is called.
//!
//! Each slot of each device has a seat for one worker; a task that waits inside its code leaves room for one
//! more. A worker that finds no room on its seat between two tasks goes. Threads are started when
//! there is work for them and nobody sleeps who could do it.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::thread;
use crate::sched::base::sync::lock;
use crate::sched::estimate::concurrency_tuner::{AUTO_SLOTS, MOST};
use crate::sched::sleep::event_count::{EventCount, WakeResult};

/// Default bytes of stack for each task: what the main thread of a program usually has.
pub const DEFAULT_STACK: u64 = 8 << 20;

/// Accepted bytes of stack for each task. Less than 1 MiB would save nothing beside [`NESTING`], and
/// shots and the GPU driver's compiler run on this stack, too. 64 GiB for each of 64 slots take 4 of
/// the 128 TiB of addresses that a process has on x86-64, so a larger value is a mistake.
pub const STACKS: RangeInclusive<u64> = 1 << 20..=64 << 30;

/// Bytes that the tasks below a nested task may use. A worker's stack is this much larger than the
/// stack of a task, so a nested task has as much as any other. A waiting task that has used more is
/// not nested on: it leaves its slot to another worker. A level of nesting takes 3.8 KiB beside the
/// caller's frames (measured in a test build on x86-64), so 4 MiB hold about 1000 levels.
/// Only pages that are touched take memory: 32 workers reserve 32 * 12 MiB = 384 MiB of addresses.
pub const NESTING: usize = 4 << 20;

/// Bytes for the library's own frames between a wait and the nested task's code.
const OWN_FRAMES: usize = 64 << 10;

/// How long somebody who would start a worker waits for one that is there.
const BEFORE_START: Duration = Duration::from_micros(50);

pub struct WorkerPool {
    pub event_count: EventCount,
    /// Bytes of stack for each task.
    stack: usize,
    /// Slot by slot, each for all devices: so the first workers are on different devices.
    worker_slots: Vec<WorkerSlot>,
    /// By device: how many it has now.
    slots: Vec<AtomicU32>,
    /// Bit i: the plan may have something for device i.
    pub planned_hint: AtomicU64,
    /// Bit i: nobody sits down at device i any more.
    pub retired: AtomicU64,
    /// Seats taken.
    occupied: AtomicUsize,
    /// The system gave no thread the last time.
    spawn_failed: AtomicBool,
    /// Workers that are not gone.
    alive: Mutex<usize>,
    gone: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads in code that does not return.
    abandoned: AtomicUsize,
    /// Threads that wait inside tasks.
    pub blocked_in_tasks: AtomicUsize,
}

pub struct WorkerSlot {
    pub device: usize,
    pub slot: u32,
    /// Workers that it still has room for; less than none: one has to go.
    room: AtomicI32,
}

impl WorkerPool {
    pub fn new(slots: &[u32], stack: usize) -> Self {
        let limit = |slots: u32| if slots == AUTO_SLOTS { MOST } else { slots };
        let most = slots.iter().map(|&slots| limit(slots)).max().unwrap_or(0);
        let worker_slots = (0..most).flat_map(|slot| {
            let has = slots.iter().enumerate().filter(move |&(_, &slots)| slot < limit(slots));
            has.map(move |(device, _)| WorkerSlot { device, slot, room: AtomicI32::new(1) })
        });
        WorkerPool {
            event_count: EventCount::new(),
            stack,
            worker_slots: worker_slots.collect(),
            slots: slots
                .iter()
                .map(|&slots| AtomicU32::new(if slots == AUTO_SLOTS { 1 } else { slots }))
                .collect(),
            planned_hint: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            occupied: AtomicUsize::new(0),
            spawn_failed: AtomicBool::new(false),
            alive: Mutex::new(0),
            gone: Condvar::new(),
            threads: Mutex::default(),
            abandoned: AtomicUsize::new(0),
            blocked_in_tasks: AtomicUsize::new(0),
        }
    }

    pub fn worker_slot(&self, number: usize) -> &WorkerSlot {
        &self.worker_slots[number]
    }

    pub fn slots(&self, device: usize) -> u32 {
        self.slots[device].load(Ordering::SeqCst)
    }

    /// The number of a device's slots has been changed.
    pub fn set_slots(&self, device: usize, slots: u32) {
        self.slots[device].store(slots, Ordering::SeqCst);
    }

    /// Wakes or starts a worker for work that any can do, but for those of the devices in `closed`, if that is
    /// not being done already. `start` is given the number of a seat; `taken` tells whether somebody has come for the work meanwhile.
    pub fn wake_any(&self, closed: u64, start: impl Fn(usize) -> bool, taken: impl Fn() -> bool) {
        let open = |device: usize| closed >> device & 1 == 0;
        while self.event_count.wake_any(closed) == WakeResult::NobodySleeps {
            if !self.worker_slots.iter().any(|seat| open(seat.device) && self.has_room(seat)) {
                return;
            }
            // A worker that is about to end something is there sooner than a new one would be.
            let begin = Instant::now();
            while self.occupied.load(Ordering::SeqCst) > 0 && begin.elapsed() < BEFORE_START {
                if taken() || self.event_count.searching() > 0 || self.event_count.has_sleeper(closed) {
                    break;
                }
                std::thread::yield_now();
            }
            if taken() || self.event_count.searching() > 0 {
                return;
            }
            if self.event_count.has_sleeper(closed) {
                continue;
            }
            let Some(seat) = self.claim(open) else { return };
            if !self.event_count.add_searcher(true) {
                self.free_place(seat);
            } else if !start(seat) {
                self.cancel_start(seat, closed);
            }
            return;
        }
    }

    /// The same for work that only one device can do; `closed` are those that no light task may begin on.
    pub fn wake_device(&self, device: usize, closed: u64, start: impl Fn(usize) -> bool) -> bool {
        if self.event_count.wake_device(device) {
            return true;
        }
        let Some(seat) = self.claim(|other| other == device) else { return false };
        self.event_count.add_searcher(false);
        let started = start(seat);
        if !started {
            self.cancel_start(seat, closed);
        }
        started
    }

    /// Whether another worker may sit down there.
    fn has_room(&self, seat: &WorkerSlot) -> bool {
        seat.room.load(Ordering::SeqCst) > 0
            && seat.slot < self.slots(seat.device)
            && self.retired.load(Ordering::SeqCst) >> seat.device & 1 == 0
    }

    fn claim(&self, device: impl Fn(usize) -> bool) -> Option<usize> {
        let sit = |room: i32| (room > 0).then_some(room - 1);
        let found = (0..self.worker_slots.len()).find(|&number| {
            let seat = &self.worker_slots[number];
            device(seat.device)
                && self.has_room(seat)
                && seat.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, sit).is_ok()
        });
        self.occupied.fetch_add(usize::from(found.is_some()), Ordering::SeqCst);
        found
    }

    fn cancel_start(&self, seat: usize, closed: u64) {
        self.free_place(seat);
        self.event_count.cancel_searcher(closed);
    }

    /// Starts a thread. Why there is none is told once, until there is one again.
    pub fn spawn(
        &self,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Option<std::io::Error>> {
        *lock(&self.alive) += 1;
        let stack = self.stack.saturating_add(NESTING + OWN_FRAMES);
        match thread::spawn(name, Some(stack), work) {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                self.spawn_failed.store(false, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                let told = self.spawn_failed.swap(true, Ordering::SeqCst);
                self.thread_ended();
                Err((!told).then_some(error))
            }
        }
    }

    /// Whether there is a worker.
    pub fn has_worker(&self) -> bool {
        *lock(&self.alive) > 0
    }

    /// A thread's last act.
    pub fn thread_ended(&self) {
        let mut alive = lock(&self.alive);
        *alive -= 1;
        if *alive == 0 {
            self.gone.notify_all();
        }
    }

    /// So many threads are in code that does not return: nobody waits for them any more.
    pub fn abandon(&self, threads: usize) {
        self.abandoned.fetch_add(threads, Ordering::SeqCst);
        (0..threads).for_each(|_| self.thread_ended());
    }

    /// How many such threads there are.
    pub fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// One of them has returned after all, and is about to end.
    pub fn abandoned_returned(&self) {
        self.abandoned.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until no worker is left. False: the time is up.
    pub fn wait_until_ended(&self, end: Option<Instant>) -> bool {
        let mut alive = lock(&self.alive);
        while *alive > 0 {
            alive = match end {
                None => self.gone.wait(alive).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.gone.wait_timeout(alive, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }

    /// Another thread, to be joined with the workers.
    pub fn add_thread(&self, thread: JoinHandle<()>) {
        lock(&self.threads).push(thread);
    }

    /// Joins all threads, each of which is past its last act or about to be; but not those that were given up, nor the
    /// caller, which is left to end.
    pub fn join(&self) {
        let mut threads = std::mem::take(&mut *lock(&self.threads));
        threads.retain(|other| !thread::is_this(other));
        while !threads.is_empty() {
            if self.abandoned() > 0 {
                let running = threads.iter().filter(|thread| !thread.is_finished()).count();
                if running > self.abandoned() {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                threads.retain(JoinHandle::is_finished);
            }
            if let Some(thread) = threads.pop() {
                let _ = thread.join();
            }
        }
    }

    /// Whether one worker of this seat has to go, and it is the caller, who has then left his seat.
    pub fn leave_if_surplus(&self, seat: usize) -> bool {
        let surplus = |room: i32| (room < 0).then_some(room + 1);
        let room = &self.worker_slots[seat].room;
        let go = room.load(Ordering::Relaxed) < 0
            && room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, surplus).is_ok();
        self.occupied.fetch_sub(usize::from(go), Ordering::SeqCst);
        go
    }

    /// Whether one worker of this seat has to go.
    pub fn has_surplus(&self, seat: usize) -> bool {
        self.worker_slots[seat].room.load(Ordering::SeqCst) < 0
    }

    /// Whether there is nobody, nor anybody on the way, because the system gives no thread. One that goes, and
    /// will see to it that another comes, is no such case.
    pub fn is_deserted(&self) -> bool {
        self.occupied.load(Ordering::SeqCst) == 0 && self.spawn_failed.load(Ordering::SeqCst)
    }

    /// A worker goes for another reason.
    pub fn vacate(&self, seat: usize) {
        self.spawn_failed.store(false, Ordering::SeqCst);
        self.free_place(seat);
    }

    fn free_place(&self, seat: usize) {
        self.worker_slots[seat].room.fetch_add(1, Ordering::SeqCst);
        self.occupied.fetch_sub(1, Ordering::SeqCst);
    }

    /// A task waits inside its code: its seat has room for one more. False: too many do.
    pub fn make_room(&self, seat: usize, most: usize) -> bool {
        if self
            .blocked_in_tasks
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < most).then_some(n + 1))
            .is_err()
        {
            return false;
        }
        self.worker_slots[seat].room.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// It goes on.
    pub fn close_room(&self, seat: usize) {
        self.blocked_in_tasks.fetch_sub(1, Ordering::SeqCst);
        if self.worker_slots[seat].room.fetch_sub(1, Ordering::SeqCst) <= 0 {
            // Perhaps the one too many sleeps.
            self.event_count.wake_slot(seat);
        }
    }
}
