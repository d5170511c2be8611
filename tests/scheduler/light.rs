//! Tasks that state nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use gpusched::error::DeviceFault;
use gpusched::sched::{Exec, Scheduler, Task, TaskId, Wait};
use gpusched::{Error, Result};

use crate::scripted::*;

fn counting(count: &Arc<AtomicU64>) -> Task {
    let count = Arc::clone(count);
    Task::new(move |_: &Exec<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

#[test]
fn a_storm_from_many_threads_on_many_workers() {
    const EACH: u64 = 20_000;
    let scheduler = Scripted::new(2).scheduler(2);
    let count = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (scheduler, count) = (&scheduler, &count);
            scope.spawn(move || {
                let mut ids = Vec::new();
                for i in 0..EACH {
                    match (thread + i) % 3 {
                        0 => {
                            let task = Task { detached: true, ..counting(count) };
                            scheduler.submit(task).unwrap();
                        }
                        _ => ids.push(scheduler.submit(counting(count)).unwrap()),
                    }
                }
                for id in ids {
                    assert_eq!(wait(scheduler, id), Ok(Wait::Done));
                    scheduler.release(id).unwrap();
                    assert!(matches!(scheduler.info(id), Err(Error::Stale { .. })));
                }
            });
        }
    });
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert_eq!(count.load(Ordering::Relaxed), 4 * EACH);
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.submitted, stats.done, stats.queued, stats.running), (4 * EACH, 4 * EACH, 0, 0));
}

/// Fibonacci's number by tasks that submit and wait for tasks.
fn fib(scheduler: &Arc<Scheduler>, n: u64, sum: &Arc<AtomicU64>) -> Result<TaskId> {
    let (weak, own) = (Arc::downgrade(scheduler), Arc::clone(sum));
    scheduler.submit(Task::new(move |_: &Exec<'_>| {
        if n < 2 {
            own.fetch_add(n, Ordering::Relaxed);
            return Ok(());
        }
        let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
        let children = [fib(&scheduler, n - 1, &own)?, fib(&scheduler, n - 2, &own)?];
        for child in children {
            assert_eq!(scheduler.wait(child, LONG)?, Wait::Done);
            scheduler.release(child)?;
        }
        Ok(())
    }))
}

#[test]
fn tasks_that_wait_for_their_own_run_them() {
    for slots in [1, 2, 4] {
        let scheduler = Arc::new(Scripted::new(1).scheduler(slots));
        let sum = Arc::new(AtomicU64::new(0));
        let root = fib(&scheduler, 20, &sum).unwrap();
        assert_eq!(wait(&scheduler, root), Ok(Wait::Done));
        assert_eq!(sum.load(Ordering::Relaxed), 6765);
    }
}

#[test]
fn a_cancel_races_with_the_start_and_one_wins() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (ran, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    struct Count(Arc<AtomicU64>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (mut done, mut cancelled, mut pause) = (0, 0, Pause::default());
    for round in 0..5000_u64 {
        let (own, count) = (Arc::clone(&ran), Count(Arc::clone(&dropped)));
        let job = move |exec: &Exec<'_>| {
            let _ = &count;
            exec.commit()?;
            own.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let id = scheduler.submit(Task::new(job)).unwrap();
        pause.pass();
        scheduler.cancel(id).unwrap();
        let end = wait(&scheduler, id);
        match end {
            Ok(Wait::Done) => done += 1,
            Ok(Wait::Cancelled) => cancelled += 1,
            other => panic!("{other:?}"),
        }
        pause.adapt(end == Ok(Wait::Cancelled));
        assert_eq!(dropped.load(Ordering::Relaxed), round + 1, "gone before the end is seen");
    }
    assert!(done > 0 && cancelled > 0, "one side has won each time: {done} done, {cancelled} cancelled");
    assert_eq!(ran.load(Ordering::Relaxed), done);
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.done, stats.cancelled), (done, cancelled));
}

#[test]
fn wait_all_waits_for_what_came_before_and_not_for_what_comes_after() {
    let scheduler = Scripted::new(1).scheduler(3);
    let (early, late) = (Gate::new(), Gate::new());
    scheduler.submit(gated(&early)).unwrap();
    early.came(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| scheduler.wait_all(LONG));
        std::thread::sleep(Duration::from_millis(20));
        scheduler.submit(gated(&late)).unwrap();
        late.came(1);
        assert_eq!(scheduler.wait_all(Some(Duration::from_millis(5))), Ok(Wait::Pending));
        early.open();
        assert_eq!(waiter.join().unwrap(), Ok(Wait::Done));
        assert_eq!(scheduler.wait_all(Some(Duration::ZERO)), Ok(Wait::Pending));
        late.open();
        assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    });
}

