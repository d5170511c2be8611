//! Submitting, waiting, cancelling, ids, the destruction of a scheduler.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::Error;
use gpusched::sched::{DeviceMask, Progress, Task, TaskStatus, WaitResult};

use crate::scripted::*;

const NOW: Option<Duration> = Some(Duration::ZERO);
const SOON: Option<Duration> = Some(Duration::from_millis(20));

#[test]
fn task_that_has_ended_has_an_info_unless_it_is_detached() {
    let scheduler = Scripted::new(2).scheduler(1);
    let id = scheduler.submit(Task { label: "one".into(), ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
    let info = scheduler.info(id).unwrap();
    let seen = (info.state, info.label.as_str(), info.attempts, info.progress);
    assert_eq!(seen, (TaskStatus::Done, "one", 1, 1.0));
    let detached = scheduler.submit(Task { detached: true, ..quick() }).unwrap();
    wait_all(&scheduler);
    assert!(matches!(scheduler.info(detached), Err(Error::Stale { .. })));
}

#[test]
fn thread_has_a_name() {
    let scheduler = Scripted::new(2).scheduler(2);
    let name = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&name);
    let task = effect(move || *seen.lock().unwrap() = thread::current().name().unwrap_or_default().into());
    run(&scheduler, Task { devices: DeviceMask(0b10), ..task }).unwrap();
    assert_eq!(*name.lock().unwrap(), "gpusched cuda:1/0");
}

#[test]
fn worker_starts_with_the_first_task_and_is_used_before_another() {
    let backend = Arc::new(Scripted::new(2));
    let scheduler = scheduler(Arc::clone(&backend), 2);
    assert_eq!(backend.opened.load(Ordering::Relaxed), 0);
    let worker = Arc::new(AtomicI32::new(0));
    for _ in 0..3 {
        let seen = Arc::clone(&worker);
        run(&scheduler, effect(move || name_thread(&seen))).unwrap();
        until_asleep(&worker);
        assert_eq!(backend.opened.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn wait_times_out_and_the_time_in_the_queue_is_reported() {
    // A light task, and a planned one.
    for work in [None, Some(1.0)] {
        let scheduler = Scripted::new(1).scheduler(1);
        let gate = occupy(&scheduler);
        let begun = Instant::now();
        let id = scheduler.submit(Task { work, ..quick() }).unwrap();
        assert_eq!(scheduler.wait(id, NOW), Ok(WaitResult::Pending));
        assert_eq!(scheduler.wait(id, SOON), Ok(WaitResult::Pending));
        assert_eq!(scheduler.wait_all(NOW), Ok(WaitResult::Pending));
        assert_eq!(scheduler.wait_any(&[id], NOW), Ok(None));
        gate.open();
        assert_eq!(scheduler.wait(id, Some(Duration::MAX)), Ok(WaitResult::Done));
        let queued = Duration::from_nanos(scheduler.info(id).unwrap().queued_ns);
        assert!(queued >= SOON.unwrap() && queued <= begun.elapsed(), "{queued:?}");
    }
}

#[test]
fn a_running_task_is_asked_to_stop_and_one_that_has_committed_goes_on() {
    let scheduler = Scripted::new(1).scheduler(1);
    // Whether the task commits before the cancellation, and at its end.
    for (before, after) in [(false, true), (false, false), (true, true)] {
        let gate = Gate::new();
        let task = code(move |exec| {
            exec.report(0.25);
            exec.report(f64::NAN);
            if before {
                exec.commit()?;
            }
            gate.pass();
            assert_eq!(exec.cancelled(), !before);
            if after { exec.commit() } else { Ok(()) }
        });
        let id = scheduler.submit(task).unwrap();
        gate.came(1);
        assert_eq!(scheduler.info(id).unwrap().progress, 0.25);
        scheduler.cancel(id).unwrap();
        gate.open();
        assert_eq!(wait(&scheduler, id), Ok(if before { WaitResult::Done } else { WaitResult::Cancelled }));
    }
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.counts.done, stats.counts.cancelled), (1, 2));
}

#[test]
fn shutdown_cancels_queued_and_stops_running_tasks() {
    let scheduler = Scripted::new(1).scheduler(1);
    let mut ids = vec![scheduler.submit(until_cancelled()).unwrap()];
    until(|| scheduler.stats().unwrap().counts.running == 1);
    ids.extend((0..5).map(|_| scheduler.submit(quick()).unwrap()));
    assert_eq!((scheduler.shutdown(), scheduler.shutdown()), (Ok(6), Ok(0)));
    ids.into_iter().for_each(|id| assert_eq!(wait(&scheduler, id), Ok(WaitResult::Cancelled)));
    assert!(matches!(scheduler.submit(quick()), Err(Error::Shutdown { .. })));
}

/// The thread that cancels a task drops its job, and those of the tasks after it. Only destruction
/// waits for that.
#[test]
fn thread_that_drops_jobs_blocks_destruction_only() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    let (runs, busy) = occupy_as(&scheduler, |task| task);
    let first = scheduler.submit(Task { priority: 1, ..quick() }).unwrap();
    let others = [(); 2].map(|()| scheduler.submit(Task { after: vec![first], ..kept(gate) }).unwrap());
    thread::scope(|scope| {
        let cancels = scope.spawn(|| scheduler.cancel(first));
        gate.came(1);
        let meanwhile = scheduler.submit(Task { priority: 1, ..quick() }).unwrap();
        busy.open();
        assert_eq!(wait(&scheduler, runs), Ok(WaitResult::Done));
        assert_eq!(wait(&scheduler, meanwhile), Ok(WaitResult::Done));
        assert!(!cancels.is_finished(), "the jobs are dropped by the thread that has ended their tasks");
        assert_eq!(scheduler.shutdown_within(SOON), Ok(None));
        gate.open();
        assert_eq!(scheduler.shutdown(), Ok(0));
        gate.came(2);
    });
    assert!(others.iter().all(|&id| matches!(wait(&scheduler, id), Err(Error::Dependency { .. }))));
}

#[test]
fn shutdown_times_out_while_a_light_task_is_dropped() {
    let scheduler = Scripted::new(1).scheduler(1);
    let (busy, gate) = (occupy(&scheduler), Gate::new());
    let id = scheduler.submit(kept(gate)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| scheduler.cancel(id));
        gate.came(1);
        busy.open();
        assert_eq!(scheduler.shutdown_within(SOON), Ok(None));
        gate.open();
        assert!(scheduler.shutdown().is_ok());
    });
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Cancelled));
}

