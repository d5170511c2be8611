//! Code that does not return.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use gpusched::device::Health;
use gpusched::sched::{Range, Scheduler, Task, WaitResult};
use gpusched::{Error, Result};

use crate::scripted::*;

/// A thread that the machine runs late is not given up.
const GRACE: Duration = Duration::from_millis(500);

fn has_missed_its_deadline(ended: Result<WaitResult>, words: &str) {
    match ended {
        Err(error @ Error::Deadline { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("{other:?}"),
    }
}

fn ends_without_the_thread_that_was_given_up(scheduler: &Scheduler) {
    let begin = Instant::now();
    scheduler.shutdown().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "nobody waits for a thread that was given up");
}

#[test]
fn a_hang_is_reported_and_costs_its_device_and_nothing_else() {
    let scheduler = tuned(2, |policy| policy.grace = GRACE);
    let deadline = Some(Duration::from_millis(50));
    let (hung, gate) = occupy_as(&scheduler, |task| Task { deadline, label: "deaf".into(), ..task });
    let planned = || Task { priority: 1, ..quick() };
    let others = [(); 50].map(|()| scheduler.submit(planned()).unwrap());
    assert!(
        others.iter().all(|&id| wait(&scheduler, id) == Ok(WaitResult::Done)),
        "the other device goes on"
    );
    has_missed_its_deadline(wait(&scheduler, hung), "deaf");
    let devices = scheduler.stats().unwrap().devices;
    let retired = devices.iter().filter(|device| device.device.health == Health::Retired);
    assert_eq!(retired.count(), 1, "{devices:?}");
    assert_eq!(run(&scheduler, planned()), Ok(WaitResult::Done));
    let large = |task| Task { device_bytes: 600, ..task };
    let hopeless = nested(&scheduler, move |scheduler, _| {
        scheduler.wait(scheduler.submit(large(quick()))?, None).map(drop)
    });
    let hopeless = run(&scheduler, large(hopeless));
    assert!(matches!(hopeless, Err(Error::Deadlock { .. })), "the thread that was given up can't go on");
    ends_without_the_thread_that_was_given_up(&scheduler);
    gate.open();
}

#[test]
fn task_that_is_late_because_it_waits_costs_no_device() {
    let scheduler = tuned(1, |policy| policy.grace = GRACE);
    let gate = Gate::new();
    let parent = nested(&scheduler, move |scheduler, _| {
        scheduler.wait(scheduler.submit(Task { priority: 1, ..gated(gate) })?, None).map(drop)
    });
    let parent = scheduler.submit(Task { deadline: Some(GRACE), ..parent }).unwrap();
    gate.came(1);
    std::thread::sleep(4 * GRACE);
    gate.open();
    assert_eq!(wait(&scheduler, parent), Ok(WaitResult::Done), "it has succeeded, though late");
    assert_eq!(scheduler.stats().unwrap().devices[0].device.health, Health::Good);
}

#[test]
fn helper_that_hangs_costs_its_own_device() {
    let scheduler = tuned(2, |policy| policy.grace = GRACE);
    let (gate, owner) = (Gate::new(), Arc::new(OnceLock::new()));
    let first = owner.clone();
    let range = Range::new(0..2, move |exec, _| {
        let here = exec.device_index;
        if *first.get_or_init(|| here) == here {
            gate.came(1)
        } else {
            gate.pass()
        }
        Ok(())
    });
    let range = Range {
        grain: Some(1),
        task: Task { deadline: Some(5 * GRACE), label: "deaf".into(), ..range.task },
        ..range
    };
    let id = scheduler.submit_range(range).unwrap();
    has_missed_its_deadline(wait(&scheduler, id), "deaf");
    let healthy = scheduler.stats().unwrap().devices.into_iter().map(|one| one.device.health == Health::Good);
    assert!(healthy.eq((0..2).map(|device| Some(&device) == owner.get())), "the helper's device is retired");
    ends_without_the_thread_that_was_given_up(&scheduler);
    gate.open();
}

#[test]
fn nested_task_of_an_abandoned_task_fails_with_it() {
    let scheduler = tuned(1, |policy| policy.grace = GRACE);
    let gate = Gate::new();
    let place = Arc::new(Mutex::new(None));
    let held = Arc::clone(&place);
    let parent = nested(&scheduler, move |scheduler, _| {
        let own = Arc::clone(&held);
        let child = scheduler.submit(effect(move || {
            let _ = &own;
            gate.pass();
        }))?;
        *held.lock().unwrap() = Some(child);
        scheduler.wait(child, None).map(drop)
    });
    let deadline = Some(Duration::from_millis(50));
    let parent = scheduler.submit(Task { deadline, ..parent }).unwrap();
    gate.came(1);
    let child = place.lock().unwrap().unwrap();
    has_missed_its_deadline(wait(&scheduler, parent), "");
    has_missed_its_deadline(wait(&scheduler, child), "inside which it ran");
    wait_all(&scheduler);
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.counts.submitted, stats.counts.failed, stats.counts.running), (2, 2, 0));
    ends_without_the_thread_that_was_given_up(&scheduler);
    // The abandoned thread returns late, without any effect.
    assert_eq!(Arc::strong_count(&place), 3, "their code is held by the thread that is in it");
    gate.open();
    until(|| Arc::strong_count(&place) == 1);
    has_missed_its_deadline(wait(&scheduler, child), "inside which it ran");
    assert_eq!(scheduler.stats().unwrap().counts.failed, 2);
}

#[test]
fn nested_task_that_hangs_after_its_task_was_abandoned_is_not_counted_as_running() {
    let scheduler = tuned(1, |policy| policy.grace = GRACE);
    let [returns, hangs] = [(); 2].map(|()| Gate::new());
    let parent = nested(&scheduler, move |scheduler, _| {
        let child = nested(scheduler, move |scheduler, _| {
            let _ = scheduler.wait(scheduler.submit(gated(returns))?, None);
            hangs.pass();
            Ok(())
        });
        scheduler.wait(scheduler.submit(child)?, None).map(drop)
    });
    scheduler.submit(Task { deadline: Some(Duration::from_millis(50)), ..parent }).unwrap();
    returns.came(1);
    let running = || scheduler.stats().unwrap().counts.running;
    until(|| running() == 0);
    returns.open();
    hangs.came(1);
    assert_eq!(running(), 0);
    hangs.open();
}
