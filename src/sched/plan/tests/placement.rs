//! What begins where.

use crate::sched::plan::schedule::Schedule;
use crate::sched::plan::tests::*;

#[test]
fn no_more_than_three_copies_run() {
    let mut hand = hand_of(&[1.0, 4.0, 16.0, 64.0, 256.0]);
    for device in 1..5 {
        hand.submit(0, Task { work: Some(1e6), devices: DeviceMask::only(device), ..task() });
    }
    let busy: Vec<Assignment> = (1..5).map(|device| hand.take(0, device).unwrap()).collect();
    let id = hand.submit(0, Task { idempotent: true, ..task() });
    hand.take(0, 0).unwrap();
    // It takes for ever, and device after device becomes free, each four times as fast as the one before.
    let copies = busy.iter().zip([10, 30, 90, 270]).enumerate().map(|(before, (run, now))| {
        hand.ends(now, before + 1, run, Err(Error::Callback { code: 1 }));
        hand.take(now, before + 1).map(|copy| copy.id)
    });
    let copies: Vec<Option<TaskId>> = copies.collect();
    assert_eq!(copies, [Some(id), Some(id), None, None]);
}

#[test]
fn work_that_no_sum_can_hold_is_refused() {
    let hand = hand(1);
    for work in [0.0, -1.0, 1e308, 1e-308, f64::NAN, f64::INFINITY] {
        let refused = hand.0.check_task(&Task { work: Some(work), ..task() });
        assert!(matches!(refused, Err(Error::Argument { .. })), "{work}");
    }
    for work in [1e-100, 1.0, 1e100] {
        assert_eq!(hand.0.check_task(&Task { work: Some(work), ..task() }), Ok(()));
    }
}

#[test]
fn nothing_begins_on_a_device_before_the_backend_has_heard_of_its_poisoned_context() {
    let mut hand = hand(1);
    for _ in 0..2 {
        hand.submit(0, task());
    }
    let run = hand.take(0, 0).unwrap();
    hand.ends(1, 0, &run, broken(DeviceFault::Poisoned));
    assert_eq!(hand.0.contexts_to_renew, [0]);
    assert!(hand.take(1, 0).is_none() && !hand.0.nothing_can_begin());
    hand.0.context_renewed(0);
    assert!(hand.take(1, 0).is_some());
}

#[test]
fn what_a_device_has_free_is_asked_only_where_it_matters() {
    let mut hand = Hand(Planner::new(vec![(hand(1).0.devices[0].info.clone(), 3)]));
    for device_bytes in [100, 0, 300] {
        hand.submit(0, Task { device_bytes, work: None, ..task() });
    }
    for _ in 0..2 {
        assert!(matches!(hand.0.assign(S(0), 0, 0, None), AssignResult::Begins(_)), "nothing to ask for");
    }
    assert!(matches!(hand.0.assign(S(0), 0, 0, None), AssignResult::Unknown));
    assert!(matches!(hand.0.assign(S(0), 0, 0, Some(299)), AssignResult::Nothing));
    assert!(matches!(hand.0.assign(S(0), 0, 0, Some(300)), AssignResult::Begins(_)));
}

#[test]
fn a_range_gives_way_to_what_should_begin_on_its_device_if_there_were_memory() {
    let mut hand = hand_of(&[1.0, 100.0]);
    let rest = hand.0.devices[0].ledger.lease(1000).unwrap();
    hand.submit(0, task());
    hand.take(0, 1).unwrap();
    let big = || Task { device_bytes: 500, ..task() };
    let any = hand.submit(0, big());
    assert!(!hand.0.waits_for_memory(S(0), 0), "the other is there much sooner");
    let own = hand.submit(0, Task { devices: DeviceMask::only(0), ..big() });
    assert!(hand.0.waits_for_memory(S(0), 0));
    hand.0.cancel(own).unwrap();
    hand.0.cancel(any).unwrap();
    hand.submit(0, Task { devices: DeviceMask::only(0), ..task() });
    assert!(!hand.0.waits_for_memory(S(0), 0), "it takes none");
    drop(rest);
}

