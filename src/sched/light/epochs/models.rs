//! Models of the epoch counter: a wait ends if its tasks have ended, and not before.

use loom::sync::{Condvar, Mutex};

use super::*;
use crate::sched::base::sync::models::{explore, join, start};

struct World {
    counter: EpochCounter,
    counts: Vec<Arc<EpochCounts>>,
    /// A signal for each waiter.
    signals: [(Mutex<bool>, Condvar); 2],
    ended: AtomicUsize,
}

impl World {
    fn new(counts: usize) -> Arc<Self> {
        let counter = EpochCounter::new();
        let counts = (0..counts).map(|_| counter.add_counts()).collect();
        counter.nearly_drained.store(false, Ordering::SeqCst);
        let signals = std::array::from_fn(|_| (Mutex::new(false), Condvar::new()));
        Arc::new(World { counter, counts, signals, ended: AtomicUsize::new(0) })
    }

    fn begin(&self, count: usize) -> Epoch {
        self.counter.begin(&self.counts[count], 1)
    }

    fn end(&self, counts: &EpochCounts, epoch: Epoch) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        if self.counter.end(counts, epoch, 1) {
            self.notify();
        }
    }

    fn notify(&self) {
        for (notified, changed) in &self.signals {
            *notified.lock().unwrap() = true;
            changed.notify_all();
        }
    }

    /// Waits as the scheduler does.
    fn wait(&self, waiter: usize, tasks: usize) {
        let mark = self.counter.start_waiting();
        let (notified, changed) = &self.signals[waiter];
        loop {
            let seen = self.counter.check(mark);
            if seen.drained {
                self.notify();
            }
            if seen.done {
                break;
            }
            let mut notified = notified.lock().unwrap();
            while !*notified {
                notified = changed.wait(notified).unwrap();
            }
            *notified = false;
        }
        self.counter.stop_waiting();
        assert!(self.ended.load(Ordering::SeqCst) >= tasks);
    }
}

#[test]
fn waiter_is_notified_of_the_last_end() {
    for counts in [1, 2] {
        explore(2, move || {
            let world = World::new(counts);
            let epochs = [(); 3].map(|()| world.begin(0));
            let worker = start(&world, move |world| {
                epochs.into_iter().for_each(|epoch| world.end(&world.counts[counts - 1], epoch));
            });
            world.wait(0, 3);
            join([worker]);
        });
    }
}

#[test]
fn later_tasks_are_not_taken_for_earlier_ones() {
    explore(2, || {
        let world = World::new(2);
        let before = world.begin(0);
        let worker = start(&world, move |world| {
            let later = world.begin(1);
            world.counter.end(&world.counts[1], later, 1);
            world.end(&world.counts[1], before);
        });
        world.wait(0, 1);
        join([worker]);
    });
}

/// No thread of the three ends enough tasks to sum the counts.
#[test]
fn waiter_is_notified_of_the_last_end_by_a_new_thread() {
    explore(2, || {
        let world = World::new(1);
        let [first, later @ ..] = [(); 3].map(|()| world.begin(0));
        let worker = start(&world, move |world| {
            world.end(&world.counts[0], first);
            later.into_iter().for_each(|epoch| world.end(&world.counter.add_counts(), epoch));
        });
        world.wait(0, 3);
        join([worker]);
    });
}

#[test]
fn new_thread_does_not_keep_others_from_summing() {
    explore(2, || {
        let world = World::new(1);
        let epoch = world.begin(0);
        let worker = start(&world, move |world| world.end(&world.counts[0], epoch));
        let other = start(&world, |world| _ = world.counter.add_counts());
        world.wait(0, 1);
        join([worker, other]);
    });
}

#[test]
fn two_waiters_are_notified_of_the_last_end() {
    explore(2, || {
        let world = World::new(1);
        let epoch = world.begin(0);
        let worker = start(&world, move |world| world.end(&world.counts[0], epoch));
        let other = start(&world, |world| world.wait(1, 0));
        world.wait(0, 1);
        join([worker, other]);
    });
}

#[test]
fn wait_without_a_free_epoch_is_notified_of_its_last_end() {
    explore(2, || {
        let world = World::new(1);
        let waits: [(Epoch, u64); EPOCHS] =
            std::array::from_fn(|_| (world.begin(0), world.counter.start_waiting()));
        let last = waits[EPOCHS - 1].1;
        for (epoch, _) in waits {
            assert!(!world.counter.check(last).done);
            assert!(world.counter.end(&world.counts[0], epoch, 1), "the waiters are notified");
        }
        assert!(world.counter.check(last).done);
    });
}

#[test]
fn submitter_waits_for_its_task_of_a_closed_epoch() {
    explore(2, || {
        let world = World::new(2);
        let before = world.begin(0);
        let other = start(&world, |world| {
            let own = world.begin(1);
            let mark = world.counter.start_waiting();
            assert!(!world.counter.check(mark).done, "its task has not ended");
            world.end(&world.counts[1], own);
            mark
        });
        let mark = world.counter.start_waiting();
        world.end(&world.counts[0], before);
        world.counter.check(mark);
        let mark = other.join().unwrap();
        assert!(world.counter.check(mark).done);
    });
}
