//! Each class of failure on simulated devices, in virtual time: what becomes of the task and of the
//! device.

use super::{
    Fault, FaultKind, Scenario, SimDevice, SimEvent, SimEventKind, SimReport, SimTask, lower_bound, run,
};
use crate::sched::{DeviceMask, TaskStatus};

fn world(speeds: &[f64], tasks: Vec<SimTask>) -> Scenario {
    let devices = speeds.iter().enumerate();
    let devices = devices.map(|(index, &speed)| SimDevice::new(&format!("device {index}"), speed)).collect();
    Scenario { devices, tasks }
}

fn equal(count: usize, work: f64) -> Vec<SimTask> {
    vec![SimTask::new(work); count]
}

fn fault(world: &mut Scenario, device: usize, at: f64, kind: FaultKind) {
    world.devices[device].faults.push(Fault { at, kind });
}

fn begins(report: &SimReport, task: usize) -> Vec<&SimEvent> {
    report.events.iter().filter(|event| event.task == task && event.kind == SimEventKind::Begin).collect()
}

/// Runs a scenario in which every task ends well.
fn done(world: &Scenario) -> SimReport {
    let report = run(world);
    assert!(report.outcomes.iter().all(|outcome| *outcome == (TaskStatus::Done, None)), "{report:?}");
    report
}

#[test]
fn poisoned_context_is_renewed_once() {
    let mut world = world(&[1.0, 1.0], equal(8, 10.0));
    fault(&mut world, 0, 5.0, FaultKind::Poisoned);
    let report = done(&world);
    assert_eq!(report.devices[0].retired, None);
    assert!(report.devices[0].done >= 3, "it works on: {report:?}");

    fault(&mut world, 0, 18.0, FaultKind::Poisoned);
    let report = done(&world);
    assert!(report.devices[0].retired.is_some(), "the second time it is the device");
}

#[test]
fn a_device_that_becomes_slow_gets_less_and_its_last_task_is_overtaken() {
    let mut world = world(&[1.0, 1.0], equal(40, 10.0));
    fault(&mut world, 0, 55.0, FaultKind::Slow { factor: 0.05 });
    let report = done(&world);
    assert!(report.devices[0].done < 12, "{:?}", report.devices);
    // 40 tasks, ten of them done by both before it became slow: the rest takes 10 s each on one
    // device.
    assert!(report.makespan < 1.2 * (55.0 + 29.0 * 10.0), "{}", report.makespan);
}

#[test]
fn short_task_is_not_overtaken_for_ever() {
    // Longer tasks keep the only device busy.
    for (priority, hint) in [(0, Some(1.0)), (0, None), (-1, Some(1.0))] {
        let mut tasks = equal(200, 2.0);
        for (number, task) in tasks.iter_mut().enumerate() {
            task.submit_at = number as f64;
        }
        (tasks[2].work, tasks[2].hint, tasks[2].priority) = (1.0, hint, priority);
        let report = done(&world(&[1.0], tasks));
        let begin = begins(&report, 2)[0].time;
        assert!((20.0..60.0).contains(&begin), "after those of its ten durations: {begin}");
    }
}

#[test]
fn a_large_task_is_not_overtaken_for_ever() {
    let mut tasks = equal(60, 1.0);
    for (number, task) in tasks.iter_mut().enumerate() {
        task.device_bytes = 5 << 30;
        task.submit_at = 0.4 * number as f64;
    }
    tasks[5].device_bytes = 15 << 30;
    let mut world = world(&[1.0], tasks);
    world.devices[0].slots = 3;
    let report = done(&world);
    assert!(begins(&report, 5)[0].time < 12.0, "{}", begins(&report, 5)[0].time);
    assert!(report.devices[0].peak_bytes <= 16 << 30);
}

#[test]
fn an_unknown_device_is_tried_with_the_smallest() {
    let mut world = world(&[1.0, 1.0], vec![SimTask::new(50.0), SimTask::new(5.0), SimTask::new(20.0)]);
    world.devices[1].prior = None;
    let report = done(&world);
    let first = |task| begins(&report, task).first().map(|event| (event.device, event.time));
    assert_eq!((first(0), first(1)), (Some((0, 0.0)), Some((1, 0.0))));
}

#[test]
fn late_task_restarts_on_the_only_fast_device() {
    let mut world = world(&[20.0, 1.0], equal(12, 20.0));
    world.tasks[8].stumble = 100.0;
    let report = done(&world);
    let begins: Vec<usize> = begins(&report, 8).iter().map(|event| event.device).collect();
    assert_eq!((begins, report.counts.retried), (vec![0, 0], 1));
    assert!(report.makespan < 21.0, "{}", report.makespan);

    world.tasks[8].idempotent = false;
    let patient = done(&world);
    assert!(patient.makespan > 100.0, "it may not run twice: {}", patient.makespan);
}

#[test]
fn longer_task_restarts_only_once() {
    let mut world = world(&[20.0, 1.0], equal(12, 20.0));
    world.tasks[8].work = 2000.0;
    let report = done(&world);
    assert_eq!(report.counts.retried, 1);
    assert!(report.makespan < 120.0, "{}", report.makespan);
}

#[test]
fn a_late_task_goes_to_a_fast_device_in_the_end_too() {
    let mut world = world(&[4.0, 1.0, 1.0], equal(9, 20.0));
    // The slow devices are given it first, and are idle first.
    world.tasks[8].devices = DeviceMask(0b110);
    world.tasks[8].work = 2000.0;
    let slow = run(&world).makespan;
    world.tasks[8].devices = DeviceMask::ALL;
    let report = done(&world);
    assert!(slow > 2000.0 && report.makespan < 700.0, "{slow} {}", report.makespan);
}

#[test]
fn bound_is_all_work_over_all_speed_or_the_longest_on_the_fastest() {
    assert_eq!(lower_bound(&world(&[2.0, 1.0], equal(3, 3.0))), 3.0);
    assert_eq!(lower_bound(&world(&[2.0, 1.0], [9.0, 1.0].map(SimTask::new).into())), 4.5);
}

#[test]
fn a_device_counts_with_its_best_speed() {
    let mut world = world(&[1.0], equal(2, 6.0));
    fault(&mut world, 0, 2.0, FaultKind::Slow { factor: 8.0 });
    fault(&mut world, 0, 1.0, FaultKind::Slow { factor: 0.5 });
    assert_eq!(lower_bound(&world), 3.0);
}

#[test]
fn a_device_counts_until_it_is_lost() {
    let mut world = world(&[2.0, 1.0], equal(2, 6.0));
    world.devices[0].fail_at = Some(2.0);
    assert_eq!(lower_bound(&world), 8.0);
    world.devices[1].fail_at = Some(7.0);
    assert_eq!(lower_bound(&world), f64::INFINITY);
}
