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
//! **Work for one device** is offered by a hint that its workers look at, set before [`EventCount::call_device`]; the same
//! argument holds, with the hint as the work. So it does for a seat with one worker too many. **Stopping and retiring** set their flag and then call
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
    beds: Mutex<Vec<Parker>>,
}

/// A worker's place to sleep: each worker has one.
#[derive(Clone)]
pub struct Parker {
    seat: usize,
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

impl Parker {
    pub fn new(seat: usize, device: usize) -> Self {
        Parker {
            seat,
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
        EventCount { word: AtomicU64::new(0), beds: Mutex::new(Vec::new()) }
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
    pub fn enlist(&self, alone: bool) -> bool {
        let claim = |word: u64| (!alone || count(word, SEARCHER) == 0).then_some(word + SEARCHER + AWAKE);
        self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, claim).is_ok()
    }

    /// A searcher is gone for good, or was never started.
    pub fn leave(&self) {
        self.word.fetch_sub(SEARCHER + AWAKE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// A searcher was enlisted and does not come: somebody may have counted on it, and called nobody else.
    pub fn cancel_enlist(&self, closed: u64) {
        self.leave();
        self.call_any(closed);
    }

    /// A busy worker has nothing left.
    pub fn search(&self) {
        self.word.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// A searcher has found work. True if nobody else searches: then it calls the next if there is more.
    pub fn found(&self) -> bool {
        let before = self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        count(before, SEARCHER) == 1
    }

    /// From searching to nearly asleep; followed by another look, then [`Lot::cancel`] or [`EventCount::sleep`].
    pub fn prepare(&self, bed: &Parker) {
        let mut beds = locked(&self.beds);
        beds.push(bed.clone());
        self.word.fetch_add(SLEEPER.wrapping_sub(SEARCHER + AWAKE), Ordering::SeqCst);
        drop(beds);
        fence(Ordering::SeqCst);
    }

    /// From nearly asleep to searching.
    pub fn cancel(&self, bed: &Parker) {
        let mut beds = locked(&self.beds);
        match beds.iter().position(|other| Arc::ptr_eq(&other.bell, &bed.bell)) {
            Some(position) => {
                self.wake(&mut beds, position);
            }
            None => {
                // Called meanwhile: the bell has rung or is about to.
                drop(beds);
                bed.hear();
            }
        }
    }

    /// From nearly asleep to asleep, and at last, called, to searching.
    pub fn sleep(&self, bed: &Parker) {
        bed.hear();
    }

    /// The same, but for so long. False: still asleep, to go on with [`EventCount::sleep`].
    pub fn doze(&self, bed: &Parker, long: Duration) -> bool {
        bed.hear_within(long)
    }

    /// After work that any worker can do was made visible, but for those of the devices in `closed`.
    pub fn call_any(&self, closed: u64) -> WakeResult {
        fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::SeqCst);
        if count(word, SEARCHER) > 0 {
            return WakeResult::Enough;
        }
        if count(word, SLEEPER) == 0 {
            return WakeResult::NobodySleeps;
        }
        let mut beds = locked(&self.beds);
        if self.searching() > 0 {
            return WakeResult::Enough;
        }
        // Of the device with the most sleepers: the least busy one.
        let mut sleepers = [0_u32; DEVICES];
        beds.iter().for_each(|bed| sleepers[bed.device] += 1);
        let open = |position: &usize| closed >> beds[*position].device & 1 == 0;
        let Some(position) =
            (0..beds.len()).filter(open).max_by_key(|&position| (sleepers[beds[position].device], position))
        else {
            return WakeResult::NobodySleeps;
        };
        let bed = self.wake(&mut beds, position);
        drop(beds);
        bed.ring();
        WakeResult::Enough
    }

    /// Whether somebody sleeps beside those of the devices in `closed`.
    pub fn has_sleeper(&self, closed: u64) -> bool {
        self.asleep() > 0
            && (closed == 0 || locked(&self.beds).iter().any(|bed| closed >> bed.device & 1 == 0))
    }

    /// After work that only this device's workers can do was made visible. False: none of them sleeps.
    pub fn call_device(&self, device: usize) -> bool {
        self.call(|bed| bed.device == device)
    }

    /// After a change that concerns the workers of one seat.
    pub fn call_seat(&self, seat: usize) {
        self.call(|bed| bed.seat == seat);
    }

    fn call(&self, which: impl Fn(&Parker) -> bool) -> bool {
        fence(Ordering::SeqCst);
        if self.asleep() == 0 {
            return false;
        }
        let mut beds = locked(&self.beds);
        let Some(position) = beds.iter().rposition(which) else { return false };
        let bed = self.wake(&mut beds, position);
        drop(beds);
        bed.ring();
        true
    }

    /// After a change that concerns all.
    pub fn call_all(&self) {
        fence(Ordering::SeqCst);
        let mut beds = locked(&self.beds);
        let mut woken = Vec::new();
        while !beds.is_empty() {
            let last = beds.len() - 1;
            woken.push(self.wake(&mut beds, last));
        }
        drop(beds);
        woken.iter().for_each(Parker::ring);
    }

    fn wake(&self, beds: &mut Vec<Parker>, position: usize) -> Parker {
        self.word.fetch_add((SEARCHER + AWAKE).wrapping_sub(SLEEPER), Ordering::SeqCst);
        beds.remove(position)
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
        lot: EventCount,
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
                lot: EventCount::new(),
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
            self.lot.call_any(0);
        }

        /// As the workers of the scheduler do; whoever ends the last item stops all.
        fn work(&self, device: usize) {
            let bed = Parker::new(device, device);
            loop {
                if self.stop.load(Ordering::SeqCst) {
                    return self.lot.leave();
                }
                if self.take(device) {
                    if self.lot.found() && self.items.load(Ordering::Relaxed) > 0 {
                        self.lot.call_any(0);
                    }
                    if self.done.fetch_add(1, Ordering::SeqCst) + 1 == self.total {
                        self.stop.store(true, Ordering::SeqCst);
                        self.lot.call_all();
                    }
                    self.lot.search();
                    continue;
                }
                self.lot.prepare(&bed);
                if self.is_anything(device) || self.stop.load(Ordering::SeqCst) {
                    self.lot.cancel(&bed);
                } else {
                    self.lot.sleep(&bed);
                }
            }
        }

        fn start(world: &Arc<Self>, device: usize) -> thread::JoinHandle<()> {
            assert!(world.lot.enlist(false));
            let world = world.clone();
            thread::spawn(move || world.work(device))
        }

        fn end(&self, workers: Vec<thread::JoinHandle<()>>) {
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!(self.done.load(Ordering::SeqCst), self.total);
            assert_eq!(self.lot.word.load(Ordering::SeqCst), 0, "all are gone");
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
            world.lot.call_device(1);
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
            assert!(world.lot.enlist(false));
            world.lot.cancel_enlist(0);
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
            world.lot.call_all();
            world.end(workers);
        });
    }
}
