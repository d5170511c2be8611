//! The next task and its device. `plan::ready_queue` and `plan::record` test the order.

use std::collections::HashSet;

use gpusched::device::BackendKind;
use gpusched::sched::{Task, WaitResult};

use crate::scripted::*;

#[test]
fn tasks_are_spread_over_idle_devices() {
    let scheduler = Scripted::new(3).scheduler(2);
    let gate = Gate::new();
    let begin = |all| {
        let ids = [(); 3].map(|()| scheduler.submit(gated(gate)).unwrap());
        gate.came(all);
        ids.map(|id| scheduler.info(id).map(|info| (info.device, info.slot)).unwrap())
    };
    let (first, second) = (begin(3), begin(6));
    gate.open();
    let devices = HashSet::from(first.map(|place| place.0));
    assert_eq!(devices.len(), 3, "no device gets a second task while another has none");
    let places: HashSet<_> = first.into_iter().chain(second).collect();
    assert_eq!(places.len(), 6, "every slot of every device");
}

/// `stress` and `random_worlds` test masks of devices.
#[test]
fn task_of_a_backend_runs_on_its_devices_only() {
    let scheduler = Scripted::new(2).scheduler(1);
    let of = |backend| Task { backends: vec![backend], ..quick() };
    assert_eq!(run(&scheduler, of(BackendKind::Cuda)), Ok(WaitResult::Done));
    assert!(scheduler.submit(of(BackendKind::Cpu)).is_err());
}

#[test]
fn a_task_may_come_after_very_many() {
    let scheduler = Scripted::new(1).scheduler(1);
    let work = |task| Task { work: Some(1.0), ..task };
    let (first, gate) = occupy_as(&scheduler, work);
    let mut after: Vec<_> = (1..200_000).map(|_| scheduler.submit(work(quick())).unwrap()).collect();
    // A predecessor that is listed twice counts once.
    after.extend([first, first]);
    let last = scheduler.submit(Task { after, ..quick() }).unwrap();
    gate.open();
    // Under a sanitizer the tasks take longer than LONG, but some end in each such time.
    let mut done = 0;
    let mut waited = scheduler.wait(last, LONG);
    while waited == Ok(WaitResult::Pending) {
        let before = std::mem::replace(&mut done, scheduler.stats().unwrap().counts.done);
        assert!(done > before, "after {done} tasks it hangs");
        waited = scheduler.wait(last, LONG);
    }
    assert_eq!(waited, Ok(WaitResult::Done));
}
