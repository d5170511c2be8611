//! Memory of devices: the choice of the next task, and that no task waits for memory for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpusched::sched::{DeviceMask, Scheduler, Task, WaitResult};

use crate::scripted::*;

/// Returns a scheduler of one device with two slots. A task holds one slot and 200 bytes; other
/// processes leave `free` bytes.
fn beside_one(free: u64) -> (Arc<Scripted>, Arc<Scheduler>, &'static Gate) {
    let backend = Arc::new(Scripted::new(1));
    let scheduler = scheduler(backend.clone(), 2);
    let (_, gate) = occupy_as(&scheduler, |task| Task { device_bytes: 200, ..task });
    backend.free[0].store(free, Ordering::Relaxed);
    (backend, scheduler, gate)
}

fn of(device_bytes: u64) -> Task {
    Task { device_bytes, ..quick() }
}

#[test]
fn memory_of_other_processes_does_not_block_a_task_for_ever() {
    let backend = Arc::new(Scripted::new(1));
    backend.free[0].store(10, Ordering::Relaxed);
    assert_eq!(run(&scheduler(backend, 2), of(900)), Ok(WaitResult::Done));
}

#[test]
fn task_waits_for_memory_of_other_processes_beside_a_running_task() {
    let (_, scheduler, gate) = beside_one(299);
    let large = scheduler.submit(of(300)).unwrap();
    assert_eq!(run(&scheduler, of(299)), Ok(WaitResult::Done), "what is free is enough for it");
    assert_eq!(scheduler.wait(large, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
    gate.open();
    assert_eq!(wait(&scheduler, large), Ok(WaitResult::Done), "alone it may try");
}

#[test]
fn memory_that_other_processes_release_is_used_while_tasks_run() {
    let (backend, scheduler, gate) = beside_one(100);
    let waits = scheduler.submit(of(300)).unwrap();
    assert_eq!(scheduler.wait(waits, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
    backend.free[0].store(800, Ordering::Relaxed);
    assert_eq!(wait(&scheduler, waits), Ok(WaitResult::Done), "the free memory is read again");
    assert_eq!(scheduler.stats().unwrap().counts.running, 1);
    gate.open();
}

#[test]
fn task_runs_elsewhere_if_other_processes_hold_the_memory() {
    let backend = Arc::new(Scripted::new(2));
    let scheduler = scheduler(backend.clone(), 2);
    let gates = [0, 1].map(|device| {
        let here = DeviceMask::only(device);
        occupy_as(&scheduler, |task| Task { device_bytes: 200, devices: here, ..task }).1
    });
    for full in 0..2 {
        backend.free[full].store(299, Ordering::Relaxed);
        backend.free[1 - full].store(800, Ordering::Relaxed);
        for _ in 0..3 {
            let id = scheduler.submit(of(300)).unwrap();
            assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
            assert_eq!(scheduler.info(id).unwrap().device, Some(1 - full));
        }
    }
    gates.iter().for_each(|gate| gate.open());
}

#[test]
fn later_light_tasks_count_as_tasks_beside_a_shortage() {
    let mut builder = builder(Arc::new(Scripted::new(1)), 2);
    // The back-off after a shortage of a task that is alone on its device.
    builder.policy.backoff = [Duration::from_secs(3600); 3];
    let scheduler = builder.build().unwrap();
    let (began, beside, calls) = (Gate::opened(), Gate::new(), AtomicU32::new(0));
    let short = code(move |exec| {
        if calls.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        began.pass();
        beside.came(1);
        beside.open();
        Err(no_memory(exec, 500))
    });
    let short = scheduler.submit(Task { work: Some(1.0), ..short }).unwrap();
    began.came(1);
    scheduler.submit(gated(beside)).unwrap();
    assert_eq!(wait(&scheduler, short), Ok(WaitResult::Done));
}

#[test]
fn every_slot_is_used_once_memory_is_free() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (_, large) = occupy_as(&scheduler, |task| Task { device_bytes: 1000, ..task });
    let small = Gate::new();
    (0..2).for_each(|_| _ = scheduler.submit(Task { device_bytes: 400, ..gated(small) }).unwrap());
    large.open();
    small.came(2);
    small.open();
}
