//! Who sits in whose slot, when tasks that wait inside their code have gone on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpusched::Error;
use gpusched::sched::{DeviceMask, Exec, Scheduler, Task, Wait};

use crate::scripted::*;

const FIRST: DeviceMask = DeviceMask(1);
const SECOND: DeviceMask = DeviceMask(2);

/// A worker takes the place of one that waits, and is in a long task when that goes on: there is one too many.
#[test]
fn one_too_many_on_a_device_keeps_nobody_from_another() {
    let scheduler = Arc::new(Scripted::new(2).scheduler(1));
    let (long, on) = (Gate::new(), Gate::new());
    let (own, gates, place) =
        (Arc::downgrade(&scheduler), [long.clone(), on.clone()], Arc::new(Mutex::new(None)));
    let given = Arc::clone(&place);
    let waits = scheduler.submit(Task {
        devices: FIRST,
        ..Task::new(move |_: &Exec<'_>| {
            let scheduler = own.upgrade().ok_or(Error::Cancelled)?;
            scheduler.submit(Task { devices: FIRST, priority: 1, ..gated(&gates[0]) })?;
            let child = scheduler.submit(Task { devices: FIRST, ..quick() })?;
            *given.lock().unwrap() = Some(child);
            assert_eq!(scheduler.wait(child, None)?, Wait::Cancelled);
            gates[1].pass();
            Ok(())
        })
    });
    long.came(1);
    let child = place.lock().unwrap().unwrap();
    scheduler.cancel(child).unwrap();
    on.came(1);
    let other = scheduler.submit(Task { devices: SECOND, ..quick() }).unwrap();
    // Less than a gate keeps a task: when that goes on there is room again.
    assert_eq!(scheduler.wait(other, LONG.map(|long| long / 2)), Ok(Wait::Done));
    on.open();
    long.open();
    assert_eq!(wait(&scheduler, waits.unwrap()), Ok(Wait::Done));
}

/// Light tasks without end: each submits the next.
fn submit_next(scheduler: &Arc<Scheduler>, begun: &Arc<AtomicU64>, over: &Arc<AtomicBool>) {
    let (own, count, stop) = (Arc::downgrade(scheduler), Arc::clone(begun), Arc::clone(over));
    let task = Task::new(move |_: &Exec<'_>| {
        count.fetch_add(1, Ordering::SeqCst);
        if !stop.load(Ordering::SeqCst) {
            submit_next(&own.upgrade().ok_or(Error::Cancelled)?, &count, &stop);
        }
        Ok(())
    });
    let _ = scheduler.submit(Task { detached: true, ..task });
}

/// It has to go after its task, and leaves whatever is queued to the one that has gone on.
#[test]
fn one_too_many_goes_however_many_light_tasks_wait() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    let (begun, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (own, count, stop) = (Arc::downgrade(&scheduler), Arc::clone(&begun), Arc::clone(&over));
    let waits = Task::new(move |_: &Exec<'_>| {
        let scheduler = own.upgrade().ok_or(Error::Cancelled)?;
        let (own, begun, over) = (own.clone(), Arc::clone(&count), Arc::clone(&stop));
        let child = Task::new(move |_: &Exec<'_>| {
            submit_next(&own.upgrade().ok_or(Error::Cancelled)?, &begun, &over);
            Ok(())
        });
        let child = scheduler.submit(Task { priority: 1, ..child })?;
        assert_eq!(scheduler.wait(child, None)?, Wait::Done);
        let (before, since) = (count.load(Ordering::SeqCst), Instant::now());
        while since.elapsed() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        let others = count.load(Ordering::SeqCst) - before;
        stop.store(true, Ordering::SeqCst);
        assert!(others <= 1, "{others} tasks began beside the one that has gone on");
        Ok(())
    });
    let id = scheduler.submit(Task { priority: 1, ..waits }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert!(begun.load(Ordering::SeqCst) > 0);
}
