//! Light tasks: they state nothing, and any worker may run them without a plan.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gpusched::Error;
use gpusched::error::DeviceFault;
use gpusched::sched::{Exec, Task, WaitResult};

use crate::scripted::*;

fn detached(task: Task) -> Task {
    Task { detached: true, ..task }
}

#[test]
fn a_cancel_races_with_the_start_and_one_wins() {
    let scheduler = Scripted::new(1).scheduler(2);
    let [ran, dropped] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (mut ends, mut pause) = ([0; 2], Pause::default());
    for round in 0..5000 {
        let (own, count) = (Arc::clone(&ran), Arc::clone(&dropped));
        let counts = OnDrop(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let task = code(move |exec| {
            let _ = &counts;
            exec.commit()?;
            own.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let id = scheduler.submit(task).unwrap();
        pause.pass();
        scheduler.cancel(id).unwrap();
        let end = wait(&scheduler, id);
        assert!(matches!(end, Ok(WaitResult::Done | WaitResult::Cancelled)), "{end:?}");
        let cancelled = end == Ok(WaitResult::Cancelled);
        ends[usize::from(cancelled)] += 1;
        pause.adapt(cancelled);
        assert_eq!(dropped.load(Ordering::Relaxed), round + 1, "gone before the end is seen");
    }
    assert!(ends[0] > 0 && ends[1] > 0, "one side has won each time: {ends:?}");
    assert_eq!(ran.load(Ordering::Relaxed), ends[0]);
    let stats = scheduler.stats().unwrap();
    assert_eq!([stats.counts.done, stats.counts.cancelled], ends);
}

#[test]
fn wait_all_waits_for_earlier_tasks_only() {
    let scheduler = Scripted::new(1).scheduler(3);
    let (early, thread) = (occupy(&scheduler), AtomicI32::new(0));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            name_thread(&thread);
            scheduler.wait_all(LONG)
        });
        until_asleep(&thread);
        let late = occupy(&scheduler);
        assert_eq!(scheduler.wait_all(Some(Duration::from_millis(5))), Ok(WaitResult::Pending));
        early.open();
        assert_eq!(waiter.join().unwrap(), Ok(WaitResult::Done));
        assert_eq!(scheduler.wait_all(Some(Duration::ZERO)), Ok(WaitResult::Pending));
        late.open();
        wait_all(&scheduler);
    });
}

#[test]
fn light_tasks_pass_planned_ones_of_negative_priority() {
    for (priority, expected) in [(-1, ["light", "planned"]), (0, ["planned", "light"])] {
        let scheduler = tuned(1, |policy| policy.stand_back = Duration::from_secs(3600));
        let (order, gate) = (Arc::new(Mutex::new(Vec::new())), occupy(&scheduler));
        let record = |name| {
            let order = Arc::clone(&order);
            effect(move || order.lock().unwrap().push(name))
        };
        scheduler.submit(Task { work: Some(1.0), priority, ..record("planned") }).unwrap();
        scheduler.submit(record("light")).unwrap();
        gate.open();
        wait_all(&scheduler);
        assert_eq!(*order.lock().unwrap(), expected, "priority {priority}");
    }
}

