//! What the ledger grants, and that nobody waits for it for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{DeviceMask, Exec, State, Task, Wait};

use crate::scripted::*;

#[test]
fn what_fits_no_device_is_refused_with_the_numbers() {
    let scheduler = Scripted::new(2).scheduler(1);
    let task = Task { device_bytes: 1001, label: "big".into(), ..quick() };
    match scheduler.submit(task) {
        Err(Error::NoMemory { what, needed: 1001, there: 1000, .. }) => assert!(what.contains("big")),
        other => panic!("{other:?}"),
    }
    let nowhere = Task { devices: DeviceMask(0b100), ..quick() };
    assert!(matches!(scheduler.submit(nowhere), Err(Error::NoDevice { .. })));
    let odd = Task { work: Some(f64::NAN), ..quick() };
    assert!(matches!(scheduler.submit(odd), Err(Error::Argument { .. })));
}

#[test]
fn only_what_is_granted_starts() {
    let scheduler = Scripted::new(1).scheduler(3);
    let gate = Gate::new();
    let ids: Vec<_> =
        (0..3).map(|_| scheduler.submit(Task { device_bytes: 400, ..gated(&gate) }).unwrap()).collect();
    gate.came(2);
    assert_eq!(scheduler.info(ids[2]).unwrap().state, State::Queued);
    assert_eq!(scheduler.stats().unwrap().devices[0].leased_bytes, 800);
    gate.open();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    let device = &scheduler.stats().unwrap().devices[0];
    assert_eq!((device.leased_bytes, device.peak_bytes), (0, 800));
}

#[test]
fn memory_of_strangers_does_not_make_a_task_wait_for_ever() {
    let backend = Arc::new(Scripted::new(1));
    backend.free[0].store(10, Ordering::Relaxed);
    let scheduler = scheduler(backend, 2);
    let id = scheduler.submit(Task { device_bytes: 900, ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

/// Beside one of ours, what strangers have taken counts: the next task waits, also if the ledger has room.
#[test]
fn beside_a_task_of_ours_what_strangers_have_taken_is_not_there() {
    let backend = Arc::new(Scripted::new(1));
    let scheduler = scheduler(backend.clone(), 2);
    let gate = Gate::new();
    scheduler.submit(Task { device_bytes: 200, ..gated(&gate) }).unwrap();
    gate.came(1);
    backend.free[0].store(299, Ordering::Relaxed);
    let large = scheduler.submit(Task { device_bytes: 300, ..quick() }).unwrap();
    let fits = scheduler.submit(Task { device_bytes: 299, ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, fits), Ok(Wait::Done), "what is free is enough for it");
    assert_eq!(scheduler.wait(large, Some(Duration::from_millis(50))), Ok(Wait::Pending));
    assert_eq!(scheduler.info(large).unwrap().state, State::Queued);
    gate.open();
    assert_eq!(wait(&scheduler, large), Ok(Wait::Done), "alone it may try");
}

#[test]
fn memory_that_strangers_give_back_is_used_while_ours_run_on() {
    let backend = Arc::new(Scripted::new(1));
    let scheduler = scheduler(backend.clone(), 2);
    let gate = Gate::new();
    scheduler.submit(Task { device_bytes: 200, ..gated(&gate) }).unwrap();
    gate.came(1);
    backend.free[0].store(100, Ordering::Relaxed);
    let waits = scheduler.submit(Task { device_bytes: 300, ..quick() }).unwrap();
    assert_eq!(scheduler.wait(waits, Some(Duration::from_millis(50))), Ok(Wait::Pending));
    backend.free[0].store(800, Ordering::Relaxed);
    assert_eq!(
        wait(&scheduler, waits),
        Ok(Wait::Done),
        "nobody says that it came free: it is looked at again"
    );
    assert_eq!(scheduler.stats().unwrap().running, 1);
    gate.open();
}

#[test]
fn where_strangers_have_taken_the_memory_a_task_goes_elsewhere() {
    let backend = Arc::new(Scripted::new(2));
    let scheduler = scheduler(backend.clone(), 2);
    let gate = Gate::new();
    for device in 0..2 {
        let here = DeviceMask(1 << device);
        scheduler.submit(Task { device_bytes: 200, devices: here, ..gated(&gate) }).unwrap();
    }
    gate.came(2);
    for full in 0..2 {
        backend.free[full].store(299, Ordering::Relaxed);
        backend.free[1 - full].store(800, Ordering::Relaxed);
        for _ in 0..3 {
            let id = scheduler.submit(Task { device_bytes: 300, ..quick() }).unwrap();
            assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
            assert_eq!(scheduler.info(id).unwrap().device, Some(1 - full));
        }
    }
    gate.open();
}

#[test]
fn a_large_task_is_not_overtaken_for_ever() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(2));
    let gate = Gate::new();
    scheduler.submit(Task { device_bytes: 300, ..gated(&gate) }).unwrap();
    gate.came(1);
    let large = scheduler.submit(Task { device_bytes: 1000, ..quick() }).unwrap();
    let ran = Arc::new(AtomicU32::new(0));
    let small = || {
        let ran = Arc::clone(&ran);
        let job = move |_: &Exec<'_>| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        Task { device_bytes: 300, ..Task::new(job) }
    };
    let smalls: Vec<_> = (0..100).map(|_| scheduler.submit(small()).unwrap()).collect();
    wait(&scheduler, smalls[7]).unwrap();
    while scheduler.stats().unwrap().running > 1 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(ran.load(Ordering::Relaxed), 8, "the device admits no more small ones");
    assert_eq!(scheduler.info(large).unwrap().state, State::Queued);
    gate.open();
    assert_eq!(wait(&scheduler, large), Ok(Wait::Done));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}

#[test]
fn light_tasks_that_came_later_are_company_too() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (began, beside, calls) = (Gate::new(), Gate::new(), AtomicU32::new(0));
    let (place, door) = (began.clone(), beside.clone());
    let job = move |_: &Exec<'_>| {
        if calls.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        place.pass();
        door.came(1);
        door.open();
        // More than the device has: alone that would be the end of it.
        Err(Error::NoMemory { what: "the task".into(), needed: 1001, place: "it".into(), there: 0 })
    };
    began.open();
    let short = scheduler.submit(Task { work: Some(1.0), ..Task::new(job) }).unwrap();
    began.came(1);
    scheduler.submit(gated(&beside)).unwrap();
    assert_eq!(wait(&scheduler, short), Ok(Wait::Done));
}

#[test]
fn when_memory_comes_free_every_slot_is_used() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (large, small) = (Gate::new(), Gate::new());
    scheduler.submit(Task { device_bytes: 1000, ..gated(&large) }).unwrap();
    large.came(1);
    for _ in 0..2 {
        scheduler.submit(Task { device_bytes: 400, ..gated(&small) }).unwrap();
    }
    large.open();
    small.came(2);
    small.open();
}
