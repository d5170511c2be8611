//! Finds out whether all tasks that were submitted before a moment have ended, without a counter that
//! all threads write.
//!
//! Each worker counts the tasks that it submits and ends in its own [`EpochCounts`]; all other threads
//! share one. A task belongs to the *epoch* that was current when it was submitted. A thread that waits
//! for all tasks closes the current epoch, if tasks of it are left, by making another one current. An
//! epoch has *drained* when as many of its tasks have ended as have begun.
//!
//! **Why the sums are right.** Both counters only grow, and a task begins before it ends. All `ended`
//! are read first, then all `begun`. The sum of `ended` is at most the number of tasks that had ended
//! when the last of them was read; that is at most the number that had begun by then, which is at most
//! the sum of `begun`. So if the sums are equal, all tasks that had begun at that moment had ended. A
//! thread may read the current epoch, then count a task in it after it was closed. That task was not
//! submitted before the wait, so the wait may or may not include it. The thread reads the current epoch
//! again, and if it changed, puts its own back into the list before the submit returns, in case it had
//! drained. So every later wait finds it.
//!
//! **Waking.** A waiter raises `waiters` and then sums; a thread counts an end and then reads `waiters`.
//! Both orders are total (`SeqCst`), so either the waiter sees the end, or the ending thread sees the
//! waiter and sums in its stead. Summing costs more than a small task, so a thread sums only after every
//! [`STRIDE`] tasks of closed epochs while many are left. A thread that finds few left sets
//! `nearly_drained` and sums again; from then on every end sums, until one finds more. If more tasks of
//! a closed epoch are left than all threads together may end without summing, one thread ends
//! [`STRIDE`] of them, so it sums in time. That holds for the threads that the last sum has counted: a
//! new one sets `nearly_drained` before it ends a task, and so does a thread that puts an epoch back.
//! Summing, joining and putting back exclude each other. The thread that removes a drained epoch from
//! the list notifies all waiters.

use crate::sched::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sched::base::sync::{Mutex, locked, total_order};

/// Epochs that can be open at a time. A wait that finds all in use includes later tasks until one of
/// them drains.
const EPOCHS: usize = if cfg!(loom) { 3 } else { 64 };

/// Tasks of closed epochs after which a thread sums.
const STRIDE: u64 = if cfg!(loom) { 2 } else { 64 };

/// The tasks that one worker, or all other threads, submitted and ended.
pub struct EpochCounts {
    epochs: Box<[EpochPair]>,
    /// Tasks of closed epochs that ended.
    unchecked: AtomicU64,
}

struct EpochPair {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// All counts. Each sum visits them again; none is ever removed.
pub trait EpochSources {
    fn for_each(&self, see: &mut dyn FnMut(&EpochCounts));
}

/// The index of an epoch.
pub type Epoch = u8;

pub struct EpochCounter {
    current: AtomicUsize,
    waiters: AtomicUsize,
    nearly_drained: AtomicBool,
    /// All epochs are open, so a wait may include the current one.
    crowded: AtomicBool,
    open: Mutex<Open>,
}

/// The epochs that have not drained, with their serial numbers; the oldest first, the current one last.
type Open = Vec<(Epoch, u64)>;

/// A wait for all tasks.
#[derive(Debug, Clone, Copy)]
pub struct EpochWait {
    /// The wait ends when all epochs before this serial number have drained.
    pub mark: u64,
    /// See [`EpochStatus::drained`].
    pub drained: bool,
}

/// The state of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStatus {
    /// All tasks of the wait have ended.
    pub done: bool,
    /// An epoch has drained: the caller notifies all waiters.
    pub drained: bool,
}

impl Default for EpochCounts {
    fn default() -> Self {
        let pair = || EpochPair { begun: AtomicU64::new(0), ended: AtomicU64::new(0) };
        EpochCounts { epochs: (0..EPOCHS).map(|_| pair()).collect(), unchecked: AtomicU64::new(0) }
    }
}

impl EpochCounts {
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

    /// Counts tasks that are being submitted.
    pub fn begin(&self, count: &EpochCounts, tasks: u64) -> Epoch {
        let epoch = self.current.load(Ordering::SeqCst);
        count.epochs[epoch].begun.fetch_add(tasks, Ordering::SeqCst);
        total_order();
        if self.current.load(Ordering::SeqCst) != epoch {
            self.reopen(epoch as Epoch);
        }
        epoch as Epoch
    }

    /// Puts an epoch back into the list that was closed before tasks were counted in it.
    #[cold]
    fn reopen(&self, epoch: Epoch) {
        let mut open = locked(&self.open);
        if open.iter().all(|&(other, _)| other != epoch) {
            // The first place: every later wait includes it.
            open.insert(0, (epoch, 0));
            self.publish_length(&open);
            self.nearly_drained.store(true, Ordering::SeqCst);
            total_order();
        }
    }

    /// Counts tasks that have ended. Returns true if an epoch may have drained: then the caller notifies
    /// all waiters.
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

    /// Removes the drained epochs from the list, and sets whether a closed one is nearly drained. Returns
    /// true if waiters are to be notified.
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
            // Tasks that ended between the sums and the flag were not counted.
            total_order();
            remove_drained_closed(&mut open, all);
            self.publish_length(&open);
        }
        crowded || open.len() < before
    }

    /// Follows a change of the list, before a sum that depends on it.
    fn publish_length(&self, open: &Open) {
        self.crowded.store(open.len() >= EPOCHS, Ordering::SeqCst);
    }

    /// Begins a wait for all tasks submitted so far. The caller ends it with
    /// [`EpochCounter::stop_waiting`].
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

    /// Closes the current epoch if it is before the mark and another one is free. Returns true if it was
    /// closed.
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

    /// Follows the publication of a new source of counts.
    pub fn source_added(&self) {
        // Not between the sums of another thread and its flag, which would miss ends between them.
        let open = locked(&self.open);
        self.nearly_drained.store(true, Ordering::SeqCst);
        total_order();
        drop(open);
    }

    pub fn stop_waiting(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether all epochs before the mark have drained.
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

/// Removes the drained epochs. Returns the fewest tasks that a closed epoch has left.
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

/// Returns the tasks of an epoch that have not ended. Zero is exact, see above.
fn unended(epoch: Epoch, all: &dyn EpochSources) -> u64 {
    let (mut ended, mut begun) = (0_u64, 0_u64);
    all.for_each(&mut |count| ended += count.epochs[epoch as usize].ended.load(Ordering::SeqCst));
    all.for_each(&mut |count| begun += count.epochs[epoch as usize].begun.load(Ordering::SeqCst));
    begun.saturating_sub(ended)
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl EpochSources for EpochCounts {
        fn for_each(&self, see: &mut dyn FnMut(&EpochCounts)) {
            see(self);
        }
    }

    #[test]
    fn end_of_a_closed_epoch_is_announced_only_while_a_thread_waits() {
        for waits in [true, false] {
            let (counter, count) = (EpochCounter::new(), EpochCounts::default());
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
    fn ends_of_the_current_epoch_take_no_lock_though_a_thread_waits() {
        let (counter, count) = (EpochCounter::new(), EpochCounts::default());
        counter.begin(&count, 1);
        counter.start_waiting(&count);
        let epoch = counter.begin(&count, 1);
        let locked = locked(&counter.open);
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let (counter, count) = (&counter, &count);
            scope.spawn(move || sender.send(counter.end(count, epoch, 1, count)));
            let announced = receiver.recv_timeout(std::time::Duration::from_secs(10));
            drop(locked);
            assert_eq!(announced, Ok(false));
        });
    }
}
