//! The member's own record as it should be in the table.

use crate::node::queue::{HeldSlot, MemberRecord};

/// The member's record, and whether the table has it.
#[derive(Debug, Default)]
pub(super) struct OwnRecord {
    pub record: MemberRecord,
    /// Key of each held slot, in the order of `record.held_slots`.
    pub keys: Vec<u64>,
    pub next_key: u64,
    /// The record differs from the one in the table.
    pub dirty: bool,
    /// The member leaves as soon as it holds no slot.
    pub is_leaving: bool,
}

impl OwnRecord {
    /// Takes the member out of the queue.
    pub fn end_wait(&mut self) {
        if self.record.waits() {
            self.record.end_wait();
            self.dirty = true;
        }
    }

    /// Adds a held slot and returns its key.
    pub fn add(&mut self, held: HeldSlot) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.keys.push(key);
        self.record.held_slots.push(held);
        self.dirty = true;
        key
    }

    pub fn remove(&mut self, key: u64) {
        if let Some(index) = self.keys.iter().position(|other| *other == key) {
            self.keys.remove(index);
            self.record.held_slots.remove(index);
            self.dirty = true;
        }
    }

    pub fn set_used_bytes(&mut self, key: u64, bytes: u64) {
        let index = self.keys.iter().position(|other| *other == key);
        if let Some(held) = index.and_then(|index| self.record.held_slots.get_mut(index)) {
            self.dirty |= held.used_bytes != bytes;
            held.used_bytes = bytes;
        }
    }
}
