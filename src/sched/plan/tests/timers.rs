//! Tests of timers: deadlines, pauses, back-offs.

use log::Level;

use crate::sched::plan::{Schedule, tests::*};

#[test]
fn attempt_that_waits_for_other_tasks_is_not_hung() {
    let mut driver = driver(1);
    let (_, run) = driver.begin(0, 0, Task { deadline: Some(S(5)), ..task() });
    let waiter = Some((run.id, run.attempt));
    driver.planner.open_slot(0, waiter);
    for now in 1..500 {
        driver.pass(now);
    }
    driver.planner.close_slot(S(500), 0, waiter);
    driver.pass(509);
    assert!(!driver.is_retired(0), "it has ten seconds to return");
    driver.pass(511);
    assert!(driver.is_retired(0));
}

/// The attempts that ran beside the one that was short of memory fitted together.
#[test]
fn shortage_limits_a_device_to_the_attempts_that_had_room() {
    for slots in 2..=4 {
        let mut driver = with_slots(slots);
        let runs: Vec<Assignment> = (0..slots).map(|_| driver.begin(0, 0, task()).1).collect();
        (0..slots).for_each(|_| _ = driver.submit(0, Task { priority: 1, ..task() }));
        driver.ends(1, 0, &runs[0], Err(short_of(0)));
        for run in &runs[1..] {
            driver.ends(2, 0, run, Ok(()));
        }
        let alone = driver.take(2, 0).unwrap();
        assert_eq!(alone.id, runs[0].id);
        assert!(driver.take(2, 0).is_none(), "nothing starts beside the task that was short");
        driver.ends(3, 0, &alone, Ok(()));
        let begun = (0..slots).filter(|_| driver.take(3, 0).is_some()).count();
        assert_eq!(begun as u32, slots - 1, "of {slots} slots");
        // The attempts of a class with three ended ones have deadlines, too.
        if slots == 2 {
            assert_eq!((driver.deadline(3), driver.deadline(61)), (Some(S(61)), Some(S(61))));
            driver.pass(61);
            assert_eq!((driver.deadline(61), driver.runnable(61)), (None, DeviceMask::only(0)));
        }
    }
}

#[test]
fn late_attempt_is_logged_with_its_time_and_its_device() {
    let mut driver = driver(1).seasoned();
    driver.effects.log.clear();
    driver.begin(10, 0, Task { label: "slow".into(), ..task() });
    driver.pass(14);
    assert!(driver.effects.log.is_empty(), "{:?}", driver.effects.log);
    driver.pass(16);
    let text = "task 'slow' has run for 6.00s on cuda:0, over 5 times as long as usual in its class";
    assert_eq!(driver.effects.log, [(Level::Warn, text.to_owned())]);
    driver.pass(60);
    assert_eq!(driver.effects.log.len(), 1, "an attempt is late once");
    assert!(driver.planner.ready.is_empty(), "it may not run twice");
}

/// On a GPU, idle slots are for other processes, and a copy would open a context there.
#[test]
fn late_attempt_gets_no_copy_on_a_gpu_while_there_are_other_processes() {
    for (has_peers, copied) in [(true, None), (false, Some(2))] {
        let mut driver = driver(2).seasoned();
        driver.planner.has_peers = has_peers;
        driver.begin(10, 0, Task { idempotent: true, ..task() });
        driver.pass(16);
        let (_, text) = driver.effects.log.last().unwrap();
        assert!(text.ends_with("its class; a copy may start elsewhere"), "{text}");
        assert_eq!(driver.take(16, 1).map(|run| run.attempt), copied, "{has_peers}");
    }
}

#[test]
fn attempt_of_microseconds_is_not_late_within_a_second() {
    let mut driver = driver(1);
    for _ in 0..4 {
        driver.planner.estimator.record_sample(0, 0, Some(1.0), 1e-6);
    }
    driver.begin(10, 0, task());
    assert_eq!(driver.deadline(10), Some(S(11)));
}

#[test]
fn late_task_that_was_refused_waits_for_the_back_off() {
    let mut driver = driver(1).seasoned();
    let (id, run) = driver.begin(10, 0, Task { idempotent: true, ..task() });
    driver.pass(16);
    driver.planner.devices[0].reserved_for = Some(id);
    driver.ends(17, 0, &run, Err(short_of(0)));
    assert!(driver.take(17, 0).is_none(), "the device backs off for a second");
    assert_eq!(driver.planner.devices[0].reserved_for, None);
    driver.pass(18);
    assert_eq!((driver.state(id), driver.error(id)), (TaskStatus::Queued, None));
    driver.run_next([18, 19], 0, Ok(()));
    assert_eq!(driver.state(id), TaskStatus::Done);
}

