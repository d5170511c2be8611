//! The table of planned tasks, and the ids of all tasks. An id goes stale when its task is removed,
//! and is never used again.
//!
//! | bits | contents |
//! |---|---|
//! | 15 | tag: differs between the tables of the last 16,384 schedulers of a process |
//! | 22 | generation: how often the position was used; begins at 1, so 0 is no id |
//! | 27 | position in the table; the highest bit is set for light tasks |

use std::sync::atomic::{AtomicU64, Ordering};

use super::TaskId;
use crate::error::{Error, Result};

const POSITION_BITS: u32 = 27;
const GENERATION_BITS: u32 = 22;
pub const GENERATIONS: u64 = 1 << GENERATION_BITS;
/// Positions of each of the two tables.
pub const POSITIONS: usize = 1 << (POSITION_BITS - 1);
/// The bit of the position that is set for light tasks.
pub const LIGHT_BIT: u64 = POSITIONS as u64;

impl TaskId {
    /// Returns whether the id is one of a light task, of any scheduler.
    pub fn is_light(self) -> bool {
        self.0 & LIGHT_BIT != 0
    }
}

pub fn new_tag() -> u64 {
    static REGISTRIES: AtomicU64 = AtomicU64::new(0);
    REGISTRIES.fetch_add(1, Ordering::Relaxed) % (1 << (64 - POSITION_BITS - GENERATION_BITS))
}

pub fn pack(tag: u64, generation: u64, position: usize) -> u64 {
    (tag << GENERATION_BITS | generation) << POSITION_BITS | position as u64
}

/// Returns the tag, the generation and the position of an id, without [`LIGHT_BIT`].
pub fn unpack(TaskId(id): TaskId) -> (u64, u64, usize) {
    let generation = id >> POSITION_BITS & (GENERATIONS - 1);
    (id >> (POSITION_BITS + GENERATION_BITS), generation, (id & (LIGHT_BIT - 1)) as usize)
}

pub struct TaskTable<T> {
    tag: u64,
    slots: Vec<TableSlot<T>>,
    free: Vec<usize>,
    /// Number of look-ups, for tests that count steps.
    #[cfg(test)]
    pub reads: std::cell::Cell<usize>,
}

struct TableSlot<T> {
    generation: u64,
    value: Option<T>,
}

impl<T> Default for TaskTable<T> {
    fn default() -> Self {
        TaskTable {
            tag: new_tag(),
            slots: Vec::new(),
            free: Vec::new(),
            #[cfg(test)]
            reads: Default::default(),
        }
    }
}

impl<T> TaskTable<T> {
    /// Allocates memory for so many more tasks. Fails if the table or the host has too little room.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        if self.free.len() + (POSITIONS - self.slots.len()) < more {
            return Err(Error::argument("tasks kept", self.slots.len(), "release those that have ended"));
        }
        let new = more.saturating_sub(self.free.len());
        let count = self.slots.len() + new;
        let failed = |_| no_memory::<TableSlot<T>>("the table of tasks", count);
        self.slots.try_reserve(new).map_err(failed)
    }

    pub fn insert(&mut self, value: T) -> Result<TaskId> {
        self.reserve(1)?;
        let position = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TableSlot { generation: 0, value: None });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[position];
        slot.generation += 1;
        slot.value = Some(value);
        let generation = slot.generation;
        Ok(self.id(generation, position))
    }

    pub fn get(&self, id: TaskId) -> Result<&T> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        let position = self.position(id)?;
        self.slots[position].value.as_ref().ok_or_else(|| stale(id))
    }

    pub fn get_mut(&mut self, id: TaskId) -> Result<&mut T> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        let position = self.position(id)?;
        self.slots[position].value.as_mut().ok_or_else(|| stale(id))
    }

    pub fn remove(&mut self, id: TaskId) -> Result<T> {
        let position = self.position(id)?;
        let value = self.slots[position].value.take().ok_or_else(|| stale(id))?;
        // No generation is used twice.
        if self.slots[position].generation + 1 < GENERATIONS {
            self.free.push(position);
        }
        Ok(value)
    }

    /// Returns the value whose id ends with these bits.
    pub fn find(&self, low: u32) -> Option<&T> {
        let position = (u64::from(low) & (LIGHT_BIT - 1)) as usize;
        let slot = self.slots.get(position)?;
        slot.value.as_ref().filter(|_| self.id(slot.generation, position).0 as u32 == low)
    }

    pub fn ids(&self) -> Vec<TaskId> {
        let here = self.slots.iter().enumerate().filter(|(_, slot)| slot.value.is_some());
        here.map(|(position, slot)| self.id(slot.generation, position)).collect()
    }

    fn id(&self, generation: u64, position: usize) -> TaskId {
        TaskId(pack(self.tag, generation, position))
    }

    fn position(&self, id: TaskId) -> Result<usize> {
        let position = unpack(id).2;
        match self.slots.get(position) {
            Some(slot) if id == self.id(slot.generation, position) => Ok(position),
            _ => Err(stale(id)),
        }
    }
}

/// Returns the error of an allocation of so many values that the host refuses.
pub fn no_memory<T>(what: &str, count: usize) -> Error {
    Error::NoHostMemory { what: what.into(), bytes: (count * size_of::<T>()) as u64 }
}

pub fn stale(id: TaskId) -> Error {
    Error::Stale { what: "task", id: id.0 }
}

/// Returns the error of a wait for a detached task.
pub fn detached(TaskId(id): TaskId) -> Error {
    Error::argument("the task to wait for", format_args!("{id:#018x}"), "a task that is not detached")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_id_stays_stale_when_its_position_is_used_again() {
        let mut registry = TaskTable::default();
        let first = registry.insert('a').unwrap();
        assert_eq!(registry.remove(first), Ok('a'));
        let second = registry.insert('b').unwrap();
        assert_ne!(first, second);
        assert!(matches!(registry.get(first), Err(Error::Stale { .. })));
        assert_eq!(registry.get(second), Ok(&'b'));
        assert!(registry.remove(first).is_err());
    }

    #[test]
    fn position_without_generations_left_is_not_used() {
        let mut registry = TaskTable::default();
        let first = registry.insert('a').unwrap();
        registry.slots[0].generation = GENERATIONS - 2;
        registry.free.push(0);
        registry.slots[0].value = None;
        let last = registry.insert('z').unwrap();
        assert_eq!(registry.remove(last), Ok('z'));
        let next = registry.insert('b').unwrap();
        assert_eq!(unpack(next).2, 1, "not at the position of the first");
        assert!(registry.get(first).is_err() && registry.get(last).is_err());
    }

    #[test]
    fn ids_of_another_table_and_invented_ones_are_unknown() {
        let mut table = TaskTable::default();
        let id = table.insert(1).unwrap();
        assert!(table.get(TaskId(0)).is_err() && table.get(TaskId(u64::MAX)).is_err());
        // Those of the next ten thousand schedulers, which have two tables each.
        for _ in 0..20_000 {
            let mut next = TaskTable::default();
            next.insert(2).unwrap();
            assert!(next.get(id).is_err());
        }
    }
}
