//! Whether everything that was submitted before some moment has ended, without a common counter that
//! every task would have to touch.
//!
//! Each worker counts what begins and ends with it in a [`EpochCounts`] of its own, and all other threads
//! share one. Tasks belong to a *epoch*, the one that was current when they were submitted. Who
//! wants to wait for all closes the current epoch, if anything of it is left, by making another
//! current; a epoch has *drained* when as many of its tasks have ended as were begun.
//!
//! **Why the sums are right.** Both counters only grow, and a task is begun before it ends. All `ended` are read first,
//! then all `begun`. What is read of `ended` is at most what had ended when the last of them was read,
//! which is at most what had begun by then, which is at most what is read of `begun`. So if the two
//! sums are equal, everything that had begun at that moment had ended. What is begun in a closed epoch later, by a
//! thread that had read the current epoch before it was closed, was not submitted before the wait,
//! and is waited for or not. That thread reads the current epoch again, and if it is another puts its own back
//! into the list, should it have drained, before the submit returns: so whoever waits after that finds it.
//!
//! **Waking.** A waiter first raises `waiters`, then looks; a task is first counted as ended, then `waiters`
//! is read; both orders are total (`SeqCst`), so either the waiter sees the end, or the ending thread sees the
//! waiter and looks in its stead. As looking costs more than a small task, a thread looks only after every
//! [`STRIDE`] tasks of closed epochs until few are left of one of them: who finds so few sets `nearly_drained`, and looks
//! again; from then on every end looks, until one finds more. Of the last tasks of a closed epoch one thread
//! must end [`STRIDE`] if they are more than all threads together may end unchecked, so somebody looks in time.
//! That holds for the threads that the last look has counted: one that joins sets `nearly_drained` before it ends
//! anything, and so does who puts a epoch back, for the last look did not count its tasks. Looks, joining and
//! putting back exclude each other. Whoever takes a drained epoch out of the list tells all who wait.

use crate::sched::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sched::base::sync::{Mutex, locked, total_order};

/// Epochs that can be open at a time. A wait that finds them all taken waits for what comes until one
/// drains, too.
const EPOCHS: usize = if cfg!(loom) { 3 } else { 64 };

/// How many tasks of closed epochs a thread may end without looking.
const STRIDE: u64 = if cfg!(loom) { 2 } else { 64 };

/// What has begun and ended with one worker, or with all other threads.
pub struct EpochCounts {
    epochs: Box<[EpochPair]>,
    /// Ends of tasks of closed epochs.
    unchecked: AtomicU64,
}

struct EpochPair {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// All counts that there are. They are asked for anew for each sum, and none ever goes away.
pub trait EpochSources {
    fn for_each(&self, see: &mut dyn FnMut(&EpochCounts));
}

/// The epoch of a task.
pub type Epoch = u8;

pub struct EpochCounter {
    current: AtomicUsize,
    waiters: AtomicUsize,
    nearly_drained: AtomicBool,
    /// The list has [`EPOCHS`] entries, so a waiter may wait for the current epoch, too.
    crowded: AtomicBool,
    open: Mutex<Open>,
}

/// The epochs that have not drained, oldest first, the current one last; each with its serial number.
type Open = Vec<(Epoch, u64)>;

/// A wait that has begun.
#[derive(Debug, Clone, Copy)]
pub struct EpochWait {
    /// For [`EpochCounter::check`].
    pub mark: u64,
    /// See [`EpochStatus::drained`].
    pub drained: bool,
}

/// What a waiter has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStatus {
    /// All that it waits for has ended.
    pub done: bool,
    /// Some epoch has drained: perhaps one that others wait for.
    pub drained: bool,
}

impl EpochCounts {
    pub fn new() -> Self {
        let pair = || EpochPair { begun: AtomicU64::new(0), ended: AtomicU64::new(0) };
        EpochCounts { epochs: (0..EPOCHS).map(|_| pair()).collect(), unchecked: AtomicU64::new(0) }
    }

    pub fn begun(&self) -> u64 {
        self.epochs.iter().map(|pair| pair.begun.load(Ordering::SeqCst)).sum()
    }

    pub fn ended(&self) -> u64 {
        self.epochs.iter().map(|pair| pair.ended.load(Ordering::SeqCst)).sum()
    }
}

impl EpochCounter {
    pub fn new() -> Self {
        EpochCounter {
            current: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
            nearly_drained: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            open: Mutex::new(vec![(0, 0)]),
        }
    }

    /// Tasks are being submitted.
    pub fn begin(&self, count: &EpochCounts, tasks: u64) -> Epoch {
        let epoch = self.current.load(Ordering::SeqCst);
        count.epochs[epoch].begun.fetch_add(tasks, Ordering::SeqCst);
        total_order();
        if self.current.load(Ordering::SeqCst) != epoch {
            self.reopen(epoch as Epoch);
        }
        epoch as Epoch
    }

