//! Ends of tasks: results, abandoned attempts, copies that come too late.

use crate::sched::base::Completion;
use crate::sched::plan::tests::*;

#[test]
fn committed_attempt_that_does_not_return_is_abandoned() {
    for idempotent in [false, true] {
        let mut driver = driver(2);
        let (id, run) = driver.begin(0, 0, Task { deadline: Some(S(60)), idempotent, ..task() });
        run.signal.commit(run.attempt).unwrap();
        driver.pass(60);
        assert_eq!(driver.state(id), TaskStatus::Running);
        assert_eq!(driver.deadline(60), Some(S(120)), "it has as long again");
        driver.pass(120);
        assert!(matches!(driver.error(id), Some(Error::Deadline { .. })), "{:?}", driver.state(id));
        assert_eq!(driver.planner.info(S(130), id).unwrap().running_ns, 120_000_000_000);
        assert!(driver.is_retired(0));
        assert!(driver.deadline(120).is_none_or(|deadline| deadline > S(120)), "nothing is left to watch");
        assert_eq!((driver.effects.abandoned.len(), driver.take(121, 1).is_none()), (1, true));
        // The abandoned attempt returns after all.
        driver.ends(200, 0, &run, Ok(()));
        assert_eq!(driver.state(id), TaskStatus::Failed);
    }
}

#[test]
fn error_that_a_retry_would_repeat_is_not_retried() {
    let unstable =
        Error::Unstable { what: "p".into(), value: "NaN".into(), why: "dt".into(), suspect: false };
    for (error, state) in [
        (Error::Internal("odd".into()), TaskStatus::Queued),
        (unstable, TaskStatus::Failed),
        (Error::Cancelled, TaskStatus::Cancelled),
    ] {
        let mut driver = driver(2);
        let id = driver.attempt([0, 1], 0, Task { retries: 1, ..task() }, Err(error));
        assert_eq!(driver.state(id), state);
    }
}

#[test]
fn committed_task_that_hangs_does_not_wait_for_a_stopped_copy() {
    let (mut driver, id, [first, second]) = with_a_copy(Task { deadline: Some(S(20)), ..task() });
    first.signal.commit(first.attempt).unwrap();
    driver.pass(30);
    driver.pass(50);
    driver.ends(51, 1, &second, Err(Error::Cancelled));
    assert!(matches!(driver.error(id), Some(Error::Deadline { .. })), "{:?}", driver.state(id));
}

#[test]
fn abandoned_attempt_can_not_commit() {
    let mut driver = driver_of(&[1.0, 4.0]);
    let (id, first) = driver.begin(0, 1, Task { deadline: Some(S(60)), idempotent: true, ..task() });
    driver.pass(60);
    driver.pass(120);
    let second = driver.take(120, 0).expect("it begins again");
    assert!(first.signal.commit(first.attempt).is_err());
    driver.ends(130, 1, &first, Ok(()));
    assert!(!second.signal.is_stopped(second.attempt));
    driver.ends(131, 0, &second, Ok(()));
    assert_eq!(driver.state(id), TaskStatus::Done);
}

#[test]
fn attempt_that_was_abandoned_beside_a_committed_one_can_not_commit_when_that_fails() {
    let signal = Completion::default();
    assert_eq!((signal.commit(2), signal.bar(1)), (Ok(()), false));
    signal.reopen(2);
    assert_eq!([1, 2].map(|attempt| signal.commit(attempt)), [Err(Error::Cancelled), Ok(())]);
    assert!(signal.bar(2), "it has committed before");
}

#[test]
fn task_that_hangs_after_a_device_was_lost_is_restarted_once() {
    let mut driver = driver(4);
    let (id, run) = driver.begin(0, 0, Task { deadline: Some(S(60)), idempotent: true, ..task() });
    driver.ends(1, 0, &run, broken(DeviceFault::Lost));
    for (began, device) in [(1, 1), (121, 2)] {
        assert!(driver.take(began, device).is_some(), "{:?}", driver.error(id));
        driver.pass(began + 60);
        driver.pass(began + 120);
    }
    assert!(matches!(driver.error(id), Some(Error::Deadline { .. })), "{:?}", driver.state(id));
}

#[test]
fn task_that_its_devices_are_too_small_for_fails_at_once() {
    for beside_another in [false, true] {
        let large = DeviceInfo { total_bytes: 1 << 20, free_bytes: 1 << 20, ..info(1, 1.0) };
        let mut driver = Driver::new([(info(0, 1.0), 2), (large, 1)].into_iter());
        if beside_another {
            driver.begin(0, 0, task());
        }
        let id =
            driver.attempt([0, 1], 0, Task { devices: DeviceMask::only(0), ..task() }, Err(short_of(1001)));
        assert_eq!(driver.state(id), TaskStatus::Failed, "{beside_another}");
    }
}