#[test]
fn neither_tier_starves_the_other() {
    let scheduler = Scripted::new(1).scheduler(1);
    let planned = |task| Task { work: Some(1.0), priority: 9, ..task };
    let [light_over, planned_over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    endless(&scheduler, &light_over, |task| task, || thread::sleep(Duration::from_micros(50)));
    [3, -3]
        .into_iter()
        .for_each(|priority| assert_eq!(run(&scheduler, Task { priority, ..quick() }), Ok(WaitResult::Done)));
    light_over.store(true, Ordering::SeqCst);
    endless(&scheduler, &planned_over, planned, || thread::sleep(Duration::from_millis(1)));
    (0..2).for_each(|_| assert_eq!(run(&scheduler, quick()), Ok(WaitResult::Done)));
    planned_over.store(true, Ordering::SeqCst);
    wait_all(&scheduler);
}

/// The chain keeps the worker's own queue from becoming empty.
#[test]
fn chain_of_light_tasks_starves_no_other() {
    let scheduler = Scripted::new(1).scheduler(1);
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let chain = nested(&scheduler, move |scheduler, _| {
        endless(scheduler, &stop, |task| task, || ());
        Ok(())
    });
    let ids = scheduler.submit_many(vec![chain, quick(), quick()]).unwrap();
    let half = LONG.map(|long| long / 2);
    let ended = ids.iter().all(|&id| scheduler.wait(id, half) == Ok(WaitResult::Done));
    over.store(true, Ordering::SeqCst);
    assert!(ended);
    wait_all(&scheduler);
}

/// The worker that is woken for the planned task runs the light one.
#[test]
fn task_of_negative_priority_begins_on_an_idle_worker() {
    let mut builder = builder(Arc::new(Scripted::new(1)), 2);
    builder.policy.stand_back = Duration::from_secs(3600);
    let scheduler = Arc::new(builder.build().unwrap());
    let planned = |task| Task { priority: 1, ..task };
    let gates = [(); 2].map(|()| occupy_as(&scheduler, planned).1);
    gates.iter().for_each(|gate| gate.open());
    wait_all(&scheduler);
    for _ in 0..10 {
        // Both workers sleep by then.
        thread::sleep(Duration::from_millis(20));
        let gate = Gate::new();
        let ids = scheduler.submit_many(vec![Task { priority: -1, ..quick() }, gated(gate)]).unwrap();
        assert_eq!(scheduler.wait(ids[0], LONG.map(|long| long / 4)), Ok(WaitResult::Done));
        gate.open();
        wait_all(&scheduler);
    }
}

/// A light task that fails for memory or a poisoned context continues as a planned one (promotion),
/// and counts once.
#[test]
fn tasks_after_a_light_one_come_after_it_when_it_goes_on_in_the_plan() {
    type Fault = fn(&Exec<'_>) -> Error;
    let short: Fault = |exec| no_memory(exec, 0);
    let poisoned: Fault = |exec| device_fault(exec.device.label(), DeviceFault::Poisoned);
    for (fault, end) in [(short, Ok(())), (poisoned, Ok(())), (poisoned, Err(Error::Callback { code: 3 }))] {
        for behind in [1, 3] {
            let scheduler = Scripted::new(1).scheduler(2);
            let (beside, gate) = (occupy(&scheduler), Gate::new());
            let then = end.clone();
            let first = code(move |exec| {
                gate.pass();
                if exec.attempt == 1 { Err(fault(exec)) } else { then.clone() }
            });
            let first = scheduler.submit(first).unwrap();
            gate.came(1);
            let after = || scheduler.submit(Task { after: vec![first], ..quick() }).unwrap();
            let mut followers: Vec<_> = (0..behind).map(|_| after()).collect();
            gate.open();
            beside.open();
            wait_all(&scheduler);
            assert_eq!(wait(&scheduler, first), end.clone().map(|()| WaitResult::Done));
            followers.push(after());
            for ended in followers.into_iter().map(|id| wait(&scheduler, id)) {
                let well = ended == Ok(WaitResult::Done);
                assert!(well || matches!(ended, Err(Error::Dependency { .. })), "{ended:?}");
                assert_eq!(well, end.is_ok());
            }
            let stats = scheduler.stats().unwrap();
            let failed = if end.is_ok() { 0 } else { behind + 2 };
            assert_eq!((stats.counts.submitted, stats.counts.failed), (behind + 3, failed));
            assert_eq!(
                (stats.counts.done + failed, stats.counts.queued, stats.counts.running),
                (behind + 3, 0, 0)
            );
        }
    }
}

#[test]
fn a_light_task_that_has_committed_though_all_is_destroyed_is_counted_as_done() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let light = code(move |exec| {
        exec.commit()?;
        gate.pass();
        Ok(())
    });
    let light = scheduler.submit(light).unwrap();
    gate.came(1);
    let after = scheduler.submit(Task { after: vec![light], ..quick() }).unwrap();
    assert_eq!(scheduler.shutdown_within(Some(Duration::from_millis(5))), Ok(None));
    gate.open();
    assert_eq!(wait(&scheduler, light), Ok(WaitResult::Done));
    assert_eq!(wait(&scheduler, after), Ok(WaitResult::Cancelled));
    scheduler.shutdown().unwrap();
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.counts.submitted, stats.counts.done, stats.counts.cancelled), (2, 1, 1));
}

