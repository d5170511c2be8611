//! Whether everything that was submitted before some moment has ended, without a common counter that
//! every task would have to touch.
//!
//! Each worker counts what begins and ends with it in a [`Count`] of its own, and all other threads
//! share one. Tasks belong to a *phase*, the one that was current when they were submitted. Who
//! wants to wait for all closes the current phase, if anything of it is left, by making another
//! current; a phase has *drained* when as many of its tasks have ended as were begun.
//!
//! **Why the sums are right.** Both counters only grow, and a task is begun before it ends. All `ended` are read first,
//! then all `begun`. What is read of `ended` is at most what had ended when the last of them was read,
//! which is at most what had begun by then, which is at most what is read of `begun`. So if the two
//! sums are equal, everything that had begun at that moment had ended. What is begun in a closed phase later, by a
//! thread that had read the current phase before it was closed, was not submitted before the wait,
//! and is waited for or not.
//!
//! **Waking.** A waiter first raises `waiters`, then looks; a task is first counted as ended, then `waiters`
//! is read; both orders are total (`SeqCst`), so either the waiter sees the end, or the ending thread sees the
//! waiter and looks in its stead. As looking costs more than a small task, a thread looks only after every
//! [`STRIDE`] tasks of closed phases until few of them are left: who finds so few sets `near`, and looks
//! again; from then on every end looks. Of the last tasks of a closed phase one thread must end that
//! many if they are more than all threads together may end unseen, so somebody finds it in time.

use crate::sched::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sched::sync::{Mutex, locked, total_order};

/// Phases that can be open at a time. A wait that finds them all taken waits for what comes until one
/// drains, too.
const PHASES: usize = if cfg!(loom) { 3 } else { 64 };

/// How many tasks of closed phases a thread may end without looking.
const STRIDE: u64 = if cfg!(loom) { 1 } else { 64 };

/// What has begun and ended with one worker, or with all other threads.
pub struct Count {
    phases: Box<[Pair]>,
    /// Ends of tasks of closed phases.
    unseen: AtomicU64,
}

struct Pair {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// All counts that there are. They are asked for anew for each sum, and none ever goes away.
pub trait Counts {
    fn each(&self, see: &mut dyn FnMut(&Count));
}

/// The phase of a task.
pub type Phase = u8;

pub struct Tally {
    current: AtomicUsize,
    waiters: AtomicUsize,
    near: AtomicBool,
    open: Mutex<Open>,
}

/// The phases that have not drained, oldest first, the current one last; each with its serial number.
struct Open {
    phases: Vec<(Phase, u64)>,
    serial: u64,
}

/// What a waiter has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// All that it waits for has ended.
    pub done: bool,
    /// Some phase has drained: perhaps one that others wait for.
    pub drained: bool,
}

impl Count {
    pub fn new() -> Self {
        let pair = || Pair { begun: AtomicU64::new(0), ended: AtomicU64::new(0) };
        Count { phases: (0..PHASES).map(|_| pair()).collect(), unseen: AtomicU64::new(0) }
    }

    pub fn begun(&self) -> u64 {
        self.phases.iter().map(|pair| pair.begun.load(Ordering::SeqCst)).sum()
    }

    pub fn ended(&self) -> u64 {
        self.phases.iter().map(|pair| pair.ended.load(Ordering::SeqCst)).sum()
    }
}

impl Tally {
    pub fn new() -> Self {
        Tally {
            current: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
            near: AtomicBool::new(false),
            open: Mutex::new(Open { phases: vec![(0, 0)], serial: 0 }),
        }
    }

    /// Tasks are being submitted.
    pub fn begin(&self, count: &Count, tasks: u64) -> Phase {
        let phase = self.current.load(Ordering::SeqCst);
        count.phases[phase].begun.fetch_add(tasks, Ordering::SeqCst);
        phase as Phase
    }

    /// Tasks have ended. True: a phase that somebody waits for may have drained, so those who wait
    /// are to be woken.
    pub fn end(&self, count: &Count, phase: Phase, tasks: u64, all: &dyn Counts) -> bool {
        count.phases[phase as usize].ended.fetch_add(tasks, Ordering::SeqCst);
        total_order();
        self.waiters.load(Ordering::SeqCst) > 0 && self.look_after_end(count, phase, tasks, all)
    }

    #[cold]
    fn look_after_end(&self, count: &Count, phase: Phase, tasks: u64, all: &dyn Counts) -> bool {
        let closed = self.current.load(Ordering::SeqCst) != phase as usize;
        if !closed && !self.is_crowded() {
            return false;
        }
        total_order();
        let unseen = count.unseen.fetch_add(tasks, Ordering::Relaxed);
        let due = unseen / STRIDE != (unseen + tasks) / STRIDE;
        (due || self.near.load(Ordering::SeqCst)) && self.drain(all)
    }

