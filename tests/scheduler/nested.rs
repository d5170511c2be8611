//! Calls from inside a task.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpusched::sched::{DeviceMask, Exec, Scheduler, Task, TaskId, Wait};
use gpusched::{Error, Result};

use crate::scripted::*;

fn deadlock<T: std::fmt::Debug>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Deadlock { .. }))
}

/// Runs `code` in a task of the scheduler.
fn inside(
    scheduler: &Arc<Scheduler>,
    task: Task,
    code: impl Fn(&Scheduler, TaskId) -> Result<()> + Send + Sync + 'static,
) -> TaskId {
    let weak = Arc::downgrade(scheduler);
    let job = move |exec: &Exec<'_>| {
        let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
        code(&scheduler, exec.task)
    };
    scheduler.submit(Task { job: Box::new(job), ..task }).unwrap()
}

#[test]
fn a_task_waits_for_tasks_that_it_submitted_on_the_only_slot() {
    fn tree(scheduler: &Arc<Scheduler>, depth: u32) -> TaskId {
        let again = Arc::downgrade(scheduler);
        inside(scheduler, quick(), move |scheduler, _| {
            if depth > 0 {
                let own = again.upgrade().ok_or(Error::Cancelled)?;
                let children = [tree(&own, depth - 1), tree(&own, depth - 1)];
                for child in children {
                    assert_eq!(scheduler.wait(child, LONG)?, Wait::Done);
                }
            }
            Ok(())
        })
    }
    let device = Scripted::new(1);
    let inside = device.inside.clone();
    let scheduler = Arc::new(device.scheduler(1));
    let root = tree(&scheduler, 4);
    assert_eq!(wait(&scheduler, root), Ok(Wait::Done));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert_eq!(scheduler.stats().unwrap().done, 31);
    drop(scheduler);
    assert_eq!(inside.load(Ordering::Relaxed), 0, "each has left the queue as often as it has entered it");
}

#[test]
fn waiting_for_oneself_or_for_all_is_an_error() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    let id = inside(&scheduler, quick(), |scheduler, own| {
        assert!(deadlock(scheduler.wait(own, None)));
        assert!(deadlock(scheduler.wait_any(&[own, own], None)));
        assert!(deadlock(scheduler.wait_all(None)));
        assert!(deadlock(scheduler.drain(None)));
        assert!(deadlock(scheduler.shutdown()));
        let other = scheduler.submit(quick())?;
        assert_eq!(scheduler.wait_any(&[own, other], LONG)?, Some(1));
        Ok(())
    });
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

#[test]
fn two_tasks_that_wait_for_each_other_are_told() {
    let scheduler = Arc::new(Scripted::new(2).scheduler(1));
    let ids = Arc::new(Mutex::new(Vec::new()));
    let both = Gate::new();
    let one = |which: usize| {
        let (ids, both) = (Arc::clone(&ids), Arc::clone(&both));
        inside(&scheduler, quick(), move |scheduler, _| {
            both.pass();
            let other = ids.lock().unwrap()[1 - which];
            scheduler.wait(other, None).map(|_| ())
        })
    };
    let (a, b) = (one(0), one(1));
    ids.lock().unwrap().extend([a, b]);
    both.came(2);
    both.open();
    let ends = [wait(&scheduler, a), wait(&scheduler, b)];
    assert!(ends.iter().any(|end| matches!(end, Err(Error::Deadlock { .. }))), "{ends:?}");
}

#[test]
fn waiting_for_memory_that_one_holds_oneself_is_an_error() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    let id = inside(&scheduler, Task { device_bytes: 600, ..quick() }, |scheduler, _| {
        let child = scheduler.submit(Task { device_bytes: 600, ..quick() })?;
        assert!(deadlock(scheduler.wait(child, None)));
        let small = scheduler.submit(Task { device_bytes: 400, ..quick() })?;
        assert_eq!(scheduler.wait(small, LONG)?, Wait::Done);
        Ok(())
    });
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done), "the child runs afterwards");
}

/// The last that could go on is a thread of the caller's, which is about to tell the end that is waited for.
#[test]
fn what_waits_for_a_task_that_is_being_cancelled_is_told_so() {
    let scheduler = Arc::new(Scripted::new(2).scheduler(1));
    let (busy, gate, told) = (Gate::new(), Gate::new(), Gate::new());
    let other = scheduler.submit(Task { devices: DeviceMask(2), ..gated(&busy) }).unwrap();
    busy.came(1);
    let here = Task { devices: DeviceMask(1), device_bytes: 600, ..quick() };
    let (drops, door, child) = (Arc::clone(&gate), Arc::clone(&told), Arc::new(Mutex::new(None)));
    let place = Arc::clone(&child);
    let waits = inside(&scheduler, here, move |scheduler, _| {
        let child = Task { devices: DeviceMask(1), device_bytes: 600, ..kept(&drops) };
        let child = scheduler.submit(child)?;
        *place.lock().unwrap() = Some(child);
        door.pass();
        assert_eq!(scheduler.wait(child, None)?, Wait::Cancelled);
        Ok(())
    });
    told.open();
    told.came(1);
    let child = child.lock().unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| scheduler.cancel(child));
        gate.came(1);
        busy.open();
        assert_eq!(wait(&scheduler, other), Ok(Wait::Done));
        assert_eq!(scheduler.wait(waits, Some(Duration::from_millis(50))), Ok(Wait::Pending));
        gate.open();
    });
    assert_eq!(wait(&scheduler, waits), Ok(Wait::Done));
}