    /// A epoch was closed before tasks were counted in it, and may have been taken for drained.
    #[cold]
    fn reopen(&self, epoch: Epoch) {
        let mut open = locked(&self.open);
        if open.iter().all(|&(other, _)| other != epoch) {
            // Every wait that is still to begin comes after it.
            open.insert(0, (epoch, 0));
            self.publish_length(&open);
            self.nearly_drained.store(true, Ordering::SeqCst);
            total_order();
        }
    }

    /// Tasks have ended. True: a epoch that somebody waits for may have drained, so those who wait
    /// are to be woken.
    pub fn end(&self, count: &EpochCounts, epoch: Epoch, tasks: u64, all: &dyn EpochSources) -> bool {
        count.epochs[epoch as usize].ended.fetch_add(tasks, Ordering::SeqCst);
        total_order();
        self.waiters.load(Ordering::SeqCst) > 0 && self.check_after_end(count, epoch, tasks, all)
    }

    #[cold]
    fn check_after_end(&self, count: &EpochCounts, epoch: Epoch, tasks: u64, all: &dyn EpochSources) -> bool {
        let closed = self.current.load(Ordering::SeqCst) != epoch as usize;
        if !closed && !self.crowded.load(Ordering::SeqCst) {
            return false;
        }
        total_order();
        let unchecked = count.unchecked.fetch_add(tasks, Ordering::Relaxed);
        let due = unchecked / STRIDE != (unchecked + tasks) / STRIDE;
        (due || self.nearly_drained.load(Ordering::SeqCst)) && self.remove_drained(all)
    }

    /// Takes the drained epochs out of the list, and notes whether little is left of a closed one. Whether there
    /// were any.
    fn remove_drained(&self, all: &dyn EpochSources) -> bool {
        let mut open = locked(&self.open);
        let crowded = open.len() >= EPOCHS;
        let before = open.len();
        let least = remove_drained_closed(&mut open, all);
        self.publish_length(&open);
        let mut threads = 0;
        all.for_each(&mut |_| threads += 1);
        let nearly_drained = least <= STRIDE * threads;
        if self.nearly_drained.swap(nearly_drained, Ordering::SeqCst) != nearly_drained && nearly_drained {
            // What ended between the sums and `nearly_drained` was not looked at.
            total_order();
            remove_drained_closed(&mut open, all);
            self.publish_length(&open);
        }
        crowded || open.len() < before
    }

    /// After a change of the list, before anything is summed that depends on it.
    fn publish_length(&self, open: &Open) {
        self.crowded.store(open.len() >= EPOCHS, Ordering::SeqCst);
    }

    /// Begins a wait for all that was submitted so far, to be ended with [`EpochCounter::stop_waiting`].
    pub fn start_waiting(&self, all: &dyn EpochSources) -> EpochWait {
        let mut open = locked(&self.open);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        total_order();
        let before = open.len();
        remove_drained_closed(&mut open, all);
        self.publish_length(&open);
        let drained = open.len() < before;
        let Some(&(current, serial)) = open.last() else { return EpochWait { mark: 0, drained } };
        if unended(current, all) == 0 {
            return EpochWait { mark: serial, drained };
        }
        self.close_current(serial + 1, &mut open);
        EpochWait { mark: serial + 1, drained }
    }

    /// Closes the current epoch if it is before the mark. Without a epoch for what comes, this one is waited for
    /// as it is until one is free. True: it was closed.
    fn close_current(&self, mark: u64, open: &mut Open) -> bool {
        let Some(&(_, serial)) = open.last().filter(|&&(_, serial)| serial < mark) else { return false };
        let free = (0..EPOCHS as Epoch).find(|free| open.iter().all(|(epoch, _)| epoch != free));
        let Some(free) = free else { return false };
        open.push((free, serial + 1));
        self.publish_length(open);
        self.current.store(free as usize, Ordering::SeqCst);
        total_order();
        true
    }

    /// One more counts from now on, and can be seen.
    pub fn source_added(&self) {
        // Not between a look's sums and its `nearly_drained`, or it would take what ends between them for seen.
        let open = locked(&self.open);
        self.nearly_drained.store(true, Ordering::SeqCst);
        total_order();
        drop(open);
    }

