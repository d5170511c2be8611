//! Layout of the table file, little endian. Every number that is read is checked before it is used.
//!
//! | bytes | contents |
//! |---|---|
//! | 0 to 127 | header |
//! | from 128 | 64 UUIDs: length (1), then up to 95 characters |
//! | from 8192 | 256 records of 8192 bytes |
//!
//! The header: magic (8), boot id (16), count of changes (8), next ticket (8), seconds per unit of
//! cost (8; 0: not measured), number of devices (4).
//!
//! A record: magic (4), process (4), ticket (8), zeros (4), resumptions (4), number of devices (2),
//! number of held slots (2), zeros (4). Then the devices: index (2), slots (2); of the task that
//! would begin there cost (4; NaN: there is none), priority (4), number (4). Then the held slots:
//! device (2), zeros (6), start (8), cost (8; NaN: not known), bytes (8), used bytes (8).

use crate::node::queue::{DeviceEntry, HeldSlot, MemberRecord};
use crate::node::request::RequestedTask;

pub(super) const MAX_MEMBERS: usize = 256;
pub(super) const MAX_DEVICES: usize = 64;
/// Maximum number of slots of a device.
pub(super) const MAX_SLOTS: u32 = u16::MAX as u32;
pub(super) const HEADER_BYTES: usize = 128;
pub(super) const RECORD_BYTES: usize = 8192;
const UUID_BYTES: usize = 96;
/// Offset of the first record.
pub(super) const RECORDS_OFFSET: usize = 8192;
const _: () = assert!(HEADER_BYTES + MAX_DEVICES * UUID_BYTES <= RECORDS_OFFSET);
/// Bytes of a record before its devices.
const PREFIX_BYTES: usize = 32;
const DEVICE_BYTES: usize = 16;
const SLOT_BYTES: usize = 40;

const TABLE_MAGIC: [u8; 8] = *b"gpuslea2";
const RECORD_MAGIC: u32 = 0x6d65_6d62;
/// Bound of the counters. 2^62 changes would take over 100,000 years at one per microsecond.
const MAX_COUNT: u64 = 1 << 62;
/// Accepted costs, and seconds per unit of cost. A record has costs as `f32`, which rounds the
/// bounds up.
const COST_RANGE: std::ops::RangeInclusive<f64> = 1e-30..=1e30_f32 as f64;

/// Returns the offset of a member's record.
pub(super) fn record_offset(member: usize) -> u64 {
    (RECORDS_OFFSET + member * RECORD_BYTES) as u64
}

/// Returns the value if it is an accepted cost.
pub(super) fn valid_cost(value: f64) -> Option<f64> {
    COST_RANGE.contains(&value).then_some(value)
}

/// Returns the accepted cost nearest to this one; of NaN the largest.
pub(super) fn clamp_cost(cost: f64) -> f64 {
    if cost.is_nan() { *COST_RANGE.end() } else { cost.clamp(*COST_RANGE.start(), *COST_RANGE.end()) }
}

/// The header of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TableHeader {
    /// Id of the running kernel at the time of writing.
    pub boot_id: [u8; 16],
    /// Counts the writes of all members.
    pub changes: u64,
    /// Ticket that the next waiter draws, from 1.
    pub next_ticket: u64,
    /// `None`: no member has measured it.
    pub seconds_per_cost: Option<f64>,
    pub devices: usize,
}

impl TableHeader {
    pub fn new(boot_id: [u8; 16]) -> TableHeader {
        TableHeader { boot_id, changes: 1, next_ticket: 1, seconds_per_cost: None, devices: 0 }
    }

    /// Returns `None` if the bytes are not a valid header.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<TableHeader> {
        let mut from = Reader(bytes);
        let magic: [u8; 8] = from.take();
        let header = TableHeader {
            boot_id: from.take(),
            changes: from.u64(),
            next_ticket: from.u64(),
            seconds_per_cost: valid_cost(f64::from_bits(from.u64())),
            devices: from.u32() as usize,
        };
        let is_valid = magic == TABLE_MAGIC
            && header.changes < MAX_COUNT
            && (1..MAX_COUNT).contains(&header.next_ticket)
            && header.devices <= MAX_DEVICES;
        is_valid.then_some(header)
    }

    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut into = Vec::with_capacity(HEADER_BYTES);
        into.extend(TABLE_MAGIC);
        into.extend(self.boot_id);
        into.extend(self.changes.to_le_bytes());
        into.extend(self.next_ticket.to_le_bytes());
        into.extend(self.seconds_per_cost.unwrap_or(0.0).to_bits().to_le_bytes());
        into.extend((self.devices as u32).to_le_bytes());
        into.resize(HEADER_BYTES, 0);
        into.try_into().unwrap_or([0; HEADER_BYTES])
    }
}