/// Nothing more begins in a poisoned context, and it is only made anew when all have left the old one: what
/// waits in there for a task that is to run is in its own way, though there is work for everybody.
#[test]
fn waiting_in_a_poisoned_context_for_what_could_only_run_in_another_is_an_error() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(2));
    let (poisoned, ends) = (Gate::new(), Gate::new());
    let (door, gate) = (Arc::clone(&poisoned), Arc::clone(&ends));
    let waits = inside(&scheduler, Task { priority: 1, ..quick() }, move |scheduler, _| {
        door.pass();
        let child = scheduler.submit(Task { priority: 1, ..quick() })?;
        for _ in 0..3 {
            scheduler.submit(Task { detached: true, ..quick() })?;
        }
        gate.pass();
        scheduler.wait(child, None).map(|_| ())
    });
    poisoned.came(1);
    let poisons = scheduler.submit(Task::new(|exec: &Exec<'_>| match exec.attempt {
        1 => Err(Error::Device {
            device: exec.device.label(),
            what: "illegal address".into(),
            fault: gpusched::error::DeviceFault::Poisoned,
        }),
        _ => Ok(()),
    }));
    let poisons = poisons.unwrap();
    while scheduler.info(poisons).unwrap().attempts == 0
        || scheduler.info(poisons).unwrap().state == gpusched::sched::State::Running
    {
        std::thread::yield_now();
    }
    poisoned.open();
    ends.came(1);
    ends.open();
    assert!(deadlock(wait(&scheduler, waits)));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert_eq!(scheduler.stats().unwrap().done, 5);
}

#[test]
fn too_many_waiting_at_once_is_an_error_and_not_a_hang() {
    fn chain(scheduler: &Arc<Scheduler>, depth: u32) -> TaskId {
        let again = Arc::downgrade(scheduler);
        // Planned, for a light task would run its children on top of itself.
        inside(scheduler, Task { priority: 1, ..quick() }, move |scheduler, _| {
            if depth > 0 {
                let child = chain(&again.upgrade().ok_or(Error::Cancelled)?, depth - 1);
                scheduler.wait(child, LONG)?;
            }
            Ok(())
        })
    }
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    let deep = chain(&scheduler, 80);
    assert!(deadlock(wait(&scheduler, deep)));
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    let fine = chain(&scheduler, 60);
    assert_eq!(wait(&scheduler, fine), Ok(Wait::Done));
}

#[test]
fn a_task_may_drop_the_last_handle() {
    let scheduler = Arc::new(Scripted::new(1).scheduler(1));
    let (gate, gone) = (Gate::new(), Gate::new());
    gone.open();
    let hold = Mutex::new(Some(Arc::clone(&scheduler)));
    let (door, end) = (Arc::clone(&gate), Arc::clone(&gone));
    scheduler
        .submit(Task::new(move |_: &Exec<'_>| {
            door.pass();
            drop(hold.lock().unwrap().take());
            end.pass();
            Ok(())
        }))
        .unwrap();
    gate.came(1);
    drop(scheduler);
    gate.open();
    gone.came(1);
}

#[test]
fn another_comes_for_the_plan_if_who_is_called_begins_what_waits_for_it() {
    for _ in 0..5 {
        let scheduler = Arc::new(Scripted::new(1).scheduler(1));
        let planned = |task| Task { work: Some(1.0), ..task };
        // After one that takes so long, light tasks come first for some milliseconds.
        let long = Task::new(|_: &Exec<'_>| {
            std::thread::sleep(Duration::from_millis(101));
            Ok(())
        });
        let long = scheduler.submit(planned(long)).unwrap();
        assert_eq!(wait(&scheduler, long), Ok(Wait::Done));
        // Its worker falls asleep.
        std::thread::sleep(Duration::from_millis(1));
        let (tell, told) = std::sync::mpsc::channel();
        let (weak, told) = (Arc::downgrade(&scheduler), Mutex::new(told));
        let waits = Task::new(move |_: &Exec<'_>| {
            let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
            let awaited: TaskId = told.lock().unwrap().recv().map_err(|_| Error::Cancelled)?;
            scheduler.wait(awaited, None).map(|_| ())
        });
        let ids = scheduler.submit_many(vec![planned(quick()), waits]).unwrap();
        tell.send(ids[0]).unwrap();
        assert_eq!(wait(&scheduler, ids[1]), Ok(Wait::Done));
    }
}
