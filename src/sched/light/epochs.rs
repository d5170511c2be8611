//! Finds out whether all tasks that were submitted before a moment have ended, without a counter
//! that all threads write.
//!
//! Each worker counts the tasks that it submits and ends in its own [`EpochCounts`]; all other
//! threads share one. A task belongs to the *epoch* that was current when it was submitted. A
//! thread that waits for all tasks closes the current epoch, if tasks of it are left, by making
//! another one current. An epoch has *drained* when as many of its tasks have ended as have begun.
//!
//! **Why the sums are right.** Both counters only grow, and a task begins before it ends. All
//! `ended` are read first, then all `begun`. The sum of `ended` is at most the number of tasks that
//! had ended when the last of them was read; that is at most the number that had begun by then,
//! which is at most the sum of `begun`. So if the sums are equal, all tasks that had begun at that
//! moment had ended. A thread may read the current epoch, then count a task in it after it was
//! closed. That task was not submitted before the wait, so the wait may or may not include it. The
//! thread reads the current epoch again, and if it changed, puts its own back into the list before
//! the submit returns, in case it had drained. So every later wait finds it.
//!
//! **Waking.** A waiter raises `waiters` and then sums; a thread counts an end and then reads
//! `waiters`. Both orders are total (`SeqCst`), so either the waiter sees the end, or the ending
//! thread sees the waiter and sums in its stead. Summing costs more than a small task, so a thread
//! sums only after every [`STRIDE`] tasks of closed epochs while many are left. A thread that finds
//! few left sets `nearly_drained` and sums again; from then on every end sums, until one finds
//! more. If more tasks of a closed epoch are left than all threads together may end without
//! summing, one thread ends [`STRIDE`] of them, so it sums in time. That holds for the threads that
//! the last sum has counted: a new one sets `nearly_drained` before it ends a task, and so does a
//! thread that puts an epoch back. Summing, joining and putting back exclude each other. The thread
//! that removes a drained epoch from the list notifies all waiters.

use crate::sched::base::{
    Epoch, locked,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    total_order,
};

/// Epochs that can be open at a time. A wait that finds all in use includes later tasks until one
/// of them drains.
const EPOCHS: usize = if cfg!(loom) { 3 } else { 64 };

/// Tasks of closed epochs after which a thread sums.
const STRIDE: u64 = if cfg!(loom) { 2 } else { 64 };

/// The tasks that one worker, or all other threads, submitted and ended.
pub struct EpochCounts {
    epochs: [EpochPair; EPOCHS],
    /// Tasks of closed epochs that ended.
    unchecked: AtomicU64,
}

#[derive(Default)]
struct EpochPair {
    begun: AtomicU64,
    ended: AtomicU64,
}

pub struct EpochCounter {
    current: AtomicUsize,
    waiters: AtomicUsize,
    nearly_drained: AtomicBool,
    /// All epochs are open, so a wait may include the current one.
    crowded: AtomicBool,
    list: Mutex<EpochList>,
}

struct EpochList {
    /// The epochs that have not drained, with their serial numbers; the oldest first, the current
    /// one last.
    open: Vec<(Epoch, u64)>,
    /// The counts of all threads. None is ever removed.
    counts: Vec<Arc<EpochCounts>>,
}

/// The state of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStatus {
    /// All tasks of the wait have ended.
    pub done: bool,
    /// An epoch has drained: the caller notifies all waiters.
    pub drained: bool,
}

impl EpochCounter {
    pub fn new() -> Self {
        EpochCounter {
            current: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
            nearly_drained: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            list: Mutex::new(EpochList { open: vec![(0, 0)], counts: Vec::new() }),
        }
    }

    /// Returns the counts of a new worker, or of all other threads.
    pub fn add_counts(&self) -> Arc<EpochCounts> {
        let epochs = std::array::from_fn(|_| EpochPair::default());
        let counts = Arc::new(EpochCounts { epochs, unchecked: AtomicU64::new(0) });
        // Not between the sums of another thread and its flag, which would miss ends between them.
        let mut list = locked(&self.list);
        list.counts.push(counts.clone());
        self.nearly_drained.store(true, Ordering::SeqCst);
        total_order();
        counts
    }

    /// Counts tasks that are being submitted.
    pub fn begin(&self, counts: &EpochCounts, tasks: u64) -> Epoch {
        let epoch = self.current.load(Ordering::SeqCst);
        counts.epochs[epoch].begun.fetch_add(tasks, Ordering::SeqCst);
        total_order();
        if self.current.load(Ordering::SeqCst) != epoch {
            self.reopen(epoch as Epoch);
        }
        epoch as Epoch
    }

    /// Puts an epoch back into the list that was closed before tasks were counted in it.
    #[cold]
    fn reopen(&self, epoch: Epoch) {
        let mut list = locked(&self.list);
        if list.open.iter().all(|&(other, _)| other != epoch) {
            // The first place: every later wait includes it.
            list.open.insert(0, (epoch, 0));
            self.publish_length(&list);
            self.nearly_drained.store(true, Ordering::SeqCst);
            total_order();
        }
    }

    /// Counts tasks that have ended. Returns true if an epoch may have drained: then the caller
    /// notifies all waiters.
    pub fn end(&self, counts: &EpochCounts, epoch: Epoch, tasks: u64) -> bool {
        counts.epochs[epoch as usize].ended.fetch_add(tasks, Ordering::SeqCst);
        total_order();
        self.waiters.load(Ordering::SeqCst) > 0 && self.check_after_end(counts, epoch, tasks)
    }

