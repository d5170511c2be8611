//! Calls from inside a task.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use gpusched::sched::{DeviceMask, Scheduler, Task, TaskId, TaskStatus, WaitResult};
use gpusched::{Error, Result};

use crate::scripted::*;

fn deadlock<T: std::fmt::Debug>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Deadlock { .. }))
}

/// Makes a task a planned one, because a light task runs its children as nested tasks.
fn planned(task: Task) -> Task {
    Task { priority: 1, ..task }
}

/// The last thread that can make progress is the caller's, which is about to publish the awaited
/// end.
#[test]
fn waiter_learns_of_the_cancellation_of_the_awaited_task() {
    let scheduler = Scripted::new(2).scheduler(1);
    let (gate, told) = (Gate::new(), Gate::opened());
    let (other, busy) = occupy_as(&scheduler, |task| Task { devices: DeviceMask(2), ..task });
    let here = |task| Task { devices: DeviceMask(1), device_bytes: 600, ..task };
    let child = Arc::new(Mutex::new(None));
    let place = Arc::clone(&child);
    let waits = nested(&scheduler, move |scheduler, _| {
        let child = scheduler.submit(here(kept(gate)))?;
        *place.lock().unwrap() = Some(child);
        told.pass();
        assert_eq!(scheduler.wait(child, None)?, WaitResult::Cancelled);
        Ok(())
    });
    let waits = scheduler.submit(here(waits)).unwrap();
    told.came(1);
    let child = child.lock().unwrap().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| scheduler.cancel(child));
        gate.came(1);
        busy.open();
        assert_eq!(wait(&scheduler, other), Ok(WaitResult::Done));
        assert_eq!(scheduler.wait(waits, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
        gate.open();
    });
    assert_eq!(wait(&scheduler, waits), Ok(WaitResult::Done));
}

#[test]
fn waiting_tasks_run() {
    let scheduler = Scripted::new(1).scheduler(1);
    let outer = nested(&scheduler, |scheduler, _| {
        let inner = nested(scheduler, |scheduler, _| {
            let counts = scheduler.stats()?.counts;
            assert_eq!((counts.running, counts.queued), (2, 0));
            Ok(())
        });
        assert_eq!(wait(scheduler, scheduler.submit(inner)?), Ok(WaitResult::Done));
        Ok(())
    });
    assert_eq!(run(&scheduler, outer), Ok(WaitResult::Done));
    assert_eq!(scheduler.stats().unwrap().counts.running, 0);
}

/// The worker that ends moves the awaited task from its own queue to the common one.
#[test]
fn waiting_for_a_task_that_a_worker_leaves_behind_is_no_deadlock() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (gate, known) = (Gate::new(), Gate::new());
    let ids = Arc::new(Mutex::new(Vec::new()));
    let (places, submits) = (Arc::clone(&ids), Arc::clone(&ids));
    let waits = nested(&scheduler, move |scheduler, _| {
        known.pass();
        let first = places.lock().unwrap()[0];
        while places.lock().unwrap().len() == 1 {
            scheduler.wait(first, Some(Duration::from_millis(300)))?;
        }
        // The slot has a worker too many from now on.
        gate.open();
        until(|| scheduler.info(first).is_ok_and(|info| info.state == TaskStatus::Done));
        thread::sleep(Duration::from_millis(10));
        let left = places.lock().unwrap()[1];
        assert_eq!(scheduler.wait(left, None)?, WaitResult::Done);
        Ok(())
    });
    let waits = scheduler.submit(planned(waits)).unwrap();
    known.came(1);
    let first = nested(&scheduler, move |scheduler, _| {
        submits.lock().unwrap().push(scheduler.submit(quick())?);
        gate.pass();
        Ok(())
    });
    ids.lock().unwrap().push(scheduler.submit(first).unwrap());
    known.open();
    assert_eq!(wait(&scheduler, waits), Ok(WaitResult::Done));
}

