//! The choice of a task for a free slot.

use crate::sched::plan::{Schedule, tests::*};

#[test]
fn no_more_than_three_copies_run() {
    let mut driver = driver_of(&[1.0, 4.0, 16.0, 64.0, 256.0]);
    for device in 1..5 {
        driver.submit(0, Task { work: Some(1e6), devices: DeviceMask::only(device), ..task() });
    }
    let busy: Vec<Assignment> = (1..5).map(|device| driver.take(0, device).unwrap()).collect();
    let (id, _) = driver.begin(0, 0, Task { idempotent: true, ..task() });
    // The task takes for ever, and device after device becomes free, each four times as fast as the
    // one before.
    let copies = busy.iter().zip([10, 30, 90, 270]).enumerate().map(|(before, (run, now))| {
        driver.ends(now, before + 1, run, Err(Error::Callback { code: 1 }));
        driver.take(now, before + 1).map(|copy| copy.id)
    });
    let copies: Vec<Option<TaskId>> = copies.collect();
    assert_eq!(copies, [Some(id), Some(id), None, None]);
}

#[test]
fn work_that_no_sum_can_hold_is_refused() {
    let driver = driver(1);
    for work in [0.0, -1.0, 1e308, 1e-308, f64::NAN, f64::INFINITY] {
        let refused = driver.planner.check_task(&Task { work: Some(work), ..task() });
        assert!(matches!(refused, Err(Error::Argument { .. })), "{work}");
    }
    for work in [1e-100, 1.0, 1e100] {
        assert_eq!(driver.planner.check_task(&Task { work: Some(work), ..task() }), Ok(()));
    }
}

#[test]
fn nothing_begins_until_the_backend_has_renewed_the_context() {
    let mut driver = driver(1);
    for _ in 0..2 {
        driver.submit(0, task());
    }
    driver.run_next([0, 1], 0, broken(DeviceFault::Poisoned));
    assert_eq!(driver.effects.renewed, [0]);
    assert!(driver.take(1, 0).is_none() && !driver.planner.nothing_can_begin(S(1)));
    driver.planner.context_renewed(0);
    assert!(driver.take(1, 0).is_some());
}

#[test]
fn free_memory_is_queried_only_where_it_matters() {
    let mut driver = with_slots(3);
    for device_bytes in [100, 0, 300] {
        driver.submit(0, Task { device_bytes, work: None, ..task() });
    }
    for _ in 0..2 {
        assert!(matches!(driver.assign(0, 0, 0, None), AssignResult::Begins(_)), "nothing to ask for");
    }
    assert!(matches!(driver.assign(0, 0, 0, None), AssignResult::Unknown));
    assert!(matches!(driver.assign(0, 0, 0, Some(299)), AssignResult::Nothing));
    assert!(matches!(driver.assign(0, 0, 0, Some(300)), AssignResult::Begins(_)));
}

#[test]
fn range_leaves_memory_to_a_task_that_waits_for_it() {
    let mut driver = Driver::new([(info(0, 1.0), 2), (info(1, 100.0), 1)].into_iter());
    let here = || Task { devices: DeviceMask::only(0), ..task() };
    driver.begin(0, 0, Task { role: Role::Range, work: None, device_bytes: 100, ..here() });
    // A piece of the range leases the rest.
    let rest = driver.planner.devices[0].ledger.lease(900).unwrap();
    driver.begin(0, 1, task());
    let big = |task: Task| Task { device_bytes: 500, ..task };
    let any = driver.submit(0, big(task()));
    assert_eq!(driver.planner.memory_wanted(S(0)), 0, "the other device is there much sooner");
    let own = driver.submit(0, big(here()));
    assert_eq!(driver.planner.memory_wanted(S(0)), 1);
    driver.cancel(own).unwrap();
    driver.cancel(any).unwrap();
    driver.submit(0, here());
    assert_eq!(driver.planner.memory_wanted(S(0)), 0, "it takes none");
    drop(rest);
}

