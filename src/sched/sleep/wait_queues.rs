//! Where those sleep who wait for the end of tasks, and how it is found out that nobody will ever wake them.
//!
//! A waiter first puts its bell into the room of each task, then looks, then sleeps; what it waits
//! for is first made visible, then its bells are rung: so it sees the one or hears the other.
//!
//! **Blocked** is a worker inside a task that waits without a time limit, has looked, and has not been rung
//! since. [`WaitQueues::count_blocked`] counts it, and whoever rings it takes it out of the count, long before its thread runs.
//! If all workers that are awake are blocked and nothing can begin, nobody will ever ring: the wait is hopeless.
//! That is judged by those who wait inside tasks, each after it was counted, and again when
//! [`WaitQueues::notify_blocked`] tells that somebody waits, has fallen asleep or has told an end. So the last to do
//! any of that finds it out, or makes another find it out.
//!
//! **No false alarm.** Who brings an end about is awake and not blocked, or counted as ending, until it has rung.
//! Those whom it has rung are not counted until they have looked. The host of a range, which waits for its
//! guests, is counted so, too, though it is no judge: there is no error that it could be told.

use std::time::Instant;

use crate::sched::base::sync::atomic::{AtomicUsize, Ordering};
use crate::sched::base::sync::{Arc, Condvar, Mutex, locked, total_order};
use crate::sched::base::task_id::TaskId;

/// Stands for a phase of light tasks that drains, and for the end of any planned task.
pub const ALL_TASKS: TaskId = TaskId(0);
/// Stands for whatever could leave the tasks that wait inside their code without anybody to wait for.
pub const BLOCKED_TASKS: TaskId = TaskId(u64::MAX);
/// Stands for whatever could make the host of a range leave that can't go on without guests.
pub const HELPERS_NEEDED: TaskId = TaskId(u64::MAX - 1);

const QUEUES: usize = if cfg!(loom) { 2 } else { 16 };

type WaitQueue = Mutex<Vec<(TaskId, Arc<Waiter>)>>;

/// By the task's id.
#[derive(Default)]
pub struct WaitQueues {
    queues: [WaitQueue; QUEUES],
    blocked: AtomicUsize,
}

/// One waiter.
#[derive(Default)]
pub struct Waiter {
    state: Mutex<WaiterState>,
    changed: Condvar,
}

#[derive(Default)]
struct WaiterState {
    rung: bool,
    /// Counted in [`WaitQueues::blocked`]; never while it is rung.
    blocked: bool,
}

impl Waiter {
    /// Sleeps until it is rung, or was since it was last heard. False: the time is up.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut state = locked(&self.state);
        while !state.rung {
            let slept = match deadline {
                None => self.changed.wait(state).map_err(|poison| poison.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let slept = self.changed.wait_timeout(state, left);
                    slept.map(|slept| slept.0).map_err(|poison| poison.into_inner().0)
                }
            };
            state = slept.unwrap_or_else(|state| state);
        }
        state.rung = false;
        true
    }
}

impl WaitQueues {
    fn queue(&self, key: TaskId) -> &WaitQueue {
        &self.queues[(key.0 ^ key.0 >> 7) as usize % QUEUES]
    }

    pub fn add(&self, keys: &[TaskId], bell: &Arc<Waiter>) {
        for &key in keys {
            locked(self.queue(key)).push((key, bell.clone()));
        }
    }

    pub fn remove(&self, keys: &[TaskId], bell: &Arc<Waiter>) {
        for &key in keys {
            locked(self.queue(key)).retain(|(_, other)| !Arc::ptr_eq(other, bell));
        }
    }

    /// Wakes those who wait for this.
    pub fn notify(&self, key: TaskId) {
        let bells: Vec<_> = locked(self.queue(key))
            .iter()
            .filter(|(other, _)| *other == key)
            .map(|(_, bell)| bell.clone())
            .collect();
        for bell in bells {
            let mut state = locked(&bell.state);
            state.rung = true;
            self.uncount(&mut state);
            bell.changed.notify_one();
        }
    }

    /// Those who wait inside tasks look whether anybody can still go on.
    pub fn notify_blocked(&self) {
        total_order();
        if self.blocked.load(Ordering::SeqCst) > 0 {
            self.notify(BLOCKED_TASKS);
        }
    }

