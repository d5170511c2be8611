//! Tasks and devices that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gpusched::Error;
use gpusched::device::Health;
use gpusched::error::DeviceFault;
use gpusched::sched::{DeviceMask, Exec, Task, WaitResult};

use crate::scripted::*;

/// Returns a task that fails `times` times, then succeeds, and the counter of its calls.
fn failing(times: u32, error: impl Fn(&Exec<'_>) -> Error + Send + Sync + 'static) -> (Task, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    let task = code(move |exec| match count.fetch_add(1, Ordering::Relaxed) < times {
        true => Err(error(exec)),
        false => Ok(()),
    });
    (task, calls)
}

fn wrong(exec: &Exec<'_>) -> Error {
    Error::WrongResult { device: exec.device.label(), what: "it is odd".into() }
}

/// The timer thread reads the deadline of a pause this short only after the pause.
#[test]
fn task_that_a_device_refused_begins_again_after_a_pause_of_any_length() {
    for pause in (0..200).map(Duration::from_micros) {
        let scheduler = tuned(1, |policy| policy.backoff = [pause; 3]);
        let (task, calls) =
            failing(3, |exec| Error::Resources { device: exec.device.label(), what: "full".into() });
        assert_eq!(run(&scheduler, Task { work: Some(1.0), ..task }), Ok(WaitResult::Done), "{pause:?}");
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }
}

/// The rules for planned tasks are the same; `plan::tests::wrong_results` tests them.
#[test]
fn a_device_on_which_light_tasks_compute_wrongly_is_retired() {
    let scheduler = Scripted::new(2).scheduler(1);
    let task = || {
        code(|exec| match exec.device_index {
            0 => Err(wrong(exec)),
            // Long enough for the other device to run a task.
            _ => {
                thread::sleep(Duration::from_millis(5));
                Ok(())
            }
        })
    };
    let device = || scheduler.stats().unwrap().devices[0].clone();
    until(|| {
        let ids = [(); 8].map(|()| scheduler.submit(task()).unwrap());
        ids.into_iter().for_each(|id| assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done)));
        device().device.health == Health::Retired
    });
    let why = device().retired.expect("a reason");
    assert!(why.starts_with("it computed wrong results for"), "{why}");
    assert_eq!(scheduler.stats().unwrap().devices[1].device.health, Health::Good);
}

#[test]
fn retired_device_gets_no_tasks() {
    let scheduler = Scripted::new(2).scheduler(1);
    assert!(matches!(scheduler.retire(2, "odd"), Err(Error::Argument { .. })));
    scheduler.retire(0, "it is warm").unwrap();
    for work in [Some(1.0), None] {
        let elsewhere = code(|exec| if exec.device_index == 1 { Ok(()) } else { Err(Error::Cancelled) });
        assert_eq!(run(&scheduler, Task { work, ..elsewhere }), Ok(WaitResult::Done));
    }
    let error = run(&scheduler, Task { devices: DeviceMask::only(0), ..quick() }).unwrap_err();
    assert!(error.to_string().contains("retired: it is warm"), "{error}");
}

/// A shortage of host memory may end like one of a device's memory, when other tasks release it.
#[test]
fn shortage_of_host_memory_is_retried() {
    for work in [None, Some(1.0)] {
        let scheduler = Scripted::new(2).scheduler(1);
        let (task, calls) = failing(2, |_| Error::NoHostMemory { what: "a record".into(), bytes: 7 });
        assert_eq!(run(&scheduler, Task { work, ..task }), Ok(WaitResult::Done));
        assert_eq!(calls.load(Ordering::Relaxed), 3, "on the other device, and after a pause");
    }
}

#[test]
fn a_panic_ends_in_its_task() {
    let scheduler = Scripted::new(1).scheduler(1);
    for _ in 0..3 {
        let error = run(&scheduler, code(|_| panic!("no {}", "luck"))).unwrap_err();
        assert_eq!(error, Error::Panic { message: "no luck".into() });
    }
    let odd = run(&scheduler, code(|_| std::panic::panic_any(7_u8)));
    assert!(matches!(odd, Err(Error::Panic { .. })));
    assert_eq!(run(&scheduler, dropping(|| panic!("dropped"))), Ok(WaitResult::Done));
    assert_eq!(run(&scheduler, quick()), Ok(WaitResult::Done), "the worker lives");
}

