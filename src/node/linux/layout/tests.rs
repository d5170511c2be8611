use testkit::Random;

use super::*;

fn head() -> Head {
    Head { boot: [7; 16], changes: 5, next_ticket: 100, worth: Some(2.5), devices: 3 }
}

fn full() -> Member {
    let place = |device| Place { device, slots: 2, cost: (device != 1).then_some(0.5), bytes: 1 << 40 };
    let held =
        |device| Held { device, begun: 9, cost: (device != 0).then_some(0.3), bytes: u64::MAX, in_use: 3 };
    Member {
        id: 200,
        ticket: 99,
        priority: -4,
        revived: 3,
        places: vec![place(2), place(0), place(1)],
        holds: (0..100).map(|number| held(number % 3)).collect(),
    }
}

#[test]
fn what_is_written_is_read() {
    let uuids: Vec<String> = ["GPU-a", "MIG-GPU-b/7/1", &"c".repeat(95)].map(String::from).into();
    let bytes = front(&head(), &uuids);
    assert_eq!(bytes.len(), RECORDS);
    assert_eq!(Head::parse(bytes.first_chunk().unwrap()), Some(head()));
    assert_eq!(super::uuids(&head(), &bytes), Some(uuids));
    let none = Head { worth: None, ..head() };
    assert_eq!(Head::parse(&none.bytes()), Some(none));
    let bytes = record(&full(), 1234);
    assert_eq!(length(&bytes), bytes.len());
    assert_eq!(process(&bytes), Some(1234));
    assert_eq!(member(200, &bytes, &head()), full());
}

#[test]
fn as_many_devices_and_leases_as_there_is_room_for() {
    let uuids: Vec<String> = (0..DEVICES).map(|number| format!("{number:095}")).collect();
    let head = Head { devices: DEVICES, ..head() };
    let bytes = front(&head, &uuids);
    assert_eq!(bytes.len(), RECORDS);
    assert_eq!(super::uuids(&head, &bytes), Some(uuids));
    let places = (0..DEVICES).map(|device| Place { device, slots: 1, cost: None, bytes: 0 }).collect();
    let held = Held { device: 63, begun: 1, cost: None, bytes: 2, in_use: 1 };
    let member = Member { places, holds: vec![held; room(DEVICES)], ..Member::default() };
    let bytes = record(&member, 1);
    assert!(bytes.len() <= RECORD && bytes.len() + HOLD > RECORD);
    assert_eq!(super::member(0, &bytes, &head), member);
    assert_eq!(place_of(MEMBERS) - place_of(0), (MEMBERS * RECORD) as u64);
}

#[test]
fn a_head_that_is_none_is_not_believed() {
    assert_eq!(Head::parse(&[0; HEAD]), None);
    let with = |at: usize, value: u64| {
        let mut bytes = head().bytes();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        Head::parse(&bytes)
    };
    assert_eq!(with(0, 1), None, "the magic");
    assert_eq!(with(24, u64::MAX), None, "changes");
    assert_eq!(with(32, 0), None, "tickets");
    assert_eq!(with(32, 1 << 63), None, "tickets");
    assert_eq!(with(48, 65), None, "devices");
    for worth in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300] {
        assert_eq!(with(40, worth.to_bits()).map(|head| head.worth), Some(None), "{worth}");
    }
    let twice = front(&head(), &["a", "b", "a"].map(String::from));
    assert_eq!(uuids(&head(), &twice), None, "a name twice");
    for wrong in [vec![0; RECORDS], vec![255; RECORDS], twice[..HEAD].to_vec(), Vec::new()] {
        assert_eq!(uuids(&head(), &wrong), None);
    }
}

#[test]
fn what_a_member_can_not_have_is_left_out() {
    let mut odd = full();
    odd.ticket = 100;
    odd.places.push(Place { device: 3, slots: 1, cost: None, bytes: 0 });
    odd.places.push(Place { device: 0, slots: 77, cost: None, bytes: 0 });
    odd.holds.push(Held { device: 3, begun: 0, cost: None, bytes: 0, in_use: 0 });
    for cost in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        odd.holds.push(Held { device: 0, begun: 0, cost: Some(cost), bytes: 0, in_use: 0 });
    }
    let read = member(200, &record(&odd, 1), &head());
    assert_eq!(read.ticket, 0, "a ticket that was never drawn");
    assert_eq!(read.places, full().places, "a device that nobody has named, and one twice");
    assert_eq!(read.holds.len(), full().holds.len() + 4);
    assert!(read.holds.iter().rev().take(4).all(|held| held.cost.is_none()));
}

/// Whatever the bytes are: no panic, and nothing that can't be reckoned with.
#[test]
fn garbage_is_read_as_little_or_nothing() {
    let mut random = Random::new(1);
    let sound = record(&full(), 1);
    for round in 0..4000 {
        let mut bytes = vec![0; random.below(RECORD)];
        random.fill(&mut bytes);
        // Half of them look like records, some are records that were cut or changed.
        match round % 4 {
            0 => {}
            1 => bytes.iter_mut().zip(MEMBER.to_le_bytes()).for_each(|(byte, magic)| *byte = magic),
            2 => bytes = sound[..random.next() as usize % sound.len()].to_vec(),
            _ => {
                bytes = sound.clone();
                let at = random.next() as usize % bytes.len();
                bytes[at] ^= 1 << (random.next() % 8);
            }
        }
        assert!(length(&bytes) <= RECORD);
        let read = member(1, &bytes, &head());
        assert!(read.ticket < head().next_ticket);
        assert!(read.places.len() <= head().devices && read.holds.len() <= RECORD / HOLD);
        assert!(
            read.places
                .iter()
                .all(|place| place.device < 3 && place.cost.is_none_or(|cost| sane(cost).is_some()))
        );
        assert!(
            read.holds
                .iter()
                .all(|held| held.device < 3 && held.cost.is_none_or(|cost| sane(cost).is_some()))
        );
        let mut front = vec![0; RECORDS];
        random.fill(&mut front);
        front[..8].copy_from_slice(&MAGIC);
        if let Some(head) = Head::parse(front.first_chunk().unwrap()) {
            let _ = uuids(&head, &front);
        }
    }
}

#[test]
fn costs_are_brought_within_what_can_be_reckoned_with() {
    assert_eq!(nearest(3.0), 3.0);
    for cost in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, 0.0] {
        assert!(sane(nearest(cost)).is_some(), "{cost}");
    }
}