    /// How many workers are blocked.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Ordering::SeqCst)
    }

    /// Counts a waiter, which has looked and found nothing, as blocked; false: it was rung meanwhile.
    pub fn count_blocked(&self, bell: &Waiter) -> bool {
        let mut state = locked(&bell.state);
        if !state.rung && !std::mem::replace(&mut state.blocked, true) {
            self.blocked.fetch_add(1, Ordering::SeqCst);
            total_order();
        }
        state.blocked
    }

    pub fn uncount_blocked(&self, bell: &Waiter) {
        self.uncount(&mut locked(&bell.state));
    }

    fn uncount(&self, state: &mut WaiterState) {
        if std::mem::take(&mut state.blocked) {
            self.blocked.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Small worlds of workers that wait for each other: who waits in vain is told, or loom reports a deadlock, and
    //! who does not is never told so.

    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    use super::*;

    const RANGE: TaskId = TaskId(2);

    struct World {
        queues: WaitQueues,
        awake: AtomicUsize,
        guest_left: AtomicBool,
        range_ended: AtomicBool,
    }

    impl World {
        fn new(workers: usize) -> Arc<Self> {
            Arc::new(World {
                queues: WaitQueues::default(),
                awake: AtomicUsize::new(workers),
                guest_left: AtomicBool::new(false),
                range_ended: AtomicBool::new(false),
            })
        }

        /// As a wait inside a task. False: it is told to be hopeless.
        fn wait(&self, look: impl Fn() -> bool) -> bool {
            let (bell, keys) = (Arc::default(), [RANGE, BLOCKED_TASKS]);
            self.queues.add(&keys, &bell);
            self.queues.notify_blocked();
            let found = loop {
                if look() {
                    break true;
                }
                if self.queues.count_blocked(&bell)
                    && self.awake.load(Ordering::SeqCst) == self.queues.blocked()
                {
                    break look();
                }
                bell.wait(None);
            };
            self.queues.remove(&keys, &bell);
            self.queues.uncount_blocked(&bell);
            found
        }

        /// As a host that waits for its guest.
        fn host(&self) {
            let bell = Arc::default();
            self.queues.add(&[RANGE], &bell);
            while !self.guest_left.load(Ordering::SeqCst) {
                if self.queues.count_blocked(&bell) {
                    self.queues.notify_blocked();
                }
                bell.wait(None);
            }
            self.queues.remove(&[RANGE], &bell);
            self.range_ended.store(true, Ordering::SeqCst);
            self.queues.notify(RANGE);
            self.sleep();
        }

        /// As a guest at its end.
        fn leave(&self) {
            self.guest_left.store(true, Ordering::SeqCst);
            self.queues.notify(RANGE);
            self.sleep();
        }

        fn sleep(&self) {
            self.awake.fetch_sub(1, Ordering::SeqCst);
            self.queues.notify_blocked();
        }
    }

    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    fn spawn(world: &Arc<World>, code: fn(&World)) -> thread::JoinHandle<()> {
        let world = world.clone();
        thread::spawn(move || code(&world))
    }

    #[test]
    fn who_waits_for_a_range_whose_last_guest_leaves_is_not_told_that_it_is_hopeless() {
        explore(|| {
            let world = World::new(3);
            let others = [spawn(&world, World::host), spawn(&world, World::leave)];
            assert!(world.wait(|| world.range_ended.load(Ordering::SeqCst)));
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    #[test]
    fn a_guest_that_waits_in_vain_is_told_though_its_host_is_no_judge() {
        explore(|| {
            let world = World::new(2);
            let host = spawn(&world, World::host);
            assert!(!world.wait(|| false));
            world.leave();
            host.join().unwrap();
        });
    }

    #[test]
    fn of_two_that_wait_for_each_other_one_is_told() {
        explore(|| {
            let world = World::new(2);
            let other = spawn(&world, |world| {
                world.wait(|| world.range_ended.load(Ordering::SeqCst));
                world.leave();
            });
            world.wait(|| world.guest_left.load(Ordering::SeqCst));
            world.range_ended.store(true, Ordering::SeqCst);
            world.queues.notify(RANGE);
            world.sleep();
            other.join().unwrap();
        });
    }
}
