//! Code that does not return.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpusched::Error;
use gpusched::device::Health;
use gpusched::sched::{Exec, Task, Wait};

use crate::scripted::*;

/// It takes the ten seconds that an attempt is given to return after it was asked to stop.
#[test]
fn a_hang_is_reported_and_costs_its_device_and_nothing_else() {
    let scheduler = Arc::new(Scripted::new(2).scheduler(1));
    let gate = Gate::new();
    gate.open();
    // A gate would let it go after a while.
    let back = Arc::new(AtomicBool::new(false));
    let (door, over) = (Arc::clone(&gate), Arc::clone(&back));
    let deaf = Task::new(move |_: &Exec<'_>| {
        door.pass();
        while !over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let hung = Task { deadline: Some(Duration::from_millis(50)), label: "deaf".into(), ..deaf };
    let hung = scheduler.submit(hung).unwrap();
    gate.came(1);
    let others: Vec<_> =
        (0..50).map(|_| scheduler.submit(Task { priority: 1, ..quick() }).unwrap()).collect();
    for id in others {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done), "the other device goes on");
    }
    match wait(&scheduler, hung) {
        Err(error @ Error::Deadline { .. }) => assert!(error.to_string().contains("deaf"), "{error}"),
        other => panic!("{other:?}"),
    }
    let health: Vec<_> =
        scheduler.stats().unwrap().devices.iter().map(|device| device.device.health).collect();
    assert_eq!(health.iter().filter(|&&health| health == Health::Retired).count(), 1, "{health:?}");
    let id = scheduler.submit(Task { priority: 1, ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    let own = Arc::downgrade(&scheduler);
    let hopeless = Task::new(move |_: &Exec<'_>| {
        let scheduler = own.upgrade().ok_or(Error::Cancelled)?;
        let child = scheduler.submit(Task { device_bytes: 600, ..quick() })?;
        scheduler.wait(child, None).map(|_| ())
    });
    let id = scheduler.submit(Task { device_bytes: 600, ..hopeless }).unwrap();
    assert!(
        matches!(wait(&scheduler, id), Err(Error::Deadlock { .. })),
        "the thread that was given up is nobody who could go on"
    );
    let begin = Instant::now();
    scheduler.shutdown().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "nobody waits for a thread that was given up");
    back.store(true, Ordering::SeqCst);
}

/// Ten seconds, too.
#[test]
fn what_runs_on_top_of_a_task_that_is_given_up_fails_with_it() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    let gate = Gate::new();
    let (weak, door, child) = (Arc::downgrade(&scheduler), Arc::clone(&gate), Arc::new(Mutex::new(None)));
    let place = Arc::clone(&child);
    let job = move |_: &Exec<'_>| {
        let own = weak.upgrade().ok_or(Error::Cancelled)?.submit(gated(&door))?;
        *place.lock().unwrap() = Some(own);
        let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
        scheduler.wait(own, None).map(|_| ())
    };
    let deadline = Some(Duration::from_millis(50));
    let parent = scheduler.submit(Task { deadline, ..Task::new(job) }).unwrap();
    gate.came(1);
    let child = child.lock().unwrap().unwrap();
    assert!(matches!(wait(&scheduler, parent), Err(Error::Deadline { .. })));
    match wait(&scheduler, child) {
        Err(error @ Error::Deadline { .. }) => assert!(error.to_string().contains("on top"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.submitted, stats.failed, stats.running), (2, 2, 0));
    let begin = Instant::now();
    scheduler.shutdown().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "nobody waits for a thread that was given up");
    // The thread returns after all, and changes nothing.
    assert_eq!(Arc::strong_count(&gate), 3, "their code is held by the thread that is in it");
    gate.open();
    while Arc::strong_count(&gate) > 1 {
        assert!(begin.elapsed() < LONG.unwrap(), "the thread has not come back");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(wait(&scheduler, child), Err(Error::Deadline { .. })));
    assert_eq!(scheduler.stats().unwrap().failed, 2);
}
