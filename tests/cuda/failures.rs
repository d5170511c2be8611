//! Provoked failures: memory, poisoned contexts, lost and hung GPUs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use gpusched::backend::cuda::{Params, Stream};
use gpusched::device::Health;
use gpusched::error::{DeviceFault, RESTART};
use gpusched::sched::{DeviceMask, Exec, Range, Scheduler, Task, WaitResult};
use gpusched::{Error, Result};

use crate::fixtures::*;

fn on(gpu: usize, task: Task) -> Task {
    Task { devices: DeviceMask::only(gpu), ..task }
}

fn good() -> Task {
    task(|stream| filled(stream, 1.0))
}

/// Runs a task that begins on the faster GPU. Returns the devices of its attempts.
fn attempts(scheduler: &Scheduler, change: impl FnOnce(Task) -> Task) -> Vec<usize> {
    let devices = Arc::<Mutex<Vec<usize>>>::default();
    let seen = devices.clone();
    let task = Task::new(move |exec: &Exec<'_>| {
        seen.lock().unwrap().push(exec.device_index);
        filled(stream(exec), 1.0)
    });
    run(scheduler, change(Task { work: Some(1.0), ..task })).unwrap();
    let devices = devices.lock().unwrap();
    devices.clone()
}

fn wild(stream: &Stream) -> Result<()> {
    let block = stream.zeroed::<f32>(64, "a test's values")?;
    let kernel = stream.function(SMALL, "out_of_bounds")?;
    stream.launch(&kernel, [1; 3], [32, 1, 1], Params::new().with(block.address()).with(1_i64 << 30))
}

pub fn no_memory_has_numbers() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let large = |stream: &Stream| stream.alloc::<f32>(20 << 20, "a field").map(|_| ());
    // Cached memory is freed for larger allocations.
    for values in [3 << 20, 5 << 20, 10 << 20, 12 << 20] {
        let some = move |stream: &Stream| stream.alloc::<f32>(values, "a field").map(|_| ());
        run(&scheduler, task(some)).unwrap();
    }
    let error = run(&scheduler, task(large)).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::NoMemory { needed: 0x500_0000, there: 0x380_0000, .. }), "{error:?}");
    assert!(words.contains("a field needs 80.00 MiB") && words.contains("cuda:0"), "{words}");
    run(&scheduler, good()).unwrap();
}

fn blocks(mib: usize) -> Task {
    let fill = move |stream: &Stream| {
        let blocks: Result<Vec<_>> = (0..mib / 2).map(|_| stream.alloc::<u8>(2 << 20, "a field")).collect();
        blocks.map(|_| ())
    };
    Task { device_bytes: (mib as u64) << 20, ..task(fill) }
}

/// The context takes 4 MiB more than the reserve for it.
pub fn a_task_that_fits_only_without_the_context_is_refused_at_once() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let check = |error: Error| {
        assert!(matches!(error, Error::NoMemory { needed: 0x3a0_0000, there: 0x380_0000, .. }), "{error:?}");
        assert!(error.to_string().contains("whose context takes 8.00 MiB"), "{error}");
    };
    // The first one creates the context. The others may be queued or blocked meanwhile, or be refused later.
    let ids = [(); 3].map(|()| scheduler.submit(blocks(58)));
    let after = Task { after: vec![scheduler.submit(good()).unwrap()], ..blocks(58) };
    let ids = ids.into_iter().chain([scheduler.submit(after)]);
    ids.for_each(|id| check(id.and_then(|id| wait(&scheduler, id)).unwrap_err()));
    assert_eq!(scheduler.stats().unwrap().counts.retried, 0);
    check(scheduler.submit(blocks(58)).unwrap_err());
    run(&scheduler, blocks(56)).unwrap();
    let mut range = Range::new(0..2, |_: &Exec<'_>, _: std::ops::Range<u64>| Ok(()));
    range.task.device_bytes = 58 << 20;
    check(scheduler.submit_range(range).unwrap_err());
    // The process has measured the context, so another scheduler refuses the task at once.
    check(crate::fixtures::scheduler("cuda", 1).unwrap().submit(blocks(58)).unwrap_err());
}

pub fn half_a_gpu_is_its_context() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let error = run(&scheduler, blocks(58)).unwrap_err();
    assert!(error.to_string().contains("whose context takes"), "{error}");
    assert_eq!(scheduler.stats().unwrap().counts.retried, 0);
}

