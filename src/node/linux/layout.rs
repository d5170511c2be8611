//! The file of the leases, byte by byte, in little endian. Whatever is read is believed only where it is sound.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 127 | the head: magic (8), boot id (16), changes (8), next ticket (8), seconds per unit of cost (8, 0: nobody has measured), number of devices (4) |
//! | from 128 | 64 UUIDs: length (1), then up to 95 characters |
//! | from 8192 | 256 records of 8192 bytes |
//!
//! A record: magic (4), process (4), ticket (8), priority (4), how often revived (4), number of places (2), of holds (2), 4 of 0;
//! then the places: device (2), slots (2), cost (4, NaN: not there), bytes (8); then the holds: device (2), 6 of 0,
//! begun (8), cost (8, NaN: not told), bytes (8), bytes in use (8).

use crate::node::line::{Held, Member, Place};

pub(super) const MEMBERS: usize = 256;
pub(super) const DEVICES: usize = 64;
/// A device has no more of them.
pub(super) const SLOTS: u32 = u16::MAX as u32;
pub(super) const HEAD: usize = 128;
pub(super) const RECORD: usize = 8192;
const UUID: usize = 96;
/// Where the records begin.
pub(super) const RECORDS: usize = 8192;
const _: () = assert!(HEAD + DEVICES * UUID <= RECORDS);
const FIXED: usize = 32;
const PLACE: usize = 16;
const HOLD: usize = 40;

const MAGIC: [u8; 8] = *b"gpuslea1";
const MEMBER: u32 = 0x6d65_6d62;
/// No counter of ours comes near it.
const LARGEST: u64 = 1 << 62;
/// Costs and what they are worth lie within this.
const SANE: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Where the record of a member is.
pub(super) fn place_of(member: usize) -> u64 {
    (RECORDS + member * RECORD) as u64
}

/// A cost or a worth that can be reckoned with.
pub(super) fn sane(value: f64) -> Option<f64> {
    SANE.contains(&value).then_some(value)
}

/// The cost that can be reckoned with which is nearest to this one.
pub(super) fn nearest(cost: f64) -> f64 {
    if cost.is_nan() { *SANE.end() } else { cost.clamp(*SANE.start(), *SANE.end()) }
}

/// The beginning of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head {
    /// The kernel that was running when it was written.
    pub boot: [u8; 16],
    /// Counts what members have written.
    pub changes: u64,
    /// From 1 on.
    pub next_ticket: u64,
    pub worth: Option<f64>,
    pub devices: usize,
}

impl Head {
    pub fn new(boot: [u8; 16]) -> Head {
        Head { boot, changes: 1, next_ticket: 1, worth: None, devices: 0 }
    }

    /// `None`: it is no head.
    pub fn parse(bytes: &[u8; HEAD]) -> Option<Head> {
        let mut from = Reader(bytes);
        let magic: [u8; 8] = from.take();
        let head = Head {
            boot: from.take(),
            changes: from.u64(),
            next_ticket: from.u64(),
            worth: sane(f64::from_bits(from.u64())),
            devices: from.u32() as usize,
        };
        let sound = magic == MAGIC
            && head.changes < LARGEST
            && (1..LARGEST).contains(&head.next_ticket)
            && head.devices <= DEVICES;
        sound.then_some(head)
    }

    pub fn bytes(&self) -> [u8; HEAD] {
        let mut into = Vec::with_capacity(HEAD);
        into.extend(MAGIC);
        into.extend(self.boot);
        into.extend(self.changes.to_le_bytes());
        into.extend(self.next_ticket.to_le_bytes());
        into.extend(self.worth.unwrap_or(0.0).to_bits().to_le_bytes());
        into.extend((self.devices as u32).to_le_bytes());
        into.resize(HEAD, 0);
        into.try_into().unwrap_or([0; HEAD])
    }
}

