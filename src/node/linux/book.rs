//! What a member is to have written down.

use crate::node::line::{Held, Member};

/// A member's record as it is to be.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub member: Member,
    /// Of the holds, in the same order.
    pub keys: Vec<u64>,
    pub next_key: u64,
    /// It differs from what the file has.
    pub changed: bool,
}

impl Book {
    pub fn end_wait(&mut self) {
        if self.member.waits() {
            self.member.ticket = 0;
            self.member.places.iter_mut().for_each(|place| (place.cost, place.bytes) = (None, 0));
            self.changed = true;
        }
    }

    /// The key by which it is found again.
    pub fn add(&mut self, held: Held) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.keys.push(key);
        self.member.holds.push(held);
        self.changed = true;
        key
    }

    pub fn remove(&mut self, key: u64) {
        if let Some(at) = self.keys.iter().position(|other| *other == key) {
            self.keys.remove(at);
            self.member.holds.remove(at);
            self.changed = true;
        }
    }

    pub fn use_of(&mut self, key: u64, bytes: u64) {
        let at = self.keys.iter().position(|other| *other == key);
        if let Some(held) = at.and_then(|at| self.member.holds.get_mut(at)) {
            self.changed |= held.in_use != bytes;
            held.in_use = bytes;
        }
    }
}