/// The timer thread waits for a deadline, and no worker is left that would end it.
#[test]
fn scheduler_without_a_worker_ends_when_the_progress_callback_drops_it() {
    let backend = Arc::new(Scripted::new(1));
    let scheduler = scheduler(backend.clone(), 1);
    let (worker, gate) = (Arc::new(AtomicI32::new(0)), Gate::new());
    let seen = worker.clone();
    let timed = Task { deadline: Some(Duration::from_secs(3600)), ..effect(move || name_thread(&seen)) };
    assert_eq!(run(&scheduler, timed), Ok(WaitResult::Done));
    scheduler.retire(0, "it is warm").unwrap();
    until(|| !Path::new(&format!("/proc/self/task/{}", worker.load(Ordering::Relaxed))).exists());
    let last = Mutex::new(Some(scheduler.clone()));
    let listener = move |_: &Progress| {
        gate.pass();
        last.lock().unwrap().take();
    };
    scheduler.on_progress(Duration::from_millis(1), Some(listener)).unwrap();
    drop(scheduler);
    gate.open();
    until(|| Arc::strong_count(&backend) == 1);
}

#[test]
fn scheduler_is_stopped_when_a_task_of_another_drops_it_and_may_not_wait() {
    let outer = tuned(1, |policy| policy.blocked_tasks = 0);
    let backend = Arc::new(Scripted::new(1));
    let inner = scheduler(backend.clone(), 1);
    inner.submit(until_cancelled()).unwrap();
    until(|| inner.stats().unwrap().counts.running == 1);
    let last = Mutex::new(Some(inner));
    assert_eq!(run(&outer, effect(move || _ = last.lock().unwrap().take())), Ok(WaitResult::Done));
    until(|| Arc::strong_count(&backend) == 1);
}

/// A mask of devices has 64 bits.
#[test]
fn scheduler_of_more_than_64_devices_is_refused() {
    let build = |devices: &str, count| {
        let mut builder = builder(Arc::new(Scripted::new(count)), 1);
        builder.devices = Some(devices.into());
        builder.build()
    };
    let refused = build("all", 65).err().expect("65 devices are too many").to_string();
    assert_eq!(refused, "devices is 65; accepted: at most 64");
    assert_eq!(build("cuda:64,cuda:0", 65).unwrap().devices()[0].label(), "cuda:64");
    let scheduler = build("all", 64).unwrap();
    let last = scheduler.submit(Task { devices: DeviceMask::only(63), ..quick() }).unwrap();
    assert_eq!(wait(&scheduler, last), Ok(WaitResult::Done));
    assert_eq!(scheduler.info(last).unwrap().device, Some(63));
}

/// Each takes two of 32,768 tags, so ids differ between the last 16,384 schedulers.
#[test]
fn scheduler_takes_two_tags_of_ids() {
    let tag = || Scripted::new(1).scheduler(1).submit(quick()).unwrap().0 >> 49;
    // Other tests take tags meanwhile.
    until(|| {
        let first = tag();
        tag() == (first + 2) % (1 << 15)
    });
}