    /// Takes the drained phases out of the list, and notes when little is left of the closed ones. Whether there
    /// were any.
    fn drain(&self, all: &dyn Counts) -> bool {
        let mut open = locked(&self.open);
        let crowded = open.phases.len() >= PHASES;
        let before = open.phases.len();
        let left = drain_closed(&mut open, all);
        let mut threads = 0;
        all.each(&mut |_| threads += 1);
        if left <= STRIDE * threads && !self.near.swap(true, Ordering::SeqCst) {
            // What ended between the sums and `near` was not looked at.
            total_order();
            drain_closed(&mut open, all);
        }
        crowded || open.phases.len() < before
    }

    fn is_crowded(&self) -> bool {
        locked(&self.open).phases.len() >= PHASES
    }

    /// Begins a wait for all that was submitted so far, to be ended with [`Tally::stop_waiting`]. The number is for
    /// [`Tally::look`].
    pub fn start_waiting(&self, all: &dyn Counts) -> u64 {
        let mut open = locked(&self.open);
        if self.waiters.fetch_add(1, Ordering::SeqCst) == 0 {
            self.near.store(false, Ordering::SeqCst);
        }
        total_order();
        drain_closed(&mut open, all);
        let Some(&(current, serial)) = open.phases.last() else { return 0 };
        if left_of(current, all) == 0 {
            return serial;
        }
        let free = (0..PHASES as Phase).find(|free| open.phases.iter().all(|(phase, _)| phase != free));
        // Without a phase for what comes, this one is waited for as it is.
        let Some(free) = free else { return serial + 1 };
        open.serial = serial + 1;
        open.phases.push((free, serial + 1));
        self.current.store(free as usize, Ordering::SeqCst);
        total_order();
        serial + 1
    }

    pub fn stop_waiting(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether all phases before the mark have drained.
    pub fn look(&self, mark: u64, all: &dyn Counts) -> Seen {
        let drained = self.drain(all);
        let open = locked(&self.open);
        let done = open.phases.iter().all(|&(phase, serial)| serial >= mark || left_of(phase, all) == 0);
        Seen { done, drained }
    }
}

/// Returns how many tasks the closed phases have left.
fn drain_closed(open: &mut Open, all: &dyn Counts) -> u64 {
    let current = open.phases.pop();
    let mut left = 0;
    open.phases.retain(|&(phase, _)| {
        let here = left_of(phase, all);
        left += here;
        here > 0
    });
    open.phases.extend(current);
    left
}

/// Tasks of a phase that have begun and not ended. Zero is exact, see above.
fn left_of(phase: Phase, all: &dyn Counts) -> u64 {
    let (mut ended, mut begun) = (0_u64, 0_u64);
    all.each(&mut |count| ended += count.phases[phase as usize].ended.load(Ordering::SeqCst));
    all.each(&mut |count| begun += count.phases[phase as usize].begun.load(Ordering::SeqCst));
    begun.saturating_sub(ended)
}

#[cfg(all(test, loom))]
mod models {
    //! Small worlds: a waiter whose tasks have ended is woken, and is not told so before they have.

    use loom::sync::{Condvar, Mutex};
    use loom::thread;

    use super::*;
    use crate::sched::sync::Arc;

    struct World {
        tally: Tally,
        counts: [Count; 2],
        bell: Mutex<bool>,
        rung: Condvar,
        ended: AtomicUsize,
    }

    impl Counts for World {
        fn each(&self, see: &mut dyn FnMut(&Count)) {
            self.counts.iter().for_each(see);
        }
    }

    impl World {
        fn new() -> Arc<Self> {
            Arc::new(World {
                tally: Tally::new(),
                counts: [Count::new(), Count::new()],
                bell: Mutex::new(false),
                rung: Condvar::new(),
                ended: AtomicUsize::new(0),
            })
        }

        fn end(&self, phase: Phase) {
            self.ended.fetch_add(1, Ordering::SeqCst);
            if self.tally.end(&self.counts[1], phase, 1, self) {
                *self.bell.lock().unwrap() = true;
                self.rung.notify_all();
            }
        }

        fn wait(&self, tasks: usize) {
            let mark = self.tally.start_waiting(self);
            while !self.tally.look(mark, self).done {
                let mut bell = self.bell.lock().unwrap();
                while !*bell {
                    bell = self.rung.wait(bell).unwrap();
                }
                *bell = false;
            }
            self.tally.stop_waiting();
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
        explore(|| {
            let world = World::new();
            let first = world.tally.begin(&world.counts[0], 1);
            let second = world.tally.begin(&world.counts[0], 1);
            let worker = world.clone();
            let worker = thread::spawn(move || {
                worker.end(first);
                worker.end(second);
            });
            world.wait(2);
            worker.join().unwrap();
        });
    }

    #[test]
    fn what_is_submitted_meanwhile_is_not_taken_for_what_was_there() {
        explore(|| {
            let world = World::new();
            let before = world.tally.begin(&world.counts[0], 1);
            let worker = world.clone();
            let worker = thread::spawn(move || {
                let later = worker.tally.begin(&worker.counts[1], 1);
                worker.tally.end(&worker.counts[1], later, 1, &*worker);
                worker.end(before);
            });
            world.wait(1);
            worker.join().unwrap();
        });
    }
}
