//! Two schedulers that share devices through a folder of leases.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{Scheduler, Task, TaskId, WaitResult};
use testkit::Folder;

use crate::scripted::*;

fn sharing(folder: &Folder, devices: u32, slots: u32) -> [Arc<Scheduler>; 2] {
    [(); 2].map(|()| {
        let mut builder = builder(Arc::new(Scripted::new(devices)), slots);
        builder.lease_folder = Some(folder.at("leases"));
        Arc::new(builder.build().unwrap())
    })
}

fn planned(task: Task) -> Task {
    Task { work: Some(1.0), ..task }
}

fn taken(scheduler: &Scheduler) -> Vec<bool> {
    scheduler.stats().unwrap().devices.iter().map(|device| device.taken).collect()
}

#[test]
fn what_others_hold_is_waited_for_and_told() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 1);
    assert_eq!((taken(&first), taken(&second)), (vec![false], vec![false]));
    let (holds, gate) = occupy_as(&first, planned);
    let waits = second.submit(planned(quick())).unwrap();
    until(|| taken(&second) == [true]);
    assert_eq!(second.wait(waits, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
    assert_eq!(taken(&first), [false], "a scheduler's own lease is not of others");
    gate.open();
    assert_eq!(wait(&second, waits), Ok(WaitResult::Done));
    assert_eq!(wait(&first, holds), Ok(WaitResult::Done));
    // The leases are read when a task is to begin.
    assert_eq!(run(&second, planned(quick())), Ok(WaitResult::Done));
    until(|| taken(&second) == [false]);
}

#[test]
fn bytes_that_another_has_not_allocated_yet_are_left_to_it() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 2);
    let [allocates, ends] = [(); 2].map(|()| Gate::new());
    let large = |task| Task { device_bytes: 600, ..planned(task) };
    let holds = first.submit(large(code(move |exec| {
        allocates.pass();
        exec.report(0.5);
        ends.pass();
        Ok(())
    })));
    allocates.came(1);
    let waits = second.submit(large(quick())).unwrap();
    assert_eq!(second.wait(waits, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
    allocates.open();
    assert_eq!(wait(&second, waits), Ok(WaitResult::Done));
    ends.open();
    assert_eq!(wait(&first, holds.unwrap()), Ok(WaitResult::Done));
}

/// Runs a task that waits for another of the same scheduler, on one slot. `between`: runs once the first has begun.
fn run_waiting(outer: Option<f64>, inner: Option<f64>, between: impl Fn(&Scheduler)) {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 1);
    let (gate, awaited) = (Gate::new(), Arc::new(Mutex::new(TaskId(0))));
    let place = awaited.clone();
    let waits = nested(&first, move |scheduler, _| {
        gate.pass();
        let awaited = *place.lock().unwrap();
        let ended = scheduler.wait(awaited, LONG)?;
        if ended == WaitResult::Done { Ok(()) } else { Err(Error::Cancelled) }
    });
    let waits = first.submit(Task { work: outer, ..waits }).unwrap();
    gate.came(1);
    between(&second);
    *awaited.lock().unwrap() = first.submit(Task { work: inner, ..quick() }).unwrap();
    gate.open();
    assert_eq!(wait(&first, waits), Ok(WaitResult::Done), "{outer:?} waits for {inner:?}");
    wait_all(&second);
}

#[test]
fn awaited_tasks_begin_in_the_slot_of_the_waiting_task() {
    for (outer, inner) in [(None, None), (None, Some(1.0)), (Some(1.0), None), (Some(1.0), Some(1.0))] {
        run_waiting(outer, inner, |_| {});
        run_waiting(outer, inner, |second| {
            second.submit(planned(quick())).unwrap();
            until(|| taken(second) == [true]);
        });
    }
}
