use testkit::Random;

use super::*;

fn header() -> TableHeader {
    TableHeader { boot_id: [7; 16], changes: 5, next_ticket: 100, seconds_per_cost: Some(2.5), devices: 3 }
}

fn full() -> MemberRecord {
    let task = RequestedTask { number: 1 << 31, priority: -4, cost: 0.5 };
    let entry = |device| DeviceEntry { device, slots: 2, task: (device != 1).then_some(task) };
    let held = |device| HeldSlot {
        device,
        started_ns: 9,
        cost: (device != 0).then_some(0.3),
        bytes: u64::MAX,
        used_bytes: 3,
    };
    MemberRecord {
        id: 200,
        ticket: 99,
        resumptions: 3,
        devices: vec![entry(2), entry(0), entry(1)],
        held_slots: (0..100).map(|number| held(number % 3)).collect(),
    }
}

#[test]
fn table_round_trips() {
    let uuids: Vec<String> = ["GPU-a", "MIG-GPU-b/7/1", &"c".repeat(95)].map(String::from).into();
    let bytes = header_and_uuids(&header(), &uuids);
    assert_eq!(bytes.len(), RECORDS_OFFSET);
    assert_eq!(TableHeader::parse(bytes.first_chunk().unwrap()), Some(header()));
    assert_eq!(parse_uuids(&header(), &bytes), Some(uuids));
    let none = TableHeader { seconds_per_cost: None, ..header() };
    assert_eq!(TableHeader::parse(&none.to_bytes()), Some(none));
    let bytes = record_bytes(&full(), 1234);
    assert_eq!(record_length(&bytes), bytes.len());
    assert_eq!(process_id(&bytes), Some(1234));
    assert_eq!(parse_record(200, &bytes, &header()), full());
}

#[test]
fn full_table_and_full_record_round_trip() {
    let uuids: Vec<String> = (0..MAX_DEVICES).map(|number| format!("{number:095}")).collect();
    let header = TableHeader { devices: MAX_DEVICES, ..header() };
    let bytes = header_and_uuids(&header, &uuids);
    assert_eq!(bytes.len(), RECORDS_OFFSET);
    assert_eq!(parse_uuids(&header, &bytes), Some(uuids));
    let devices = (0..MAX_DEVICES).map(|device| DeviceEntry { device, slots: 1, task: None }).collect();
    let held = HeldSlot { device: 63, started_ns: 1, cost: None, bytes: 2, used_bytes: 1 };
    let member = MemberRecord {
        devices,
        held_slots: vec![held; max_held_slots(MAX_DEVICES)],
        ..MemberRecord::default()
    };
    let bytes = record_bytes(&member, 1);
    assert!(bytes.len() <= RECORD_BYTES && bytes.len() + SLOT_BYTES > RECORD_BYTES);
    assert_eq!(parse_record(0, &bytes, &header), member);
    assert_eq!(record_offset(MAX_MEMBERS) - record_offset(0), (MAX_MEMBERS * RECORD_BYTES) as u64);
}

#[test]
fn invalid_header_is_refused() {
    assert_eq!(TableHeader::parse(&[0; HEADER_BYTES]), None);
    let with = |at: usize, value: u64| {
        let mut bytes = header().to_bytes();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        TableHeader::parse(&bytes)
    };
    assert_eq!(with(0, 1), None, "the magic");
    assert_eq!(with(24, u64::MAX), None, "changes");
    assert_eq!(with(32, 0), None, "tickets");
    assert_eq!(with(32, 1 << 63), None, "tickets");
    assert_eq!(with(48, 65), None, "devices");
    for seconds in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300] {
        assert_eq!(
            with(40, seconds.to_bits()).map(|header| header.seconds_per_cost),
            Some(None),
            "{seconds}"
        );
    }
    let twice = header_and_uuids(&header(), &["a", "b", "a"].map(String::from));
    assert_eq!(parse_uuids(&header(), &twice), None, "a name twice");
    for wrong in
        [vec![0; RECORDS_OFFSET], vec![255; RECORDS_OFFSET], twice[..HEADER_BYTES].to_vec(), Vec::new()]
    {
        assert_eq!(parse_uuids(&header(), &wrong), None);
    }
}

#[test]
fn invalid_entries_of_a_record_are_left_out() {
    let mut odd = full();
    odd.ticket = 100;
    odd.devices.push(DeviceEntry { device: 3, slots: 1, task: None });
    odd.devices.push(DeviceEntry { device: 0, slots: 77, task: None });
    odd.held_slots.push(HeldSlot { device: 3, started_ns: 0, cost: None, bytes: 0, used_bytes: 0 });
    for cost in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        odd.held_slots.push(HeldSlot { device: 0, started_ns: 0, cost: Some(cost), bytes: 0, used_bytes: 0 });
    }
    let read = parse_record(200, &record_bytes(&odd, 1), &header());
    assert_eq!(read.ticket, 0, "a ticket that was never drawn");
    assert_eq!(read.devices, full().devices, "an unknown device, and one twice");
    assert_eq!(read.held_slots.len(), full().held_slots.len() + 4);
    assert!(read.held_slots.iter().rev().take(4).all(|held| held.cost.is_none()));
}

/// Random bytes cause no panic and no invalid number.
#[test]
fn random_bytes_give_valid_records() {
    let mut random = Random::new(1);
    let sound = record_bytes(&full(), 1);
    for round in 0..4000 {
        let mut bytes = vec![0; random.below(RECORD_BYTES)];
        random.fill(&mut bytes);
        // A quarter has the magic of a record; half are records, cut or changed.
        match round % 4 {
            0 => {}
            1 => bytes.iter_mut().zip(RECORD_MAGIC.to_le_bytes()).for_each(|(byte, magic)| *byte = magic),
            2 => bytes = sound[..random.next() as usize % sound.len()].to_vec(),
            _ => {
                bytes = sound.clone();
                let at = random.next() as usize % bytes.len();
                bytes[at] ^= 1 << (random.next() % 8);
            }
        }
        assert!(record_length(&bytes) <= RECORD_BYTES);
        let read = parse_record(1, &bytes, &header());
        assert!(read.ticket < header().next_ticket);
        assert!(read.devices.len() <= header().devices && read.held_slots.len() <= RECORD_BYTES / SLOT_BYTES);
        assert!(
            read.devices.iter().all(
                |entry| entry.device < 3 && entry.task.is_none_or(|task| valid_cost(task.cost).is_some())
            )
        );
        assert!(
            read.held_slots
                .iter()
                .all(|held| held.device < 3 && held.cost.is_none_or(|cost| valid_cost(cost).is_some()))
        );
        let mut front = vec![0; RECORDS_OFFSET];
        random.fill(&mut front);
        front[..8].copy_from_slice(&TABLE_MAGIC);
        if let Some(header) = TableHeader::parse(front.first_chunk().unwrap()) {
            let _ = parse_uuids(&header, &front);
        }
    }
}

#[test]
fn clamped_costs_are_valid() {
    assert_eq!(clamp_cost(3.0), 3.0);
    for cost in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, 0.0] {
        let cost = clamp_cost(cost);
        assert!(valid_cost(cost).is_some(), "{cost}");
        // The record of a waiter has a number of fewer digits.
        let task = Some(RequestedTask { number: 0, priority: 0, cost });
        let entry = DeviceEntry { device: 0, slots: 1, task };
        let waiter = MemberRecord { devices: vec![entry], ..MemberRecord::default() };
        let read = parse_record(0, &record_bytes(&waiter, 1), &header());
        assert!(read.devices[0].task.is_some(), "{cost}");
    }
}
