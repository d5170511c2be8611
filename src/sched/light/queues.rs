//! The queues of light tasks. Each worker pushes to and pops from the young end of its own deque,
//! and other workers steal from the old end. Threads that are no workers push to one injector.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use super::{EpochCounter, EpochCounts, LightJob};
use crate::sched::base::{
    Epoch, TaskId, lock,
    sync::{self, atomic::AtomicBool},
};

/// A queued task.
pub enum LightItem {
    /// A task in the slab.
    WithId(TaskId),
    /// A task whose id no caller has, so it is not in the slab.
    Detached { job: LightJob, epoch: Epoch },
}

/// Counts of outcomes: on one worker, or on all other threads.
#[derive(Default)]
pub struct EndCounts {
    pub done: AtomicU64,
    pub failed: AtomicU64,
    pub cancelled: AtomicU64,
}

/// Part of a worker that other threads see. The next worker of the slot takes it over.
pub struct WorkerShared {
    pub device: usize,
    pub slot: u32,
    /// The deque while no worker uses it.
    deque: Mutex<Option<Worker<LightItem>>>,
    stealer: Stealer<LightItem>,
    pub epochs: sync::Arc<EpochCounts>,
    pub stats: CachePadded<WorkerStats>,
}

/// Counters that one worker writes and all threads read.
#[derive(Default)]
pub struct WorkerStats {
    pub ends: EndCounts,
    pub busy_ns: AtomicU64,
    /// Light tasks that run on its thread: one, and those that wait for it.
    pub running: AtomicU64,
    /// When the last light task ended.
    pub light_until: AtomicU64,
    /// The worker's flag at the [`LightGate`](super::gate::LightGate).
    pub runs_light: AtomicBool,
    pub nested: NestedTasks,
}

/// The queues of a scheduler.
#[derive(Default)]
pub struct LightQueues {
    injector: Injector<LightItem>,
    workers: RwLock<Vec<Arc<WorkerShared>>>,
    /// The length of `workers`.
    version: AtomicUsize,
}

/// A worker's own end of the queues; it never leaves its thread.
pub struct LocalQueue {
    pub shared: Arc<WorkerShared>,
    deque: Worker<LightItem>,
    others: RefCell<(usize, Vec<Arc<WorkerShared>>)>,
    /// Calls of [`LightQueues::pop`].
    polls: Cell<u32>,
    /// The worker to steal from first.
    next_victim: Cell<usize>,
    /// Upper bound of the tasks in the deque that the current job has pushed.
    pub pushed: Cell<usize>,
}

/// Once in so many polls a worker does not take the youngest task of its deque first.
const FAIR_INTERVAL: u32 = 61;

impl LightQueues {
    /// Returns the queue of a new worker. A slot that had no worker before gets counts of `epochs`.
    pub fn add_worker(&self, device: usize, slot: u32, epochs: &EpochCounter) -> LocalQueue {
        let free = self.workers().iter().find_map(|shared| {
            let same = shared.device == device && shared.slot == slot;
            let deque = same.then(|| lock(&shared.deque).take()).flatten()?;
            Some((shared.clone(), deque))
        });
        let (shared, deque) = free.unwrap_or_else(|| {
            let deque = Worker::new_lifo();
            let shared = Arc::new(WorkerShared {
                device,
                slot,
                deque: Mutex::new(None),
                stealer: deque.stealer(),
                epochs: epochs.add_counts(),
                stats: CachePadded::default(),
            });
            self.workers.write().unwrap_or_else(PoisonError::into_inner).push(shared.clone());
            self.version.fetch_add(1, Ordering::SeqCst);
            (shared, deque)
        });
        LocalQueue {
            shared,
            deque,
            others: RefCell::new((usize::MAX, Vec::new())),
            polls: Cell::new(0),
            next_victim: Cell::new(0),
            pushed: Cell::new(0),
        }
    }

    /// Moves the tasks of a worker that is about to end to the injector.
    pub fn hand_over(&self, queue: &LocalQueue) {
        while let Some(item) = queue.deque.pop() {
            self.injector.push(item);
        }
    }