#[test]
fn tasks_of_other_devices_do_not_hide_those_of_this_one() {
    for speed in [Some(1.0), None] {
        let mut driver = driver(2);
        driver.planner.estimator = Estimator::new(vec![Some(1.0), speed], Arc::default());
        for _ in 0..Policy::default().horizon + 100 {
            driver.submit(0, Task { devices: DeviceMask::only(0), work: Some(100.0), ..task() });
        }
        let id = driver.submit(0, task());
        let own = driver.submit(0, Task { devices: DeviceMask::only(1), ..task() });
        assert_eq!(driver.runnable(0), DeviceMask(0b11));
        assert_eq!(driver.take(0, 1).map(|run| run.id), Some(id));
        driver.cancel(own).unwrap();
        assert!(driver.take(0, 0).is_some());
    }
}

#[test]
fn ready_queue_is_not_searched_if_no_task_can_fit() {
    let mut driver = with_slots(3);
    for _ in 0..100 {
        driver.submit(0, Task { device_bytes: 600, ..task() });
    }
    assert!(driver.take(0, 0).is_some());
    let tried = |driver: &Driver, free| {
        let mut fitting = FitCheck::new(S(0), 0, free);
        assert!(driver.planner.choose_task(S(0), &mut fitting).is_none());
        fitting.passed.len()
    };
    assert_eq!(tried(&driver, None), 0);
    assert!(matches!(driver.assign(0, 0, 1, None), AssignResult::Nothing), "nor need the device be asked");
    // Others have taken what the ledger would grant.
    driver.submit(0, Task { device_bytes: 400, ..task() });
    assert_eq!(tried(&driver, Some(399)), 0);
    assert!(driver.planner.devices[0].shortage.is_none());
    assert!(matches!(driver.assign(0, 0, 1, Some(399)), AssignResult::Nothing));
    assert_eq!(driver.planner.devices[0].known_free_bytes(S(0)), Some(399));
    let until = driver.planner.devices[0].shortage.unwrap().until;
    driver.advance(until);
    assert!(driver.planner.devices[0].shortage.is_none(), "the device is asked again");
    assert!(driver.take(2, 0).is_some());
    driver.submit(3, task());
    assert!(
        matches!(driver.assign(3, 0, 1, None), AssignResult::Begins(_)),
        "what is free matters to none of the others"
    );
}

#[test]
fn exclusive_task_goes_to_an_idle_device() {
    let mut driver = driver(2);
    let id = driver.submit(0, task());
    driver.planner.devices[0].runs_light = true;
    driver.run_next([0, 1], 0, Err(short_of(0)));
    assert_eq!((driver.planner.exclusive_tasks, driver.planner.devices[0].reserved_for), (1, Some(id)));
    // A light task waits for it on the one device.
    assert_eq!(driver.runnable(1), DeviceMask::only(1));
    driver.run_next([1, 2], 1, Ok(()));
    assert_eq!((driver.state(id), driver.planner.exclusive_tasks), (TaskStatus::Done, 0));
}

#[test]
fn a_device_that_was_left_out_for_long_is_given_a_task_again() {
    let mut driver = driver(2);
    for round in 0..8 {
        for (device, seconds) in [(0, 40), (1, 1)] {
            let (_, run) =
                driver.begin(40 * round, device, Task { devices: DeviceMask::only(device), ..task() });
            driver.ends(40 * round + seconds, device, &run, Ok(()));
        }
    }
    // The other should end both before this one ends the second.
    for (now, given) in [(600, false), (10_000, true)] {
        let ids = [(); 2].map(|()| driver.submit(now, task()));
        let first = driver.take(now, 1).unwrap();
        let second = driver.take(now, 0);
        assert_eq!(second.as_ref().map(|run| run.id), given.then_some(ids[1]), "at {now} s");
        driver.ends(now + 1, 1, &first, Ok(()));
        if second.is_none() {
            let second = driver.take(now + 1, 1).unwrap();
            driver.ends(now + 2, 1, &second, Ok(()));
        }
    }
}

#[test]
fn helper_begins_beside_waiting_tasks_only_if_a_range_needs_it() {
    let mut driver = driver(2);
    // Its slot does not count.
    driver.planner.retire(1, "of a test", &mut driver.effects);
    let (_, run) = driver.begin(0, 0, task());
    driver.submit(0, Task { role: Role::Helper(TaskId(0)), work: None, ..task() });
    driver.planner.open_slot(0, Some((run.id, run.attempt)));
    assert!(driver.take(0, 0).is_none());
    driver.planner.ranges_in_need += 1;
    assert!(driver.take(0, 0).is_some());
}