/// The timer thread reads the deadlines late on a busy machine.
#[test]
fn end_of_a_back_off_is_due_until_advance_handles_it() {
    let mut driver = driver(1);
    driver.attempt([0, 1], 0, task(), Err(short_of(0)));
    for now in [1, 2, 3, 60] {
        assert_eq!(driver.deadline(now), Some(S(2)), "read after {now} s");
    }
    driver.pass(60);
    assert_eq!(driver.deadline(60), None);
    assert_eq!(driver.runnable(60), DeviceMask::only(0));
}

/// A busy device costs only the task that asks it; its queue waits.
#[test]
fn busy_device_is_asked_by_one_task_at_a_time() {
    let mut driver = driver(1);
    let ids = [(); 5].map(|()| driver.submit(0, task()));
    let mut asked = Vec::new();
    let ask = |driver: &mut Driver, now: u64, asked: &mut Vec<(u64, TaskId)>| {
        driver.pass(now);
        let run = driver.take(now, 0)?;
        asked.push((now, run.id));
        Some(run)
    };
    for now in 0..50 {
        let run = ask(&mut driver, now, &mut asked);
        let light = driver.planner.is_reserved(S(now), 0);
        assert_eq!(light, run.is_none(), "light tasks wait, too");
        if let Some(run) = run {
            driver.ends(now, 0, &run, Err(busy()));
            assert!(!driver.planner.nothing_can_begin(S(now)), "it is only a matter of time");
            assert!(driver.deadline(now).is_some_and(|until| until > S(now)));
        }
    }
    assert_eq!(asked, [0, 1, 5, 21, 37].map(|now| (now, ids[0])), "a process that goes on costs no task");
    // The device is free again: the back-off has ended.
    for (now, id) in (53..).zip(&ids) {
        let run = ask(&mut driver, now, &mut asked).unwrap();
        driver.ends(now, 0, &run, Ok(()));
        assert_eq!(
            (driver.state(*id), driver.planner.devices[0].backoff.is_none()),
            (TaskStatus::Done, true)
        );
    }
}

#[test]
fn what_others_have_is_waited_for_an_hour_and_a_shortage_of_unknown_cause_three_times() {
    let short = |needed, there| Error::NoMemory { what: "x".into(), needed, place: "y".into(), there };
    let beyond = |limit| Error::ProcessLimit { what: "x".into(), needed: 600, left: 599, limit };
    let minute = 60;
    for (error, times, said) in [
        (busy(), 60 * minute..61 * minute, Some("other processes")),
        // This process may hold it, too.
        (short(600, 599), 60 * minute..61 * minute, Some("memory")),
        // Enough is free, so another process is not the cause.
        (short(600, 600), 22..23, None),
        (short(0, 600), 22..23, None),
        (lacks_resources(), 22..23, None),
        // Earlier tasks may still hold address space; other processes hold none of it.
        (beyond(1000), 22..23, None),
        (beyond(599), 1..2, None),
    ] {
        let mut driver = driver(1);
        // A program that prints failures itself gets this line, too.
        driver.planner.policy = Policy { failure_level: Level::Debug, ..Policy::default() }.into();
        let stated = if error.is_shortage() { 600 } else { 0 };
        let id = driver.submit(0, Task { device_bytes: stated, ..task() });
        let mut now = 0;
        while driver.state(id) != TaskStatus::Failed {
            driver.pass(now);
            if let Some(run) = driver.take(now, 0) {
                driver.ends(now, 0, &run, Err(error.clone()));
            }
            now += 1;
        }
        assert!(times.contains(&now), "{now} s: {error}");
        let log = driver.effects.log.iter().filter(|(_, text)| text.contains(" waits for "));
        let said =
            said.map(|what| (Level::Warn, format!("the task waits for {what}, 1.0 h at most: {error}")));
        assert_eq!(log.cloned().collect::<Vec<_>>(), Vec::from_iter(said));
        assert_eq!(driver.error(id), Some(error));
    }
}

/// A driver may take a minute for kernels that it has never seen.
#[test]
fn copy_that_lost_is_not_hung_while_its_device_prepares() {
    let mut driver = driver(2).seasoned();
    let (id, first) = driver.begin(10, 0, Task { idempotent: true, ..task() });
    driver.pass(16);
    driver.take(16, 1).unwrap();
    driver.ends(17, 0, &first, Ok(()));
    for now in 17..80 {
        driver.planner.postpone_deadlines(1, S(now));
        driver.pass(now);
    }
    assert_eq!((driver.state(id), driver.is_retired(1)), (TaskStatus::Done, false));
    // A shutdown waits no longer for it.
    driver.step(S(80), |planner, effects| planner.stop(effects));
    for now in 80..=90 {
        assert_eq!(driver.is_retired(1), now == 90, "it has ten seconds to return");
        driver.planner.postpone_deadlines(1, S(now));
        driver.pass(now);
    }
}

