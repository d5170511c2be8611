//! Slots that nobody has told, and devices that take their time to answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use gpusched::Error;
use gpusched::error::DeviceFault;
use gpusched::sched::{AUTO_SLOTS, Exec, Scheduler, Task, Wait};

use crate::scripted::*;

/// The search tries a second slot, which brings nothing here, and takes it away again.
#[test]
fn a_slot_that_is_taken_away_does_not_cost_the_device() {
    let mut builder = Scheduler::builder();
    builder.devices = Some("cpu".into());
    builder.slots = Some(AUTO_SLOTS);
    let scheduler = builder.build().unwrap();
    let inside = Arc::new(AtomicU32::new(0));
    let task = || {
        let inside = Arc::clone(&inside);
        let job = move |_: &Exec<'_>| {
            // Two at a time take four times as long.
            let others = inside.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(if others > 0 { 8 } else { 2 }));
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        Task { work: Some(1.0), ..Task::new(job) }
    };
    let ids: Vec<_> = (0..60).map(|_| scheduler.submit(task()).unwrap()).collect();
    for id in ids {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    assert_eq!(scheduler.stats().unwrap().devices[0].slots, 1, "it was to be taken away");
}

/// While `door` is where the backend waits, the scheduler answers others.
fn answers_meanwhile(scheduler: &Arc<Scheduler>, door: &Arc<Gate>) {
    door.came(1);
    let (told, hear) = mpsc::channel();
    let asked = Arc::clone(scheduler);
    let thread = std::thread::spawn(move || {
        let _ = told.send(asked.stats().is_ok());
    });
    let answer = hear.recv_timeout(Duration::from_secs(5));
    door.open();
    thread.join().unwrap();
    assert_eq!(answer, Ok(true), "the scheduler stands still while a device is asked");
}

#[test]
fn nobody_waits_for_a_device_that_is_asked_for_its_free_memory() {
    let (door, gate) = (Gate::new(), Gate::new());
    let scheduler =
        Arc::new(Scripted { slow_free: Some(Arc::clone(&door)), ..Scripted::new(1) }.scheduler(2));
    scheduler.submit(Task { device_bytes: 100, ..gated(&gate) }).unwrap();
    gate.came(1);
    let second = scheduler.submit(Task { device_bytes: 100, ..quick() }).unwrap();
    answers_meanwhile(&scheduler, &door);
    assert_eq!(wait(&scheduler, second), Ok(Wait::Done));
    gate.open();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
}

#[test]
fn nobody_waits_for_a_context_that_is_made_anew() {
    let door = Gate::new();
    let scheduler =
        Arc::new(Scripted { slow_renew: Some(Arc::clone(&door)), ..Scripted::new(1) }.scheduler(1));
    let fault = DeviceFault::Poisoned;
    let fails = move |exec: &Exec<'_>| match exec.attempt {
        1 => Err(Error::Device { device: exec.device.label(), what: "illegal address".into(), fault }),
        _ => Ok(()),
    };
    let id = scheduler.submit(Task { priority: 1, ..Task::new(fails) }).unwrap();
    answers_meanwhile(&scheduler, &door);
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

/// Out of memory beside another task, it is tried again alone, and then waits for others inside its code.
#[test]
fn a_task_that_is_alone_on_the_device_may_wait_for_others() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(2));
    let gate = Gate::new();
    scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let weak = Arc::downgrade(&scheduler);
    let alone = Gate::new();
    alone.open();
    let (there, light) = (Arc::clone(&alone), Arc::new(Mutex::new(None)));
    let from_outside = Arc::clone(&light);
    let job = move |exec: &Exec<'_>| {
        if exec.attempt == 1 {
            return Err(Error::NoMemory { what: "x".into(), needed: 9, place: "y".into(), there: 1 });
        }
        there.pass();
        let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
        let child = scheduler.submit(Task { priority: 1, ..quick() })?;
        assert_eq!(scheduler.wait(child, None)?, Wait::Done);
        let other = loop {
            if let Some(id) = *from_outside.lock().unwrap() {
                break id;
            }
            std::thread::yield_now();
        };
        assert_eq!(scheduler.wait(other, LONG)?, Wait::Done);
        Ok(())
    };
    let id = scheduler.submit(Task { priority: 1, ..Task::new(job) }).unwrap();
    while scheduler.info(id).unwrap().attempts == 0 {
        std::thread::yield_now();
    }
    gate.open();
    alone.came(1);
    *light.lock().unwrap() = Some(scheduler.submit(quick()).unwrap());
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

#[test]
fn a_light_task_that_ends_well_after_a_cancel_is_cancelled() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let id = scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    scheduler.cancel(id).unwrap();
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));
    assert_eq!(scheduler.stats().unwrap().cancelled, 1);
}
