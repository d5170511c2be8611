//! What waits for a worker, and where: each worker has a deque of its own, which it uses as a stack and others steal
//! from at the old end; what other threads submit goes through one injector.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use super::epochs::{Epoch, EpochCounts, EpochSources};
use super::job::LightJob;
use super::nested::NestedTasks;
use crate::error::Result;
use crate::sched::base::signal::Signal;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;

/// What a worker takes from a queue.
pub enum LightItem {
    /// A task that somebody may ask for.
    Known(TaskId),
    /// A detached task that nobody can ask for: it needs no slot.
    Loose { code: LightJob, phase: Epoch },
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
    pub fn take_back(&self, outcome: &Result<()>) {
        self.of(outcome).fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of a worker by all. One that is gone leaves its station to the next of its slot.
pub struct WorkerShared {
    pub device: usize,
    pub slot: u32,
    /// While no worker has it.
    deque: Mutex<Option<Worker<LightItem>>>,
    stealer: Stealer<LightItem>,
    pub books: CachePadded<WorkerStats>,
}

/// What only the station's worker writes, but all may read.
pub struct WorkerStats {
    pub count: EpochCounts,
    pub ends: EndCounts,
    pub busy_ns: AtomicU64,
    /// Attempts that failed on the device.
    pub failed: AtomicU64,
    pub done: AtomicU64,
    /// When the light task that it runs began, plus 1; 0: it runs none.
    pub since: AtomicU64,
    /// When the last one ended.
    pub until: AtomicU64,
    /// It may be running light tasks; set before it looks whether it may.
    pub lit: AtomicBool,
    /// Of the loose task that it runs, or of the innermost; open while it runs none.
    pub signal: Signal,
    pub on_top: NestedTasks,
}

/// The queues of a scheduler.
pub struct LightQueues {
    injector: Injector<LightItem>,
    stations: RwLock<Vec<Arc<WorkerShared>>>,
    /// Raised with each new station.
    version: AtomicUsize,
    /// For all threads that are no workers.
    pub outside: CachePadded<CallerStats>,
}

pub struct CallerStats {
    pub count: EpochCounts,
    pub ends: EndCounts,
}

/// A worker's own end of the queues; it never leaves its thread.
pub struct LocalQueue {
    pub station: Arc<WorkerShared>,
    deque: Worker<LightItem>,
    others: RefCell<(usize, Vec<Arc<WorkerShared>>)>,
    /// Looks for work, so that now and then the injector comes first.
    ticks: Cell<u32>,
    /// Where to steal first.
    turn: Cell<usize>,
    /// What the current job has pushed into the own deque and not taken out again, at most.
    pub pushed: Cell<usize>,
}

/// How often a worker looks into the injector before its own deque.
const DOOR_FIRST: u32 = 61;

impl LightQueues {
    pub fn new() -> Self {
        LightQueues {
            injector: Injector::new(),
            stations: RwLock::default(),
            version: AtomicUsize::new(0),
            outside: CachePadded::new(CallerStats { count: EpochCounts::new(), ends: EndCounts::default() }),
        }
    }

    /// A station for a new worker.
    pub fn enter(&self, device: usize, slot: u32) -> LocalQueue {
        let free = self.stations().iter().find_map(|station| {
            let same = station.device == device && station.slot == slot;
            let deque = same.then(|| lock(&station.deque).take()).flatten()?;
            Some((station.clone(), deque))
        });
        let (station, deque) = free.unwrap_or_else(|| {
            let deque = Worker::new_lifo();
            let books = WorkerStats {
                count: EpochCounts::new(),
                ends: EndCounts::default(),
                busy_ns: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                done: AtomicU64::new(0),
                since: AtomicU64::new(0),
                until: AtomicU64::new(0),
                lit: AtomicBool::new(false),
                signal: Signal::default(),
                on_top: NestedTasks::default(),
            };
            let station = Arc::new(WorkerShared {
                device,
                slot,
                deque: Mutex::new(None),
                stealer: deque.stealer(),
                books: CachePadded::new(books),
            });
            self.stations.write().unwrap_or_else(PoisonError::into_inner).push(station.clone());
            self.version.fetch_add(1, Ordering::SeqCst);
            (station, deque)
        });
        LocalQueue {
            station,
            deque,
            others: RefCell::new((usize::MAX, Vec::new())),
            ticks: Cell::new(0),
            turn: Cell::new(0),
            pushed: Cell::new(0),
        }
    }

    /// What a worker that goes has left is for others.
    pub fn leave(&self, hand: LocalQueue) {
        while let Some(item) = hand.deque.pop() {
            self.injector.push(item);
        }
        *lock(&hand.station.deque) = Some(hand.deque);
    }

    pub fn stations(&self) -> Vec<Arc<WorkerShared>> {
        self.stations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn each_station(&self, mut see: impl FnMut(&WorkerShared)) {
        self.stations.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|station| see(station));
    }

    /// From a worker into its own deque, from others through the injector.
    pub fn push(&self, hand: Option<&LocalQueue>, item: LightItem) {
        match hand {
            Some(hand) => {
                hand.deque.push(item);
                hand.pushed.set(hand.pushed.get() + 1);
            }
            None => self.injector.push(item),
        }
    }

    /// The next item for a worker: its own first, then the injector's, then what others have.
    pub fn find(&self, hand: &LocalQueue) -> Option<LightItem> {
        let tick = hand.ticks.get().wrapping_add(1);
        hand.ticks.set(tick);
        if tick.is_multiple_of(DOOR_FIRST)
            && let Some(item) = self.take_at_door(hand)
        {
            return Some(item);
        }
        hand.deque.pop().or_else(|| self.take_at_door(hand)).or_else(|| self.steal(hand))
    }

    /// Whether there is anything to take, of one's own or from others.
    pub fn any(&self, hand: &LocalQueue) -> bool {
        !hand.deque.is_empty()
            || !self.injector.is_empty()
            || self.with_others(hand, |others| others.iter().any(|other| !other.stealer.is_empty()))
    }

    pub fn is_empty(&self) -> bool {
        let mut empty = self.injector.is_empty();
        self.each_station(|station| empty &= station.stealer.is_empty());
        empty
    }

    /// Whether everything that was submitted at some moment during this call has ended.
    pub fn is_drained(&self) -> bool {
        let (mut begun, mut ended) = (0, 0);
        self.each(&mut |count| ended += count.ended());
        self.each(&mut |count| begun += count.begun());
        begun == ended
    }

    /// What the current job has itself submitted last, if nobody has stolen it. The owner's end of the
    /// deque has the latest, thieves take the oldest: so as long as something older than the job's own is
    /// there, none of its own is gone, and when nothing older is, an empty deque tells.
    pub fn own(&self, hand: &LocalQueue) -> Option<LightItem> {
        let left = hand.pushed.get();
        if left == 0 {
            return None;
        }
        hand.pushed.set(left - 1);
        let item = hand.deque.pop();
        if item.is_none() {
            hand.pushed.set(0);
        }
        item
    }

    /// Anything from anywhere, for a thread that is to end it.
    pub fn plunder(&self) -> Option<LightItem> {
        loop {
            let mut again = false;
            match self.injector.steal() {
                Steal::Success(item) => return Some(item),
                Steal::Retry => again = true,
                Steal::Empty => {}
            }
            for station in self.stations() {
                match station.stealer.steal() {
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

    fn take_at_door(&self, hand: &LocalQueue) -> Option<LightItem> {
        loop {
            match self.injector.steal_batch_and_pop(&hand.deque) {
                Steal::Success(item) => return Some(item),
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => return None,
            }
        }
    }

    fn steal(&self, hand: &LocalQueue) -> Option<LightItem> {
        self.with_others(hand, |others| {
            let count = others.len();
            loop {
                let mut again = false;
                for step in 0..count {
                    let turn = (hand.turn.get() + step) % count;
                    match others[turn].stealer.steal_batch_and_pop(&hand.deque) {
                        Steal::Success(item) => {
                            hand.turn.set(turn);
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

    fn with_others<T>(&self, hand: &LocalQueue, see: impl FnOnce(&[Arc<WorkerShared>]) -> T) -> T {
        let mut others = hand.others.borrow_mut();
        let version = self.version.load(Ordering::SeqCst);
        if others.0 != version {
            let mut list = self.stations();
            list.retain(|station| !Arc::ptr_eq(station, &hand.station));
            *others = (version, list);
        }
        see(&others.1)
    }
}

impl EpochSources for LightQueues {
    fn each(&self, see: &mut dyn FnMut(&EpochCounts)) {
        see(&self.outside.count);
        self.each_station(|station| see(&station.books.count));
    }
}