#[test]
fn cancel_after_a_commit_counts_if_the_attempt_fails() {
    for (outcome, state) in
        [(Ok(()), TaskStatus::Done), (Err(Error::Callback { code: 1 }), TaskStatus::Cancelled)]
    {
        let mut driver = driver(1);
        let (id, run) = driver.begin(0, 0, Task { retries: 1, ..task() });
        run.signal.commit(run.attempt).unwrap();
        driver.cancel(id).unwrap();
        driver.ends(1, 0, &run, outcome);
        driver.publish();
        assert_eq!(driver.state(id), state);
    }
}

#[test]
fn committed_task_gets_no_copy() {
    let mut driver = driver(2).seasoned();
    let (id, run) = driver.begin(10, 0, Task { idempotent: true, ..task() });
    run.signal.commit(run.attempt).unwrap();
    // The attempt writes its results for long.
    for now in [12, 16, 17, 60, 400] {
        driver.pass(now);
        assert!(driver.take(now, 1).is_none(), "at {now} s");
    }
    assert_eq!(driver.planner.counts.copies, 0);
    driver.ends(401, 0, &run, Ok(()));
    assert_eq!(driver.state(id), TaskStatus::Done);
}

/// A copy that can stop only at the end of its work is no sign of a broken device.
#[test]
fn losing_copy_has_twice_its_expected_time() {
    for (copy_ends, retired) in [(850, false), (3000, true)] {
        let mut driver = driver(2).seasoned();
        let (_, first) = driver.begin(10, 0, Task { idempotent: true, work: Some(120.0), ..task() });
        driver.pass(611);
        let copy = driver.take(611, 1).expect("a copy, for the first is late");
        driver.ends(620, 0, &first, Ok(()));
        // 120 s were expected of the copy, so it should have ended by 731.
        driver.pass(731);
        assert!(!driver.is_retired(1), "after {} s", 731 - 611);
        driver.pass(copy_ends);
        driver.ends(copy_ends, 1, &copy, Err(Error::Cancelled));
        assert_eq!(driver.is_retired(1), retired, "after {} s", copy_ends - 611);
    }
}

#[test]
fn attempt_is_not_stopped_for_a_copy_that_never_began() {
    let mut driver = driver(2);
    let (id, run) = driver.begin(0, 0, Task { deadline: Some(S(60)), ..task() });
    // To open the device takes longer than the deadline, and fails then.
    driver.pass(60);
    assert!(run.signal.is_stopped(run.attempt));
    driver.judge(70, 0, &run, AttemptEnd::NoQueue("it hangs".into()));
    let next = driver.take(70, 1).unwrap();
    assert!(!next.signal.is_stopped(next.attempt), "attempt {}", next.attempt);
    driver.ends(71, 1, &next, Ok(()));
    assert_eq!(driver.state(id), TaskStatus::Done);
}

#[test]
fn end_is_reported_to_threads_that_wait() {
    let mut driver = driver(1);
    let [other, awaited] = [(); 2].map(|()| driver.submit(0, task()));
    driver.planner.start_wait(awaited).unwrap();
    for id in [other, awaited] {
        driver.cancel(id).unwrap();
        let ended = driver.effects.ended.pop().unwrap();
        assert_eq!(driver.planner.publish(id, ended.outcome, &mut driver.effects), id == awaited);
    }
}

#[test]
fn only_callers_code_is_dropped_without_the_lock() {
    let mut driver = driver(1);
    let owned = Arc::new(());
    let of_caller = Task::new(move |_: &Exec<'_>| {
        let _held = &owned;
        Ok(())
    });
    for (task, unlocks) in [(task(), false), (of_caller, true)] {
        let id = driver.submit(0, task);
        driver.cancel(id).unwrap();
        assert_eq!(driver.effects.runs_callers_code(), unlocks);
        driver.publish();
    }
}

#[test]
fn retry_begins_where_it_failed_unless_another_device_is_free() {
    for other in ["is free", "is busy", "backs off", "is reserved"] {
        let mut driver = driver(2);
        let (id, run) = driver.begin(0, 0, Task { retries: 1, ..task() });
        let elsewhere = Task { devices: DeviceMask::only(1), ..task() };
        match other {
            "is busy" => _ = driver.begin(0, 1, elsewhere),
            "backs off" => driver.planner.devices[1].refuse(S(0), S(10), 0),
            "is reserved" => driver.planner.devices[1].reserved_for = Some(driver.submit(0, elsewhere)),
            _ => {}
        }
        let (fails, is_free) = (|| Err(Error::Callback { code: 7 }), other == "is free");
        driver.ends(1, 0, &run, fails());
        assert_eq!(driver.runnable(1).contains(0), !is_free, "{other}");
        assert!(!is_free || driver.take(1, 0).is_none());
        assert_eq!(driver.run_next([1, 2], usize::from(is_free), fails()), id, "{other}");
        assert_eq!(driver.state(id), TaskStatus::Failed, "it has one retry");
    }
}

