//! The table of light tasks with an id. Tasks never move and are found by the position in their id,
//! without a lock.
//!
//! Free positions lie in shards. Each thread uses one shard mostly, so a submitting thread and the
//! workers seldom contend. A position is used once a generation, so no id is used twice.
//!
//! Ids are those of `base/registry.rs`. Its `TaskTable` moves tasks when it grows and is used under
//! the planner lock; a common table would cost either a lock here or a lookup in blocks there.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::LightTask;
use crate::error::{Error, Result};
use crate::sched::base::{LIGHT_BIT, POSITIONS, SpinLock, TaskId, new_tag, no_memory, pack, stale, unpack};

const CHUNK: usize = 512;
const CHUNKS: usize = 1024;
const SHARDS: usize = 16;
/// New positions that a shard gets at a time, and positions that it takes from another one at most.
const GROWTH: usize = 64;
const MOVED_MAX: usize = 1024;

type Chunk = OnceLock<Box<[LightTask]>>;

pub struct LightSlab {
    tag: u64,
    blocks: Box<[OnceLock<Box<[Chunk]>>]>,
    /// Positions below this have been given to a shard.
    grown: AtomicUsize,
    shards: [CachePadded<SpinLock<Vec<u32>>>; SHARDS],
}

impl LightSlab {
    pub fn new() -> Self {
        LightSlab {
            tag: new_tag(),
            blocks: (0..POSITIONS.div_ceil(CHUNK * CHUNKS)).map(|_| OnceLock::new()).collect(),
            grown: AtomicUsize::new(0),
            shards: Default::default(),
        }
    }

    /// Returns an unused task and its position.
    pub fn allocate(&self) -> Result<(&LightTask, u32)> {
        let own = own_shard();
        let free = self.shards[own].lock().pop();
        let position = free.map_or_else(|| self.refill(own), Ok)?;
        Ok((self.at(position), position))
    }

    /// Frees a position whose task has no known id left.
    pub fn free(&self, position: u32) {
        self.shards[own_shard()].lock().push(position);
    }

    pub fn id(&self, position: u32, generation: u64) -> TaskId {
        TaskId(pack(self.tag, generation, position as usize) | LIGHT_BIT)
    }

    pub fn find(&self, id: TaskId) -> Result<(&LightTask, u64)> {
        self.lookup(id).ok_or_else(|| stale(id))
    }

    /// [`LightSlab::find`] without an error, whose 64 bytes would be copied.
    pub fn lookup(&self, id: TaskId) -> Option<(&LightTask, u64)> {
        let (tag, generation, position) = unpack(id);
        if tag != self.tag || position >= self.grown.load(Ordering::Acquire) {
            return None;
        }
        let task = self.at(position as u32);
        task.is_known(generation).then_some((task, generation))
    }

    /// Returns a task that was not freed, also one whose id callers have released.
    pub fn get(&self, id: TaskId) -> (&LightTask, u64) {
        let (_, generation, position) = unpack(id);
        (self.at(position as u32), generation)
    }

    pub fn at(&self, position: u32) -> &LightTask {
        let position = position as usize;
        let block = self.blocks[position / (CHUNK * CHUNKS)]
            .get_or_init(|| (0..CHUNKS).map(|_| OnceLock::new()).collect());
        let chunk =
            block[position / CHUNK % CHUNKS].get_or_init(|| (0..CHUNK).map(|_| LightTask::new()).collect());
        &chunk[position % CHUNK]
    }

    /// Moves free positions of another shard to this one, or else new ones. Returns one of them.
    #[cold]
    fn refill(&self, own: usize) -> Result<u32> {
        let others = (1..SHARDS).map(|step| &self.shards[(own + step) % SHARDS]);
        let found = others.map(|other| other.lock()).find_map(|mut free| {
            let rest = free.len() - free.len().div_ceil(2).min(MOVED_MAX);
            let mut more = free.split_off(rest);
            Some((more.pop()?, more))
        });
        let (position, mut more) = found.map_or_else(|| self.grow(), Ok)?;
        self.shards[own].lock().append(&mut more);
        Ok(position)
    }

    fn grow(&self) -> Result<(u32, Vec<u32>)> {
        loop {
            let first = self.grown.load(Ordering::Acquire);
            let end = first + GROWTH;
            if end > POSITIONS {
                return Err(Error::argument("tasks kept", first, "release those that have ended"));
            }
            if first.is_multiple_of(CHUNK) {
                // `at` aborts the process where an allocation fails: of a chunk, and at times of the
                // smaller list of the next chunks.
                let mut tried: Vec<LightTask> = Vec::new();
                let reserved = black_box(&mut tried).try_reserve_exact(2 * CHUNK);
                reserved.map_err(|_| no_memory::<LightTask>("the table of tasks", 2 * CHUNK))?;
                drop(tried);
                self.at(first as u32);
            }
            if self.grown.compare_exchange(first, end, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Ok((first as u32, (first as u32 + 1..end as u32).rev().collect()));
            }
        }
    }
}

fn own_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_position_is_used_again_also_by_other_threads() {
        let slab = LightSlab::new();
        let taken = || (0..GROWTH).map(|_| slab.allocate().unwrap().1).collect::<Vec<u32>>();
        taken().into_iter().for_each(|position| slab.free(position));
        for _ in 0..SHARDS + 1 {
            std::thread::scope(|scope| {
                scope.spawn(|| slab.free(slab.allocate().unwrap().1));
            });
        }
        assert_eq!(slab.grown.load(Ordering::Relaxed), GROWTH);
    }
}