#[test]
fn busy_device_is_waited_for_beside_one_that_refuses_the_task_for_another_reason() {
    let mut driver = driver(2);
    let id = driver.submit(0, task());
    for now in 0..600 {
        driver.pass(now);
        for device in 0..2 {
            if let Some(run) = driver.take(now, device) {
                let error = if device == 0 { busy() } else { lacks_resources() };
                driver.ends(now, device, &run, Err(error));
            }
        }
    }
    assert_eq!(driver.error(id), None);
}

#[test]
fn shortage_of_memory_holds_back_no_smaller_task() {
    let mut driver = driver(1);
    let [large, small] = [600, 100].map(|device_bytes| driver.submit(0, Task { device_bytes, ..task() }));
    let run = driver.take(0, 0).unwrap();
    assert_eq!(run.id, large);
    driver.ends(0, 0, &run, Err(short_of(600)));
    let plan = Schedule::new(&driver.planner, S(0), false);
    assert_eq!([600, 599].map(|bytes| plan.has_memory(&driver.planner, 0, bytes)), [Some(1.0), Some(0.0)]);
    assert!(!driver.planner.is_reserved(S(0), 0), "nor light tasks");
    let run = driver.take(0, 0).unwrap();
    assert_eq!(run.id, small);
    driver.ends(0, 0, &run, Ok(()));
    assert!(driver.take(0, 0).is_none());
    assert_eq!(driver.take(1, 0).map(|run| run.id), Some(large));
}

/// A task that states no memory, and fails for want of much, does not keep others like it from the
/// device.
#[test]
fn refusal_tells_what_a_task_needs() {
    let mut driver = driver(1);
    let [first, second] = [(); 2].map(|()| driver.submit(0, task()));
    driver.run_next([0, 0], 0, Err(short_of(900)));
    assert_eq!(driver.take(0, 0).map(|run| (run.id, first)), Some((second, first)));
}

#[test]
fn long_queue_ages_in_rarer_steps() {
    let mut driver = driver(1);
    // A millisecond on average, so a priority each 10 ms.
    driver.planner.estimator.table.attempts = (1000, 1.0);
    driver.submit(0, Task { priority: 1000, ..task() });
    for _ in 0..1000 {
        driver.submit(0, task());
    }
    let mut looked = 0;
    for now in (1..1000).map(Duration::from_millis) {
        driver.planner.age_priorities(now);
        looked += u32::from(driver.planner.aged_at == now);
    }
    assert_eq!(looked, 9, "every 100 ms or so");
    let raised = driver.planner.ready.last().map(|(rank, _)| rank.priority());
    assert!(raised.is_some_and(|raised| (81..=99).contains(&raised)), "{raised:?}: none is lost by that");
    driver.planner.age_priorities(S(1000));
    let ends = [driver.planner.ready.first(), driver.planner.ready.last()];
    assert_eq!(ends.map(|end| end.map(|(rank, _)| rank.priority())), [Some(1000); 2], "not beyond the first");
}

#[test]
fn ageing_counts_neither_helpers_nor_refused_attempts() {
    let mut driver = driver(1);
    driver.attempt([0, 1], 0, task(), Ok(()));
    driver.attempt([1, 4], 0, Task { role: Role::Range, work: None, ..task() }, Ok(()));
    assert_eq!(driver.planner.ageing_step(), S(20), "ten times the mean of 1 s and 3 s");
    driver.attempt([4, 99], 0, Task { role: Role::Helper(TaskId(0)), work: None, ..task() }, Ok(()));
    driver.attempt([99, 99], 0, task(), Err(busy()));
    assert_eq!(driver.planner.ageing_step(), S(20));
}

/// The device of the first attempt still prepares when the copy is over its limit.
#[test]
fn deadline_of_a_copy_is_reported_though_it_stops_the_first_attempt() {
    let (mut driver, id, [first, copy]) = with_a_copy(Task { deadline: Some(S(60)), ..task() });
    driver.planner.postpone_deadlines(0, S(60));
    driver.pass(78);
    assert!(first.signal.is_stopped(first.attempt));
    driver.ends(79, 1, &copy, Err(Error::Cancelled));
    driver.ends(80, 0, &first, Err(Error::Cancelled));
    assert!(matches!(driver.error(id), Some(Error::Deadline { .. })), "{:?}", driver.state(id));
}
