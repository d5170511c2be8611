//! What is looked at when time passes, and how often.

use log::Level;

use crate::sched::plan::tests::*;

#[test]
fn somebody_looks_when_a_device_may_run_as_many_as_before() {
    let mut hand = Hand(Planner::new(vec![(hand(1).0.devices[0].info.clone(), 2)]));
    let tasks = [9.0, 8.0, 7.0, 1.0].map(|work| hand.submit(0, Task { work: Some(work), ..task() }));
    let first = hand.take(0, 0).unwrap();
    let second = hand.take(0, 0).unwrap();
    let full = Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
    hand.ends(1, 0, &first, Err(full));
    hand.ends(2, 0, &second, Ok(()));
    let alone = hand.take(2, 0).unwrap();
    assert_eq!(alone.id, tasks[0]);
    hand.ends(3, 0, &alone, Ok(()));
    assert!(hand.take(3, 0).is_some() && hand.take(3, 0).is_none(), "one at a time");
    assert_eq!((hand.0.next_deadline(S(3)), hand.0.next_deadline(S(61))), (Some(S(61)), Some(S(61))));
    hand.pass(61);
    assert_eq!(hand.0.next_deadline(S(61)), None);
    assert_eq!(hand.0.runnable_devices(S(61)), [0]);
}

/// The attempts that ran beside the one that was short of memory fitted together.
#[test]
fn shortage_limits_a_device_to_the_attempts_that_had_room() {
    for slots in 2..=4 {
        let mut hand = Hand(Planner::new(vec![(hand(1).0.devices[0].info.clone(), slots)]));
        let runs: Vec<Assignment> = (0..slots)
            .map(|_| {
                hand.submit(0, task());
                hand.take(0, 0).unwrap()
            })
            .collect();
        for _ in 0..slots {
            hand.submit(0, task());
        }
        let full = Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
        hand.ends(1, 0, &runs[0], Err(full));
        for run in &runs[1..] {
            hand.ends(2, 0, run, Ok(()));
        }
        let alone = hand.take(2, 0).unwrap();
        assert_eq!(alone.id, runs[0].id);
        assert!(hand.take(2, 0).is_none(), "nothing starts beside the task that was short");
        hand.ends(3, 0, &alone, Ok(()));
        let begun = (0..slots).filter(|_| hand.take(3, 0).is_some()).count();
        assert_eq!(begun as u32, slots - 1, "of {slots} slots");
    }
}

#[test]
fn late_attempt_is_logged_with_its_time_and_its_device() {
    let mut hand = hand(1).seasoned();
    hand.0.log_records.clear();
    hand.submit(10, Task { label: "slow".into(), ..task() });
    hand.take(10, 0).unwrap();
    hand.pass(14);
    assert!(hand.0.log_records.is_empty(), "{:?}", hand.0.log_records);
    hand.pass(16);
    let text = "task 'slow' has run for 6.00s on cuda:0, five times as long as its like";
    assert_eq!(hand.0.log_records, [(Level::Warn, text.to_owned())]);
    hand.pass(60);
    assert_eq!(hand.0.log_records.len(), 1, "an attempt is late once");
    assert!(hand.0.ready.is_empty(), "it may not run twice");
}

#[test]
fn log_of_a_late_attempt_says_what_becomes_of_its_task() {
    let second = |idempotent: bool, speeds: &[f64]| {
        let mut hand = hand_of(speeds).seasoned();
        hand.0.log_records.clear();
        hand.submit(10, Task { idempotent, ..task() });
        hand.take(10, 0).unwrap();
        hand.pass(16);
        let [(Level::Warn, text)] = &hand.0.log_records[..] else { panic!("{:?}", hand.0.log_records) };
        text.split_once("its like").unwrap().1.to_owned()
    };
    assert_eq!(second(false, &[1.0, 1.0]), "");
    assert_eq!(second(true, &[1.0, 1.0]), ", and is started elsewhere, too");
}

