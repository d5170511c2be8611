//! Where workers without work sleep, and how they are woken: an eventcount.
//!
//! A worker is *busy* (it runs something), *searching* (awake, and has found nothing yet) or *asleep*.
//! One word counts the searching, the sleeping, and all that are awake; sleepers and pending wake-ups
//! stand in that one word because they must change together: whoever wakes a sleeper turns it from
//! asleep to searching in the same step, long before its thread runs.
//!
//! **Submitting**: 1. make the work visible; 2. fence; 3. read the word. If anybody searches, nothing more is
//! to be done. Otherwise one sleeper, if there is one, is turned into a searcher and woken. So
//! however fast work comes, one worker at most is being woken.
//!
//! **Finding**: a searcher that has found work becomes busy. If it was the last searcher and there is more
//! work, it wakes the next: so all workers come, one after the other, while there is work for them.
//!
//! **Falling asleep**: 1. *prepare*: from searching to asleep in the word, and into the list of
//! sleepers; 2. fence; 3. *look again* wherever work may be; 4. if there is any, *cancel*: searching again; if
//! there is none, *commit*: sleep until the bell rings.
//!
//! **Why no wake-up is lost.** Between the submitter's steps 1 and 3, and the worker's steps 1 and 3,
//! stands a fence each. So either the submitter reads a word in which this worker is not searching, and then
//! wakes it or another; or the worker's second look finds the work. A submitter that wakes nobody because
//! somebody searches leaves its work to that searcher, who will find it, or find other work and look
//! for more as the last searcher, or prepare and look again. One that is counted before its thread is started, and then
//! gets no thread, is taken back, and another called.
//!
//! **Work for one device** is offered by a hint that its workers look at, set before [`EventCount::wake_device`]; the same
//! argument holds, with the hint as the work. So it does for a worker_index with one worker too many. **Stopping and retiring** set their flag and then call
//! all; a worker looks at the flags where it looks for work, so it holds for them, too.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sched::base::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sched::base::sync::{Arc, Condvar, Mutex, locked};

const SLEEPER: u64 = 1;
const SEARCHER: u64 = 1 << 16;
const AWAKE: u64 = 1 << 32;
const FIELD: u64 = 0xffff;

/// As many as a mask has bits.
const DEVICES: usize = u64::BITS as usize;

fn count(word: u64, of: u64) -> u64 {
    (word / of) & FIELD
}

pub struct EventCount {
    word: AtomicU64,
    sleepers: Mutex<Vec<Sleeper>>,
}

/// A worker's place to sleep: each worker has one.
#[derive(Clone)]
pub struct Sleeper {
    worker_index: usize,
    device: usize,
    bell: Arc<ParkSignal>,
}

struct ParkSignal {
    rung: Mutex<bool>,
    changed: Condvar,
}

/// How a call was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeResult {
    /// Somebody searches, or has just been woken.
    Enough,
    /// All workers that there are, are awake and busy.
    NobodySleeps,
}

impl Sleeper {
    pub fn new(worker_index: usize, device: usize) -> Self {
        Sleeper {
            worker_index,
            device,
            bell: Arc::new(ParkSignal { rung: Mutex::new(false), changed: Condvar::new() }),
        }
    }

    fn ring(&self) {
        *locked(&self.bell.rung) = true;
        self.bell.changed.notify_one();
    }

    /// Sleeps until the bell has been rung since it was last heard.
    fn hear(&self) {
        let mut rung = locked(&self.bell.rung);
        while !*rung {
            rung = self.bell.changed.wait(rung).unwrap_or_else(PoisonError::into_inner);
        }
        *rung = false;
    }

    /// The same, but for so long. False: it has not been rung.
    fn hear_within(&self, long: Duration) -> bool {
        let mut rung = locked(&self.bell.rung);
        let mut over = false;
        while !*rung && !over {
            let woken = self.bell.changed.wait_timeout(rung, long);
            let (found, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            (rung, over) = (found, timeout.timed_out());
        }
        std::mem::take(&mut *rung)
    }
}

impl EventCount {
    pub fn new() -> Self {
        EventCount { word: AtomicU64::new(0), sleepers: Mutex::new(Vec::new()) }
    }

    pub fn searching(&self) -> u64 {
        count(self.word.load(Ordering::SeqCst), SEARCHER)
    }