#[test]
fn what_is_for_others_does_not_keep_a_device_from_what_is_for_it() {
    for speed in [Some(1.0), None] {
        let mut hand = hand(2);
        hand.0.estimator = Estimator::new(vec![Some(1.0), speed]);
        for _ in 0..HORIZON + 100 {
            hand.submit(0, Task { devices: DeviceMask::only(0), work: Some(100.0), ..task() });
        }
        let id = hand.submit(0, task());
        let own = hand.submit(0, Task { devices: DeviceMask::only(1), ..task() });
        assert_eq!(hand.0.runnable_devices(S(0)), [0, 1]);
        assert_eq!(hand.take(0, 1).map(|run| run.id), Some(id));
        hand.0.cancel(own).unwrap();
        assert!(hand.take(0, 0).is_some());
    }
}

#[test]
fn nobody_looks_through_the_ready_where_none_of_them_can_fit() {
    let mut hand = Hand(Planner::new(vec![(hand(1).0.devices[0].info.clone(), 3)]));
    for _ in 0..100 {
        hand.submit(0, Task { device_bytes: 600, ..task() });
    }
    assert!(hand.take(0, 0).is_some());
    let tried = |hand: &Hand, free| {
        let mut fitting = FitCheck::new(0, free);
        assert!(hand.0.choose_task(S(0), &mut fitting).is_none());
        fitting.passed.len()
    };
    assert_eq!(tried(&hand, None), 0);
    assert!(matches!(hand.0.assign(S(0), 0, 1, None), AssignResult::Nothing), "nor need the device be asked");
    // Others have taken what the ledger would grant.
    hand.submit(0, Task { device_bytes: 400, ..task() });
    assert_eq!(tried(&hand, Some(399)), 0);
    assert!(hand.0.devices[0].shortage.is_none());
    assert!(matches!(hand.0.assign(S(0), 0, 1, Some(399)), AssignResult::Nothing));
    assert_eq!(hand.0.devices[0].known_free_bytes(S(0)), Some(399));
    let until = hand.0.devices[0].shortage.unwrap().until;
    hand.0.advance(until);
    assert!(hand.0.devices[0].shortage.is_none(), "the device is asked again");
    assert!(hand.take(2, 0).is_some());
    hand.submit(3, task());
    assert!(
        matches!(hand.0.assign(S(3), 0, 1, None), AssignResult::Begins(_)),
        "what is free matters to none of the others"
    );
}

#[test]
fn what_is_to_run_alone_goes_where_it_is_alone_at_once() {
    let mut hand = hand(2);
    let id = hand.submit(0, task());
    hand.0.devices[0].runs_light = true;
    let run = hand.take(0, 0).unwrap();
    let full = Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
    hand.ends(1, 0, &run, Err(full));
    assert_eq!((hand.0.exclusive_tasks, hand.0.devices[0].reserved_for), (1, Some(id)));
    // A light task waits for it on the one device.
    assert_eq!(hand.0.runnable_devices(S(1)), [1]);
    let run = hand.take(1, 1).unwrap();
    hand.ends(2, 1, &run, Ok(()));
    assert_eq!((hand.state(id), hand.0.exclusive_tasks), (TaskStatus::Done, 0));
}

#[test]
fn nothing_begins_before_what_is_to_run_alone() {
    let mut hand = Hand(Planner::new(vec![(hand(1).0.devices[0].info.clone(), 2)]));
    let first = hand.submit(0, task());
    hand.submit(0, task());
    let runs = [(); 2].map(|()| hand.take(0, 0).unwrap());
    let short = Error::Resources { device: "x".into(), what: "y".into() };
    hand.ends(1, 0, &runs[0], Err(short));
    hand.submit(1, Task { priority: 1, ..task() });
    hand.ends(2, 0, &runs[1], Ok(()));
    assert_eq!(hand.take(2, 0).map(|run| run.id), Some(first));
}

