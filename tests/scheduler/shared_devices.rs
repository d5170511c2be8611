//! Two schedulers that share devices through a folder of leases.

use std::sync::Arc;
use std::time::Duration;

use gpusched::sched::{Scheduler, Task, WaitResult};
use testkit::Folder;

use crate::scripted::*;

fn sharing(folder: &Folder, devices: u32, slots: u32) -> [Scheduler; 2] {
    [(); 2].map(|()| {
        let mut builder = builder(Arc::new(Scripted::new(devices)), slots);
        builder.lease_folder = Some(folder.at("leases"));
        builder.build().unwrap()
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