#[test]
fn a_device_that_does_not_open_is_retired_and_its_task_moves() {
    let scheduler = Scripted::broken(2, 0b01).scheduler(1);
    let ids: Vec<_> = (0..6).map(|_| scheduler.submit(quick()).unwrap()).collect();
    for id in ids {
        assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
        let info = scheduler.info(id).unwrap();
        assert_eq!((info.device, info.attempts), (Some(1), 1));
    }
    // The good device may have run all tasks; only the other device may run this one.
    let only = || Task { devices: DeviceMask(1), ..quick() };
    assert!(matches!(run(&scheduler, only()), Err(Error::NoDevice { .. })));
    let health = scheduler.stats().unwrap().devices.into_iter().map(|device| device.device.health);
    assert!(health.eq([Health::Retired, Health::Good]));
    assert!(matches!(scheduler.submit(only()), Err(Error::NoDevice { .. })));
}

#[test]
fn tasks_fail_with_a_message_after_the_last_device() {
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
    device_fault(exec.device.label(), DeviceFault::Lost)
}

/// The thread that empties the queues does not see a task that a worker is moving between queues.
#[test]
fn task_between_two_queues_ends_with_the_last_device() {
    for round in 0..200 {
        let scheduler = Scripted::new(1).scheduler(2);
        let task = |number| code(move |exec| if number == round % 64 { Err(lost(exec)) } else { Ok(()) });
        for id in scheduler.submit_many((0..64).map(task).collect()).unwrap() {
            let _ = wait(&scheduler, id);
        }
    }
}

#[test]
fn tasks_that_an_ending_worker_leaves_end_with_the_last_device() {
    for _ in 0..200 {
        let scheduler = Scripted::new(1).scheduler(2);
        let (pushed, ending) = (Gate::new(), Gate::new());
        let first = code(move |exec| {
            pushed.pass();
            Err(lost(exec))
        });
        let first = scheduler.submit(first).unwrap();
        pushed.came(1);
        let second = nested(&scheduler, move |scheduler, _| {
            for _ in 0..50 {
                scheduler.submit(dropping(move || ending.open()))?;
            }
            pushed.open();
            // Wait until the first of them is dropped.
            ending.pass();
            Ok(())
        });
        let second = scheduler.submit(second).unwrap();
        assert!(wait(&scheduler, first).is_err());
        assert_eq!(wait(&scheduler, second), Ok(WaitResult::Done));
        wait_all(&scheduler);
    }
}

#[test]
fn a_thousand_chains_of_queued_tasks_end_with_the_last_device_on_a_small_stack() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = occupy(&scheduler);
    let submit = |after| scheduler.submit(Task { after, ..quick() }).unwrap();
    let first: Vec<_> = (0..1000).map(|_| submit(Vec::new())).collect();
    let last: Vec<_> = first.iter().map(|&id| submit(vec![id])).collect();
    thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(128 << 10);
        small.spawn_scoped(scope, || scheduler.retire(0, "it is warm").unwrap()).unwrap();
    });
    for id in first.into_iter().chain(last) {
        assert!(wait(&scheduler, id).unwrap_err().to_string().contains("it is warm"));
    }
    gate.open();
}

/// No other event wakes the planner, and too few tasks of the class have ended to make it late by
/// their durations.
#[test]
fn late_task_gets_a_copy_without_other_events() {
    let scheduler = Scripted::new(2).scheduler(1);
    for device in 0..2 {
        let task = effect(|| thread::sleep(Duration::from_millis(20)));
        let task = Task { work: Some(1.0), devices: DeviceMask::only(device), ..task };
        assert_eq!(run(&scheduler, task), Ok(WaitResult::Done));
    }
    let task = code(|exec| {
        while exec.attempt == 1 && !exec.cancelled() {
            thread::yield_now();
        }
        exec.commit()
    });
    let id = scheduler.submit(Task { work: Some(1.0), idempotent: true, ..task }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
    assert_eq!(scheduler.info(id).unwrap().attempts, 2);
}

/// The timer thread runs no code of callers.
#[test]
fn deadline_holds_while_the_drop_of_another_task_blocks() {
    let scheduler = tuned(2, |policy| policy.grace = Duration::from_millis(50));
    let [hangs, drops] = [(); 2].map(|()| Gate::new());
    let (here, deadline) = (DeviceMask::only(0), Some(Duration::from_millis(10)));
    let hung = Task { deadline, devices: here, ..gated(hangs) };
    let next = Task { devices: here, ..kept(drops) };
    let ids = scheduler.submit_many(vec![hung, next]).unwrap();
    // The first task does not return: its device is retired, and no other device may run the next
    // task.
    drops.came(1);
    let id = scheduler.submit(Task { deadline, ..until_cancelled() }).unwrap();
    let ended = scheduler.wait(id, Some(Duration::from_secs(10)));
    drops.open();
    hangs.open();
    assert!(matches!(ended, Err(Error::Deadline { .. })), "{ended:?}");
    assert!(matches!(wait(&scheduler, ids[1]), Err(Error::NoDevice { .. })));
}