/// Returns true if the table can hold this name of a device.
pub(super) fn is_uuid(uuid: &str) -> bool {
    (1..UUID_BYTES).contains(&uuid.len()) && uuid.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the bytes of header and UUIDs, up to the first record.
pub(super) fn header_and_uuids(header: &TableHeader, uuids: &[String]) -> Vec<u8> {
    let mut into = header.to_bytes().to_vec();
    for (number, uuid) in uuids.iter().enumerate() {
        into.push(uuid.len() as u8);
        into.extend(uuid.as_bytes());
        into.resize(HEADER_BYTES + (number + 1) * UUID_BYTES, 0);
    }
    into.resize(RECORDS_OFFSET, 0);
    into
}

/// Returns the UUIDs of the table. `None`: one is invalid, or occurs twice.
pub(super) fn parse_uuids(header: &TableHeader, front: &[u8]) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for entry in front.get(HEADER_BYTES..)?.chunks_exact(UUID_BYTES).take(header.devices) {
        let uuid = std::str::from_utf8(entry.get(1..=usize::from(entry[0]))?).ok()?;
        if !is_uuid(uuid) || found.iter().any(|other| other == uuid) {
            return None;
        }
        found.push(uuid.to_owned());
    }
    (found.len() == header.devices).then_some(found)
}

/// Returns the number of held slots for which a record with so many devices has room.
pub(super) fn max_held_slots(devices: usize) -> usize {
    (RECORD_BYTES - PREFIX_BYTES - devices * DEVICE_BYTES) / SLOT_BYTES
}

/// Returns the bytes of a record.
pub(super) fn record_bytes(member: &MemberRecord, process: u32) -> Vec<u8> {
    let mut into = Vec::with_capacity(512);
    into.extend(RECORD_MAGIC.to_le_bytes());
    into.extend(process.to_le_bytes());
    into.extend(member.ticket.to_le_bytes());
    into.extend([0; 4]);
    into.extend(member.resumptions.to_le_bytes());
    into.extend((member.devices.len() as u16).to_le_bytes());
    into.extend((member.held_slots.len() as u16).to_le_bytes());
    into.extend([0; 4]);
    for entry in &member.devices {
        into.extend((entry.device as u16).to_le_bytes());
        into.extend((entry.slots.min(MAX_SLOTS) as u16).to_le_bytes());
        let none = RequestedTask { number: 0, priority: 0, cost: f64::NAN };
        let RequestedTask { number, priority, cost } = entry.task.unwrap_or(none);
        into.extend((cost as f32).to_bits().to_le_bytes());
        into.extend(priority.to_le_bytes());
        into.extend(number.to_le_bytes());
    }
    for held in &member.held_slots {
        into.extend((held.device as u16).to_le_bytes());
        into.extend([0; 6]);
        into.extend(held.started_ns.to_le_bytes());
        into.extend(held.cost.unwrap_or(f64::NAN).to_bits().to_le_bytes());
        into.extend(held.bytes.to_le_bytes());
        into.extend(held.used_bytes.to_le_bytes());
    }
    into
}

/// Returns the process id in a record, for messages.
pub(super) fn process_id(record: &[u8]) -> Option<u32> {
    let mut from = Reader(record);
    (from.u32() == RECORD_MAGIC).then(|| from.u32())
}

/// Returns the length of the record that begins with these bytes.
pub(super) fn record_length(begin: &[u8]) -> usize {
    let mut from = Reader(begin.get(24..).unwrap_or_default());
    let (devices, held_slots) = (from.u16(), from.u16());
    let length = PREFIX_BYTES + usize::from(devices) * DEVICE_BYTES + usize::from(held_slots) * SLOT_BYTES;
    length.min(RECORD_BYTES)
}

/// Reads the record of a living member. Invalid numbers in it are left out.
pub(super) fn parse_record(id: usize, record: &[u8], header: &TableHeader) -> MemberRecord {
    let mut from = Reader(record);
    let mut member = MemberRecord { id, ..MemberRecord::default() };
    if from.u32() != RECORD_MAGIC {
        return member;
    }
    from.u32();
    member.ticket = Some(from.u64()).filter(|ticket| *ticket < header.next_ticket).unwrap_or(0);
    from.u32();
    member.resumptions = from.u32();
    let (devices, held_slots) = (from.u16(), from.u16());
    from.u32();
    for _ in 0..devices {
        if from.0.len() < DEVICE_BYTES {
            break;
        }
        let (device, slots) = (from.u16().into(), from.u16().into());
        let cost = valid_cost(f32::from_bits(from.u32()).into());
        let (priority, number) = (from.u32() as i32, from.u32());
        let task = cost.map(|cost| RequestedTask { number, priority, cost });
        let entry = DeviceEntry { device, slots, task };
        let known = member.devices.iter().any(|other| other.device == entry.device);
        if entry.device < header.devices && !known {
            member.devices.push(entry);
        }
    }
    for _ in 0..held_slots {
        if from.0.len() < SLOT_BYTES {
            break;
        }
        let device = usize::from(from.u16());
        let _: [u8; 6] = from.take();
        let started_ns = from.u64();
        let cost = valid_cost(f64::from_bits(from.u64()));
        let held = HeldSlot { device, started_ns, cost, bytes: from.u64(), used_bytes: from.u64() };
        if device < header.devices {
            member.held_slots.push(held);
        }
    }
    member
}

/// Reads consecutive numbers; past the end they are 0.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let available = self.0.len().min(N);
        let (begin, rest) = self.0.split_at(available);
        taken[..available].copy_from_slice(begin);
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
