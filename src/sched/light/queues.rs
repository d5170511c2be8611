//! What waits for a worker, and where: each worker has a deque of its own, which it uses as a stack and others steal
//! from at the old end; what other threads submit goes through one injector.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use super::epochs::{Epoch, EpochCounts, EpochSources};
use super::job::LightJob;
use super::nested::NestedTasks;
use crate::error::Result;
use crate::sched::base::signal::Signal;
use crate::sched::base::sync::atomic::AtomicBool;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;

/// What a worker takes from a queue.
pub enum LightItem {
    /// A task that somebody may ask for.
    WithId(TaskId),
    /// A detached task that nobody can ask for: it needs no slot.
    Detached { job: LightJob, epoch: Epoch },
}

/// How tasks ended: for one worker, or for all other threads.
#[derive(Default)]
pub struct EndCounts {
    pub done: AtomicU64,
    pub failed: AtomicU64,
    pub cancelled: AtomicU64,
}

impl EndCounts {
    pub fn add(&self, outcome: &Result<()>) {
        let count = self.of(outcome);
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, outcome: &Result<()>) -> &AtomicU64 {
        match outcome {
            Ok(()) => &self.done,
            Err(crate::error::Error::Cancelled) => &self.cancelled,
            Err(_) => &self.failed,
        }
    }

