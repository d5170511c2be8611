//! Results that are wrong: whose fault it is.

use crate::sched::plan::tests::*;

fn named(name: &str) -> Task {
    Task { label: name.into(), ..task() }
}

/// A task whose first attempt is wrong, and that ends well on the second device that it is given.
fn wrong_once(driver: &mut Driver, name: &str, [first, second]: [usize; 2]) {
    let id = driver.attempt([0, 1], first, named(name), wrong());
    assert_eq!(driver.state(id), TaskStatus::Queued);
    assert!(first == second || driver.take(1, first).is_none(), "the other is there for it");
    driver.run_next([1, 2], second, Ok(()));
    assert_eq!(driver.state(id), TaskStatus::Done);
}

#[test]
fn the_second_task_that_is_right_elsewhere_retires_the_device() {
    let mut driver = driver(2);
    wrong_once(&mut driver, "a", [0, 1]);
    // Tasks that end well there in between do not make up for it.
    let id = driver.attempt([2, 3], 0, task(), Ok(()));
    assert_eq!((driver.state(id), &driver.planner.devices[0].retired), (TaskStatus::Done, &None));
    wrong_once(&mut driver, "b", [0, 1]);
    let why = driver.planner.devices[0].retired.clone().unwrap();
    assert_eq!(why, "it computed wrong results for task 'a' and task 'b'; other attempts were right");
    assert!(!driver.is_retired(1));
}

#[test]
fn second_wrong_result_fails_the_task_and_no_device() {
    for retries in [0, 2] {
        let mut driver = driver(3);
        for _ in 0..3 {
            let id = driver.submit(0, Task { retries, ..task() });
            for device in [0, 1] {
                driver.run_next([0, 1], device, wrong());
            }
            assert_eq!(driver.error(id), wrong().err());
        }
        let mut devices = driver.planner.devices.iter();
        assert!(devices.all(|device| device.retired.is_none() && device.wrong_result_tasks.is_empty()));
    }
}

#[test]
fn only_device_is_tried_again_and_its_faults_count() {
    let mut driver = driver(1);
    wrong_once(&mut driver, "a", [0, 0]);
    assert_eq!(driver.planner.devices[0].wrong_result_tasks, ["task 'a'"]);
    wrong_once(&mut driver, "b", [0, 0]);
    assert!(driver.is_retired(0));
}

/// Its device is retired as it ends. It is in the ready queue, for a copy.
#[test]
fn late_task_that_ends_well_is_done_though_no_device_is_left() {
    let mut driver = driver(1).seasoned();
    driver.planner.devices[0].wrong_result_tasks.push("task 'a'".into());
    let id = driver.attempt([10, 11], 0, Task { idempotent: true, ..task() }, wrong());
    let run = driver.take(11, 0).unwrap();
    driver.pass(18);
    driver.ends(19, 0, &run, Ok(()));
    assert_eq!((driver.state(id), driver.is_retired(0)), (TaskStatus::Done, true));
}

#[test]
fn copy_proves_a_fault_like_a_retry_before_and_after_it_shows() {
    for right_first in [false, true] {
        let (mut driver, id, [first, second]) = with_a_copy(named("a"));
        let mut ends = [(0, &first, wrong()), (1, &second, Ok(()))];
        ends.rotate_left(usize::from(right_first));
        for (device, run, outcome) in ends {
            driver.ends(19, device, run, outcome);
        }
        assert_eq!(driver.state(id), TaskStatus::Done);
        let counted = driver.planner.devices.iter().map(|device| device.wrong_result_tasks.len());
        assert!(counted.eq([1, 0]));
    }
}

#[test]
fn cancelled_task_counts_no_fault() {
    let mut driver = driver(2);
    let id = driver.attempt([0, 1], 0, task(), wrong());
    let run = driver.take(1, 1).unwrap();
    driver.cancel(id).unwrap();
    driver.ends(2, 1, &run, Ok(()));
    assert_eq!(
        (driver.state(id), driver.planner.devices[0].wrong_result_tasks.len()),
        (TaskStatus::Cancelled, 0)
    );
}