#[test]
fn wait_all_from_many_threads_while_others_submit() {
    let scheduler = Scripted::new(1).scheduler(2);
    let count = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut own = 0;
                for round in 0..300 {
                    let before = Arc::new(AtomicU64::new(0));
                    for _ in 0..round % 17 + 1 {
                        scheduler.submit(Task { detached: true, ..counting(&before) }).unwrap();
                        scheduler.submit(Task { detached: true, ..counting(&count) }).unwrap();
                        own += 1;
                    }
                    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
                    assert_eq!(before.load(Ordering::Relaxed), round % 17 + 1);
                }
                own
            });
        }
    });
}

#[test]
fn neither_tier_starves_the_other() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    // Light tasks without end, each of which submits the next.
    fn endless(scheduler: &Arc<Scheduler>, stop: &Arc<AtomicU64>) -> Result<()> {
        let (weak, stop) = (Arc::downgrade(scheduler), Arc::clone(stop));
        let task = Task::new(move |_: &Exec<'_>| {
            std::thread::sleep(Duration::from_micros(50));
            match weak.upgrade() {
                Some(scheduler) if stop.load(Ordering::Relaxed) == 0 => endless(&scheduler, &stop),
                _ => Ok(()),
            }
        });
        scheduler.submit(Task { detached: true, ..task }).map(|_| ())
    }
    let stop = Arc::new(AtomicU64::new(0));
    endless(&scheduler, &stop).unwrap();
    for priority in [3, -3] {
        let id = scheduler.submit(Task { priority, ..quick() }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    // Planned tasks without end.
    fn planned(scheduler: &Arc<Scheduler>, stop: &Arc<AtomicU64>) -> Result<()> {
        let (weak, stop) = (Arc::downgrade(scheduler), Arc::clone(stop));
        let task = Task::new(move |_: &Exec<'_>| {
            std::thread::sleep(Duration::from_millis(1));
            match weak.upgrade() {
                Some(scheduler) if stop.load(Ordering::Relaxed) < 2 => planned(&scheduler, &stop),
                _ => Ok(()),
            }
        });
        scheduler.submit(Task { detached: true, work: Some(1.0), priority: 9, ..task }).map(|_| ())
    }
    stop.store(1, Ordering::Relaxed);
    planned(&scheduler, &stop).unwrap();
    for _ in 0..2 {
        let id = scheduler.submit(quick()).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    stop.store(2, Ordering::Relaxed);
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
}

#[test]
fn a_planned_task_comes_after_light_ones() {
    let scheduler = Scripted::new(1).scheduler(2);
    let gate = Gate::new();
    let ended = scheduler.submit(quick()).unwrap();
    assert_eq!(wait(&scheduler, ended), Ok(Wait::Done));
    let failed = scheduler.submit(Task::new(|_: &Exec<'_>| Err(Error::Callback { code: 3 }))).unwrap();
    assert!(wait(&scheduler, failed).is_err());
    let running = scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let after = scheduler.submit(Task { after: vec![ended, running], ..quick() }).unwrap();
    assert_eq!(scheduler.wait(after, Some(Duration::from_millis(10))), Ok(Wait::Pending));
    gate.open();
    assert_eq!(wait(&scheduler, after), Ok(Wait::Done));
    let broken = scheduler.submit(Task { after: vec![failed], ..quick() }).unwrap();
    assert!(matches!(wait(&scheduler, broken), Err(Error::Dependency { .. })));
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.queued, stats.running), (0, 0));
    assert_eq!((stats.submitted, stats.done, stats.failed), (5, 3, 2));
}

/// It goes on as a planned task, and what comes after it waits for that; each is counted once.
#[test]
fn a_planned_task_comes_after_a_light_one_that_meets_a_lack_of_memory() {
    let scheduler = Scripted::new(1).scheduler(2);
    for behind in [1, 3] {
        let gate = Gate::new();
        let beside = scheduler.submit(gated(&gate)).unwrap();
        let door = Arc::clone(&gate);
        let short = scheduler.submit(Task::new(move |exec: &Exec<'_>| {
            door.pass();
            let (what, place) = ("x".into(), exec.device.label());
            if exec.attempt == 1 { Err(Error::NoMemory { what, needed: 0, place, there: 0 }) } else { Ok(()) }
        }));
        let short = short.unwrap();
        gate.came(2);
        let after = || scheduler.submit(Task { after: vec![short], ..quick() }).unwrap();
        let ids: Vec<_> = (0..behind).map(|_| after()).collect();
        gate.open();
        for id in ids.into_iter().chain([after(), beside, short]) {
            assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        }
    }
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.submitted, stats.done, stats.queued, stats.running), (10, 10, 0, 0));
}

