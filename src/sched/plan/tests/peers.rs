//! Slots and memory that other processes hold on the devices.

use crate::memory::Bytes;
use crate::sched::plan::tests::*;

#[test]
fn slot_of_a_peer_is_not_free() {
    let mut driver = driver(1);
    let id = driver.submit(0, task());
    driver.planner.set_others(S(0), 0, &[3.0], 0);
    assert!(driver.take(0, 0).is_none());
    assert_eq!(driver.runnable(0), DeviceMask::NONE, "no worker is called for nothing");
    assert!(!driver.planner.nothing_can_begin(S(0)), "it is only a matter of time");
    driver.planner.set_others(S(1), 0, &[], 0);
    assert_eq!(driver.runnable(1), DeviceMask::only(0));
    assert_eq!(driver.take(1, 0).unwrap().id, id);
}

#[test]
fn task_waits_for_a_device_of_peers_only_if_it_ends_sooner() {
    for (left, waits) in [(0.5, true), (20.0, false)] {
        let mut driver = driver_of(&[10.0, 1.0]);
        driver.submit(0, of_work(10.0));
        driver.planner.set_others(S(0), 0, &[left], 0);
        assert_eq!(driver.take(0, 1).is_none(), waits, "the fast one is free in {left} s");
    }
}

#[test]
fn slot_request_is_of_the_first_task_that_peers_keep_waiting() {
    let mut driver = driver_of(&[10.0, 1.0]);
    driver.submit(0, of_work(10.0));
    assert_eq!(driver.planner.slot_request(), None, "nobody is in the way");
    driver.planner.set_others(S(0), 0, &[0.5], 0);
    let ours = Task { priority: 3, device_bytes: 7, ..of_work(20.0) };
    driver.submit(0, ours);
    let request = driver.planner.slot_request().unwrap();
    assert_eq!((request.priority, &request.bytes), (3, &vec![7, 7]));
    assert_eq!(request.costs, [Some(2.0), Some(20.0)]);
    driver.planner.set_others(S(0), 0, &[], 0);
    assert_eq!(driver.planner.slot_request(), None);
}

#[test]
fn cost_does_not_depend_on_measured_rates() {
    let mut driver = driver_of(&[10.0, 1.0]);
    let before = {
        let (id, run) = driver.begin(0, 0, of_work(10.0));
        let cost = driver.planner.cost(driver.planner.tasks.get(id).unwrap(), 0);
        driver.ends(5, 0, &run, Ok(()));
        cost
    };
    let id = driver.submit(5, of_work(10.0));
    let record = driver.planner.tasks.get(id).unwrap();
    assert_eq!(before, Some(1.0));
    assert!((driver.planner.cost(record, 0).unwrap() - 1.0).abs() < 1e-9);
    assert!(
        (driver.planner.estimator.unit_scale_of(record.class).unwrap() - 5.0).abs() < 1e-9,
        "seconds of one unit"
    );
}

#[test]
fn memory_reserved_by_peers_is_not_free() {
    let mut driver = driver(1);
    let id = driver.submit(0, Task { device_bytes: 600, ..task() });
    driver.planner.set_others(S(0), 0, &[], 500);
    let bytes = driver.planner.tasks.get(id).unwrap().bytes;
    assert_eq!(bytes, Bytes { device: 600, host: bytes.host });
    assert!(driver.assign(0, 0, 0, Some(1000)).begun().is_none(), "1000 are free, and 500 of them promised");
    driver.planner.set_others(S(0), 0, &[], 300);
    assert_eq!(driver.assign(5, 0, 0, Some(1000)).begun().unwrap().id, id);
}