#[test]
fn error_of_a_broken_chain_names_the_cause_only() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (running, gate) = occupy_as(&scheduler, |task| task);
    let submit = |label: &str, last| {
        scheduler.submit(Task { label: label.into(), after: vec![last], ..quick() }).unwrap()
    };
    let first = submit("first", running);
    let last = (0..100).fold(first, |last, _| submit("another", last));
    scheduler.cancel(first).unwrap();
    gate.open();
    let said = wait(&scheduler, last).unwrap_err().to_string();
    assert!(said.contains("first") && said.len() < 200, "{said}");
}

/// Another thread releases the predecessor of the list's last task during the submission.
#[test]
fn a_list_that_is_refused_half_way_was_never_submitted() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (mut taken, mut refused, mut pause) = (0, 0, Pause::default());
    for _ in 0..1000 {
        let before = scheduler.submit(quick()).unwrap();
        assert_eq!(wait(&scheduler, before), Ok(WaitResult::Done));
        let mut list: Vec<Task> = (0..100).map(|_| detached(Task { priority: 1, ..quick() })).collect();
        list.push(detached(Task { after: vec![before], ..quick() }));
        list.push(detached(quick()));
        let count = list.len() as u64;
        let submitted = pause.race(|| scheduler.submit_many(list), || scheduler.release(before).unwrap());
        match &submitted {
            Ok(_) => taken += count,
            Err(Error::Stale { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        pause.adapt(submitted.is_err());
        wait_all(&scheduler);
        taken += 1;
        assert_eq!(scheduler.stats().unwrap().counts.submitted, taken);
    }
    assert!(0 < refused && refused < 1000, "one side has won each time: {refused} of 1000 were refused");
}

#[test]
fn predecessor_released_during_a_submission_leaves_nothing() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (mut caught, mut pause) = (0, Pause::default());
    for _ in 0..150 {
        let ids = scheduler.submit_many((0..300).map(|_| quick()).collect()).unwrap();
        wait_all(&scheduler);
        let submitted = pause.race(
            || scheduler.submit(detached(Task { after: ids.clone(), ..quick() })),
            || ids.iter().rev().for_each(|&id| scheduler.release(id).unwrap()),
        );
        caught += u32::from(submitted.is_err());
        pause.adapt(submitted.is_err());
        assert!(matches!(submitted, Ok(_) | Err(Error::Stale { .. })), "{submitted:?}");
        assert_eq!(scheduler.wait_all(LONG), Ok(WaitResult::Done), "{caught}");
    }
    assert!(0 < caught && caught < 150, "one side has won each time: {caught} of 150 were refused");
}

#[test]
fn a_worker_that_wakes_late_in_its_slice_for_light_tasks_looks_at_the_plan_first() {
    let scheduler = Scripted::new(1).scheduler(2);
    let turn = effect(|| thread::sleep(Duration::from_millis(120)));
    assert_eq!(run(&scheduler, Task { priority: 1, ..turn }), Ok(WaitResult::Done));
    // The worker sleeps by this time, and its slice is over.
    thread::sleep(Duration::from_millis(50));
    let gate = Gate::new();
    let opens = Task { priority: 1, ..effect(|| gate.open()) };
    // With one wake-up for both tasks, the worker would wait at the gate for a task for which no
    // worker is awake.
    let ids = scheduler.submit_many(vec![opens, gated(gate)]).unwrap();
    let half = LONG.map(|long| long / 2);
    assert!(ids.iter().all(|&id| scheduler.wait(id, half) == Ok(WaitResult::Done)));
}

#[test]
fn task_cancelled_while_its_device_fails_to_open_is_not_moved() {
    let gate = Gate::new();
    let backend = Scripted { slow_open: Some(gate), ..Scripted::broken(1, 1) };
    let scheduler = backend.scheduler(1);
    let id = scheduler.submit(quick()).unwrap();
    gate.came(1);
    scheduler.cancel(id).unwrap();
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Cancelled));
}
