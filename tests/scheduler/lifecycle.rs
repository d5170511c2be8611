//! Submitting, waiting, cancelling, ids, the end of a scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{DeviceMask, Exec, Scheduler, State, Task, TaskId, Wait};

use crate::scripted::*;

const NOW: Option<Duration> = Some(Duration::ZERO);

#[test]
fn a_task_runs_and_is_told_of_as_often_as_asked() {
    let scheduler = Scripted::new(2).scheduler(1);
    let id = scheduler.submit(Task { label: "one".into(), ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    let info = scheduler.info(id).unwrap();
    assert_eq!((info.state, info.label.as_str(), info.attempts, info.progress), (State::Done, "one", 1, 1.0));
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.submitted, stats.done, stats.queued, stats.running), (1, 1, 0, 0));
    scheduler.release(id).unwrap();
    assert!(matches!(scheduler.wait(id, LONG), Err(Error::Stale { .. })));
    assert!(matches!(scheduler.release(id), Err(Error::Stale { .. })));
}

#[test]
fn threads_and_queues_come_with_the_first_task() {
    let backend = Arc::new(Scripted::new(2));
    let scheduler = scheduler(Arc::clone(&backend), 2);
    assert_eq!(backend.opened.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        let id = scheduler.submit(quick()).unwrap();
        wait(&scheduler, id).unwrap();
    }
    assert_eq!(backend.opened.load(Ordering::Relaxed), 1);
    let name = Arc::new(std::sync::Mutex::new(String::new()));
    let seen = Arc::clone(&name);
    let task = Task::new(move |_: &Exec<'_>| {
        *seen.lock().unwrap() = std::thread::current().name().unwrap_or_default().into();
        Ok(())
    });
    let id = scheduler.submit(Task { devices: DeviceMask(0b10), ..task }).unwrap();
    wait(&scheduler, id).unwrap();
    assert_eq!(*name.lock().unwrap(), "gpusched cuda:1/0");
}

#[test]
fn ids_of_others_are_errors() {
    let (a, b) = (Scripted::new(1).scheduler(1), Scripted::new(1).scheduler(1));
    let id = a.submit(quick()).unwrap();
    b.submit(quick()).unwrap();
    for wrong in [TaskId(0), TaskId(u64::MAX), id] {
        assert!(matches!(b.wait(wrong, LONG), Err(Error::Stale { .. })), "{wrong:?}");
        assert!(b.cancel(wrong).is_err() && b.info(wrong).is_err() && b.release(wrong).is_err());
        assert!(b.wait_any(&[wrong], LONG).is_err());
    }
}

#[test]
fn a_wait_ends_with_its_time() {
    // A light task, and a planned one.
    for work in [None, Some(1.0)] {
        let scheduler = Scripted::new(1).scheduler(1);
        let gate = Gate::new();
        let id = scheduler.submit(Task { work, ..gated(&gate) }).unwrap();
        assert_eq!(scheduler.wait(id, NOW), Ok(Wait::Pending));
        assert_eq!(scheduler.wait(id, Some(Duration::from_millis(1))), Ok(Wait::Pending));
        assert_eq!(scheduler.wait_all(NOW), Ok(Wait::Pending));
        assert_eq!(scheduler.wait_any(&[id], NOW), Ok(None));
        assert!(scheduler.wait_any(&[], NOW).is_err());
        gate.open();
        assert_eq!(scheduler.wait(id, Some(Duration::MAX)), Ok(Wait::Done));
    }
}

#[test]
fn many_wait_for_one_even_if_it_is_released_meanwhile() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let id = scheduler.submit(gated(&gate)).unwrap();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| wait(&scheduler, id))).collect();
        std::thread::sleep(Duration::from_millis(20));
        scheduler.release(id).unwrap();
        gate.open();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(Wait::Done));
        }
    });
    assert!(scheduler.info(id).is_err());
}

#[test]
fn wait_any_tells_which() {
    let scheduler = Scripted::new(2).scheduler(1);
    let gate = Gate::new();
    let held = scheduler.submit(gated(&gate)).unwrap();
    let free = scheduler.submit(quick()).unwrap();
    assert_eq!(scheduler.wait_any(&[held, free, free], LONG), Ok(Some(1)));
    gate.open();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert_eq!(scheduler.wait_any(&[held, free], LONG), Ok(Some(0)));
}

#[test]
fn detached_tasks_leave_nothing() {
    let scheduler = Scripted::new(1).scheduler(1);
    let id = scheduler.submit(Task { detached: true, ..quick() }).unwrap();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert!(matches!(scheduler.info(id), Err(Error::Stale { .. })));
    assert_eq!(scheduler.stats().unwrap().done, 1);
}

#[test]
fn a_cancelled_queued_task_never_starts() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    scheduler.submit(gated(&gate)).unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&ran);
    let task = Task::new(move |_: &Exec<'_>| {
        mark.store(true, Ordering::Relaxed);
        Ok(())
    });
    let id = scheduler.submit(task).unwrap();
    scheduler.cancel(id).unwrap();
    assert_eq!(scheduler.wait(id, NOW), Ok(Wait::Cancelled));
    assert_eq!(Arc::strong_count(&ran), 1, "the job is gone when the cancel returns");
    scheduler.cancel(id).unwrap();
    gate.open();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert!(!ran.load(Ordering::Relaxed));
}