pub fn a_task_that_does_not_fit_beside_a_context_goes_to_another_gpu() {
    let scheduler = scheduler("cuda", 1).unwrap();
    run(&scheduler, on(0, good())).unwrap();
    let ids = [(); 3].map(|()| scheduler.submit(blocks(58)).unwrap());
    ids.into_iter().for_each(|id| _ = wait(&scheduler, id).unwrap());
    let devices = scheduler.stats().unwrap().devices;
    assert_eq!([devices[0].done, devices[1].done, devices[0].failed], [1, 3, 0]);
}

/// Memory that other processes take while the context is created does not count as the context's.
pub fn memory_that_others_took_beside_a_new_context_is_waited_for() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let error = run(&scheduler, blocks(58)).unwrap_err();
    assert!(matches!(error, Error::NoMemory { needed: 0x20_0000, .. }), "{error:?}");
    assert!(!error.to_string().contains("context"), "{error}");
    assert_eq!(scheduler.stats().unwrap().counts.retried, 3);
    assert!(scheduler.submit(blocks(60)).is_ok(), "the limit is as before");
}

/// Processes that wait for each other's memory would wait for each other's contexts, too.
pub fn a_process_that_waits_for_memory_has_no_context() {
    waits_without_a_context(&scheduler("cuda", 1).unwrap(), blocks(58));
}

/// A callback's status has no numbers.
pub fn a_process_whose_callback_waits_for_memory_has_no_context() {
    let fill = move |stream: &Stream| {
        let blocks: Result<Vec<_>> = (0..29).map(|_| stream.alloc::<u8>(2 << 20, "a field")).collect();
        let (what, place) = ("the callback returned SCHED_E_MEMORY".into(), stream.device().label());
        let there = stream.free_bytes();
        blocks.map(|_| ()).map_err(|_| Error::NoMemory { what, needed: 0, place, there })
    };
    let callback = Task { device_bytes: 58 << 20, ..task(fill) };
    waits_without_a_context(&scheduler("cuda", 1).unwrap(), callback);
}

/// Another process leaves less of the GPU than a context takes.
pub fn memory_for_a_context_is_waited_for() {
    let scheduler = impatient("cuda").unwrap();
    let id = scheduler.submit(Task { device_bytes: 2 << 20, ..good() }).unwrap();
    assert_eq!(scheduler.wait(id, Some(Duration::from_millis(500))), Ok(WaitResult::Pending));
    let waits = scheduler.stats().unwrap().devices[0].refusal;
    scheduler.cancel(id).unwrap();
    assert_eq!(waits, Some("used by another process, or closed to all"));
}

/// The host is short of memory, or the process of address space: no other process takes the GPU's.
pub fn context_without_memory_on_an_empty_gpu_is_not_waited_for() {
    let scheduler = impatient("cuda").unwrap();
    let error = run(&scheduler, good()).unwrap_err();
    assert!(matches!(error, Error::NoContext { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("8.00 GiB are free") && error.contains("ulimit -v"), "{error}");
    assert_eq!((scheduler.stats().unwrap().counts.retried, health(&scheduler)), (3, vec![Health::Good]));
}

/// The queue of the slot that is idle would keep the context.
pub fn a_process_with_an_idle_slot_that_waits_for_memory_has_no_context() {
    let scheduler = scheduler("cuda", 2).unwrap();
    run_together(&scheduler, 2, |stream| filled(stream, 1.0));
    assert_eq!(driver_count(0, "streams"), 2);
    waits_without_a_context(&scheduler, blocks(58));
    run_together(&scheduler, 2, |stream| filled(stream, 2.0));
    assert_eq!((health(&scheduler), driver_count(0, "retained")), (vec![Health::Good], 1));
}

fn waits_without_a_context(scheduler: &Scheduler, task: Task) {
    let id = scheduler.submit(task).unwrap();
    while driver_count(0, "contexts_made") == 0 || driver_count(0, "contexts") == 1 {
        assert_eq!(scheduler.wait(id, Some(Duration::from_millis(5))), Ok(WaitResult::Pending));
    }
    wait(scheduler, id).unwrap_err();
}

/// Another process takes the rest of the memory between lease and allocation; or launch resources are short.
pub fn task_goes_on_where_nothing_is_short() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| Task { device_bytes: 500 << 20, ..task }), [0, 1]);
    assert_eq!(health(&scheduler), [Health::Good; 2]);
}

