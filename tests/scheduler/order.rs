//! Which task is next, and where.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpusched::device::BackendKind;
use gpusched::sched::{DeviceMask, Exec, Task, Wait};

use crate::scripted::*;

/// Submits while the only slot is taken; the numbers of the tasks in the order they ran.
fn ran(tasks: &[(i32, Option<f64>)]) -> Vec<usize> {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for (number, &(priority, work)) in tasks.iter().enumerate() {
        let order = Arc::clone(&order);
        let job = move |_: &Exec<'_>| {
            order.lock().unwrap().push(number);
            Ok(())
        };
        scheduler.submit(Task { priority, work, ..Task::new(job) }).unwrap();
    }
    gate.open();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    order.lock().unwrap().clone()
}

#[test]
fn priority_first_then_as_submitted() {
    assert_eq!(ran(&[(0, None), (5, None), (0, None), (-1, None), (5, None)]), [1, 4, 0, 2, 3]);
}

#[test]
fn within_a_priority_the_longest_first() {
    let tasks = [(0, Some(1.0)), (0, Some(3.0)), (0, None), (1, Some(0.5)), (0, Some(3.0)), (0, Some(2e9))];
    assert_eq!(ran(&tasks), [3, 5, 1, 4, 0, 2]);
}

#[test]
fn idle_devices_take_what_they_may() {
    let scheduler = Scripted::new(3).scheduler(2);
    let gate = Gate::new();
    let mut ids: Vec<_> = (0..3).map(|_| scheduler.submit(gated(&gate)).unwrap()).collect();
    gate.came(3);
    ids.extend((0..3).map(|_| scheduler.submit(gated(&gate)).unwrap()));
    gate.came(6);
    let mut places: Vec<_> =
        ids.iter().map(|&id| scheduler.info(id).map(|info| (info.device, info.slot)).unwrap()).collect();
    gate.open();
    let mut first: Vec<_> = places[..3].iter().map(|place| place.0).collect();
    first.sort();
    assert_eq!(first, [Some(0), Some(1), Some(2)], "no device gets a second task while another has none");
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 6, "every slot of every device");
}

#[test]
fn masks_are_kept_while_other_devices_idle() {
    let scheduler = Scripted::new(2).scheduler(1);
    let gate = Gate::new();
    let only = |task| Task { devices: DeviceMask(0b10), ..task };
    scheduler.submit(only(gated(&gate))).unwrap();
    gate.came(1);
    let second = scheduler.submit(only(quick())).unwrap();
    let cuda = Task { backends: vec![BackendKind::Cuda], ..quick() };
    let third = scheduler.submit(cuda).unwrap();
    assert_eq!(wait(&scheduler, third), Ok(Wait::Done));
    assert_eq!(scheduler.info(third).unwrap().device, Some(0));
    assert_eq!(scheduler.wait(second, Some(std::time::Duration::ZERO)), Ok(Wait::Pending));
    gate.open();
    assert_eq!(wait(&scheduler, second), Ok(Wait::Done));
    assert_eq!(scheduler.info(second).unwrap().device, Some(1));
    let host = Task { backends: vec![BackendKind::Cpu], ..quick() };
    assert!(scheduler.submit(host).is_err());
}

#[test]
fn a_task_may_come_after_very_many() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let first = scheduler.submit(Task { work: Some(1.0), ..gated(&gate) }).unwrap();
    gate.came(1);
    let mut after: Vec<_> =
        (1..200_000).map(|_| scheduler.submit(Task { work: Some(1.0), ..quick() }).unwrap()).collect();
    after.push(first);
    // The same task twice is no more than once.
    after.push(first);
    let last = scheduler.submit(Task { after, ..quick() }).unwrap();
    gate.open();
    // So many take longer than a hang may, on a busy machine and under a sanitizer; but not all at once.
    let mut done = 0;
    let mut waited = scheduler.wait(last, LONG);
    while waited == Ok(Wait::Pending) {
        let before = std::mem::replace(&mut done, scheduler.stats().unwrap().done);
        assert!(done > before, "after {done} tasks it hangs");
        waited = scheduler.wait(last, LONG);
    }
    assert_eq!(waited, Ok(Wait::Done));
}

#[test]
fn ordered_tasks_are_handed_out_as_submitted_whichever_ends_first() {
    let scheduler = Scripted::new(1).scheduler(2);
    let gate = Gate::new();
    let first = scheduler.submit(Task { ordered: true, ..gated(&gate) }).unwrap();
    scheduler.submit(quick()).unwrap();
    let rest: Vec<_> = [Some(1.0), None, Some(3.0)]
        .map(|work| scheduler.submit(Task { ordered: true, work, ..quick() }).unwrap())
        .into();
    for &id in &rest {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    assert_eq!(scheduler.wait_next(Some(Duration::ZERO)), Ok(None), "the first is still at work");
    gate.open();
    for id in std::iter::once(first).chain(rest) {
        assert_eq!(scheduler.wait_next(LONG), Ok(Some(id)));
    }
    assert!(scheduler.wait_next(Some(Duration::ZERO)).is_err(), "all have been handed out");
}