    pub fn asleep(&self) -> u64 {
        count(self.word.load(Ordering::SeqCst), SLEEPER)
    }

    pub fn awake(&self) -> u64 {
        count(self.word.load(Ordering::SeqCst), AWAKE)
    }

    /// For a worker that is about to be started: it counts as searching from now on. With `alone`, only if nobody
    /// searches.
    pub fn add_searcher(&self, alone: bool) -> bool {
        let claim = |word: u64| (!alone || count(word, SEARCHER) == 0).then_some(word + SEARCHER + AWAKE);
        self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, claim).is_ok()
    }

    /// A searcher is gone for good, or was never started.
    pub fn remove_searcher(&self) {
        self.word.fetch_sub(SEARCHER + AWAKE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// A searcher was enlisted and does not come: somebody may have counted on it, and called nobody else.
    pub fn cancel_searcher(&self, closed: u64) {
        self.remove_searcher();
        self.wake_any(closed);
    }

    /// A busy worker has nothing left.
    pub fn start_search(&self) {
        self.word.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// A searcher has found work. True if nobody else searches: then it calls the next if there is more.
    pub fn end_search(&self) -> bool {
        let before = self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        count(before, SEARCHER) == 1
    }

    /// From searching to nearly asleep; followed by another look, then [`EventCount::cancel_sleep`] or [`EventCount::sleep`].
    pub fn prepare_sleep(&self, sleeper: &Sleeper) {
        let mut sleepers = locked(&self.sleepers);
        sleepers.push(sleeper.clone());
        self.word.fetch_add(SLEEPER.wrapping_sub(SEARCHER + AWAKE), Ordering::SeqCst);
        drop(sleepers);
        fence(Ordering::SeqCst);
    }

    /// From nearly asleep to searching.
    pub fn cancel_sleep(&self, sleeper: &Sleeper) {
        let mut sleepers = locked(&self.sleepers);
        match sleepers.iter().position(|other| Arc::ptr_eq(&other.bell, &sleeper.bell)) {
            Some(position) => {
                self.take_sleeper(&mut sleepers, position);
            }
            None => {
                // Called meanwhile: the bell has rung or is about to.
                drop(sleepers);
                sleeper.hear();
            }
        }
    }

    /// From nearly asleep to asleep, and at last, called, to searching.
    pub fn sleep(&self, sleeper: &Sleeper) {
        sleeper.hear();
    }

    /// The same, but for so long. False: still asleep, to go on with [`EventCount::sleep`].
    pub fn sleep_for(&self, sleeper: &Sleeper, long: Duration) -> bool {
        sleeper.hear_within(long)
    }

    /// After work that any worker can do was made visible, but for those of the devices in `closed`.
    pub fn wake_any(&self, closed: u64) -> WakeResult {
        fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::SeqCst);
        if count(word, SEARCHER) > 0 {
            return WakeResult::Enough;
        }
        if count(word, SLEEPER) == 0 {
            return WakeResult::NobodySleeps;
        }
        let mut sleepers = locked(&self.sleepers);
        if self.searching() > 0 {
            return WakeResult::Enough;
        }
        // Of the device with the most sleepers: the least busy one.
        let mut by_device = [0_u32; DEVICES];
        sleepers.iter().for_each(|sleeper| by_device[sleeper.device] += 1);
        let open = |position: &usize| closed >> sleepers[*position].device & 1 == 0;
        let Some(position) = (0..sleepers.len())
            .filter(open)
            .max_by_key(|&position| (by_device[sleepers[position].device], position))
        else {
            return WakeResult::NobodySleeps;
        };
        let sleeper = self.take_sleeper(&mut sleepers, position);
        drop(sleepers);
        sleeper.ring();
        WakeResult::Enough
    }

    /// Whether somebody sleeps beside those of the devices in `closed`.
    pub fn has_sleeper(&self, closed: u64) -> bool {
        self.asleep() > 0
            && (closed == 0 || locked(&self.sleepers).iter().any(|sleeper| closed >> sleeper.device & 1 == 0))
    }

    /// After work that only this device's workers can do was made visible. False: none of them sleeps.
    pub fn wake_device(&self, device: usize) -> bool {
        self.wake_where(|sleeper| sleeper.device == device)
    }

    /// After a change that concerns the workers of one worker_index.
    pub fn wake_slot(&self, worker_index: usize) {
        self.wake_where(|sleeper| sleeper.worker_index == worker_index);
    }

    fn wake_where(&self, which: impl Fn(&Sleeper) -> bool) -> bool {
        fence(Ordering::SeqCst);
        if self.asleep() == 0 {
            return false;
        }
        let mut sleepers = locked(&self.sleepers);
        let Some(position) = sleepers.iter().rposition(which) else { return false };
        let sleeper = self.take_sleeper(&mut sleepers, position);
        drop(sleepers);
        sleeper.ring();
        true
    }

    /// After a change that concerns all.
    pub fn wake_all(&self) {
        fence(Ordering::SeqCst);
        let mut sleepers = locked(&self.sleepers);
        let mut woken = Vec::new();
        while !sleepers.is_empty() {
            let last = sleepers.len() - 1;
            woken.push(self.take_sleeper(&mut sleepers, last));
        }
        drop(sleepers);
        woken.iter().for_each(Sleeper::ring);
    }

    fn take_sleeper(&self, sleepers: &mut Vec<Sleeper>, position: usize) -> Sleeper {
        self.word.fetch_add((SEARCHER + AWAKE).wrapping_sub(SLEEPER), Ordering::SeqCst);
        sleepers.remove(position)
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Small worlds in which every order of steps is tried, up to two preemptions a thread: a lost wake-up is a
    //! worker that sleeps for ever, which loom reports as a deadlock.

    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread;

    use super::*;

    struct World {
        event_count: EventCount,
        /// Work, as it is seen without a lock.
        items: AtomicUsize,
        /// Work that only a worker of device 1 can do.
        hint: AtomicBool,
        done: AtomicUsize,
        stop: AtomicBool,
        total: usize,
    }

    impl World {
        fn new(total: usize) -> Arc<Self> {
            Arc::new(World {
                event_count: EventCount::new(),
                items: AtomicUsize::new(0),
                hint: AtomicBool::new(false),
                done: AtomicUsize::new(0),
                stop: AtomicBool::new(false),
                total,
            })
        }

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

        /// As the workers of the scheduler do; whoever ends the last item stops all.
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
                    self.event_count.sleep(&sleeper);
                }
            }
        }

        fn start(world: &Arc<Self>, device: usize) -> thread::JoinHandle<()> {
            assert!(world.event_count.add_searcher(false));
            let world = world.clone();
            thread::spawn(move || world.work(device))
        }

        fn end(&self, workers: Vec<thread::JoinHandle<()>>) {
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!(self.done.load(Ordering::SeqCst), self.total);
            assert_eq!(self.event_count.word.load(Ordering::SeqCst), 0, "all are gone");
        }
    }

    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    #[test]
    fn two_workers_and_a_submitter_lose_no_work() {
        explore(|| {
            let world = World::new(2);
            let workers = vec![World::start(&world, 0), World::start(&world, 0)];
            world.submit();
            world.submit();
            world.end(workers);
        });
    }