/// A poisoned context is renewed when all tasks have left it. A task in it that waits for another
/// to run prevents that.
#[test]
fn waiting_in_a_poisoned_context_for_a_task_of_the_next_is_an_error() {
    for tier in [planned, |light| light] {
        let scheduler = Scripted::new(1).scheduler(2);
        let (poisoned, ends) = (Gate::new(), Gate::opened());
        let waits = nested(&scheduler, move |scheduler, _| {
            poisoned.pass();
            let child = scheduler.submit(planned(quick()))?;
            for _ in 0..3 {
                scheduler.submit(Task { detached: true, ..quick() })?;
            }
            ends.pass();
            scheduler.wait(child, None).map(drop)
        });
        let waits = scheduler.submit(tier(waits)).unwrap();
        poisoned.came(1);
        let poisons = scheduler.submit(poisons_once()).unwrap();
        until(|| {
            scheduler.info(poisons).is_ok_and(|info| info.attempts > 0 && info.state != TaskStatus::Running)
        });
        poisoned.open();
        assert!(deadlock(wait(&scheduler, waits)));
        wait_all(&scheduler);
        assert_eq!(scheduler.stats().unwrap().counts.done, 5);
    }
}

#[test]
fn waiting_for_a_task_that_poisons_the_context_of_both_is_an_error() {
    for (tier, devices) in [planned, |light| light].into_iter().flat_map(|tier| [(tier, 1), (tier, 2)]) {
        let scheduler = Scripted::new(devices).scheduler(1);
        let waits = nested(&scheduler, |scheduler, exec| {
            let device = DeviceMask(1 << exec.device_index);
            scheduler.wait(scheduler.submit(Task { devices: device, ..poisons_once() })?, None).map(drop)
        });
        let waits = scheduler.submit(tier(waits)).unwrap();
        assert!(deadlock(wait(&scheduler, waits)));
        wait_all(&scheduler);
        assert_eq!(scheduler.stats().unwrap().counts.done, 1);
        let light: Vec<_> = (0..9).map(|_| scheduler.submit(quick()).unwrap()).collect();
        light.into_iter().for_each(|id| assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done)));
    }
}

#[test]
fn too_many_waiting_at_once_is_an_error_and_not_a_hang() {
    fn chain(scheduler: &Arc<Scheduler>, depth: u32) -> TaskId {
        let task = nested(scheduler, move |scheduler, _| {
            if depth > 0 {
                scheduler.wait(chain(scheduler, depth - 1), LONG)?;
            }
            Ok(())
        });
        scheduler.submit(planned(task)).unwrap()
    }
    let scheduler = Scripted::new(1).scheduler(1);
    let deep = chain(&scheduler, 80);
    assert!(deadlock(wait(&scheduler, deep)));
    wait_all(&scheduler);
    let fine = chain(&scheduler, 60);
    assert_eq!(wait(&scheduler, fine), Ok(WaitResult::Done));
}

#[test]
fn second_worker_runs_the_planned_task_if_the_first_waits_for_it() {
    for _ in 0..5 {
        let turn = Duration::from_millis(1);
        let scheduler = tuned(1, |policy| policy.turn = turn);
        // After a planned task of this duration, light tasks come first for some milliseconds.
        let long = effect(move || thread::sleep(turn));
        assert_eq!(run(&scheduler, planned(long)), Ok(WaitResult::Done));
        // Let the worker fall asleep.
        thread::sleep(Duration::from_millis(1));
        let (tell, told) = mpsc::channel();
        let told = Mutex::new(told);
        let waits = nested(&scheduler, move |scheduler, _| {
            let awaited: TaskId = told.lock().unwrap().recv().map_err(|_| Error::Cancelled)?;
            scheduler.wait(awaited, None).map(drop)
        });
        let ids = scheduler.submit_many(vec![planned(quick()), waits]).unwrap();
        tell.send(ids[0]).unwrap();
        assert_eq!(wait(&scheduler, ids[1]), Ok(WaitResult::Done));
    }
}