#[test]
fn what_takes_microseconds_is_not_late_within_a_second() {
    let mut hand = hand(1);
    for _ in 0..4 {
        hand.0.estimator.record_sample(0, 0, Some(1.0), 1e-6);
    }
    hand.submit(10, task());
    hand.take(10, 0).unwrap();
    assert_eq!(hand.0.next_deadline(S(10)), Some(S(11)));
}

#[test]
fn who_watches_the_time_is_woken_for_an_earlier_alarm_and_for_no_other() {
    let mut guard = PlannerGuarded {
        planner: Planner::new(Vec::new()),
        worker_called: Vec::new(),
        timer_until: None,
        deferred: Default::default(),
    };
    assert!(!guard.is_news(S(1)), "nobody watches");
    guard.timer_until = Some(Duration::MAX);
    assert_eq!([9, 10, 9, 8].map(|alarm| guard.is_news(S(alarm))), [true, false, false, true]);
}

/// It is ready while it runs, for another device to start it, too; but not while it pauses.
#[test]
fn a_late_task_that_pauses_for_memory_does_not_begin_before_its_pause_is_over() {
    let mut hand = hand(1).seasoned();
    let id = hand.submit(10, Task { idempotent: true, ..task() });
    let run = hand.take(10, 0).unwrap();
    hand.pass(16);
    let full = Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
    hand.ends(17, 0, &run, Err(full));
    assert!(hand.take(17, 0).is_none(), "it pauses for a second");
    hand.pass(18);
    assert_eq!((hand.state(id), hand.error(id)), (TaskStatus::Queued, None));
    let run = hand.take(18, 0).unwrap();
    hand.ends(19, 0, &run, Ok(()));
    assert_eq!(hand.state(id), TaskStatus::Done);
}

/// A device that was kept for a task is free for other tasks while that task pauses.
#[test]
fn nothing_is_kept_for_a_task_that_pauses() {
    let mut hand = hand(1).seasoned();
    let id = hand.submit(10, Task { idempotent: true, ..task() });
    let run = hand.take(10, 0).unwrap();
    hand.pass(16);
    hand.0.devices[0].reserved_for = Some(id);
    let full = Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
    hand.ends(17, 0, &run, Err(full));
    assert_eq!(hand.0.devices[0].reserved_for, None);
}

#[test]
fn a_hundred_thousand_pausing_tasks_are_cancelled_at_once() {
    let mut hand = hand(1);
    let full = || Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
    let ids: Vec<TaskId> = (0..100_000).map(|_| hand.submit(0, task())).collect();
    for _ in &ids {
        let run = hand.take(0, 0).unwrap();
        hand.ends(0, 0, &run, Err(full()));
    }
    assert_eq!(hand.0.delayed.len(), ids.len());
    hand.0.stop();
    assert_eq!((hand.0.delayed.len(), hand.0.ended.len()), (0, ids.len()));
}

#[test]
fn the_more_wait_the_less_often_they_are_looked_through_for_those_that_have_aged() {
    let mut hand = hand(1);
    // A millisecond on average, so a priority each 10 ms.
    hand.0.devices[0].busy = S(1);
    hand.0.devices[0].done = 1000;
    hand.submit(0, Task { priority: 1000, ..task() });
    for _ in 0..1000 {
        hand.submit(0, task());
    }
    let mut looked = 0;
    for now in (1..1000).map(Duration::from_millis) {
        hand.0.age_priorities(now);
        looked += u32::from(hand.0.aged_at == now);
    }
    assert_eq!(looked, 9, "every 100 ms or so");
    let raised = hand.0.ready.last().map(|(rank, _)| rank.priority());
    assert!(raised.is_some_and(|raised| (81..=99).contains(&raised)), "{raised:?}: none is lost by that");
    hand.0.age_priorities(S(1000));
    let ends = [hand.0.ready.first(), hand.0.ready.last()];
    assert_eq!(ends.map(|end| end.map(|(rank, _)| rank.priority())), [Some(1000); 2], "not beyond the first");
}