    /// Keeps the deque of a worker that has ended for the next one of its slot.
    pub fn remove_worker(&self, queue: LocalQueue) {
        *lock(&queue.shared.deque) = Some(queue.deque);
    }

    pub fn workers(&self) -> Vec<Arc<WorkerShared>> {
        self.workers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn for_each_worker(&self, mut see: impl FnMut(&WorkerShared)) {
        self.workers.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|shared| see(shared));
    }

    /// Returns true if the counters of any worker of a device but this one satisfy `is`.
    pub fn any_worker(
        &self,
        device: usize,
        but: Option<&WorkerShared>,
        is: impl Fn(&WorkerStats) -> bool,
    ) -> bool {
        self.workers.read().unwrap_or_else(PoisonError::into_inner).iter().any(|other| {
            other.device == device && !but.is_some_and(|own| std::ptr::eq(&**other, own)) && is(&other.stats)
        })
    }

    /// Pushes to the deque of a worker, or to the injector.
    pub fn push(&self, queue: Option<&LocalQueue>, item: LightItem) {
        match queue {
            Some(queue) => {
                queue.deque.push(item);
                queue.pushed.set(queue.pushed.get() + 1);
            }
            None => self.injector.push(item),
        }
    }

    /// Pops from the worker's own deque, else from the injector, else steals. Calls `moved` if it may
    /// have moved more tasks to the worker's deque than it returns.
    #[inline]
    pub fn pop(&self, queue: &LocalQueue, moved: impl FnOnce()) -> Option<LightItem> {
        let tick = queue.polls.get().wrapping_add(1);
        queue.polls.set(tick);
        if !tick.is_multiple_of(FAIR_INTERVAL)
            && let Some(item) = queue.deque.pop()
        {
            return Some(item);
        }
        let item = self.pop_shared(queue, tick);
        if item.is_some() && !queue.deque.is_empty() {
            moved();
        }
        item
    }

    /// Pops when the deque is empty, or a task that others may keep waiting: the oldest of the deque
    /// and one of the injector in turn.
    fn pop_shared(&self, queue: &LocalQueue, tick: u32) -> Option<LightItem> {
        let first = match tick.is_multiple_of(2) || queue.deque.is_empty() {
            true => None,
            false => until_settled(|| queue.shared.stealer.steal()),
        };
        first.or_else(|| self.pop_injected(queue)).or_else(|| queue.deque.pop()).or_else(|| self.steal(queue))
    }

    /// Returns true if [`LightQueues::pop`] may find an item.
    pub fn has_items(&self, queue: &LocalQueue) -> bool {
        !queue.deque.is_empty()
            || !self.injector.is_empty()
            || self.with_others(queue, |others| others.iter().any(|other| !other.stealer.is_empty()))
    }

    pub fn is_empty(&self) -> bool {
        let mut empty = self.injector.is_empty();
        self.for_each_worker(|shared| empty &= shared.stealer.is_empty());
        empty
    }

    /// Pops the task that the current job has submitted last, unless it was stolen.
    // Thieves take the oldest task. So while older tasks than the job's own are left, none of its
    // own was stolen; once none are left, an empty deque shows that the rest was.
    pub fn pop_own(&self, queue: &LocalQueue) -> Option<LightItem> {
        let left = queue.pushed.get();
        if left == 0 {
            return None;
        }
        queue.pushed.set(left - 1);
        let item = queue.deque.pop();
        if item.is_none() {
            queue.pushed.set(0);
        }
        item
    }

    /// Takes a task from any queue, for a thread that ends it without running it.
    pub fn drain_one(&self) -> Option<LightItem> {
        let steal = || self.workers().iter().map(|other| other.stealer.steal()).collect();
        until_settled(|| self.injector.steal().or_else(steal))
    }

    fn pop_injected(&self, queue: &LocalQueue) -> Option<LightItem> {
        until_settled(|| self.injector.steal_batch_and_pop(&queue.deque))
    }

