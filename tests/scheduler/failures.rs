//! Tasks and devices that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpusched::device::Health;
use gpusched::error::DeviceFault;
use gpusched::sched::{DeviceMask, Exec, State, Task, Wait};
use gpusched::{Error, Result};

use crate::scripted::*;

/// Fails `times` times, then does well; tells how often it was called.
fn failing(times: u32, error: impl Fn(&Exec<'_>) -> Error + Send + Sync + 'static) -> (Task, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    let job = move |exec: &Exec<'_>| -> Result<()> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        if before < times { Err(error(exec)) } else { Ok(()) }
    };
    (Task::new(job), calls)
}

#[test]
fn an_error_is_the_tasks_outcome() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (task, calls) = failing(9, |_| Error::Callback { code: 7 });
    let id = scheduler.submit(task).unwrap();
    for _ in 0..2 {
        assert_eq!(wait(&scheduler, id), Err(Error::Callback { code: 7 }));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(scheduler.info(id).unwrap().error, Some(Error::Callback { code: 7 }));
    assert_eq!(scheduler.stats().unwrap().failed, 1);
}

/// Also of tasks that state nothing. A device of two that computes wrongly is found out, and all tasks end well.
#[test]
fn a_device_that_computes_wrongly_is_retired() {
    for work in [Some(1.0), None] {
        let scheduler = Scripted::new(2).scheduler(1);
        let job = |exec: &Exec<'_>| match exec.device_index {
            0 => Err(Error::WrongResult { device: exec.device.label(), what: "it is odd".into() }),
            // Long enough that the other has its turn, too.
            _ => {
                std::thread::sleep(Duration::from_millis(5));
                Ok(())
            }
        };
        for _ in 0..100 {
            let ids = [(); 8].map(|()| scheduler.submit(Task { work, ..Task::new(job) }).unwrap());
            ids.into_iter().for_each(|id| assert_eq!(wait(&scheduler, id), Ok(Wait::Done)));
            if scheduler.stats().unwrap().devices[0].device.health == Health::Retired {
                break;
            }
        }
        let devices = scheduler.stats().unwrap().devices;
        let why = devices[0].retired.clone().expect("it was never retired");
        assert!(why.starts_with("what it computed was wrong for"), "{why}");
        assert_eq!(devices[1].device.health, Health::Good);
    }
}

