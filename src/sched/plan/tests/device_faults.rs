//! Faults of devices: their causes, and devices that are retired.

use crate::sched::plan::tests::*;

#[test]
fn third_faulty_task_in_a_row_retires_the_device() {
    for one_does_well in [false, true] {
        let mut driver = driver(1);
        for number in 0..3 {
            let id = driver.submit(0, task());
            for _ in 0..2 {
                driver.run_next([0, 0], 0, broken(DeviceFault::Poisoned));
                driver.planner.context_renewed(0);
            }
            assert_eq!(driver.state(id), TaskStatus::Failed);
            if one_does_well && number == 1 {
                driver.attempt([0, 0], 0, task(), Ok(()));
            }
        }
        assert_eq!(driver.is_retired(0), !one_does_well);
    }
}

#[test]
fn device_that_gives_no_context_begins_no_task_for_a_while() {
    let mut driver = driver(2);
    let refused = Err(Error::NoContext { device: "x".into(), what: "y".into() });
    driver.attempt([0, 1], 0, Task { device_bytes: 600, ..task() }, refused);
    assert!(driver.planner.devices[0].backs_off(S(1), 0));
    assert!(driver.planner.is_reserved(S(1), 0), "light tasks may begin");
}

/// Begins two tasks in one context, which one of them poisons. `first`: the one that reports it
/// first.
fn poisoned_with_another(speeds: &[f64], first: usize) -> (Driver, [TaskId; 2]) {
    let devices = speeds.iter().enumerate().map(|(ordinal, &speed)| (info(ordinal, speed), 3));
    let mut driver = Driver::new(devices);
    let ids = [(); 2].map(|()| driver.submit(0, task()));
    let runs = [(); 2].map(|()| driver.take(0, 0).unwrap());
    assert_eq!([runs[0].id, runs[1].id], ids);
    for place in [first, 1 - first] {
        driver.ends(1, 0, &runs[place], broken(DeviceFault::Poisoned));
    }
    driver.planner.context_renewed(0);
    (driver, ids)
}

#[test]
fn tasks_of_a_poisoned_context_are_retried_apart() {
    for [first, then] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        let (mut driver, [cause, innocent]) = poisoned_with_another(&[100.0, 10.0, 1.0], first);
        let run = driver.take(2, 1).unwrap();
        assert_eq!((run.id, driver.runnable(2)), (cause, DeviceMask::only(2)));
        assert!(driver.take(2, 1).is_none(), "both in one context again");
        let unaffected = driver.submit(2, Task { devices: DeviceMask::only(1), ..task() });
        let beside = driver.take(2, 1).unwrap();
        assert_eq!(beside.id, unaffected);
        assert_eq!(driver.run_next([2, 3], 2, Ok(())), innocent);
        let runs = [&run, &beside];
        for place in [then, 1 - then] {
            driver.ends(4, 1, runs[place], broken(DeviceFault::Poisoned));
        }
        assert_eq!(driver.state(cause), TaskStatus::Failed);
        driver.planner.context_renewed(1);
        assert_eq!(driver.planner.tasks.get(unaffected).unwrap().poisonings, 0);
        driver.run_next([5, 6], 1, Ok(()));
        assert_eq!([innocent, unaffected].map(|id| driver.state(id)), [TaskStatus::Done; 2]);
        assert!(!(0..3).any(|device| driver.is_retired(device)));
        assert_eq!(driver.planner.devices[1].suspects, [], "the cause is known");
    }
}

#[test]
fn tasks_of_a_poisoned_context_share_the_only_device_if_one_waits() {
    let (mut driver, [outer, inner]) = poisoned_with_another(&[1.0], 0);
    let run = driver.take(2, 0).unwrap();
    assert!(run.id == outer && driver.take(2, 0).is_none());
    driver.planner.open_slot(0, Some((run.id, run.attempt)));
    assert!(!driver.planner.nothing_can_begin(S(2)));
    let within = driver.take(2, 0).unwrap();
    driver.ends(3, 0, &within, Ok(()));
    driver.planner.close_slot(S(3), 0, Some((run.id, run.attempt)));
    driver.ends(4, 0, &run, Ok(()));
    assert_eq!([outer, inner].map(|id| driver.state(id)), [TaskStatus::Done; 2]);
}

#[test]
fn task_that_may_poison_contexts_gets_no_copy() {
    for poisons in [false, true] {
        let mut driver = driver(3).seasoned();
        let idempotent = || Task { idempotent: true, ..task() };
        let outcome = if poisons { broken(DeviceFault::Poisoned) } else { Err(busy()) };
        let id = driver.attempt([10, 10], 0, idempotent(), outcome);
        driver.planner.context_renewed(0);
        assert_eq!(driver.take(10, 1).map(|run| run.id), Some(id));
        assert_eq!(driver.take(18, 2).is_none(), poisons);
    }
}

#[test]
fn cause_of_two_poisoned_contexts_is_stopped_in_the_third() {
    let (mut driver, id, [first, second, third]) = with_two_copies();
    driver.ends(40, 0, &first, broken(DeviceFault::Poisoned));
    assert!(driver.error(id).is_none() && !third.signal.is_cancelled());
    driver.ends(41, 1, &second, broken(DeviceFault::Poisoned));
    assert!(driver.error(id).is_some() && third.signal.is_cancelled());
    driver.ends(42, 2, &third, Err(Error::Cancelled));
}

#[test]
fn light_task_of_a_poisoned_context_is_retried_apart() {
    let mut driver = Driver::new([0, 1].map(|ordinal| (info(ordinal, 1.0), 2)).into_iter());
    driver.planner.devices[0].runs_light = true;
    let planned = driver.attempt([0, 1], 0, task(), broken(DeviceFault::Poisoned));
    let job = task().job;
    let light = driver
        .step(S(1), |planner, effects| planner.promote((TaskId(0), 0), job, (0, 1, 0), true, effects))
        .unwrap();
    driver.step(S(2), |planner, effects| {
        planner.on_attempt_end(0, light, 1, AttemptEnd::Ran(broken(DeviceFault::Poisoned)), effects)
    });
    assert_eq!(driver.take(2, 1).map(|run| run.id), Some(planned));
    assert!(driver.take(2, 1).is_none(), "both in one context again");
}

#[test]
fn third_device_lost_with_a_task_fails_it() {
    let mut driver = driver(4);
    let id = driver.submit(0, task());
    for device in 0..3 {
        assert_eq!(driver.error(id), None);
        driver.run_next([0, 0], device, broken(DeviceFault::Lost));
    }
    assert!(matches!(driver.error(id), Some(Error::Device { .. })));
    let left = driver.planner.devices.iter().filter(|device| device.retired.is_none());
    assert_eq!(left.count(), 1);
}
