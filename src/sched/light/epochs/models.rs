//! Models of the epoch counter: a wait ends if its tasks have ended, and not before.

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;
use crate::sched::base::sync::Arc;

struct World {
    counter: EpochCounter,
    counts: [EpochCounts; 3],
    /// Number of `counts` in use.
    source_added: AtomicUsize,
    /// A signal for each waiter.
    signals: [(Mutex<bool>, Condvar); 2],
    ended: AtomicUsize,
}

impl EpochSources for World {
    fn for_each(&self, see: &mut dyn FnMut(&EpochCounts)) {
        self.counts[..self.source_added.load(Ordering::SeqCst)].iter().for_each(see);
    }
}

impl World {
    fn new(counts: usize) -> Arc<Self> {
        let signal = || (Mutex::new(false), Condvar::new());
        Arc::new(World {
            counter: EpochCounter::new(),
            counts: [EpochCounts::default(), EpochCounts::default(), EpochCounts::default()],
            source_added: AtomicUsize::new(counts),
            signals: [signal(), signal()],
            ended: AtomicUsize::new(0),
        })
    }

    fn begin(&self, count: usize) -> Epoch {
        self.counter.begin(&self.counts[count], 1)
    }

    fn join(&self) {
        self.source_added.fetch_add(1, Ordering::SeqCst);
        self.counter.source_added();
    }

    fn end(&self, count: usize, epoch: Epoch) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        if self.counter.end(&self.counts[count], epoch, 1, self) {
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
        let begun = self.counter.start_waiting(self);
        if begun.drained {
            self.notify();
        }
        let (notified, changed) = &self.signals[waiter];
        loop {
            let seen = self.counter.check(begun.mark, self);
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

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn waiter_is_notified_of_the_last_end() {
    for counts in [1, 2] {
        explore(move || {
            let world = World::new(counts);
            let epochs = [(); 3].map(|()| world.begin(0));
            let worker = world.clone();
            let worker = thread::spawn(move || epochs.map(|epoch| worker.end(counts - 1, epoch)));
            world.wait(0, 3);
            worker.join().unwrap();
        });
    }
}

#[test]
fn later_tasks_are_not_taken_for_earlier_ones() {
    explore(|| {
        let world = World::new(2);
        let before = world.begin(0);
        let worker = world.clone();
        let worker = thread::spawn(move || {
            let later = worker.begin(1);
            worker.counter.end(&worker.counts[1], later, 1, &*worker);
            worker.end(1, before);
        });
        world.wait(0, 1);
        worker.join().unwrap();
    });
}

/// No thread of the three ends enough tasks to sum the counts.
#[test]
fn waiter_is_notified_of_the_last_end_by_a_new_thread() {
    explore(|| {
        let world = World::new(1);
        let epochs = [(); 3].map(|()| world.begin(0));
        let worker = world.clone();
        let worker = thread::spawn(move || {
            worker.end(0, epochs[0]);
            for count in [1, 2] {
                worker.join();
                worker.end(count, epochs[count]);
            }
        });
        world.wait(0, 3);
        worker.join().unwrap();
    });
}

#[test]
fn new_thread_does_not_keep_others_from_summing() {
    explore(|| {
        let world = World::new(1);
        let epoch = world.begin(0);
        let (worker, other) = (world.clone(), world.clone());
        let worker = thread::spawn(move || worker.end(0, epoch));
        let other = thread::spawn(move || other.join());
        world.wait(0, 1);
        worker.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn two_waiters_are_notified_of_the_last_end() {
    explore(|| {
        let world = World::new(1);
        let epoch = world.begin(0);
        let (worker, other) = (world.clone(), world.clone());
        let worker = thread::spawn(move || worker.end(0, epoch));
        let other = thread::spawn(move || other.wait(1, 0));
        world.wait(0, 1);
        worker.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn wait_without_a_free_epoch_is_notified_of_its_last_end() {
    explore(|| {
        let world = World::new(1);
        let end = |epoch| world.counter.end(&world.counts[0], epoch, 1, &*world);
        let waits: [(Epoch, EpochWait); EPOCHS] =
            std::array::from_fn(|_| (world.begin(0), world.counter.start_waiting(&*world)));
        let last = waits[EPOCHS - 1].1;
        for (epoch, _) in waits {
            assert!(!world.counter.check(last.mark, &*world).done);
            assert!(end(epoch), "the waiters are notified");
        }
        assert!(world.counter.check(last.mark, &*world).done);
    });
}

#[test]
fn submitter_waits_for_its_task_of_a_closed_epoch() {
    explore(|| {
        let world = World::new(2);
        let before = world.begin(0);
        let other = world.clone();
        let other = thread::spawn(move || {
            let own = other.begin(1);
            let begun = other.counter.start_waiting(&*other);
            assert!(!other.counter.check(begun.mark, &*other).done, "its task has not ended");
            other.end(1, own);
            begun.mark
        });
        let begun = world.counter.start_waiting(&*world);
        world.end(0, before);
        world.counter.check(begun.mark, &*world);
        let mark = other.join().unwrap();
        assert!(world.counter.check(mark, &*world).done);
    });
}