#[test]
fn helpers_of_a_range_are_no_tasks_of_a_caller() {
    let mut driver = driver(2);
    let assert_none = |driver: &Driver| {
        let TaskCounts { submitted, queued, running, done, .. } = driver.planner.counts;
        assert_eq!((submitted, queued, running, done, driver.planner.others_wait()), (0, 0, 0, 0, false));
    };
    (0..2).for_each(|_| _ = driver.submit(0, Task { role: Role::Helper(TaskId(0)), work: None, ..task() }));
    assert_none(&driver);
    let runs = [0, 1].map(|device| driver.take(0, device).unwrap());
    assert_none(&driver);
    driver.ends(1, 0, &runs[0], Ok(()));
    driver.ends(1, 1, &runs[1], broken(DeviceFault::Poisoned));
    assert_none(&driver);
    assert_eq!(driver.planner.devices[1].suspects, [runs[1].id]);
    driver.planner.mark_range_as_cause(&[runs[1].id]);
    assert!(driver.planner.devices[1].suspects.is_empty(), "the elements are the cause");
    let last = driver.take(1, 0).unwrap();
    driver.ends(2, 0, &last, Ok(()));
    assert_none(&driver);
    driver.submit(2, task());
    assert!(driver.planner.others_wait());
}

/// Returns when a ready task should end, in seconds.
fn scheduled_end(driver: &Driver, id: TaskId) -> Option<f64> {
    let record = driver.planner.tasks.get(id).unwrap();
    let mut schedule = Schedule::new(&driver.planner, S(0), false);
    schedule.place(&driver.planner, record, DeviceMask::ALL).map(|place| place.end)
}

/// A device that runs more tasks than it may has no room until the surplus tasks have ended.
#[test]
fn a_device_that_was_short_has_room_when_the_last_of_its_tasks_end() {
    let mut driver = with_slots(3);
    for work in [30.0, 20.0, 10.0] {
        driver.begin(0, 0, Task { work: Some(work), ..task() });
    }
    let id = driver.submit(0, task());
    for (slots, end) in [(3, 11.0), (2, 21.0), (1, 31.0)] {
        driver.planner.devices[0].throttles = vec![(slots, S(60))];
        assert_eq!(scheduled_end(&driver, id), Some(end), "{slots} at a time");
    }
}

#[test]
fn no_mask_has_a_device_beyond_its_bits() {
    assert_eq!(DeviceMask::only(64), DeviceMask::NONE);
    let mut mask = DeviceMask::only(63);
    mask.add(64);
    assert_eq!(mask, DeviceMask::only(63));
}

#[test]
fn nothing_can_begin_beside_a_reservation_unless_a_task_waits_inside_its_code() {
    let mut driver = with_slots(3);
    let large = || Task { device_bytes: 600, ..task() };
    driver.begin(0, 0, large());
    driver.planner.devices[0].reserved_for = Some(driver.submit(0, large()));
    driver.submit(0, task());
    assert!(driver.planner.nothing_can_begin(S(0)));
    driver.planner.open_slot(0, None);
    assert!(!driver.planner.nothing_can_begin(S(0)));
}

/// The light task may wait for the one that would be kept.
#[test]
fn no_task_is_kept_for_a_poisoned_device_that_a_light_task_waits_in() {
    let mut driver = driver_of(&[10.0, 1.0]);
    driver.planner.set_light_waits(0, false, true);
    driver.attempt([0, 1], 0, Task { devices: DeviceMask::only(0), ..task() }, broken(DeviceFault::Poisoned));
    let id = driver.submit(1, task());
    assert_eq!(driver.take(1, 1).map(|run| run.id), Some(id));
}