/// The task is retried on the other GPU, also after an unknown code that the next call repeats. The driver gives this
/// process no new context of the GPU, for any scheduler.
pub fn a_poisoned_context() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [0, 1]);
    assert_eq!(health(&scheduler), [Health::Good; 2], "no task has needed another context yet");
    requires_restart(&scheduler, 0);
    assert_eq!((driver_count(0, "contexts_made"), driver_count(0, "retained")), (1, 0));
    assert!(scheduler.submit(on(0, good())).unwrap_err().to_string().contains("retired"));
    drop(scheduler);
    let next = crate::fixtures::scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&next, |task| task), [1]);
    assert_eq!(health(&next), [Health::Retired, Health::Good]);
}

fn requires_restart(scheduler: &Scheduler, gpu: usize) {
    let error = run(scheduler, on(gpu, good())).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains("restart the process"), "{error}");
    assert_eq!(health(scheduler)[gpu], Health::Retired);
}

/// The range's callback checks its CUDA calls, and returns an error of its own when the context is poisoned.
pub fn a_poisoned_context_under_a_range() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let code = |exec: &Exec<'_>, _| filled(stream(exec), 1.0).map_err(|_| Error::Callback { code: 1 });
    let id = scheduler.submit_range(Range::new(0..64, code)).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
}

/// Every code that poisons a context, each on a GPU of its own. After the two codes for an invalid handle the driver gives
/// the process a new context.
pub fn every_code_that_poisons() {
    let scheduler = scheduler("cuda", 1).unwrap();
    for gpu in 0..scheduler.devices().len() {
        if [5, 17].contains(&gpu) {
            run(&scheduler, on(gpu, good())).unwrap();
            let found = (driver_count(gpu, "contexts_made"), health(&scheduler).swap_remove(gpu));
            assert_eq!(found, (2, Health::Good), "GPU {gpu}");
        } else {
            requires_restart(&scheduler, gpu);
        }
    }
}

pub fn a_task_that_poisons_two_gpus() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let error = run(&scheduler, task(wild)).unwrap_err();
    assert!(matches!(error, Error::Device { fault: DeviceFault::Poisoned, .. }), "{error}");
    assert!(error.to_string().contains("700 (CUDA_ERROR_ILLEGAL_ADDRESS)"), "{error}");
    // The third GPU still works.
    let works = |gpu: &usize| run(&scheduler, on(*gpu, good())).is_ok();
    assert_eq!((0..3).filter(works).count(), 1);
    run(&scheduler, good()).unwrap();
}

/// The kernel fails while its task computes on the host, so other tasks in the context report the failure first.
pub fn task_that_reports_last_is_the_cause() {
    let scheduler = scheduler("cuda", 2).unwrap();
    let after = |millis, code: fn(&Stream) -> Result<()>| {
        let code = task(move |stream| {
            code(stream)?;
            std::thread::sleep(Duration::from_millis(millis));
            Ok(())
        });
        Task { work: Some(1.0), ..code }
    };
    let late = scheduler.submit(Task { priority: 1, ..after(1000, wild) }).unwrap();
    run_all(&scheduler, (0..60).map(|_| after(200, |stream| filled(stream, 1.0))));
    let error = wait(&scheduler, late).unwrap_err();
    assert!(matches!(error, Error::Device { fault: DeviceFault::Poisoned, .. }), "{error}");
}

/// Four tasks are in the context that the first launch poisons, with stated work and without.
pub fn tasks_beside_the_cause_end_well() {
    for stated in [false, true] {
        let scheduler = scheduler("cuda:0", 4).unwrap();
        let door = Arc::new(Barrier::new(4));
        let tasks = (0..4).map(|_| {
            let (door, arrived) = (door.clone(), AtomicBool::new(false));
            let code = task(move |stream| {
                // In the first attempts all four are in the context, and the first launch fails.
                if !arrived.swap(true, Ordering::SeqCst) && stream.free_bytes() > 0 {
                    door.wait();
                }
                filled(stream, 2.0)
            });
            Task { work: stated.then_some(1.0), ..code }
        });
        run_all(&scheduler, tasks);
        assert_eq!(health(&scheduler), [Health::Good]);
        assert!(stated || driver_count(0, "contexts_made") == 2);
    }
}