/// The next wrong result would fail the task. But the task that waits keeps the memory of the other
/// device.
#[test]
fn task_avoids_a_device_that_may_be_faulty_unless_a_task_waits_for_it() {
    for fails in [wrong, || broken(DeviceFault::Poisoned)] {
        let mut driver = driver(2);
        let large = || Task { device_bytes: 600, ..task() };
        let (_, outer) = driver.begin(0, 1, Task { devices: DeviceMask::only(1), ..large() });
        let id = driver.attempt([0, 1], 0, large(), fails());
        driver.planner.context_renewed(0);
        assert_eq!(driver.runnable(1), DeviceMask::NONE);
        assert!(driver.take(1, 0).is_none());
        driver.planner.open_slot(1, None);
        assert!(!driver.planner.nothing_can_begin(S(1)));
        assert_eq!(driver.runnable(1), DeviceMask::only(0));
        assert_eq!(driver.take(1, 0).map(|run| run.id), Some(id));
        driver.planner.close_slot(S(2), 1, None);
        driver.ends(2, 1, &outer, Ok(()));
    }
}

#[test]
fn refusal_counts_until_the_back_off_is_over() {
    let mut driver = driver(2);
    let large = || Task { device_bytes: 600, ..task() };
    driver.begin(0, 1, Task { devices: DeviceMask::only(1), ..large() });
    driver.planner.open_slot(1, None);
    let (id, run) = driver.begin(0, 0, large());
    driver.ends(1, 0, &run, Err(short_of(600)));
    // No other device may run it, so the pauses grow though not all have refused it.
    for (now, until) in [(1, 2), (2, 18), (18, 34)] {
        driver.pass(until - 1);
        assert!(driver.take(until - 1, 0).is_none(), "refused at {now} s");
        assert!(!driver.planner.nothing_can_begin(S(until - 1)));
        driver.pass(until);
        assert!(!driver.planner.nothing_can_begin(S(until)));
        let run = driver.take(until, 0).unwrap();
        assert_eq!(run.id, id);
        driver.ends(until, 0, &run, Err(short_of(600)));
        assert_eq!(driver.state(id), TaskStatus::Queued);
    }
}

#[test]
fn cancel_stops_the_copy_of_an_attempt_that_fails_after_its_commit() {
    let (mut driver, id, [first, second]) = with_a_copy(task());
    first.signal.commit(first.attempt).unwrap();
    driver.cancel(id).unwrap();
    assert!(!first.signal.is_cancelled());
    driver.ends(19, 0, &first, Err(Error::Callback { code: 1 }));
    assert!(second.signal.is_cancelled());
    driver.ends(20, 1, &second, Err(Error::Cancelled));
    assert_eq!(driver.state(id), TaskStatus::Cancelled);
}

#[test]
fn no_copy_begins_where_one_has_failed() {
    let (mut driver, id, [first, second]) = with_a_copy(task());
    driver.ends(19, 1, &second, Err(Error::Callback { code: 1 }));
    assert!(driver.take(19, 1).is_none());
    // The first attempt fails, too, so that no device is left to prefer.
    driver.ends(20, 0, &first, broken(DeviceFault::Poisoned));
    driver.planner.context_renewed(0);
    assert_eq!(driver.take(20, 0).map(|run| run.id), Some(id));
    assert!(driver.take(24, 1).is_none());
}

#[test]
fn ready_tasks_fail_if_no_thread_can_run_them() {
    let mut driver = driver(2);
    let (running, _) = driver.begin(0, 0, task());
    let ready = [1, 2, 3].map(|devices| driver.submit(0, Task { devices: DeviceMask(devices), ..task() }));
    let why = Error::Internal("no thread".into());
    for (deserted, failed) in [(1, [true, false, false]), (3, [true; 3])] {
        driver.step(S(1), |planner, effects| planner.fail_ready(DeviceMask(deserted), &why, effects));
        driver.publish();
        let expected = failed.map(|failed| failed.then(|| why.clone()));
        assert_eq!(ready.map(|id| driver.error(id)), expected);
    }
    assert_eq!(driver.state(running), TaskStatus::Running);
}

#[test]
fn task_of_a_device_without_threads_begins_elsewhere() {
    let mut driver = driver_of(&[1.0, 100.0]);
    let id = driver.submit(0, Task { work: Some(1.0), ..task() });
    assert!(driver.take(0, 0).is_none(), "the other device is faster");
    driver.planner.suspend(1, S(1));
    assert_eq!((driver.take(0, 1).is_none(), driver.deadline(0)), (true, Some(S(1))));
    assert_eq!(driver.take(0, 0).map(|run| run.id), Some(id));
}