/// Whether a device can be called so.
pub(super) fn is_uuid(uuid: &str) -> bool {
    (1..UUID).contains(&uuid.len()) && uuid.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Head and table, to where the records begin.
pub(super) fn front(head: &Head, uuids: &[String]) -> Vec<u8> {
    let mut into = head.bytes().to_vec();
    for (number, uuid) in uuids.iter().enumerate() {
        into.push(uuid.len() as u8);
        into.extend(uuid.as_bytes());
        into.resize(HEAD + (number + 1) * UUID, 0);
    }
    into.resize(RECORDS, 0);
    into
}

/// The devices that have been named; `None`: they are no names, or a name is there twice.
pub(super) fn uuids(head: &Head, front: &[u8]) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for entry in front.get(HEAD..)?.chunks_exact(UUID).take(head.devices) {
        let uuid = std::str::from_utf8(entry.get(1..=usize::from(entry[0]))?).ok()?;
        if !is_uuid(uuid) || found.iter().any(|other| other == uuid) {
            return None;
        }
        found.push(uuid.to_owned());
    }
    (found.len() == head.devices).then_some(found)
}

/// How many slots a member can hold that knows so many devices.
pub(super) fn room(places: usize) -> usize {
    (RECORD - FIXED - places * PLACE) / HOLD
}

/// The record of a member.
pub(super) fn record(member: &Member, process: u32) -> Vec<u8> {
    let mut into = Vec::with_capacity(512);
    into.extend(MEMBER.to_le_bytes());
    into.extend(process.to_le_bytes());
    into.extend(member.ticket.to_le_bytes());
    into.extend(member.priority.to_le_bytes());
    into.extend(member.revived.to_le_bytes());
    into.extend((member.places.len() as u16).to_le_bytes());
    into.extend((member.holds.len() as u16).to_le_bytes());
    into.extend([0; 4]);
    for place in &member.places {
        into.extend((place.device as u16).to_le_bytes());
        into.extend((place.slots.min(SLOTS) as u16).to_le_bytes());
        into.extend((place.cost.map_or(f32::NAN, |cost| cost as f32)).to_bits().to_le_bytes());
        into.extend(place.bytes.to_le_bytes());
    }
    for held in &member.holds {
        into.extend((held.device as u16).to_le_bytes());
        into.extend([0; 6]);
        into.extend(held.begun.to_le_bytes());
        into.extend(held.cost.unwrap_or(f64::NAN).to_bits().to_le_bytes());
        into.extend(held.bytes.to_le_bytes());
        into.extend(held.in_use.to_le_bytes());
    }
    into
}

/// Which process a record is of, to be named in words.
pub(super) fn process(record: &[u8]) -> Option<u32> {
    let mut from = Reader(record);
    (from.u32() == MEMBER).then(|| from.u32())
}

/// How many bytes a record has that begins like this.
pub(super) fn length(begin: &[u8]) -> usize {
    let mut from = Reader(begin.get(24..).unwrap_or_default());
    let (places, holds) = (from.u16(), from.u16());
    (FIXED + usize::from(places) * PLACE + usize::from(holds) * HOLD).min(RECORD)
}

/// What a living member has written; what is not sound in it is left out.
pub(super) fn member(id: usize, record: &[u8], head: &Head) -> Member {
    let mut from = Reader(record);
    let mut member = Member { id, ..Member::default() };
    if from.u32() != MEMBER {
        return member;
    }
    from.u32();
    member.ticket = Some(from.u64()).filter(|ticket| *ticket < head.next_ticket).unwrap_or(0);
    member.priority = from.u32() as i32;
    member.revived = from.u32();
    let (places, holds) = (from.u16(), from.u16());
    from.u32();
    for _ in 0..places {
        if from.0.len() < PLACE {
            break;
        }
        let place = Place {
            device: from.u16().into(),
            slots: from.u16().into(),
            cost: sane(f32::from_bits(from.u32()).into()),
            bytes: from.u64(),
        };
        let known = member.places.iter().any(|other| other.device == place.device);
        if place.device < head.devices && !known {
            member.places.push(place);
        }
    }
    for _ in 0..holds {
        if from.0.len() < HOLD {
            break;
        }
        let device = usize::from(from.u16());
        let _: [u8; 6] = from.take();
        let begun = from.u64();
        let cost = sane(f64::from_bits(from.u64()));
        let held = Held { device, begun, cost, bytes: from.u64(), in_use: from.u64() };
        if device < head.devices {
            member.holds.push(held);
        }
    }
    member
}

/// Reads numbers one after the other; beyond the end they are 0.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let there = self.0.len().min(N);
        let (begin, rest) = self.0.split_at(there);
        taken[..there].copy_from_slice(begin);
        self.0 = rest;
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests;
