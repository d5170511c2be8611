//! Slots, memory and requests beside other processes.

use crate::sched::plan::tests::*;

#[test]
fn slot_of_a_peer_is_not_free() {
    let mut driver = driver(1);
    let id = driver.submit(0, task());
    driver.planner.set_peer_load(S(0), 0, &[3.0], 0, false);
    assert!(driver.take(0, 0).is_none());
    assert_eq!(driver.runnable(0), DeviceMask::NONE, "no worker is called for nothing");
    assert!(!driver.planner.nothing_can_begin(S(0)), "it is only a matter of time");
    driver.planner.set_peer_load(S(1), 0, &[], 0, false);
    assert_eq!(driver.runnable(1), DeviceMask::only(0));
    assert_eq!(driver.take(1, 0).unwrap().id, id);
}

#[test]
fn task_begins_in_the_slot_of_a_waiting_task_before_waiters_of_peers() {
    let mut driver = with_slots(2);
    let (_, outer) = driver.begin(0, 0, task());
    (0..3).for_each(|_| _ = driver.submit(1, task()));
    driver.planner.set_peer_load(S(1), 0, &[9.0, 9.0], 0, false);
    assert!(driver.take(1, 0).is_none());
    driver.planner.open_slot(0, None);
    assert!(driver.take(1, 0).is_some());
    assert!(driver.take(1, 0).is_none(), "the other slot is for the waiter");
    driver.planner.close_slot(S(2), 0, None);
    driver.ends(2, 0, &outer, Ok(()));
    assert!(driver.take(2, 0).is_none());
    driver.planner.open_slot(0, None);
    assert!(driver.take(2, 0).is_some(), "the inner task owns the slot now, and waits");
}

#[test]
fn task_waits_for_a_device_of_peers_only_if_it_ends_sooner() {
    for (left, waits) in [(0.5, true), (20.0, false)] {
        let mut driver = driver_of(&[10.0, 1.0]);
        driver.submit(0, of_work(10.0));
        driver.planner.set_peer_load(S(0), 0, &[left], 0, false);
        assert_eq!(driver.take(0, 1).is_none(), waits, "the fast one is free in {left} s");
    }
}

/// Returns the costs of the tasks that the planner requests.
fn costs(driver: &Driver, now: u64) -> Vec<Option<f64>> {
    let request = driver.planner.slot_request(S(now)).unwrap();
    request.0.iter().map(|task| task.map(|task| task.cost)).collect()
}

#[test]
fn slot_request_is_of_the_first_task_that_peers_keep_waiting() {
    let mut driver = driver_of(&[10.0, 1.0]);
    driver.submit(0, of_work(10.0));
    assert_eq!(driver.planner.slot_request(S(0)), None, "nobody is in the way");
    driver.planner.set_peer_load(S(0), 0, &[0.5], 0, false);
    let ours = Task { priority: 3, ..of_work(20.0) };
    driver.submit(0, ours);
    let [Some(first), Some(second)] = driver.planner.slot_request(S(0)).unwrap().0[..] else { panic!() };
    assert_eq!((first.number, [first.priority, second.priority]), (second.number, [3; 2]));
    assert_eq!([first.cost, second.cost], [2.0, 20.0]);
    driver.planner.set_peer_load(S(0), 0, &[], 0, false);
    assert_eq!(driver.planner.slot_request(S(0)), None);
}

#[test]
fn slot_request_states_the_first_task_of_each_device() {
    let only = |device| Task { devices: DeviceMask::only(device), ..task() };
    let mut driver = driver(2);
    (0..2).for_each(|device| driver.planner.set_peer_load(S(0), device, &[0.5], 0, false));
    (0..2).for_each(|device| _ = driver.submit(0, only(device)));
    assert_eq!(costs(&driver, 0), [Some(1.0); 2]);
    let tasks = driver.planner.slot_request(S(0)).unwrap().0;
    assert_ne!(tasks[0].map(|task| task.number), tasks[1].map(|task| task.number));
    let mut driver = super::driver(2);
    (0..driver.planner.policy.horizon).for_each(|_| _ = driver.submit(0, only(0)));
    driver.submit(0, only(1));
    driver.planner.set_peer_load(S(0), 1, &[0.5], 0, false);
    assert!(driver.planner.slot_request(S(0)).is_some(), "it is behind many tasks of another device");
}