    pub fn stop_waiting(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether all epochs before the mark have drained.
    pub fn check(&self, mark: u64, all: &dyn EpochSources) -> EpochStatus {
        let mut drained = self.remove_drained(all);
        let closed = self.close_current(mark, &mut locked(&self.open));
        if closed {
            drained |= self.remove_drained(all);
        }
        let open = locked(&self.open);
        let done = open.iter().all(|&(epoch, serial)| serial >= mark || unended(epoch, all) == 0);
        EpochStatus { done, drained }
    }
}

/// Returns how many tasks the closed epoch has left that has fewest.
fn remove_drained_closed(open: &mut Open, all: &dyn EpochSources) -> u64 {
    let current = open.pop();
    let mut least = u64::MAX;
    open.retain(|&(epoch, _)| {
        let here = unended(epoch, all);
        if here > 0 {
            least = least.min(here);
        }
        here > 0
    });
    open.extend(current);
    least
}

/// Tasks of a epoch that have begun and not ended. Zero is exact, see above.
fn unended(epoch: Epoch, all: &dyn EpochSources) -> u64 {
    let (mut ended, mut begun) = (0_u64, 0_u64);
    all.for_each(&mut |count| ended += count.epochs[epoch as usize].ended.load(Ordering::SeqCst));
    all.for_each(&mut |count| begun += count.epochs[epoch as usize].begun.load(Ordering::SeqCst));
    begun.saturating_sub(ended)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl EpochSources for EpochCounts {
        fn for_each(&self, see: &mut dyn FnMut(&EpochCounts)) {
            see(self);
        }
    }

    #[test]
    fn end_of_a_closed_phase_is_announced_only_while_somebody_waits() {
        for waits in [true, false] {
            let (counter, count) = (EpochCounter::new(), EpochCounts::new());
            let epoch = counter.begin(&count, 1);
            let waiting = counter.start_waiting(&count);
            assert!(!counter.check(waiting.mark, &count).done);
            if !waits {
                counter.stop_waiting();
            }
            assert_eq!(counter.end(&count, epoch, 1, &count), waits);
        }
    }

    #[test]
    fn ends_of_the_current_phase_take_no_lock_though_somebody_waits() {
        let (counter, count) = (EpochCounter::new(), EpochCounts::new());
        counter.begin(&count, 1);
        counter.start_waiting(&count);
        let epoch = counter.begin(&count, 1);
        let locked = locked(&counter.open);
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let (counter, count) = (&counter, &count);
            scope.spawn(move || tell.send(counter.end(count, epoch, 1, count)));
            let announced = told.recv_timeout(std::time::Duration::from_secs(10));
            drop(locked);
            assert_eq!(announced, Ok(false));
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Small worlds: a waiter whose tasks have ended is woken, and is not told so before they have.

    use loom::sync::{Condvar, Mutex};
    use loom::thread;

    use super::*;
    use crate::sched::base::sync::Arc;

    struct World {
        counter: EpochCounter,
        counts: [EpochCounts; 3],
        /// How many of them there are by now.
        source_added: AtomicUsize,
        /// A waiter each.
        bells: [(Mutex<bool>, Condvar); 2],
        ended: AtomicUsize,
    }

    impl EpochSources for World {
        fn for_each(&self, see: &mut dyn FnMut(&EpochCounts)) {
            self.counts[..self.source_added.load(Ordering::SeqCst)].iter().for_each(see);
        }
    }

    impl World {
        fn new(counts: usize) -> Arc<Self> {
            let bell = || (Mutex::new(false), Condvar::new());
            Arc::new(World {
                counter: EpochCounter::new(),
                counts: [EpochCounts::new(), EpochCounts::new(), EpochCounts::new()],
                source_added: AtomicUsize::new(counts),
                bells: [bell(), bell()],
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
                self.ring();
            }
        }

        fn ring(&self) {
            for (rung, changed) in &self.bells {
                *rung.lock().unwrap() = true;
                changed.notify_all();
            }
        }

        /// As the scheduler does.
        fn wait(&self, waiter: usize, tasks: usize) {
            let begun = self.counter.start_waiting(self);
            if begun.drained {
                self.ring();
            }
            let (rung, changed) = &self.bells[waiter];
            loop {
                let seen = self.counter.check(begun.mark, self);
                if seen.drained {
                    self.ring();
                }
                if seen.done {
                    break;
                }
                let mut rung = rung.lock().unwrap();
                while !*rung {
                    rung = changed.wait(rung).unwrap();
                }
                *rung = false;
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
    fn a_waiter_hears_of_the_last_end() {
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
    fn what_is_submitted_meanwhile_is_not_taken_for_what_was_there() {
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

    /// None of the three ends as many as would make it look.
    #[test]
    fn a_waiter_hears_of_the_last_end_with_those_who_join_later() {
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
    fn one_who_joins_does_not_keep_others_from_looking() {
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
    fn two_waiters_hear_of_the_last_end() {
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
    fn a_wait_that_found_no_phase_free_hears_of_its_last_end() {
        explore(|| {
            let world = World::new(1);
            let end = |epoch| world.counter.end(&world.counts[0], epoch, 1, &*world);
            let waits: [(Epoch, EpochWait); EPOCHS] =
                std::array::from_fn(|_| (world.begin(0), world.counter.start_waiting(&*world)));
            let last = waits[EPOCHS - 1].1;
            for (epoch, _) in waits {
                assert!(!world.counter.check(last.mark, &*world).done);
                assert!(end(epoch), "it is told");
            }
            assert!(world.counter.check(last.mark, &*world).done);
        });
    }

    #[test]
    fn one_who_submits_while_a_phase_is_closed_waits_for_that_task() {
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
}