/// A context that is poisoned under one scheduler fails tasks of another.
pub fn two_schedulers_on_a_gpu() {
    let (one, other) = (scheduler("cuda:0", 1).unwrap(), scheduler("cuda:0", 1).unwrap());
    run(&one, good()).unwrap();
    run(&other, good()).unwrap();
    assert_eq!(
        (driver_count(0, "contexts_made"), driver_count(0, "retained"), driver_count(0, "module_loads")),
        (1, 1, 1)
    );
    // The context's handle is not valid. The other scheduler notices that before its task begins.
    run(&one, good()).unwrap();
    run(&other, good()).unwrap();
    assert_eq!((driver_count(0, "contexts_made"), other.stats().unwrap().counts.retried), (2, 0));
    // A kernel fails in the shared context.
    let error = run(&one, task(wild)).unwrap_err();
    assert!(error.to_string().contains("700 (CUDA_ERROR_ILLEGAL_ADDRESS)"), "{error}");
    requires_restart(&other, 0);
    drop(one);
    assert_eq!(health(&other), [Health::Retired]);
}

/// The tasks of the other scheduler overlap: each waits for a later one to begin, for a while.
pub fn context_that_a_callback_reported_is_left_by_other_schedulers() {
    let (one, other) = (scheduler("cuda:0", 1).unwrap(), scheduler("cuda:0", 3).unwrap());
    let (begun, stop) = (Arc::new(AtomicU32::new(0)), AtomicBool::new(false));
    let counter = begun.clone();
    let overlapping = task(move |_| {
        let (number, since) = (counter.fetch_add(1, Ordering::SeqCst), Instant::now());
        while counter.load(Ordering::SeqCst) < number + 2 && since.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ids = VecDeque::new();
            while !stop.load(Ordering::SeqCst) {
                ids.push_back(other.submit(overlapping.clone()).unwrap());
                if ids.len() == 3 {
                    wait(&other, ids.pop_front().unwrap()).unwrap();
                }
            }
            ids.into_iter().for_each(|id| _ = wait(&other, id).unwrap());
        });
        while begun.load(Ordering::SeqCst) < 10 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let id = one.submit(wrong_at_first()).unwrap();
        let waited = one.wait(id, Some(Duration::from_secs(9)));
        stop.store(true, Ordering::SeqCst);
        assert_eq!((waited, driver_count(0, "contexts_made")), (Ok(WaitResult::Done), 2));
    });
}

/// A task waits for another that is nested in it and poisons the context.
pub fn context_is_not_renewed_under_a_task_that_waits() {
    let (one, other) = (scheduler("cuda:0", 1).unwrap(), scheduler("cuda:0", 1).unwrap());
    let (one, other) = (Arc::new(one), Arc::new(other));
    let (again, beside) = (Arc::downgrade(&one), other.clone());
    let submitted = Arc::new(Mutex::new(None));
    let place = submitted.clone();
    let outer = task(move |stream| {
        if place.lock().unwrap().is_some() {
            // The second attempt: the first ended in a poisoned context.
            return filled(stream, 4.0);
        }
        let own = again.upgrade().ok_or(Error::Cancelled)?;
        let inner = own.submit(task(|stream| filled(stream, 3.0)))?;
        // The inner task has failed, and waits for another context.
        assert_eq!(own.wait(inner, Some(Duration::from_millis(50)))?, WaitResult::Pending);
        assert!(stream.finish().is_err(), "the context is poisoned for the outer task, too");
        let next = beside.submit(good())?;
        assert_eq!(beside.wait(next, Some(Duration::from_millis(300)))?, WaitResult::Pending);
        assert_eq!(driver_count(0, "contexts_made"), 1, "the context is renewed under a task that is inside");
        *place.lock().unwrap() = Some((inner, next));
        Ok(())
    });
    run(&one, outer).unwrap();
    let (inner, next) = submitted.lock().unwrap().take().expect("the task ran to its end");
    wait(&one, inner).unwrap();
    wait(&other, next).unwrap();
    assert_eq!((driver_count(0, "contexts_made"), driver_count(0, "retained")), (2, 1));
}

