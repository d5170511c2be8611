//! Queues of the threads that wait for the end of tasks, and the detection of waits that can never
//! end.
//!
//! A waiter first adds its parker to the queue of each task, then looks at the tasks, then sleeps.
//! A thread that ends a task first publishes the end, then notifies the queue. So the waiter sees
//! the end or is notified.
//!
//! A worker is **blocked** if it waits inside a task without a time limit, has looked, and has not
//! been notified since. [`WaitQueues::count_blocked`] counts it; the thread that notifies it takes
//! it out of the count, long before the waiter runs. If all workers that are awake are blocked and
//! no task can begin, no thread will ever notify them: the wait is a deadlock. Every waiter inside
//! a task judges that after it was counted, and again after [`WaitQueues::notify_blocked`], which
//! each thread calls that starts to wait, falls asleep or has published an end. So the last thread
//! that does one of these finds the deadlock, or makes a waiter find it.
//!
//! **No false alarm.** A thread that brings an end about is awake and not blocked, or counted as
//! ending, until it has notified the waiters. Notified waiters are not counted until they have
//! looked. The owner of a range that waits for its helpers is counted, too, but does not judge: no
//! error can be returned to it.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sched::base::{
    TaskId, locked,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    total_order,
};

/// Key of waits for all tasks: notified when an epoch has drained.
pub const ALL_TASKS: TaskId = TaskId(0);
/// Key of waits inside tasks: notified when all others may be blocked.
pub const BLOCKED_TASKS: TaskId = TaskId(u64::MAX);
/// Key of owners of ranges that need helpers: notified when none may come any more.
pub const HELPERS_NEEDED: TaskId = TaskId(u64::MAX - 1);

const QUEUES: usize = if cfg!(loom) { 2 } else { 16 };

type WaitQueue = Mutex<Vec<(TaskId, Arc<Parker>)>>;

/// The waiters of all tasks, by a hash of the task's id.
#[derive(Default)]
pub struct WaitQueues {
    queues: [WaitQueue; QUEUES],
    blocked: AtomicUsize,
}

impl WaitQueues {
    fn queue(&self, key: TaskId) -> &WaitQueue {
        &self.queues[(key.0 ^ key.0 >> 7) as usize % QUEUES]
    }

    pub fn add(&self, keys: &[TaskId], parker: &Arc<Parker>) {
        for &key in keys {
            locked(self.queue(key)).push((key, parker.clone()));
        }
    }

    pub fn remove(&self, keys: &[TaskId], parker: &Arc<Parker>) {
        for &key in keys {
            locked(self.queue(key)).retain(|(_, other)| !Arc::ptr_eq(other, parker));
        }
    }

    /// Notifies the waiters of a task.
    pub fn notify(&self, key: TaskId) {
        let waits = |other: &&(TaskId, Arc<Parker>)| other.0 == key;
        let parkers: Vec<_> =
            locked(self.queue(key)).iter().filter(waits).map(|(_, parker)| parker.clone()).collect();
        parkers.iter().for_each(|parker| parker.notify(|state| self.uncount(state)));
    }

    /// Makes the waiters inside tasks check whether any task can go on.
    pub fn notify_blocked(&self) {
        total_order();
        if self.blocked.load(Ordering::SeqCst) > 0 {
            self.notify(BLOCKED_TASKS);
        }
    }