    #[cold]
    fn check_after_end(&self, counts: &EpochCounts, epoch: Epoch, tasks: u64) -> bool {
        let closed = self.current.load(Ordering::SeqCst) != epoch as usize;
        if !closed && !self.crowded.load(Ordering::SeqCst) {
            return false;
        }
        total_order();
        let unchecked = counts.unchecked.fetch_add(tasks, Ordering::Relaxed);
        let due = unchecked / STRIDE != (unchecked + tasks) / STRIDE;
        (due || self.nearly_drained.load(Ordering::SeqCst)) && self.remove_drained(&mut locked(&self.list))
    }

    /// Removes the drained epochs from the list, and sets whether a closed one is nearly drained.
    /// Returns true if waiters are to be notified.
    fn remove_drained(&self, list: &mut EpochList) -> bool {
        let before = list.open.len();
        let nearly_drained = list.remove_drained() <= STRIDE * list.counts.len() as u64;
        if !self.nearly_drained.swap(nearly_drained, Ordering::SeqCst) && nearly_drained {
            // Tasks that ended between the sums and the flag were not counted.
            total_order();
            list.remove_drained();
        }
        self.publish_length(list);
        before >= EPOCHS || list.open.len() < before
    }

    /// Follows a change of the list. After an epoch was added, before a sum that depends on it.
    fn publish_length(&self, list: &EpochList) {
        self.crowded.store(list.open.len() >= EPOCHS, Ordering::SeqCst);
    }

    /// Begins a wait for all tasks submitted so far. Returns its mark: the wait ends when all
    /// epochs before this serial number have drained. The caller then calls
    /// [`EpochCounter::check`], and ends the wait with [`EpochCounter::stop_waiting`].
    pub fn start_waiting(&self) -> u64 {
        let mut list = locked(&self.list);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        total_order();
        let Some(&(current, serial)) = list.open.last() else { return 0 };
        let mark = serial + u64::from(unended(&list.counts, current) > 0);
        self.close_current(mark, &mut list);
        mark
    }

    /// Closes the current epoch if it is before the mark and another one is free. Returns true if
    /// it was closed.
    fn close_current(&self, mark: u64, list: &mut EpochList) -> bool {
        let open = &mut list.open;
        let Some(&(_, serial)) = open.last().filter(|&&(_, serial)| serial < mark) else { return false };
        let free = (0..EPOCHS as Epoch).find(|free| open.iter().all(|(epoch, _)| epoch != free));
        let Some(free) = free else { return false };
        open.push((free, serial + 1));
        self.publish_length(list);
        self.current.store(free as usize, Ordering::SeqCst);
        total_order();
        true
    }

    pub fn stop_waiting(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether all epochs before the mark have drained.
    pub fn check(&self, mark: u64) -> EpochStatus {
        let mut list = locked(&self.list);
        let mut drained = self.remove_drained(&mut list);
        if self.close_current(mark, &mut list) {
            drained |= self.remove_drained(&mut list);
        }
        let drained_or_later =
            |&(epoch, serial): &(Epoch, u64)| serial >= mark || unended(&list.counts, epoch) == 0;
        let done = list.open.iter().all(drained_or_later);
        EpochStatus { done, drained }
    }

    /// Returns how many tasks were ever submitted.
    pub fn begun(&self) -> u64 {
        let list = locked(&self.list);
        let pairs = list.counts.iter().flat_map(|counts| &counts.epochs);
        pairs.map(|pair| pair.begun.load(Ordering::SeqCst)).sum()
    }

    /// Returns true if all tasks that were submitted before this call have ended.
    pub fn is_drained(&self) -> bool {
        let list = locked(&self.list);
        list.open.iter().all(|&(epoch, _)| unended(&list.counts, epoch) == 0)
    }
}

impl EpochList {
    /// Removes the drained epochs. Returns the fewest tasks that a closed epoch has left.
    fn remove_drained(&mut self) -> u64 {
        let current = self.open.pop();
        let mut least = u64::MAX;
        self.open.retain(|&(epoch, _)| {
            let here = unended(&self.counts, epoch);
            if here > 0 {
                least = least.min(here);
            }
            here > 0
        });
        self.open.extend(current);
        least
    }
}

/// Returns the tasks of an epoch that have not ended. Zero is exact, see above.
fn unended(counts: &[Arc<EpochCounts>], epoch: Epoch) -> u64 {
    let sum = |count: fn(&EpochPair) -> &AtomicU64| -> u64 {
        counts.iter().map(|counts| count(&counts.epochs[epoch as usize]).load(Ordering::SeqCst)).sum()
    };
    let ended = sum(|pair| &pair.ended);
    sum(|pair| &pair.begun).saturating_sub(ended)
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_closed_epoch_is_announced_only_while_a_thread_waits() {
        for waits in [true, false] {
            let counter = EpochCounter::new();
            let counts = counter.add_counts();
            let epoch = counter.begin(&counts, 1);
            let mark = counter.start_waiting();
            assert!(!counter.check(mark).done);
            if !waits {
                counter.stop_waiting();
            }
            assert_eq!(counter.end(&counts, epoch, 1), waits);
        }
    }

    #[test]
    fn ends_of_the_current_epoch_take_no_lock_though_a_thread_waits() {
        let counter = EpochCounter::new();
        let counts = counter.add_counts();
        counter.begin(&counts, 1);
        counter.start_waiting();
        let epoch = counter.begin(&counts, 1);
        let locked = locked(&counter.list);
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let (counter, counts) = (&counter, &counts);
            scope.spawn(move || sender.send(counter.end(counts, epoch, 1)));
            let announced = receiver.recv_timeout(std::time::Duration::from_secs(10));
            drop(locked);
            assert_eq!(announced, Ok(false));
        });
    }
}
