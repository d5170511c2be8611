//! What becomes of tasks: verdicts, attempts that are given up, copies that come too late.

use crate::sched::plan::tests::*;

#[test]
fn what_has_committed_and_does_not_return_is_given_up_in_the_end() {
    for idempotent in [false, true] {
        let mut hand = hand(2);
        let id = hand.submit(0, Task { deadline: Some(S(60)), idempotent, ..task() });
        let run = hand.take(0, 0).unwrap();
        run.signal.commit(run.attempt).unwrap();
        hand.pass(60);
        assert_eq!(hand.state(id), TaskStatus::Running);
        assert_eq!(hand.0.next_deadline(S(60)), Some(S(120)), "it has as long again");
        hand.pass(120);
        assert!(matches!(hand.error(id), Some(Error::Deadline { .. })), "{:?}", hand.state(id));
        assert!(hand.0.stats().devices[0].retired.is_some());
        assert!(hand.0.next_deadline(S(120)).is_none_or(|alarm| alarm > S(120)), "nothing is left to watch");
        assert_eq!((hand.0.abandoned.len(), hand.take(121, 1).is_none()), (1, true));
        // It returns after all.
        hand.ends(200, 0, &run, Ok(()));
        assert_eq!(hand.state(id), TaskStatus::Failed);
    }
}

#[test]
fn what_would_fail_the_same_again_is_not_tried_again() {
    let unstable =
        || Error::Unstable { what: "p".into(), value: "NaN".into(), why: "dt".into(), suspect: false };
    for (error, again) in [(Error::Internal("odd".into()), true), (unstable(), false)] {
        let mut hand = hand(2);
        let id = hand.submit(0, Task { retries: 1, ..task() });
        let run = hand.take(0, 0).unwrap();
        hand.ends(1, 0, &run, Err(error));
        assert_eq!(hand.state(id) == TaskStatus::Failed, !again);
    }
}

#[test]
fn what_has_committed_and_hangs_is_not_left_to_a_copy_that_must_stop() {
    let mut hand = hand(2).seasoned();
    let id = hand.submit(10, Task { deadline: Some(S(20)), idempotent: true, ..task() });
    let first = hand.take(10, 0).unwrap();
    let second = hand.take(18, 1).expect("a copy, for the first is late");
    first.signal.commit(first.attempt).unwrap();
    hand.pass(30);
    hand.pass(50);
    hand.ends(51, 1, &second, Err(Error::Cancelled));
    assert!(matches!(hand.error(id), Some(Error::Deadline { .. })), "{:?}", hand.state(id));
}

/// A task whose first attempt was given up, has committed after all, and so has stopped the second.
fn left_to_one_that_was_given_up() -> (Hand, TaskId, Assignment) {
    let mut hand = hand(2);
    let id = hand.submit(0, Task { deadline: Some(S(60)), idempotent: true, ..task() });
    let first = hand.take(0, 0).unwrap();
    hand.pass(60);
    hand.pass(120);
    let second = hand.take(120, 1).expect("it begins again");
    first.signal.commit(first.attempt).unwrap();
    assert!(second.signal.is_stopped(second.attempt));
    hand.ends(130, 1, &second, Err(Error::Cancelled));
    assert_eq!((hand.state(id), hand.0.next_deadline(S(130))), (TaskStatus::Running, Some(S(190))));
    (hand, id, first)
}