#[test]
fn a_device_that_was_left_out_for_long_is_given_a_task_again() {
    let mut hand = hand(2);
    for round in 0..8 {
        for (device, seconds) in [(0, 40), (1, 1)] {
            hand.submit(40 * round, Task { devices: DeviceMask::only(device), ..task() });
            let run = hand.take(40 * round, device).unwrap();
            hand.ends(40 * round + seconds, device, &run, Ok(()));
        }
    }
    // The other should end both before this one ends the second.
    for (now, given) in [(600, false), (10_000, true)] {
        let ids = [(); 2].map(|()| hand.submit(now, task()));
        let first = hand.take(now, 1).unwrap();
        let second = hand.take(now, 0);
        assert_eq!(second.as_ref().map(|run| run.id), given.then_some(ids[1]), "at {now} s");
        hand.ends(now + 1, 1, &first, Ok(()));
        if second.is_none() {
            let second = hand.take(now + 1, 1).unwrap();
            hand.ends(now + 2, 1, &second, Ok(()));
        }
    }
}

#[test]
fn first_ready_task_has_the_priority_that_its_caller_gave() {
    let mut hand = hand(1);
    assert_eq!(hand.0.first_priority(), None);
    for priority in [-3, 1, 7] {
        hand.submit(0, Task { priority, ..task() });
        assert_eq!(hand.0.first_priority(), Some(priority));
    }
}

#[test]
fn guests_of_a_range_are_no_tasks_of_a_caller() {
    let mut hand = hand(2);
    (0..2).for_each(|_| _ = hand.submit(0, Task { role: Role::Helper, work: None, ..task() }));
    let guests = |hand: &Hand| {
        let guests = &hand.0.counts.guests;
        let stats = hand.0.stats();
        assert_eq!((stats.submitted, stats.queued, stats.running), (0, 0, 0));
        (guests.submitted, guests.queued, guests.running)
    };
    assert_eq!(guests(&hand), (2, 2, 0));
    let runs = [0, 1].map(|device| hand.take(0, device).unwrap());
    assert_eq!(guests(&hand), (2, 0, 2));
    hand.ends(1, 0, &runs[0], Ok(()));
    hand.ends(1, 1, &runs[1], broken(DeviceFault::Poisoned));
    assert_eq!(guests(&hand), (2, 1, 0));
    let last = hand.take(1, 0).unwrap();
    hand.ends(2, 0, &last, Ok(()));
    assert_eq!(guests(&hand), (2, 0, 0));
}

/// A device that runs more tasks than it may has no room until the surplus tasks have ended.
#[test]
fn a_device_that_was_short_has_room_when_the_last_of_its_tasks_end() {
    let mut hand = Hand(Planner::new(vec![(hand(1).0.devices[0].info.clone(), 3)]));
    for work in [30.0, 20.0, 10.0] {
        hand.submit(0, Task { work: Some(work), ..task() });
        hand.take(0, 0).unwrap();
    }
    let id = hand.submit(0, task());
    for (slots, end) in [(3, 11.0), (2, 21.0), (1, 31.0)] {
        hand.0.devices[0].throttle = Some((slots, S(60)));
        let plan = Schedule::new(&hand.0, S(0), false);
        let place = plan.place(&hand.0, hand.0.tasks.get(id).unwrap(), DeviceMask::ALL);
        assert_eq!(place.map(|place| place.end), Some(end), "{slots} at a time");
    }
}

#[test]
fn no_mask_has_a_device_beyond_its_bits() {
    assert_eq!(DeviceMask::only(64), DeviceMask::NONE);
    let mut mask = DeviceMask::only(63);
    mask.add(64);
    assert_eq!(mask, DeviceMask::only(63));
}