/// Another library has retained the primary context, too, which outlives our renewal and our end.
pub fn nothing_of_ours_stays_in_the_context_of_another_library() {
    let scheduler = scheduler("cuda", 2).unwrap();
    let mut theirs = 0usize;
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut theirs => &mut usize, 0 => i32)), 0);
    // A shared object, and a queue that is idle when the task of the other one fails.
    let owner = Arc::new(1_u32);
    run_together(&scheduler, 2, move |stream| {
        stream.shared(&owner, || stream.uploaded(&[1.5_f32; 5000], "a model"))?;
        filled(stream, 1.0)
    });
    assert_eq!(
        (driver_count(0, "streams"), driver_count(0, "modules"), driver_count(0, "allocations") > 1),
        (2, 1, true)
    );
    run(&scheduler, wrong_at_first()).unwrap();
    // Only the queue of the second attempt is left.
    let there =
        ["contexts", "retained", "streams", "modules", "allocations"].map(|what| driver_count(0, what));
    assert_eq!((there, report()["pinned"].as_u64()), ([1, 2, 1, 0, 0], Some(0)));
    run(&scheduler, good()).unwrap();
    drop(scheduler);
    let there = ["contexts", "retained", "streams", "modules", "allocations", "events"]
        .map(|what| driver_count(0, what));
    assert_eq!(there, [1, 1, 0, 0, 0, 0]);
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
}

/// The driver neither releases nor resets the context: this process cannot use the GPU, and pinned memory stays.
pub fn a_context_that_can_not_be_ended() {
    keeps_objects();
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [0, 1]);
    let error = run(&scheduler, on(0, good())).unwrap_err();
    assert!(error.to_string().contains("restart the process"), "{error}");
    assert_eq!(health(&scheduler), [Health::Retired, Health::Good]);
    run(&scheduler, good()).unwrap();
}

fn wrong_at_first() -> Task {
    let attempts = AtomicU32::new(0);
    task(move |stream| match attempts.fetch_add(1, Ordering::SeqCst) {
        0 => Err(Error::Device {
            device: stream.device().label(),
            what: "it looks wrong".into(),
            fault: DeviceFault::Poisoned,
        }),
        _ => Ok(()),
    })
}

/// The GPU is lost at a launch or a wait, or the driver refuses the kernels.
pub fn gpu_that_is_lost_is_retired() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [0, 1]);
    assert_eq!(health(&scheduler), [Health::Retired, Health::Good]);
}

/// The callback returns SCHED_E_DEVICE whatever the library's call returns.
pub fn gpu_that_is_lost_under_a_library_call_is_retired() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let callback = task(|stream| {
        filled(stream, 1.0).map_err(|_| Error::Device {
            device: stream.device().label(),
            what: "the callback returned SCHED_E_DEVICE".into(),
            fault: DeviceFault::Poisoned,
        })
    });
    assert_eq!(run(&scheduler, callback), Ok(()));
    assert_eq!(health(&scheduler), [Health::Retired, Health::Retired, Health::Good]);
}

/// Old drivers report a GPU in use by this code. New ones have another code for that.
pub fn gpu_that_a_new_driver_does_not_know_is_retired() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [1]);
    assert_eq!(health(&scheduler), [Health::Retired, Health::Good]);
}