    #[test]
    fn a_worker_and_two_submitters_lose_no_work() {
        explore(|| {
            let world = World::new(2);
            let workers = vec![World::start(&world, 0)];
            let other = world.clone();
            let submitter = thread::spawn(move || other.submit());
            world.submit();
            submitter.join().unwrap();
            world.end(workers);
        });
    }

    #[test]
    fn work_for_one_device_finds_its_worker() {
        explore(|| {
            let world = World::new(2);
            let workers = vec![World::start(&world, 0), World::start(&world, 1)];
            // As the scheduler does, and unlike a store, never before what has been read and written already.
            world.hint.fetch_or(true, Ordering::SeqCst);
            world.event_count.wake_device(1);
            world.submit();
            world.end(workers);
        });
    }

    #[test]
    fn a_worker_that_never_starts_is_not_counted_on() {
        explore(|| {
            let world = World::new(1);
            let workers = vec![World::start(&world, 0)];
            let other = world.clone();
            let submitter = thread::spawn(move || other.submit());
            assert!(world.event_count.add_searcher(false));
            world.event_count.cancel_searcher(0);
            submitter.join().unwrap();
            world.end(workers);
        });
    }

    #[test]
    fn a_shutdown_reaches_all() {
        explore(|| {
            let world = World::new(0);
            let workers = vec![World::start(&world, 0), World::start(&world, 0)];
            world.stop.store(true, Ordering::SeqCst);
            world.event_count.wake_all();
            world.end(workers);
        });
    }
}