    /// Returns how many workers are blocked.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Ordering::SeqCst)
    }

    /// Counts a waiter that has looked as blocked. Returns false if it was notified meanwhile.
    pub fn count_blocked(&self, parker: &Parker) -> bool {
        let mut state = parker.lock();
        if !state.notified && !std::mem::replace(&mut state.blocked, true) {
            self.blocked.fetch_add(1, Ordering::SeqCst);
            total_order();
        }
        state.blocked
    }

    pub fn uncount_blocked(&self, parker: &Parker) {
        self.uncount(&mut parker.lock());
    }

    fn uncount(&self, state: &mut ParkerState) {
        if std::mem::take(&mut state.blocked) {
            self.blocked.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A thread's place to wait. A notification that comes before the wait ends that at once.
#[derive(Default)]
pub struct Parker {
    state: Mutex<ParkerState>,
    changed: Condvar,
}

#[derive(Default)]
pub struct ParkerState {
    pub notified: bool,
    /// Counted in [`WaitQueues::blocked`]; never while it is notified.
    pub blocked: bool,
}

impl Parker {
    /// Blocks until a notification, and takes it. Returns false if the deadline passed first.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        while !state.notified {
            let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.notified = false;
        true
    }

    /// Notifies the thread, after `change` in the same critical section.
    pub fn notify(&self, change: impl FnOnce(&mut ParkerState)) {
        let mut state = self.lock();
        state.notified = true;
        change(&mut state);
        // The woken thread would wait for the lock.
        drop(state);
        self.changed.notify_one();
    }

    pub fn lock(&self) -> MutexGuard<'_, ParkerState> {
        locked(&self.state)
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Small worlds of workers that wait for each other. A deadlock that no waiter finds is one of
    //! loom, too; a wait that can end is never judged to be one.

    use loom::sync::atomic::AtomicBool;

    use super::*;
    use crate::sched::base::sync::models::{explore, join, start};

    const RANGE: TaskId = TaskId(2);

    #[derive(Default)]
    struct World {
        queues: WaitQueues,
        awake: AtomicUsize,
        helper_left: AtomicBool,
        range_ended: AtomicBool,
    }

    impl World {
        fn new(workers: usize) -> Arc<Self> {
            Arc::new(World { awake: AtomicUsize::new(workers), ..World::default() })
        }

        /// Waits as inside a task. Returns false if it judges the wait to be a deadlock.
        fn wait(&self, look: impl Fn() -> bool) -> bool {
            let (parker, keys) = (Arc::default(), [RANGE, BLOCKED_TASKS]);
            self.queues.add(&keys, &parker);
            self.queues.notify_blocked();
            let found = loop {
                if look() {
                    break true;
                }
                if self.queues.count_blocked(&parker)
                    && self.awake.load(Ordering::SeqCst) == self.queues.blocked()
                {
                    break look();
                }
                parker.wait(None);
            };
            self.queues.remove(&keys, &parker);
            self.queues.uncount_blocked(&parker);
            found
        }

        /// Waits as the owner of a range for its helper.
        fn own(&self) {
            let parker = Arc::default();
            self.queues.add(&[RANGE], &parker);
            while !self.helper_left.load(Ordering::SeqCst) {
                if self.queues.count_blocked(&parker) {
                    self.queues.notify_blocked();
                }
                parker.wait(None);
            }
            self.queues.remove(&[RANGE], &parker);
            self.range_ended.store(true, Ordering::SeqCst);
            self.queues.notify(RANGE);
            self.sleep();
        }

        /// Ends as a helper of a range.
        fn leave(&self) {
            self.helper_left.store(true, Ordering::SeqCst);
            self.queues.notify(RANGE);
            self.sleep();
        }

        fn sleep(&self) {
            self.awake.fetch_sub(1, Ordering::SeqCst);
            self.queues.notify_blocked();
        }
    }

    #[test]
    fn wait_for_a_range_whose_last_helper_leaves_is_no_deadlock() {
        explore(2, || {
            let world = World::new(3);
            let others = [World::own, World::leave].map(|code: fn(&World)| start(&world, code));
            assert!(world.wait(|| world.range_ended.load(Ordering::SeqCst)));
            join(others);
        });
    }

    #[test]
    fn helper_finds_the_deadlock_though_its_owner_does_not_judge() {
        explore(2, || {
            let world = World::new(2);
            let owner = start(&world, World::own);
            assert!(!world.wait(|| false));
            world.leave();
            join([owner]);
        });
    }

    #[test]
    fn one_of_two_that_wait_for_each_other_finds_the_deadlock() {
        explore(2, || {
            let world = World::new(2);
            let other = start(&world, |world| {
                world.wait(|| world.range_ended.load(Ordering::SeqCst));
                world.leave();
            });
            world.wait(|| world.helper_left.load(Ordering::SeqCst));
            world.range_ended.store(true, Ordering::SeqCst);
            world.queues.notify(RANGE);
            world.sleep();
            join([other]);
        });
    }
}