/// Runs tasks that fail with these words, then one that succeeds. `once`: a count of the driver's report that is 1.
fn fails_with(all: &[[&str; 2]], once: &str) {
    let scheduler = scheduler("cuda", 1).unwrap();
    for words in all {
        let error = run(&scheduler, good()).unwrap_err();
        assert!(matches!(error, Error::Driver { .. }), "{error}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }
    run(&scheduler, good()).unwrap();
    assert_eq!((health(&scheduler), driver_count(0, once)), (vec![Health::Good], 1));
}

/// An error of the driver itself fails the task, and the GPU stays.
pub fn failed_load_without_a_fault_of_the_kernels_keeps_the_gpu() {
    let codes = ["304 (CUDA_ERROR_OPERATING_SYSTEM)", "1 (CUDA_ERROR_INVALID_VALUE)", "917"];
    let codes = codes.map(|code| format!("status {code}"));
    fails_with(&codes.each_ref().map(|code| [code, "small"]), "module_loads");
}

/// A kernel never ends: its task is restarted on the other GPU, its GPU is retired.
pub fn a_hang() {
    keeps_objects();
    // Long enough for its code to begin on a busy machine.
    let (deadline, idempotent) = (Some(Duration::from_secs(3)), true);
    let scheduler = scheduler_with_grace("cuda", 1, deadline).unwrap();
    assert_eq!(attempts(&scheduler, |task| Task { deadline, idempotent, ..task }), [0, 1]);
    ends_without_first_gpu(scheduler);
    assert_eq!(driver_count(1, "contexts"), 0);
}

/// The GPU is retired, and the end of the scheduler does not wait for the thread that hangs.
fn ends_without_first_gpu(scheduler: Scheduler) {
    let wait_until = |what: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !what() {
            assert!(Some(begin.elapsed()) < LONG, "the scheduler waits for a GPU that hangs");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_until(&|| health(&scheduler)[0] != Health::Good);
    assert_eq!(health(&scheduler), [Health::Retired, Health::Good]);
    let end = std::thread::spawn(move || drop(scheduler));
    wait_until(&|| end.is_finished());
}

/// The idle slot frees no memory: that would wait for the kernel, and the end of the scheduler for the slot.
pub fn a_hang_beside_an_idle_slot() {
    keeps_objects();
    let (deadline, idempotent) = (Some(Duration::from_secs(3)), true);
    let scheduler = scheduler_with_grace("cuda", 2, deadline).unwrap();
    let door = Arc::new(Barrier::new(2));
    let warm = task(move |stream| {
        door.wait();
        filled(stream, 1.0)
    });
    run_all(&scheduler, (0..2).map(|_| on(0, warm.clone())));
    run(&scheduler, Task { deadline, idempotent, work: Some(1.0), ..good() }).unwrap();
    ends_without_first_gpu(scheduler);
}

/// A new process would fail, too, so the message does not advise a restart.
pub fn a_first_context_that_is_refused() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [1]);
    let why = scheduler.stats().unwrap().devices[0].retired.clone().expect("it is retired");
    assert!(why.contains("status 214") && !why.contains(RESTART), "{why}");
}

/// The driver grants contexts, but each refuses its first call. Only a process with a failure before would gain by a restart.
pub fn gpu_whose_contexts_are_unusable_at_once_is_retired() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [1]);
    assert_eq!(health(&scheduler), [Health::Retired, Health::Good]);
    let why = scheduler.stats().unwrap().devices[0].retired.clone().expect("it is retired");
    assert!(why.contains("status 201") && !why.contains(RESTART), "{why}");
}

pub fn unusable_contexts_after_a_failed_kernel_require_a_restart() {
    requires_restart(&scheduler("cuda", 1).unwrap(), 0);
}

/// MPS serves this process again only if the process is a new one.
pub fn context_that_mps_refuses_after_a_failed_kernel_requires_a_restart() {
    let scheduler = impatient("cuda").unwrap();
    let error = run(&scheduler, good()).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }) && error.to_string().contains(RESTART), "{error}");
    assert!(health(&scheduler).iter().all(|&health| health == Health::Retired));
}

pub fn mps_that_is_not_ready_is_waited_for() {
    let scheduler = impatient("cuda").unwrap();
    run(&scheduler, good()).unwrap();
    assert_eq!((health(&scheduler), driver_count(0, "contexts_made")), (vec![Health::Good], 1));
}

/// The administrator closes the GPU after the search, and may open it again.
pub fn gpu_that_is_closed_after_the_search_is_waited_for() {
    let scheduler = impatient("cuda").unwrap();
    let id = scheduler.submit(good()).unwrap();
    assert_eq!(scheduler.wait(id, Some(Duration::from_millis(500))), Ok(WaitResult::Pending));
    assert_eq!(health(&scheduler), [Health::Good]);
    scheduler.cancel(id).unwrap();
}

/// The next use of the context has the same handle, and no object of before the reset.
pub fn a_context_that_another_library_resets() {
    let scheduler = scheduler("cuda", 2).unwrap();
    run_together(&scheduler, 2, |stream| filled(stream, 1.0));
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    let mut theirs = 0usize;
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut theirs => &mut usize, 0 => i32)), 0);
    let again = |_: &u32| run(&scheduler, Task { retries: 2, work: Some(1.0), ..good() }).is_ok();
    assert!((0..4).filter(again).count() > 0);
    assert_eq!((driver_count(0, "contexts_made"), driver_count(0, "retained")), (2, 2), "theirs stays");
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
}

pub fn unknown_codes_are_errors_with_their_number() {
    // The first code, 46, means that another process has the GPU: the task is retried.
    fails_with(&["917", "1234"].map(|code| ["status ", code]), "contexts_made");
}

/// The GPU is busy, which old drivers report by another code. It is not retired, because it may be free later.
pub fn a_gpu_that_another_process_has() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(attempts(&scheduler, |task| task), [1]);
    let error = run(&scheduler, on(0, good())).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(error.to_string().contains("cuda:0 can't be used now"), "{error}");
    assert_eq!(health(&scheduler), [Health::Good; 2]);
}