#[test]
fn slot_request_has_the_priority_that_the_caller_set() {
    let mut driver = driver(1).seasoned();
    for (now, priority) in [(10, 1), (200, 7)] {
        driver.submit(now, Task { priority, ..task() });
    }
    driver.planner.age_priorities(S(201));
    driver.planner.set_peer_load(S(201), 0, &[0.5], 0, false);
    let (rank, _) = driver.planner.ready.first().unwrap();
    let request = driver.planner.slot_request(S(201)).unwrap();
    assert_eq!((rank.priority(), request.0[0].map(|task| task.priority)), (7, Some(1)));
}

/// Peers would wait for a task that does not begin.
#[test]
fn slot_request_leaves_out_a_device_that_backs_off() {
    let mut driver = driver_of(&[10.0, 1.0]);
    driver.submit(0, Task { device_bytes: 600, ..of_work(20.0) });
    driver.planner.set_peer_load(S(0), 0, &[0.5], 0, false);
    driver.planner.devices[0].refuse(S(0), S(4), 600);
    assert_eq!(costs(&driver, 1), [None, Some(20.0)]);
    assert_eq!(costs(&driver, 4), [Some(2.0), Some(20.0)]);
    driver.planner.devices[0].refuse(S(4), S(8), 601);
    assert_eq!(costs(&driver, 5)[0], Some(2.0), "it needs less");
}

/// The late task may get no copy there while there are other processes.
#[test]
fn late_task_requests_no_slot_that_it_cannot_use() {
    let mut driver = driver(2).seasoned();
    driver.planner.has_peers = true;
    driver.begin(10, 0, Task { idempotent: true, ..task() });
    driver.pass(16);
    driver.planner.set_peer_load(S(16), 1, &[3.0], 0, false);
    assert_eq!(driver.planner.slot_request(S(0)), None);
    driver.submit(16, task());
    assert!(driver.planner.slot_request(S(0)).is_some());
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

/// One class states its work in a large unit, the other none. Peers multiply the costs of both by
/// the same number of seconds.
#[test]
fn costs_of_classes_have_one_unit_once_it_is_measured() {
    let mut driver = driver_of(&[10.0, 1.0]);
    let tasks = [(1, Some(1e9), 5), (2, None, 60)];
    for (class, work, seconds) in tasks {
        let (_, run) = driver.begin(0, 0, Task { class, work, ..task() });
        driver.ends(seconds, 0, &run, Ok(()));
    }
    driver.planner.set_seconds_per_cost(Some(7.0));
    for (class, work, seconds) in tasks {
        let id = driver.submit(0, Task { class, work, ..task() });
        let (_, cost, report) = driver.planner.lease_terms(id, 0).unwrap();
        let ratio = 7.0 * cost.unwrap() / seconds as f64;
        assert!((0.9..1.1).contains(&ratio), "class {class}: {ratio}");
        assert_eq!(report, None, "costs in the table have the unit that is known");
    }
}

#[test]
fn memory_reserved_by_peers_is_not_free() {
    let mut driver = driver(1);
    let id = driver.submit(0, Task { device_bytes: 600, ..task() });
    driver.planner.set_peer_load(S(0), 0, &[], 500, false);
    assert!(driver.assign(0, 0, 0, Some(1000)).begun().is_none(), "1000 are free, and 500 of them promised");
    driver.planner.set_peer_load(S(0), 0, &[], 300, false);
    assert_eq!(driver.assign(5, 0, 0, Some(1000)).begun().unwrap().id, id);
}
