//! An event count: where workers without work sleep, and how they are woken.
//!
//! A worker is *busy* (it runs a task), *searching* (awake, and has found no work yet) or *asleep*.
//! A single word counts the searchers, the sleepers and all workers that are awake. They share it
//! because they change together: the thread that wakes a sleeper turns it into a searcher in the
//! same step, long before the sleeper runs.
//!
//! **Submit**: 1. publish the work; 2. fence; 3. read the word. If a worker searches, return.
//! Otherwise turn one sleeper into a searcher and wake it. So at most one worker is being woken at
//! a time, however fast work comes.
//!
//! **Find**: a searcher that finds work becomes busy. If it was the last searcher and more work is
//! left, it wakes the next worker. So all workers wake, one after the other, while work is left.
//!
//! **Move**: a worker that has moved items to its own queue has published them again, so it does as
//! a submitter. Before that they were in no queue, and the last searcher may have found none left.
//!
//! **Sleep**: 1. *prepare*: from searcher to sleeper in the word, and into the list of sleepers;
//! 2. fence; 3. *search again* wherever work may be; 4. if there is work, *cancel*: back to
//!    searcher; if not, *commit*: block until woken.
//!
//! **Why no wake-up is lost.** A fence stands between steps 1 and 3 of the submitter and between
//! steps 1 and 3 of the worker. So either the submitter reads a word in which this worker does not
//! search, and wakes it or another; or the worker's second search finds the work. A submitter that
//! wakes nobody leaves its work to the searcher it has read. That one finds the work, or finds
//! other work and wakes the next as the last searcher, or prepares to sleep and searches again. A
//! worker is counted before its thread starts; if the system refuses the thread, the count is taken
//! back and another worker is woken.
//!
//! **Work for one device** is a hint that the workers of the device read, set before
//! [`EventCount::wake_device`]. The same proof holds with the hint as the work; likewise for a
//! worker slot with one worker too many. **Shutdown and retirement** set a flag and then wake all;
//! workers read the flags where they search, so the proof holds for them, too.

use std::time::{Duration, Instant};

use super::Parker;
use crate::sched::base::{
    locked,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering, fence},
    },
};

const SLEEPER: u64 = 1;
const SEARCHER: u64 = 1 << 16;
const AWAKE: u64 = 1 << 32;
const FIELD: u64 = 0xffff;

/// Bits of a device mask.
const DEVICES: usize = u64::BITS as usize;

fn count(word: u64, of: u64) -> u64 {
    (word / of) & FIELD
}

#[derive(Default)]
pub struct EventCount {
    word: AtomicU64,
    sleepers: Mutex<Vec<Sleeper>>,
}

/// A worker's entry in the list of sleepers.
#[derive(Clone)]
pub struct Sleeper {
    worker_index: usize,
    device: usize,
    parker: Arc<Parker>,
}

impl Sleeper {
    pub fn new(worker_index: usize, device: usize) -> Self {
        Sleeper { worker_index, device, parker: Arc::default() }
    }

    fn wake(&self) {
        self.parker.notify(|_| {});
    }
}

impl EventCount {
    pub fn searching(&self) -> u64 {
        count(self.word.load(Ordering::SeqCst), SEARCHER)
    }

    pub fn asleep(&self) -> u64 {
        count(self.word.load(Ordering::SeqCst), SLEEPER)
    }

    pub fn awake(&self) -> u64 {
        count(self.word.load(Ordering::SeqCst), AWAKE)
    }