#[test]
fn a_light_task_that_has_committed_though_all_is_destroyed_is_counted_as_done() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let door = Arc::clone(&gate);
    let light = scheduler.submit(Task::new(move |exec: &Exec<'_>| {
        exec.commit()?;
        door.pass();
        Ok(())
    }));
    let light = light.unwrap();
    gate.came(1);
    let after = scheduler.submit(Task { after: vec![light], ..quick() }).unwrap();
    assert_eq!(scheduler.shutdown_within(Some(Duration::from_millis(5))), Ok(None));
    gate.open();
    assert_eq!(wait(&scheduler, light), Ok(Wait::Done));
    assert_eq!(wait(&scheduler, after), Ok(Wait::Cancelled));
    scheduler.shutdown().unwrap();
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.submitted, stats.done, stats.cancelled), (2, 1, 1));
}

#[test]
fn a_long_chain_that_breaks_names_what_broke_it_and_no_more() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let mut last = scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let named = |label: &str, last| Task { label: label.into(), after: vec![last], ..quick() };
    let first = scheduler.submit(named("first", last)).unwrap();
    last = first;
    for _ in 0..100 {
        last = scheduler.submit(named("another", last)).unwrap();
    }
    scheduler.cancel(first).unwrap();
    gate.open();
    let said = wait(&scheduler, last).unwrap_err().to_string();
    assert!(said.contains("first") && said.len() < 200, "{said}");
}

#[test]
fn a_circle_of_waits_is_told_while_others_run() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(3));
    let busy = Gate::new();
    scheduler.submit(gated(&busy)).unwrap();
    busy.came(1);
    let ids = Arc::new(std::sync::Mutex::new(Vec::new()));
    let both = Gate::new();
    let one = |which: usize| {
        let (weak, ids, both) = (Arc::downgrade(&scheduler), Arc::clone(&ids), Arc::clone(&both));
        let job = move |_: &Exec<'_>| {
            both.pass();
            let other = ids.lock().unwrap()[1 - which];
            weak.upgrade().ok_or(Error::Cancelled)?.wait(other, None).map(|_| ())
        };
        scheduler.submit(Task::new(job)).unwrap()
    };
    let pair = [one(0), one(1)];
    ids.lock().unwrap().extend(pair);
    both.came(2);
    both.open();
    let ends = pair.map(|id| wait(&scheduler, id));
    assert!(ends.iter().any(|end| matches!(end, Err(Error::Deadlock { .. }))), "{ends:?}");
    busy.open();
}

#[test]
fn all_of_a_list_are_taken_or_none() {
    let scheduler = Scripted::new(1).scheduler(1);
    let count = Arc::new(AtomicU64::new(0));
    let mixed = vec![counting(&count), Task { work: Some(1.0), ..counting(&count) }, counting(&count)];
    for id in scheduler.submit_many(mixed).unwrap() {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
    let wrong = vec![counting(&count), Task { device_bytes: 5000, ..quick() }];
    assert!(matches!(scheduler.submit_many(wrong), Err(Error::NoMemory { .. })));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert_eq!(Arc::strong_count(&count), 1, "the refused are gone");
    assert_eq!((count.load(Ordering::Relaxed), scheduler.stats().unwrap().submitted), (3, 3));
}

/// What the last of a list comes after goes while the list is being taken.
#[test]
fn a_list_that_is_refused_half_way_was_never_submitted() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (mut taken, mut refused, mut pause) = (0, 0, Pause::default());
    for _ in 0..1000 {
        let before = scheduler.submit(quick()).unwrap();
        assert_eq!(wait(&scheduler, before), Ok(Wait::Done));
        let mut list: Vec<Task> = (0..100).map(|_| Task { priority: 1, detached: true, ..quick() }).collect();
        list.push(Task { after: vec![before], detached: true, ..quick() });
        list.push(Task { detached: true, ..quick() });
        let (begin, count) = (Barrier::new(2), list.len() as u64);
        let submitted = std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                pause.pass();
                scheduler.release(before).unwrap();
            });
            begin.wait();
            scheduler.submit_many(list)
        });
        match &submitted {
            Ok(_) => taken += count,
            Err(Error::Stale { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        pause.adapt(submitted.is_err());
        assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
        taken += 1;
        assert_eq!(scheduler.stats().unwrap().submitted, taken);
    }
    assert!(
        refused > 0 && refused < 1000,
        "one side has won each time: {refused} of 1000 lists were refused"
    );
}

/// A task that poisons its device the first time, and then ends so.
fn poisoning(gate: &Arc<Gate>, end: Result<()>) -> Task {
    let (gate, calls) = (Arc::clone(gate), AtomicU64::new(0));
    Task::new(move |_: &Exec<'_>| {
        gate.pass();
        if calls.fetch_add(1, Ordering::Relaxed) > 0 {
            return end.clone();
        }
        let (device, what) = ("cuda:0".into(), "scripted to fail".into());
        Err(Error::Device { device, what, fault: DeviceFault::Poisoned })
    })
}