/// Returns how often records are read when so many more tasks are ready: on a device that backs
/// off, and when tasks of a device without threads fail.
fn reads_beside(count: u32) -> [usize; 2] {
    let mut driver = driver(2);
    let here = || Task { devices: DeviceMask(1), ..task() };
    driver.attempt([0, 1], 0, here(), Err(busy()));
    (0..count).for_each(|_| _ = driver.submit(1, here()));
    let before = driver.planner.tasks.reads.get();
    assert_eq!(driver.planner.runnable_devices(S(1)), DeviceMask::NONE);
    let backing_off = driver.planner.tasks.reads.get();
    driver.planner.fail_ready(DeviceMask(2), &busy(), &mut driver.effects);
    assert!(driver.effects.ended.is_empty());
    [backing_off - before, driver.planner.tasks.reads.get() - backing_off]
}

#[test]
fn tasks_that_can_not_begin_are_not_read() {
    assert_eq!(reads_beside(300), reads_beside(30));
}

#[test]
fn throttle_lasts_beyond_a_suspension() {
    let mut driver = with_slots(2);
    (0..2).for_each(|_| _ = driver.submit(0, task()));
    driver.planner.devices[0].throttles.push((1, S(60)));
    driver.planner.suspend(0, S(1));
    assert_eq!((driver.take(0, 0).is_none(), driver.deadline(0)), (true, Some(S(1))));
    driver.pass(1);
    assert!(driver.take(1, 0).is_some() && driver.take(1, 0).is_none(), "one at a time");
    assert_eq!(driver.deadline(1), Some(S(60)));
}

/// Returns how often records are read while so many refused tasks are cancelled.
fn reads_to_cancel(count: u32) -> usize {
    let mut driver = with_slots(count);
    let ids: Vec<_> = (0..count).map(|_| driver.submit(0, task())).collect();
    let runs: Vec<_> = ids.iter().map(|_| driver.take(0, 0).unwrap()).collect();
    runs.iter().for_each(|run| driver.ends(1, 0, run, Err(busy())));
    assert!(ids.iter().all(|&id| driver.state(id) == TaskStatus::Queued));
    // Checks of the planner read records, too.
    let (planner, effects) = (&mut driver.planner, &mut driver.effects);
    let before = planner.tasks.reads.get();
    for id in ids {
        planner.cancel(id, effects).unwrap();
        let ended = effects.ended.pop().unwrap();
        planner.publish(id, ended.outcome, effects);
    }
    planner.tasks.reads.get() - before
}

#[test]
fn cancel_of_a_refused_task_reads_no_others() {
    assert_eq!(reads_to_cancel(60), 2 * reads_to_cancel(30));
}

#[test]
fn failure_for_which_copies_stopped_is_that_of_its_own_device() {
    let fails = Error::Callback { code: 1 };
    for (error, state) in [(fails, TaskStatus::Failed), (short_of(600), TaskStatus::Queued)] {
        let (mut driver, id, [first, second, third]) = with_two_copies();
        driver.planner.set_shared(2, (id, third.attempt));
        first.signal.commit(first.attempt).unwrap();
        driver.ends(40, 0, &first, Err(error));
        driver.ends(41, 1, &second, Err(Error::Cancelled));
        driver.ends(42, 2, &third, Err(Error::Cancelled));
        assert_eq!((driver.state(id), driver.planner.tasks.get(id).unwrap().exclusive), (state, false));
        let (_, text) = driver.effects.log.last().unwrap();
        assert!(text.contains("on cuda:0: "), "{text}");
        let backs_off = [0, 1, 2].map(|device| driver.planner.devices[device].backs_off(S(42), 600));
        assert_eq!(backs_off, [state == TaskStatus::Queued, false, false]);
    }
}

#[test]
fn failure_of_a_copy_is_not_that_of_a_later_attempt() {
    for abandoned in [false, true] {
        let deadline = abandoned.then(|| S(20));
        let (mut driver, id, [first, second]) = with_a_copy(Task { deadline, ..task() });
        driver.ends(19, 1, &second, Err(Error::Callback { code: 1 }));
        if abandoned {
            driver.pass(30);
            driver.pass(1000);
        } else {
            driver.judge(20, 0, &first, AttemptEnd::NoQueue("x".into()));
        }
        assert_eq!((driver.state(id), driver.is_retired(0)), (TaskStatus::Queued, true), "{abandoned}");
        let third = driver.take(1001, 1).unwrap();
        driver.ends(1002, 1, &third, Err(Error::Cancelled));
        assert_eq!((driver.state(id), driver.error(id)), (TaskStatus::Cancelled, None), "{abandoned}");
    }
}
