//! Code that does not return.

use std::time::{Duration, Instant};

use gpusched::Error;
use gpusched::device::Health;
use gpusched::sched::{Task, Wait};

use crate::scripted::*;

/// It takes the ten seconds that an attempt is given to return after it was asked to stop.
#[test]
fn a_hang_is_reported_and_costs_its_device_and_nothing_else() {
    let scheduler = Scripted::new(2).scheduler(1);
    let gate = Gate::new();
    let hung = Task { deadline: Some(Duration::from_millis(50)), label: "deaf".into(), ..gated(&gate) };
    let hung = scheduler.submit(hung).unwrap();
    gate.came(1);
    let others: Vec<_> =
        (0..50).map(|_| scheduler.submit(Task { priority: 1, ..quick() }).unwrap()).collect();
    for id in others {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done), "the other device goes on");
    }
    match wait(&scheduler, hung) {
        Err(error @ Error::Deadline { .. }) => assert!(error.to_string().contains("deaf"), "{error}"),
        other => panic!("{other:?}"),
    }
    let health: Vec<_> =
        scheduler.stats().unwrap().devices.iter().map(|device| device.device.health).collect();
    assert_eq!(health.iter().filter(|&&health| health == Health::Retired).count(), 1, "{health:?}");
    let id = scheduler.submit(Task { priority: 1, ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    let begin = Instant::now();
    scheduler.shutdown().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "nobody waits for a thread that was given up");
    gate.open();
}
