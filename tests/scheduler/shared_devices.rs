//! Two schedulers that share devices through a folder of leases.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpusched::sched::{Scheduler, Task, Wait};
use testkit::Folder;

use crate::scripted::*;

fn sharing(folder: &Path, devices: u32) -> Scheduler {
    let mut builder = Scheduler::builder();
    builder.devices = Some("all".into());
    builder.slots = Some(1);
    builder.backends = Some(vec![Arc::new(Scripted::new(devices))]);
    builder.lease_folder = Some(folder.into());
    builder.build().unwrap()
}

fn taken(scheduler: &Scheduler) -> Vec<bool> {
    scheduler.stats().unwrap().devices.iter().map(|device| device.taken).collect()
}

fn comes_to_be(mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LONG.unwrap(), "never");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_others_hold_is_waited_for_and_told() {
    let folder = Folder::new();
    let [first, second] = [(); 2].map(|()| sharing(&folder.at("leases"), 1));
    assert_eq!((taken(&first), taken(&second)), (vec![false], vec![false]));
    let gate = Gate::new();
    let holds = first.submit(Task { work: Some(1.0), ..gated(&gate) }).unwrap();
    gate.came(1);
    let waits = second.submit(Task { work: Some(1.0), ..quick() }).unwrap();
    comes_to_be(|| taken(&second) == [true]);
    assert_eq!(second.wait(waits, Some(Duration::from_millis(50))), Ok(Wait::Pending));
    assert_eq!(taken(&first), [false], "what it holds itself is not of others");
    gate.open();
    assert_eq!(second.wait(waits, LONG), Ok(Wait::Done));
    assert_eq!(first.wait(holds, LONG), Ok(Wait::Done));
    // It is looked up when something is to begin.
    let next = second.submit(Task { work: Some(1.0), ..quick() }).unwrap();
    assert_eq!(second.wait(next, LONG), Ok(Wait::Done));
    comes_to_be(|| taken(&second) == [false]);
}

/// One that waits for the first device goes to the second when that is what is left.
#[test]
fn what_is_free_is_used() {
    let folder = Folder::new();
    let [first, second] = [(); 2].map(|()| sharing(&folder.at("leases"), 2));
    let gate = Gate::new();
    let holds = first.submit(Task { work: Some(1.0), ..gated(&gate) }).unwrap();
    gate.came(1);
    let held = first.info(holds).unwrap().device.expect("it runs");
    let next = second.submit(Task { work: Some(1.0), ..quick() }).unwrap();
    assert_eq!(second.wait(next, LONG), Ok(Wait::Done));
    assert_eq!(second.info(next).unwrap().device, Some(1 - held));
    gate.open();
    assert_eq!(first.wait(holds, LONG), Ok(Wait::Done));
}