#[test]
fn what_comes_after_a_light_task_comes_after_it_when_it_goes_on_in_the_plan() {
    for (end, done) in [(Ok(()), true), (Err(Error::Callback { code: 3 }), false)] {
        let scheduler = Scripted::new(1).scheduler(1);
        let gate = Gate::new();
        let first = scheduler.submit(poisoning(&gate, end.clone())).unwrap();
        gate.came(1);
        let after = scheduler.submit(Task { after: vec![first], ..quick() }).unwrap();
        gate.open();
        match scheduler.wait(after, LONG) {
            Ok(ended) => assert!(done && ended == Wait::Done, "{ended:?}"),
            Err(error) => assert!(!done && matches!(error, Error::Dependency { .. }), "{error}"),
        }
        assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
        assert_eq!(wait(&scheduler, first), end.map(|()| Wait::Done));
        let later = scheduler.submit(Task { after: vec![first], ..quick() }).unwrap();
        assert_eq!(wait(&scheduler, later).is_ok(), done);
        let stats = scheduler.stats().unwrap();
        assert_eq!((stats.submitted, stats.done + stats.failed, stats.running), (3, 3, 0));
    }
}

#[test]
fn what_others_release_while_a_task_is_to_come_after_it_leaves_nothing_behind() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (mut caught, mut pause) = (0, Pause::default());
    for _ in 0..150 {
        let ids = scheduler.submit_many((0..300).map(|_| quick()).collect()).unwrap();
        assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
        let begin = std::sync::Barrier::new(2);
        let submitted = std::thread::scope(|scope| {
            let (scheduler, ids, begin, pause) = (&scheduler, &ids, &begin, &pause);
            scope.spawn(move || {
                begin.wait();
                pause.pass();
                ids.iter().rev().for_each(|&id| scheduler.release(id).unwrap());
            });
            begin.wait();
            scheduler.submit(Task { after: ids.clone(), detached: true, ..quick() })
        });
        caught += u32::from(submitted.is_err());
        pause.adapt(submitted.is_err());
        assert!(matches!(submitted, Ok(_) | Err(Error::Stale { .. })), "{submitted:?}");
        assert_eq!(scheduler.wait_all(Some(Duration::from_secs(10))), Ok(Wait::Done), "{caught}");
    }
    assert!(caught > 0 && caught < 150, "one side has won each time: {caught} of 150 were refused");
}

#[test]
fn a_worker_that_wakes_late_in_its_slice_for_light_tasks_looks_at_the_plan_first() {
    let scheduler = Scripted::new(1).scheduler(2);
    let turn = Task::new(|_: &Exec<'_>| {
        std::thread::sleep(Duration::from_millis(120));
        Ok(())
    });
    let turn = scheduler.submit(Task { priority: 1, ..turn }).unwrap();
    assert_eq!(wait(&scheduler, turn), Ok(Wait::Done));
    // It sleeps by now, and its slice is over.
    std::thread::sleep(Duration::from_millis(50));
    let gate = Gate::new();
    let door = Arc::clone(&gate);
    let opens = Task::new(move |_: &Exec<'_>| {
        door.open();
        Ok(())
    });
    // Called once for both, the worker would wait at the gate for a task that nobody else was called for.
    let ids = scheduler.submit_many(vec![Task { priority: 1, ..opens }, gated(&gate)]).unwrap();
    for id in ids {
        assert_eq!(scheduler.wait(id, Some(Duration::from_secs(10))), Ok(Wait::Done));
    }
}

#[test]
fn workers_that_come_after_a_wait_has_begun_are_heard() {
    for _ in 0..5 {
        let scheduler = Arc::new(Scripted::new(9).scheduler(1));
        let tasks = (0..200).map(|_| {
            Task::new(|_: &Exec<'_>| {
                std::thread::sleep(Duration::from_micros(500));
                Ok(())
            })
        });
        scheduler.submit_many(tasks.collect()).unwrap();
        // A wait with a time limit would look once more at its end.
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = Arc::clone(&scheduler);
        std::thread::spawn(move || tell.send(waiter.wait_all(None)));
        assert_eq!(told.recv_timeout(LONG.unwrap()), Ok(Ok(Wait::Done)));
    }
}

#[test]
fn one_that_is_cancelled_while_its_device_fails_to_open_does_not_go_to_another() {
    let gate = Gate::new();
    let backend = Arc::new(Scripted { slow_open: Some(Arc::clone(&gate)), ..Scripted::broken(1, 1) });
    let scheduler = scheduler(backend, 1);
    let id = scheduler.submit(quick()).unwrap();
    gate.came(1);
    scheduler.cancel(id).unwrap();
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));
}