/// Each refusal would take the turn of a smaller task; the last is an attempt, whose error counts.
#[test]
fn refused_task_begins_only_where_its_memory_is_free_or_for_the_last_time() {
    let mut driver = driver(1);
    driver.planner.policy = Policy { rounds_beside_others: 3, ..Policy::default() }.into();
    let large = Task { device_bytes: 600, ..task() };
    let large = driver.attempt([0, 1], 0, large, Err(short_of(600)));
    let small = driver.submit(2, task());
    assert!(matches!(driver.assign(3, 0, 0, None), AssignResult::Unknown));
    let run = driver.assign(3, 0, 0, Some(599)).begun().unwrap();
    assert_eq!(run.id, small);
    driver.ends(4, 0, &run, Ok(()));
    assert_eq!(driver.deadline(4), Some(S(7)), "the second back-off");
    let is_large = |run: Option<Assignment>| run.map(|run| run.id) == Some(large);
    assert!(driver.assign(8, 0, 0, Some(599)).begun().is_none(), "the third refusal");
    assert!(is_large(driver.assign(30, 0, 0, Some(599)).begun()), "the fourth");
}

#[test]
fn message_about_a_refused_task_names_it_once() {
    let mut driver = driver(1);
    let large = Task { device_bytes: 600, label: "large".into(), ..task() };
    driver.attempt([0, 1], 0, large, Err(short_of(600)));
    [3, 8].into_iter().for_each(|at| assert!(driver.assign(at, 0, 0, Some(599)).begun().is_none()));
    let (_, text) = driver.effects.log.last().unwrap();
    assert!(text.contains(" waits for memory, 1.0 h at most: it needs 600 B"), "{text}");
}

#[test]
fn reserved_device_that_backs_off_takes_smaller_tasks() {
    let mut driver = driver(1);
    let [large, small] = [600, 0].map(|device_bytes| driver.submit(0, Task { device_bytes, ..task() }));
    driver.planner.devices[0].reserved_for = Some(large);
    driver.planner.devices[0].refuse(S(0), S(10), 600);
    assert_eq!(driver.take(1, 0).map(|run| run.id), Some(small));
}

#[test]
fn reserved_device_is_free_when_all_its_attempts_have_ended() {
    let mut driver = with_slots(2);
    driver.begin(0, 0, of_work(10.0));
    let id = driver.submit(0, of_work(1.0));
    for (reserved_for, end) in [(None, 1.0), (Some(id), 11.0)] {
        driver.planner.devices[0].reserved_for = reserved_for;
        assert_eq!(scheduled_end(&driver, id), Some(end));
    }
}

#[test]
fn placement_considers_the_first_tasks_for_a_device_and_for_others() {
    let with_horizon = |speeds: &[f64], horizon| {
        let mut driver = driver_of(speeds);
        driver.planner.policy = Policy { horizon, ..Policy::default() }.into();
        driver
    };
    // The third task would begin on the slow device.
    for (horizon, begins) in [(2, false), (3, true)] {
        let mut driver = with_horizon(&[100.0, 1.0], horizon);
        let [.., last] = [100.0, 100.0, 0.01].map(|work| driver.submit(0, of_work(work)));
        assert_eq!(driver.take(0, 1).map(|run| run.id), begins.then_some(last), "{horizon}");
    }
    let mut driver = with_horizon(&[1.0; 3], 2);
    for mask in [0b001, 0b001, 0b101, 0b101] {
        driver.submit(0, Task { devices: DeviceMask(mask), ..of_work(10.0) });
    }
    let own = driver.submit(0, Task { devices: DeviceMask::only(1), ..task() });
    assert_eq!(driver.take(0, 1).map(|run| run.id), Some(own));
}

#[test]
fn task_that_a_context_leaves_no_memory_goes_elsewhere_or_fails() {
    let mut driver = driver(2);
    let masks = [DeviceMask::only(0), DeviceMask::ALL];
    let [fails, moves] = masks.map(|devices| driver.submit(0, Task { devices, device_bytes: 900, ..task() }));
    driver.planner.devices[0].reserved_for = Some(moves);
    driver.step(S(0), |planner, effects| planner.set_context_bytes(0, 500, effects));
    driver.publish();
    assert!(matches!(driver.error(fails), Some(Error::NoMemory { .. })));
    assert_eq!((driver.error(moves), driver.planner.devices[0].reserved_for), (None, None));
    assert_eq!(driver.take(0, 1).map(|run| run.id), Some(moves));
}
