//! Workers and slots after tasks that waited in their code have continued.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gpusched::sched::{DeviceMask, Task, WaitResult};

use crate::scripted::*;

const FIRST: DeviceMask = DeviceMask(1);
const SECOND: DeviceMask = DeviceMask(2);

/// A worker takes the slot of a waiting task's worker, and runs a long task when the first task
/// continues. Then the device has a worker too many.
#[test]
fn extra_worker_does_not_block_another_device() {
    let scheduler = Scripted::new(2).scheduler(1);
    let (long, on, place) = (Gate::new(), Gate::new(), Arc::new(Mutex::new(None)));
    let given = Arc::clone(&place);
    let waits = nested(&scheduler, move |scheduler, _| {
        scheduler.submit(Task { devices: FIRST, priority: 1, ..gated(long) })?;
        let child = scheduler.submit(Task { devices: FIRST, ..quick() })?;
        *given.lock().unwrap() = Some(child);
        assert_eq!(scheduler.wait(child, None)?, WaitResult::Cancelled);
        on.pass();
        Ok(())
    });
    let waits = scheduler.submit(Task { devices: FIRST, ..waits }).unwrap();
    long.came(1);
    let child = place.lock().unwrap().unwrap();
    scheduler.cancel(child).unwrap();
    on.came(1);
    let other = scheduler.submit(Task { devices: SECOND, ..quick() }).unwrap();
    // The limit is below a gate's: when the task continues, a slot is free again.
    assert_eq!(scheduler.wait(other, LONG.map(|long| long / 2)), Ok(WaitResult::Done));
    on.open();
    long.open();
    assert_eq!(wait(&scheduler, waits), Ok(WaitResult::Done));
}

/// The extra worker must stop after its task, and leave queued tasks to the worker that has
/// continued.
#[test]
fn extra_worker_ends_despite_queued_light_tasks() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (begun, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, stop) = (Arc::clone(&begun), Arc::clone(&over));
    let waits = nested(&scheduler, move |scheduler, _| {
        let (begun, over) = (Arc::clone(&count), Arc::clone(&stop));
        let child = nested(scheduler, move |scheduler, _| {
            let begun = Arc::clone(&begun);
            endless(scheduler, &over, |task| task, move || _ = begun.fetch_add(1, Ordering::SeqCst));
            Ok(())
        });
        assert_eq!(run(scheduler, Task { priority: 1, ..child })?, WaitResult::Done);
        let before = count.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        let others = count.load(Ordering::SeqCst) - before;
        stop.store(true, Ordering::SeqCst);
        assert!(others <= 1, "{others} tasks began beside the one that has gone on");
        Ok(())
    });
    assert_eq!(run(&scheduler, Task { priority: 1, ..waits }), Ok(WaitResult::Done));
    wait_all(&scheduler);
    assert!(begun.load(Ordering::SeqCst) > 0);
}