    fn steal(&self, queue: &LocalQueue) -> Option<LightItem> {
        self.with_others(queue, |others| {
            let first = queue.next_victim.get();
            until_settled(|| {
                let order = (first..first + others.len()).map(|position| position % others.len());
                let steal = |victim: usize| {
                    let stolen = others[victim].stealer.steal_batch_and_pop(&queue.deque);
                    if stolen.is_success() {
                        queue.next_victim.set(victim);
                    }
                    stolen
                };
                order.map(steal).collect()
            })
        })
    }

    fn with_others<T>(&self, queue: &LocalQueue, see: impl FnOnce(&[Arc<WorkerShared>]) -> T) -> T {
        let mut others = queue.others.borrow_mut();
        let version = self.version.load(Ordering::SeqCst);
        if others.0 != version {
            let mut list = self.workers();
            list.retain(|shared| !Arc::ptr_eq(shared, &queue.shared));
            *others = (version, list);
        }
        see(&others.1)
    }
}

/// Repeats an attempt to steal until it has found an item or that there is none.
fn until_settled(attempt: impl FnMut() -> Steal<LightItem>) -> Option<LightItem> {
    std::iter::repeat_with(attempt).find(|found| !found.is_retry())?.success()
}

/// The light tasks that a worker runs inside a planned task that waits. If the attempt at the
/// planned task is abandoned because it does not return, the thread that abandons it ends them,
/// too.
#[derive(Default)]
pub struct NestedTasks(Mutex<NestedStack>);

#[derive(Default)]
struct NestedStack {
    /// The planned task that the worker runs or ran last, and the number of the attempt.
    planned: Option<(TaskId, u32)>,
    abandoned: bool,
    frames: Vec<NestedTask>,
}

/// A light task; its id is 0 if it has none.
#[derive(Clone, Copy)]
pub struct NestedTask {
    pub id: TaskId,
    pub epoch: Epoch,
}

impl NestedTasks {
    /// Sets the attempt that the worker runs. It stays set after its end, when the planner abandons
    /// it no more.
    pub fn set_planned(&self, bottom: (TaskId, u32)) {
        let mut stack = lock(&self.0);
        stack.planned = Some(bottom);
        stack.abandoned = false;
    }

    pub fn planned(&self) -> Option<(TaskId, u32)> {
        lock(&self.0).planned
    }

    pub fn abandon(&self, bottom: (TaskId, u32)) {
        let mut stack = lock(&self.0);
        stack.abandoned |= stack.planned == Some(bottom);
    }

    /// Returns whether the attempt at the planned task was abandoned.
    pub fn is_abandoned(&self) -> bool {
        lock(&self.0).abandoned
    }

    /// Returns the place of the task, for [`NestedTasks::pop`].
    pub fn push(&self, frame: NestedTask) -> usize {
        let frames = &mut lock(&self.0).frames;
        frames.push(frame);
        frames.len() - 1
    }

    /// Removes a task whose job has returned; `None`: the worker is in no planned task. Returns
    /// false if the task was ended with its abandoned thread.
    pub fn pop(&self, place: Option<usize>) -> bool {
        let Some(place) = place else { return true };
        // Those above it have returned before.
        let frames = &mut lock(&self.0).frames;
        frames.len() > place && frames.pop().is_some()
    }

    /// Takes the tasks inside an abandoned attempt. Calls `hold` for each before its thread can
    /// find that it was taken.
    pub fn take_all(&self, bottom: (TaskId, u32), hold: impl Fn(NestedTask)) -> Vec<NestedTask> {
        let mut stack = lock(&self.0);
        if stack.planned != Some(bottom) {
            return Vec::new();
        }
        let frames = std::mem::take(&mut stack.frames);
        frames.iter().copied().for_each(hold);
        frames
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn abandoned_thread_finds_its_task_held() {
        let nested = NestedTasks::default();
        let bottom = (TaskId(1), 1);
        nested.set_planned(bottom);
        let place = Some(nested.push(NestedTask { id: TaskId(2), epoch: 0 }));
        let (begun, held) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                assert!(!nested.pop(place));
                assert!(held.load(Ordering::SeqCst));
            });
            let taken = nested.take_all(bottom, |_| {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                held.store(true, Ordering::SeqCst);
            });
            assert_eq!(taken.len(), 1);
        });
    }
}