#[test]
fn a_running_task_is_asked_and_a_committed_one_goes_on() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (before, after) = (Gate::new(), Gate::new());
    let doors = (Arc::clone(&before), Arc::clone(&after));
    let id = scheduler
        .submit(Task::new(move |exec: &Exec<'_>| {
            exec.report(0.25);
            exec.report(f64::NAN);
            doors.0.pass();
            assert!(exec.cancelled());
            exec.commit()
        }))
        .unwrap();
    before.came(1);
    assert_eq!(scheduler.info(id).unwrap().progress, 0.25);
    scheduler.cancel(id).unwrap();
    before.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));

    let id = scheduler
        .submit(Task::new(move |exec: &Exec<'_>| {
            exec.commit()?;
            doors.1.pass();
            assert!(!exec.cancelled());
            exec.commit()
        }))
        .unwrap();
    after.came(1);
    scheduler.cancel(id).unwrap();
    after.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

#[test]
fn shutdown_cancels_asks_and_waits() {
    let scheduler = Scripted::new(1).scheduler(1);
    let started = Gate::new();
    started.open();
    let door = Arc::clone(&started);
    let running = scheduler
        .submit(Task::new(move |exec: &Exec<'_>| {
            door.pass();
            while !exec.cancelled() {
                std::thread::yield_now();
            }
            Err(Error::Cancelled)
        }))
        .unwrap();
    started.came(1);
    let queued: Vec<_> = (0..5).map(|_| scheduler.submit(quick()).unwrap()).collect();
    assert_eq!(scheduler.shutdown(), Ok(6));
    assert_eq!(scheduler.shutdown(), Ok(0));
    assert_eq!(wait(&scheduler, running), Ok(Wait::Cancelled));
    for id in queued {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));
    }
    assert!(matches!(scheduler.submit(quick()), Err(Error::Shutdown { .. })));
}

/// Who cancels a task drops its job, and those of the tasks that come after it. Whoever comes meanwhile
/// has nothing to do with them, but the end of the scheduler is after them all.
#[test]
fn a_thread_that_drops_jobs_keeps_only_the_end_waiting() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (busy, gate) = (Gate::new(), Gate::new());
    let runs = scheduler.submit(gated(&busy)).unwrap();
    busy.came(1);
    let first = scheduler.submit(Task { priority: 1, ..quick() }).unwrap();
    let behind = || Task { after: vec![first], ..kept(&gate) };
    let others = [scheduler.submit(behind()).unwrap(), scheduler.submit(behind()).unwrap()];
    std::thread::scope(|scope| {
        let cancels = scope.spawn(|| scheduler.cancel(first));
        gate.came(1);
        let meanwhile = scheduler.submit(Task { priority: 1, ..quick() }).unwrap();
        busy.open();
        assert_eq!(wait(&scheduler, runs), Ok(Wait::Done));
        assert_eq!(wait(&scheduler, meanwhile), Ok(Wait::Done));
        assert!(!cancels.is_finished(), "the jobs are dropped by the thread that has ended their tasks");
        assert_eq!(scheduler.shutdown_within(Some(Duration::from_millis(20))), Ok(None));
        gate.open();
        assert_eq!(scheduler.shutdown(), Ok(0));
        gate.came(2);
    });
    for id in others {
        assert!(matches!(wait(&scheduler, id), Err(Error::Dependency { .. })));
    }
}

#[test]
fn the_end_has_its_time_limit_also_while_a_light_task_is_dropped() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (busy, gate) = (Gate::new(), Gate::new());
    scheduler.submit(gated(&busy)).unwrap();
    busy.came(1);
    let id = scheduler.submit(kept(&gate)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| scheduler.cancel(id));
        gate.came(1);
        busy.open();
        assert_eq!(scheduler.shutdown_within(Some(Duration::from_millis(20))), Ok(None));
        gate.open();
        assert!(scheduler.shutdown().is_ok());
    });
    assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));
}

#[test]
fn drain_finishes_what_is_there_and_takes_nothing_more() {
    let scheduler = Scripted::new(1).scheduler(2);
    let count = Arc::new(AtomicU32::new(0));
    for _ in 0..20 {
        let count = Arc::clone(&count);
        let task = Task::new(move |_: &Exec<'_>| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        scheduler.submit(Task { detached: true, ..task }).unwrap();
    }
    assert_eq!(scheduler.drain(LONG), Ok(Wait::Done));
    assert_eq!(count.load(Ordering::Relaxed), 20);
    assert!(matches!(scheduler.submit(quick()), Err(Error::Shutdown { .. })));
}

/// A mask of devices has 64 bits.
#[test]
fn scheduler_of_more_than_64_devices_is_refused() {
    let build = |devices: &str, count: u32| {
        let mut builder = Scheduler::builder();
        builder.devices = Some(devices.into());
        builder.slots = Some(1);
        builder.backends = Some(vec![Arc::new(Scripted::new(count))]);
        builder.build()
    };
    let refused = build("all", 65).err().expect("65 devices are too many").to_string();
    assert_eq!(refused, "devices is 65; accepted: at most 64");
    let chosen = build("cuda:64,cuda:0", 65).unwrap();
    assert_eq!(chosen.devices()[0].label(), "cuda:64");
    let scheduler = build("all", 64).unwrap();
    let last = scheduler.submit(Task { devices: DeviceMask::only(63), ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, last), Ok(Wait::Done));
    assert_eq!(scheduler.info(last).unwrap().device, Some(63));
}