#[test]
fn one_that_was_given_up_and_has_committed_has_a_while_to_return() {
    let (mut hand, id, first) = left_to_one_that_was_given_up();
    hand.ends(189, 0, &first, Ok(()));
    assert_eq!((hand.state(id), hand.0.next_deadline(S(189))), (TaskStatus::Done, None));

    let (mut hand, id, first) = left_to_one_that_was_given_up();
    hand.ends(189, 0, &first, Err(Error::Callback { code: 1 }));
    assert_eq!((hand.state(id), hand.0.next_deadline(S(189))), (TaskStatus::Queued, None));
    let third = hand.take(189, 1).expect("it begins again");
    hand.pass(200);
    hand.ends(201, 1, &third, Ok(()));
    assert_eq!(hand.state(id), TaskStatus::Done);

    let (mut hand, id, _) = left_to_one_that_was_given_up();
    hand.pass(190);
    match hand.error(id) {
        Some(Error::Deadline { device, .. }) => assert_eq!(device, "cuda:0"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_what_has_committed_no_copy_begins() {
    let mut hand = hand(2).seasoned();
    let id = hand.submit(10, Task { idempotent: true, ..task() });
    let run = hand.take(10, 0).unwrap();
    run.signal.commit(run.attempt).unwrap();
    // It writes for long.
    for now in [12, 16, 17, 60, 400] {
        hand.pass(now);
        assert!(hand.take(now, 1).is_none(), "at {now} s");
    }
    assert_eq!(hand.0.counts.copies, 0);
    hand.ends(401, 0, &run, Ok(()));
    assert_eq!(hand.state(id), TaskStatus::Done);
}

/// A copy that can stop only at the end of its work is no sign of a broken device.
#[test]
fn a_copy_that_comes_too_late_has_at_least_twice_its_expected_time() {
    for (copy_ends, retired) in [(850, false), (3000, true)] {
        let mut hand = hand(2).seasoned();
        hand.submit(10, Task { idempotent: true, work: Some(120.0), ..task() });
        let first = hand.take(10, 0).unwrap();
        hand.pass(611);
        let copy = hand.take(611, 1).expect("a copy, for the first is late");
        hand.ends(620, 0, &first, Ok(()));
        // 120 s were expected of the copy, so it should have ended by 731.
        hand.pass(731);
        assert!(hand.0.devices[1].retired.is_none(), "after {} s", 731 - 611);
        hand.pass(copy_ends);
        hand.ends(copy_ends, 1, &copy, Err(Error::Cancelled));
        assert_eq!(hand.0.devices[1].retired.is_some(), retired, "after {} s", copy_ends - 611);
    }
}

#[test]
fn a_task_that_says_itself_that_it_is_cancelled_is_not_tried_again() {
    let mut hand = hand(1);
    let id = hand.submit(0, Task { retries: 3, ..task() });
    let run = hand.take(0, 0).unwrap();
    hand.ends(1, 0, &run, Err(Error::Cancelled));
    assert_eq!(
        (hand.state(id), hand.0.counts.retried, hand.0.counts.cancelled),
        (TaskStatus::Cancelled, 0, 1)
    );
}

#[test]
fn an_attempt_is_not_asked_to_stop_for_one_that_never_began() {
    let mut hand = hand(2);
    let id = hand.submit(0, Task { deadline: Some(S(60)), ..task() });
    let run = hand.take(0, 0).unwrap();
    // To open the device takes longer than the deadline, and fails then.
    hand.pass(60);
    assert!(run.signal.is_stopped(run.attempt));
    hand.judge(70, 0, &run, AttemptEnd::NoQueue("it hangs".into()));
    let next = hand.take(70, 1).unwrap();
    assert!(!next.signal.is_stopped(next.attempt), "attempt {}", next.attempt);
    hand.ends(71, 1, &next, Ok(()));
    assert_eq!(hand.state(id), TaskStatus::Done);
}

#[test]
fn what_ends_well_after_a_cancel_is_cancelled() {
    let mut hand = hand(1);
    let id = hand.submit(0, task());
    let run = hand.take(0, 0).unwrap();
    hand.0.cancel(id).unwrap();
    hand.ends(1, 0, &run, Ok(()));
    assert_eq!(hand.state(id), TaskStatus::Cancelled);
}

#[test]
fn what_stands_for_a_light_task_does_not_end_because_no_device_is_left() {
    let mut hand = hand(1);
    hand.0.retire(0, "gone");
    let shadow = hand.0.admit_proxy(S(0)).unwrap();
    assert!(hand.0.ended.is_empty());
    hand.0.end_task(shadow, Ok(()));
    assert_eq!(hand.0.ended.len(), 1);
}

#[test]
fn the_third_in_a_row_that_is_found_guilty_speaks_against_the_device() {
    for one_does_well in [false, true] {
        let mut hand = hand(1);
        for number in 0..3 {
            let id = hand.submit(0, task());
            for _ in 0..2 {
                let run = hand.take(0, 0).unwrap();
                hand.ends(0, 0, &run, broken(DeviceFault::Poisoned));
                hand.0.context_renewed(0);
            }
            assert_eq!(hand.state(id), TaskStatus::Failed);
            if one_does_well && number == 1 {
                hand.submit(0, task());
                let run = hand.take(0, 0).unwrap();
                hand.ends(0, 0, &run, Ok(()));
            }
        }
        assert_eq!(hand.0.devices[0].retired.is_none(), one_does_well);
    }
}

#[test]
fn the_third_device_that_is_lost_with_a_task_is_its_last() {
    let mut hand = hand(4);
    let id = hand.submit(0, task());
    for device in 0..3 {
        assert_eq!(hand.error(id), None);
        let run = hand.take(0, device).unwrap();
        hand.ends(0, device, &run, broken(DeviceFault::Lost));
    }
    assert!(matches!(hand.error(id), Some(Error::Device { .. })));
    let left = hand.0.devices.iter().filter(|device| device.retired.is_none());
    assert_eq!(left.count(), 1);
}