    /// Counts a worker that is about to be started as a searcher. Returns false, and counts
    /// nothing, if `alone` is set and a worker searches.
    pub fn add_searcher(&self, alone: bool) -> bool {
        let claim = |word: u64| (!alone || count(word, SEARCHER) == 0).then_some(word + SEARCHER + AWAKE);
        self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, claim).is_ok()
    }

    /// Takes a searcher out of the count that ends, or that was never started.
    pub fn remove_searcher(&self) {
        self.word.fetch_sub(SEARCHER + AWAKE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Turns a busy worker into a searcher.
    pub fn start_search(&self) {
        self.word.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// Turns a searcher into a busy worker. Returns true if it was the last searcher: then the
    /// caller wakes the next if more work is left.
    pub fn end_search(&self) -> bool {
        let before = self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        count(before, SEARCHER) == 1
    }

    /// Turns a searcher into a sleeper that does not block yet. The caller searches again, then
    /// calls [`EventCount::cancel_sleep`] or [`EventCount::sleep`].
    pub fn prepare_sleep(&self, sleeper: &Sleeper) {
        let mut sleepers = locked(&self.sleepers);
        sleepers.push(sleeper.clone());
        self.word.fetch_add(SLEEPER.wrapping_sub(SEARCHER + AWAKE), Ordering::SeqCst);
        drop(sleepers);
        fence(Ordering::SeqCst);
    }

    /// Turns a sleeper that does not block yet into a searcher.
    pub fn cancel_sleep(&self, sleeper: &Sleeper) {
        let mut sleepers = locked(&self.sleepers);
        match sleepers.iter().position(|other| Arc::ptr_eq(&other.parker, &sleeper.parker)) {
            Some(position) => {
                self.take_sleeper(&mut sleepers, position);
            }
            None => {
                // Another thread has taken it out of the list, and notifies it.
                drop(sleepers);
                sleeper.parker.wait(None);
            }
        }
    }

    /// Blocks until another thread has turned the sleeper into a searcher. Returns false if `limit`
    /// has passed first: the caller is still a sleeper.
    pub fn sleep(&self, sleeper: &Sleeper, limit: Option<Duration>) -> bool {
        sleeper.parker.wait(limit.map(|limit| Instant::now() + limit))
    }

    /// Wakes a worker for work that the caller has published, unless a worker searches. Passes over
    /// the workers of the devices in `closed`. Returns false if none searches and all others are
    /// busy.
    pub fn wake_any(&self, closed: u64) -> bool {
        fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::SeqCst);
        if count(word, SEARCHER) > 0 {
            return true;
        }
        if count(word, SLEEPER) == 0 {
            return false;
        }
        let sleepers = locked(&self.sleepers);
        if self.searching() > 0 {
            return true;
        }
        // The device with most sleepers is the least busy one.
        let mut by_device = [0_u32; DEVICES];
        sleepers.iter().for_each(|sleeper| by_device[sleeper.device] += 1);
        let open = |position: &usize| closed >> sleepers[*position].device & 1 == 0;
        let position = (0..sleepers.len())
            .filter(open)
            .max_by_key(|&position| (by_device[sleepers[position].device], position));
        self.wake(sleepers, position)
    }

    /// Wakes a worker of a device for work that the caller has published for that device. Returns
    /// false if none of them sleeps.
    pub fn wake_device(&self, device: usize) -> bool {
        self.wake_where(|sleeper| sleeper.device == device)
    }

    pub fn wake_slot(&self, worker_index: usize) {
        self.wake_where(|sleeper| sleeper.worker_index == worker_index);
    }

    fn wake_where(&self, which: impl Fn(&Sleeper) -> bool) -> bool {
        fence(Ordering::SeqCst);
        if self.asleep() == 0 {
            return false;
        }
        let sleepers = locked(&self.sleepers);
        let position = sleepers.iter().rposition(which);
        self.wake(sleepers, position)
    }

    /// Wakes the sleeper at a position of the list. Returns false without one.
    fn wake(&self, mut sleepers: MutexGuard<'_, Vec<Sleeper>>, position: Option<usize>) -> bool {
        let Some(position) = position else { return false };
        let sleeper = self.take_sleeper(&mut sleepers, position);
        drop(sleepers);
        sleeper.wake();
        true
    }

    pub fn wake_all(&self) {
        fence(Ordering::SeqCst);
        let mut sleepers = locked(&self.sleepers);
        let woken = std::mem::take(&mut *sleepers);
        let change = (SEARCHER + AWAKE).wrapping_sub(SLEEPER).wrapping_mul(woken.len() as u64);
        self.word.fetch_add(change, Ordering::SeqCst);
        drop(sleepers);
        woken.iter().for_each(Sleeper::wake);
    }

    fn take_sleeper(&self, sleepers: &mut Vec<Sleeper>, position: usize) -> Sleeper {
        self.word.fetch_add((SEARCHER + AWAKE).wrapping_sub(SLEEPER), Ordering::SeqCst);
        sleepers.remove(position)
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Small worlds in every order of steps with up to two preemptions. A lost wake-up is a worker
    //! that sleeps for ever, which loom reports as a deadlock.

    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread::JoinHandle;

    use super::*;
    use crate::sched::base::sync::models::{explore, join, start};

    #[derive(Default)]
    struct World {
        event_count: EventCount,
        /// Work that is read without a lock.
        items: AtomicUsize,
        /// Work for a worker of device 1.
        hint: AtomicBool,
        done: AtomicUsize,
        stop: AtomicBool,
        total: usize,
    }

    impl World {
        fn is_anything(&self, device: usize) -> bool {
            self.items.load(Ordering::Relaxed) > 0 || device == 1 && self.hint.load(Ordering::Relaxed)
        }

        fn take(&self, device: usize) -> bool {
            if device == 1 && self.hint.swap(false, Ordering::SeqCst) {
                return true;
            }
            let less = |items: usize| items.checked_sub(1);
            self.items.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        }

        fn submit(&self) {
            self.items.fetch_add(1, Ordering::Relaxed);
            self.event_count.wake_any(0);
        }

        /// Runs items as a worker of the scheduler does. The worker that ends the last item stops
        /// all.
        fn work(&self, device: usize) {
            let sleeper = Sleeper::new(device, device);
            loop {
                if self.stop.load(Ordering::SeqCst) {
                    return self.event_count.remove_searcher();
                }
                if self.take(device) {
                    if self.event_count.end_search() && self.items.load(Ordering::Relaxed) > 0 {
                        self.event_count.wake_any(0);
                    }
                    if self.done.fetch_add(1, Ordering::SeqCst) + 1 == self.total {
                        self.stop.store(true, Ordering::SeqCst);
                        self.event_count.wake_all();
                    }
                    self.event_count.start_search();
                    continue;
                }
                self.event_count.prepare_sleep(&sleeper);
                if self.is_anything(device) || self.stop.load(Ordering::SeqCst) {
                    self.event_count.cancel_sleep(&sleeper);
                } else {
                    self.event_count.sleep(&sleeper, None);
                }
            }
        }

        fn start(world: &Arc<Self>, device: usize) -> JoinHandle<()> {
            assert!(world.event_count.add_searcher(false));
            start(world, move |world| world.work(device))
        }
    }

    /// Explores workers of these devices, and `code` beside them, until so many items are done.
    fn explore_workers(total: usize, devices: &'static [usize], code: fn(&Arc<World>)) {
        explore(2, move || {
            let world = Arc::new(World { total, ..World::default() });
            let workers: Vec<_> = devices.iter().map(|&device| World::start(&world, device)).collect();
            code(&world);
            join(workers);
            assert_eq!(world.done.load(Ordering::SeqCst), total);
            assert_eq!(world.event_count.word.load(Ordering::SeqCst), 0, "all are gone");
        });
    }

    #[test]
    fn two_workers_and_a_submitter_lose_no_work() {
        explore_workers(2, &[0, 0], |world| {
            world.submit();
            world.submit();
        });
    }

    #[test]
    fn a_worker_and_two_submitters_lose_no_work() {
        explore_workers(2, &[0], |world| {
            let submitter = start(world, World::submit);
            world.submit();
            join([submitter]);
        });
    }

    #[test]
    fn work_for_one_device_finds_its_worker() {
        explore_workers(2, &[0, 1], |world| {
            // As in the scheduler: unlike a store, it is not moved before earlier reads and writes.
            world.hint.fetch_or(true, Ordering::SeqCst);
            world.event_count.wake_device(1);
            world.submit();
        });
    }

    #[test]
    fn a_worker_that_never_starts_is_not_counted_on() {
        explore_workers(1, &[0], |world| {
            let submitter = start(world, World::submit);
            assert!(world.event_count.add_searcher(false));
            world.event_count.remove_searcher();
            world.event_count.wake_any(0);
            join([submitter]);
        });
    }

    #[test]
    fn a_shutdown_reaches_all() {
        explore_workers(0, &[0, 0], |world| {
            world.stop.store(true, Ordering::SeqCst);
            world.event_count.wake_all();
        });
    }
}