    /// One that was counted is counted elsewhere.
    pub fn uncount(&self, outcome: &Result<()>) {
        self.of(outcome).fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of a worker by all. One that is gone leaves its shared to the next of its slot.
pub struct WorkerShared {
    pub device: usize,
    pub slot: u32,
    /// While no worker has it.
    deque: Mutex<Option<Worker<LightItem>>>,
    stealer: Stealer<LightItem>,
    pub stats: CachePadded<WorkerStats>,
}

/// What only the shared's worker writes, but all may read.
pub struct WorkerStats {
    pub epochs: EpochCounts,
    pub ends: EndCounts,
    pub busy_ns: AtomicU64,
    /// Attempts that failed on the device.
    pub failed_attempts: AtomicU64,
    pub done_attempts: AtomicU64,
    /// When the light task that it runs began, plus 1; 0: it runs none.
    pub light_since: AtomicU64,
    /// When the last one ended.
    pub light_until: AtomicU64,
    /// It may be running light tasks; set before it looks whether it may.
    pub runs_light: AtomicBool,
    /// Of the loose task that it runs, or of the innermost; open while it runs none.
    pub signal: Signal,
    pub nested: NestedTasks,
}

/// The queues of a scheduler.
pub struct LightQueues {
    injector: Injector<LightItem>,
    workers: RwLock<Vec<Arc<WorkerShared>>>,
    /// Raised with each new shared.
    version: AtomicUsize,
    /// For all threads that are no workers.
    pub callers: CachePadded<CallerStats>,
}

pub struct CallerStats {
    pub epochs: EpochCounts,
    pub ends: EndCounts,
}

/// A worker's own end of the queues; it never leaves its thread.
pub struct LocalQueue {
    pub shared: Arc<WorkerShared>,
    deque: Worker<LightItem>,
    others: RefCell<(usize, Vec<Arc<WorkerShared>>)>,
    /// Looks for work, so that now and then the injector comes first.
    polls: Cell<u32>,
    /// Where to steal first.
    next_victim: Cell<usize>,
    /// What the current job has pushed into the own deque and not taken out again, at most.
    pub pushed: Cell<usize>,
}

/// How often a worker looks into the injector before its own deque.
const INJECTOR_INTERVAL: u32 = 61;

impl LightQueues {
    pub fn new() -> Self {
        LightQueues {
            injector: Injector::new(),
            workers: RwLock::default(),
            version: AtomicUsize::new(0),
            callers: CachePadded::new(CallerStats { epochs: EpochCounts::new(), ends: EndCounts::default() }),
        }
    }

    /// A shared for a new worker.
    pub fn add_worker(&self, device: usize, slot: u32) -> LocalQueue {
        let free = self.workers().iter().find_map(|shared| {
            let same = shared.device == device && shared.slot == slot;
            let deque = same.then(|| lock(&shared.deque).take()).flatten()?;
            Some((shared.clone(), deque))
        });
        let (shared, deque) = free.unwrap_or_else(|| {
            let deque = Worker::new_lifo();
            let stats = WorkerStats {
                epochs: EpochCounts::new(),
                ends: EndCounts::default(),
                busy_ns: AtomicU64::new(0),
                failed_attempts: AtomicU64::new(0),
                done_attempts: AtomicU64::new(0),
                light_since: AtomicU64::new(0),
                light_until: AtomicU64::new(0),
                runs_light: AtomicBool::new(false),
                signal: Signal::default(),
                nested: NestedTasks::default(),
            };
            let shared = Arc::new(WorkerShared {
                device,
                slot,
                deque: Mutex::new(None),
                stealer: deque.stealer(),
                stats: CachePadded::new(stats),
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

    /// What a worker that goes has left is for others.
    pub fn remove_worker(&self, queue: LocalQueue) {
        while let Some(item) = queue.deque.pop() {
            self.injector.push(item);
        }
        *lock(&queue.shared.deque) = Some(queue.deque);
    }

    pub fn workers(&self) -> Vec<Arc<WorkerShared>> {
        self.workers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn for_each_worker(&self, mut see: impl FnMut(&WorkerShared)) {
        self.workers.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|shared| see(shared));
    }

    /// From a worker into its own deque, from others through the injector.
    pub fn push(&self, queue: Option<&LocalQueue>, item: LightItem) {
        match queue {
            Some(queue) => {
                queue.deque.push(item);
                queue.pushed.set(queue.pushed.get() + 1);
            }
            None => self.injector.push(item),
        }
    }

    /// The next item for a worker: its own first, then the injector's, then what others have.
    pub fn pop(&self, queue: &LocalQueue) -> Option<LightItem> {
        let tick = queue.polls.get().wrapping_add(1);
        queue.polls.set(tick);
        if tick.is_multiple_of(INJECTOR_INTERVAL)
            && let Some(item) = self.pop_injected(queue)
        {
            return Some(item);
        }
        queue.deque.pop().or_else(|| self.pop_injected(queue)).or_else(|| self.steal(queue))
    }

    /// Whether there is anything to take, of one's own or from others.
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

    /// Whether everything that was submitted at some moment during this call has ended.
    pub fn is_drained(&self) -> bool {
        let (mut begun, mut ended) = (0, 0);
        self.for_each(&mut |count| ended += count.ended());
        self.for_each(&mut |count| begun += count.begun());
        begun == ended
    }

    /// What the current job has itself submitted last, if nobody has stolen it. The owner's end of the
    /// deque has the latest, thieves take the oldest: so as long as something older than the job's own is
    /// there, none of its own is gone, and when nothing older is, an empty deque tells.
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

    /// Anything from anywhere, for a thread that is to end it.
    pub fn drain_one(&self) -> Option<LightItem> {
        loop {
            let mut again = false;
            match self.injector.steal() {
                Steal::Success(item) => return Some(item),
                Steal::Retry => again = true,
                Steal::Empty => {}
            }
            for shared in self.workers() {
                match shared.stealer.steal() {
                    Steal::Success(item) => return Some(item),
                    Steal::Retry => again = true,
                    Steal::Empty => {}
                }
            }
            if !again {
                return None;
            }
        }
    }

    fn pop_injected(&self, queue: &LocalQueue) -> Option<LightItem> {
        loop {
            match self.injector.steal_batch_and_pop(&queue.deque) {
                Steal::Success(item) => return Some(item),
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => return None,
            }
        }
    }

    fn steal(&self, queue: &LocalQueue) -> Option<LightItem> {
        self.with_others(queue, |others| {
            let count = others.len();
            loop {
                let mut again = false;
                for step in 0..count {
                    let next_victim = (queue.next_victim.get() + step) % count;
                    match others[next_victim].stealer.steal_batch_and_pop(&queue.deque) {
                        Steal::Success(item) => {
                            queue.next_victim.set(next_victim);
                            return Some(item);
                        }
                        Steal::Retry => again = true,
                        Steal::Empty => {}
                    }
                }
                if !again {
                    return None;
                }
            }
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

impl EpochSources for LightQueues {
    fn for_each(&self, see: &mut dyn FnMut(&EpochCounts)) {
        see(&self.callers.epochs);
        self.for_each_worker(|shared| see(&shared.stats.epochs));
    }
}
