//! What other processes have of the devices.

use crate::memory::Bytes;
use crate::sched::plan::tests::*;

fn of_work(work: f64) -> Task {
    Task { work: Some(work), ..task() }
}

#[test]
fn a_slot_that_others_have_is_none() {
    let mut hand = hand(1);
    let id = hand.submit(0, task());
    hand.0.set_others(S(0), 0, &[3.0], 0);
    assert!(hand.take(0, 0).is_none());
    assert!(hand.0.runnable_devices(S(0)).is_empty(), "no worker is called for nothing");
    assert!(!hand.0.nothing_can_begin(), "it is only a matter of time");
    hand.0.set_others(S(1), 0, &[], 0);
    assert_eq!(hand.0.runnable_devices(S(1)), [0]);
    assert_eq!(hand.take(1, 0).unwrap().id, id);
}

#[test]
fn a_task_waits_for_a_fast_device_of_others_only_if_that_ends_it_sooner() {
    for (left, waits) in [(0.5, true), (20.0, false)] {
        let mut hand = hand_of(&[10.0, 1.0]);
        hand.submit(0, of_work(10.0));
        hand.0.set_others(S(0), 0, &[left], 0);
        assert_eq!(hand.take(0, 1).is_none(), waits, "the fast one is free in {left} s");
    }
}

#[test]
fn what_is_wished_for_tells_the_first_task_that_is_kept_waiting() {
    let mut hand = hand_of(&[10.0, 1.0]);
    hand.submit(0, of_work(10.0));
    assert_eq!(hand.0.desire(), None, "nobody is in the way");
    hand.0.set_others(S(0), 0, &[0.5], 0);
    let ours = Task { priority: 3, device_bytes: 7, ..of_work(20.0) };
    hand.submit(0, ours);
    let desire = hand.0.desire().unwrap();
    assert_eq!((desire.priority, &desire.bytes), (3, &vec![7, 7]));
    assert_eq!(desire.costs, [Some(2.0), Some(20.0)]);
    hand.0.set_others(S(0), 0, &[], 0);
    assert_eq!(hand.0.desire(), None);
}

#[test]
fn a_cost_does_not_depend_on_what_a_process_has_seen() {
    let mut hand = hand_of(&[10.0, 1.0]);
    let before = {
        let id = hand.submit(0, of_work(10.0));
        let run = hand.take(0, 0).unwrap();
        let cost = hand.0.cost(hand.0.tasks.get(id).unwrap(), 0);
        hand.ends(5, 0, &run, Ok(()));
        cost
    };
    let id = hand.submit(5, of_work(10.0));
    let record = hand.0.tasks.get(id).unwrap();
    assert_eq!(before, Some(1.0));
    assert!((hand.0.cost(record, 0).unwrap() - 1.0).abs() < 1e-9);
    assert!(
        (hand.0.estimator.unit_scale_of(record.class).unwrap() - 5.0).abs() < 1e-9,
        "seconds of one unit"
    );
}

#[test]
fn memory_that_others_have_reserved_is_not_there() {
    let mut hand = hand(1);
    let id = hand.submit(0, Task { device_bytes: 600, ..task() });
    hand.0.set_others(S(0), 0, &[], 500);
    let bytes = hand.0.tasks.get(id).unwrap().bytes;
    assert_eq!(bytes, Bytes { device: 600, host: bytes.host });
    assert!(
        hand.0.assign(S(0), 0, 0, Some(1000)).begun().is_none(),
        "1000 are free, and 500 of them promised"
    );
    hand.0.set_others(S(0), 0, &[], 300);
    assert_eq!(hand.0.assign(S(5), 0, 0, Some(1000)).begun().unwrap().id, id);
}