#[test]
fn a_device_may_be_taken_out_of_use() {
    let scheduler = Scripted::new(2).scheduler(1);
    assert!(matches!(scheduler.retire(2, "odd"), Err(Error::Argument { .. })));
    scheduler.retire(0, "it is warm").unwrap();
    for work in [Some(1.0), None] {
        let elsewhere = |exec: &Exec<'_>| if exec.device_index == 1 { Ok(()) } else { Err(Error::Cancelled) };
        let id = scheduler.submit(Task { work, ..Task::new(elsewhere) }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    let id = scheduler.submit(Task { devices: DeviceMask::only(0), ..Task::new(|_: &Exec<'_>| Ok(())) });
    let error = id.and_then(|id| wait(&scheduler, id)).unwrap_err();
    assert!(error.to_string().contains("retired: it is warm"), "{error}");
}

#[test]
fn what_is_wrong_everywhere_is_the_tasks_error() {
    let scheduler = Scripted::new(2).scheduler(1);
    let wrong = |_: &Exec<'_>| Error::WrongResult { device: "x".into(), what: "it is odd".into() };
    for work in [Some(1.0), None] {
        let (task, calls) = failing(9, wrong);
        let id = scheduler.submit(Task { work, retries: 2, ..task }).unwrap();
        assert!(matches!(wait(&scheduler, id), Err(Error::WrongResult { .. })));
        assert_eq!(calls.load(Ordering::Relaxed), 2, "retries are for what may go well the next time");
    }
    let devices = scheduler.stats().unwrap().devices;
    assert!(devices.iter().all(|device| device.device.health == Health::Good));
}

#[test]
fn retries_are_counted() {
    let scheduler = Scripted::new(1).scheduler(1);
    for (retries, well) in [(2, false), (3, true), (9, true)] {
        let (task, calls) = failing(3, |_| Error::Callback { code: 1 });
        let id = scheduler.submit(Task { retries, ..task }).unwrap();
        assert_eq!(wait(&scheduler, id).is_ok(), well);
        let expected = if well { 4 } else { 3 };
        assert_eq!(
            (calls.load(Ordering::Relaxed), scheduler.info(id).unwrap().attempts),
            (expected, expected)
        );
    }
    assert_eq!(scheduler.stats().unwrap().retried, 2 + 3 + 3);
}

/// The host's memory is like a device's: others give it back.
#[test]
fn too_little_memory_of_the_host_may_be_more_later() {
    let shortage = |_: &Exec<'_>| Error::NoHostMemory { what: "a record".into(), bytes: 7 };
    for stated in [false, true] {
        let scheduler = Scripted::new(2).scheduler(1);
        let (task, calls) = failing(2, shortage);
        let work = stated.then_some(1.0);
        let id = scheduler.submit(Task { work, ..task }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        assert_eq!(calls.load(Ordering::Relaxed), 3, "on the other device, and after a pause");
    }
}

#[test]
fn a_panic_ends_in_its_task() {
    let scheduler = Scripted::new(1).scheduler(1);
    for _ in 0..3 {
        let id = scheduler.submit(Task::new(|_: &Exec<'_>| panic!("no {}", "luck"))).unwrap();
        assert_eq!(wait(&scheduler, id), Err(Error::Panic { message: "no luck".into() }));
    }
    let odd = Task::new(|_: &Exec<'_>| std::panic::panic_any(7_u8));
    let id = scheduler.submit(odd).unwrap();
    assert!(matches!(wait(&scheduler, id), Err(Error::Panic { .. })));
    let id = scheduler.submit(quick()).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done), "the worker lives");
}

#[test]
fn a_job_that_panics_when_dropped_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let scheduler = Scripted::new(1).scheduler(1);
    let bomb = Bomb;
    let task = Task::new(move |_: &Exec<'_>| {
        let _ = &bomb;
        Ok(())
    });
    let id = scheduler.submit(task).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    let id = scheduler.submit(quick()).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

#[test]
fn a_device_that_does_not_open_is_retired_and_its_task_moves() {
    let scheduler = Scripted::broken(2, 0b01).scheduler(1);
    let ids: Vec<_> = (0..6).map(|_| scheduler.submit(quick()).unwrap()).collect();
    for id in ids {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        let info = scheduler.info(id).unwrap();
        assert_eq!((info.device, info.attempts), (Some(1), 1));
    }
    // Perhaps the good device was fast enough to take them all: one that only the other may take.
    if let Ok(id) = scheduler.submit(Task { devices: DeviceMask(1), ..quick() }) {
        assert!(matches!(wait(&scheduler, id), Err(Error::NoDevice { .. })));
    }
    let stats = scheduler.stats().unwrap();
    let health = stats.devices.iter().map(|device| device.device.health);
    assert!(health.eq([Health::Retired, Health::Good]));
    let refused = scheduler.submit(Task { devices: DeviceMask(1), ..quick() });
    assert!(matches!(refused, Err(Error::NoDevice { .. })));
}

#[test]
fn without_a_device_left_what_remains_ends_with_words() {
    let scheduler = Scripted::broken(2, 0b11).scheduler(2);
    let ids: Vec<_> = (0..9).map_while(|_| scheduler.submit(quick()).ok()).collect();
    for id in ids {
        let error = wait(&scheduler, id).unwrap_err();
        assert!(matches!(error, Error::NoDevice { .. }), "{error}");
        assert!(error.to_string().contains("scripted to fail"), "{error}");
    }
    let _ = scheduler.wait_all(LONG);
    for list in [vec![], vec![quick()], vec![quick(), Task { priority: 1, ..quick() }]] {
        let error = scheduler.submit_many(list).unwrap_err();
        assert!(error.to_string().contains("scripted to fail"), "{error}");
    }
}

fn lost(exec: &Exec<'_>) -> Error {
    Error::Device { device: exec.device.label(), what: "gone".into(), fault: DeviceFault::Lost }
}

/// Whoever empties the queues then does not see what is on its way from one to another.
#[test]
fn what_a_worker_was_about_to_take_when_the_last_device_went_ends_too() {
    for round in 0..200 {
        let scheduler = Scripted::new(1).scheduler(2);
        let task = |number| {
            Task::new(move |exec: &Exec<'_>| if number == round % 64 { Err(lost(exec)) } else { Ok(()) })
        };
        for id in scheduler.submit_many((0..64).map(task).collect()).unwrap() {
            let _ = wait(&scheduler, id);
        }
    }
}

#[test]
fn what_a_worker_that_goes_leaves_when_the_last_device_went_ends_too() {
    struct Opens(Arc<Gate>);
    impl Drop for Opens {
        fn drop(&mut self) {
            self.0.open();
        }
    }
    for _ in 0..200 {
        let scheduler = Arc::new(Scripted::new(1).scheduler(2));
        let (pushed, ending) = (Gate::new(), Gate::new());
        let door = pushed.clone();
        let first = scheduler.submit(Task::new(move |exec: &Exec<'_>| {
            door.pass();
            Err(lost(exec))
        }));
        pushed.came(1);
        let (weak, pushed) = (Arc::downgrade(&scheduler), pushed.clone());
        let second = scheduler.submit(Task::new(move |_: &Exec<'_>| {
            let scheduler = weak.upgrade().unwrap();
            for _ in 0..50 {
                let opens = Opens(ending.clone());
                scheduler.submit(Task::new(move |_: &Exec<'_>| Ok(_ = &opens)))?;
            }
            pushed.open();
            // Until the first of them is dropped.
            ending.pass();
            Ok(())
        }));
        assert!(wait(&scheduler, first.unwrap()).is_err());
        assert_eq!(wait(&scheduler, second.unwrap()), Ok(Wait::Done));
        assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    }
}

#[test]
fn a_task_that_fails_two_devices_is_not_given_a_third() {
    let scheduler = Scripted::new(3).scheduler(1);
    let (task, calls) = failing(9, |exec| Error::Device {
        device: exec.device.label(),
        what: "illegal address".into(),
        fault: DeviceFault::Poisoned,
    });
    let id = scheduler.submit(task).unwrap();
    assert!(matches!(wait(&scheduler, id), Err(Error::Device { .. })));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let id = scheduler.submit(quick()).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

#[test]
fn memory_that_is_short_in_company_is_tried_again_alone() {
    let scheduler = Scripted::new(1).scheduler(2);
    let gate = Gate::new();
    scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let short =
        |_: &Exec<'_>| Error::NoMemory { what: "x".into(), needed: 2000, place: "y".into(), there: 1 };
    let (task, calls) = failing(1, short);
    let id = scheduler.submit(task).unwrap();
    while calls.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    while scheduler.info(id).unwrap().state == State::Running {
        std::thread::yield_now();
    }
    let later = scheduler.submit(quick()).unwrap();
    assert_eq!(scheduler.info(later).unwrap().state, State::Queued, "the device is kept for the other");
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!(wait(&scheduler, later), Ok(Wait::Done));

    let (task, calls) = failing(9, short);
    let id = scheduler.submit(task).unwrap();
    assert!(matches!(wait(&scheduler, id), Err(Error::NoMemory { .. })));
    assert_eq!(calls.load(Ordering::Relaxed), 1, "it was alone: nothing to hope for");
}

/// Nothing happens meanwhile that would have anybody look, and too few like it have ended to tell that it is late.
#[test]
fn a_copy_of_what_takes_long_is_started_as_time_passes() {
    let scheduler = Scripted::new(2).scheduler(1);
    for device in 0..2 {
        let job = |_: &Exec<'_>| {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        };
        let here = DeviceMask(1 << device);
        let id = scheduler.submit(Task { work: Some(1.0), devices: here, ..Task::new(job) }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
    let job = |exec: &Exec<'_>| {
        while exec.attempt == 1 && !exec.cancelled() {
            std::thread::yield_now();
        }
        exec.commit()
    };
    let id = scheduler.submit(Task { work: Some(1.0), idempotent: true, ..Task::new(job) }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!(scheduler.info(id).unwrap().attempts, 2);
}
