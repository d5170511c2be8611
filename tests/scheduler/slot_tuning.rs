//! Slots that the scheduler tunes, and devices with slow calls.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::sched::{AUTO_SLOTS, Scheduler, Task, WaitResult};

use crate::scripted::*;

/// The tuner tries a second slot, which brings nothing here, and removes it.
#[test]
fn removed_slot_does_not_retire_the_device() {
    let mut builder = Scheduler::builder();
    builder.devices = Some("cpu".into());
    builder.slots = Some(AUTO_SLOTS);
    let scheduler = builder.build().unwrap();
    let inside = Arc::new(AtomicU32::new(0));
    // The end of the last task, and the longest time from one end to that of a task without others.
    let times = Arc::new(Mutex::new((Instant::now(), Duration::ZERO)));
    let task = || {
        let (inside, times) = (Arc::clone(&inside), Arc::clone(&times));
        // A task beside another takes eight times as long as the slowest without one, however late
        // the machine runs those.
        let task = effect(move || {
            let others = inside.fetch_add(1, Ordering::SeqCst);
            let slowest = times.lock().unwrap().1;
            thread::sleep(if others > 0 { 8 * slowest } else { Duration::from_millis(20) });
            let mut times = times.lock().unwrap();
            let took = times.0.elapsed();
            *times = (Instant::now(), if others > 0 { times.1 } else { times.1.max(took) });
            inside.fetch_sub(1, Ordering::SeqCst);
        });
        Task { work: Some(1.0), ..task }
    };
    let ids: Vec<_> = (0..60).map(|_| scheduler.submit(task()).unwrap()).collect();
    ids.into_iter().for_each(|id| assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done)));
    assert_eq!(scheduler.stats().unwrap().devices[0].slots, 1);
}

/// Checks that the scheduler answers other threads while the backend waits at the gate.
fn answers_meanwhile(scheduler: &Arc<Scheduler>, gate: &Gate) {
    gate.came(1);
    let (tell, told) = mpsc::channel();
    let asked = Arc::clone(scheduler);
    let thread = thread::spawn(move || tell.send(asked.stats().is_ok()));
    let answer = told.recv_timeout(Duration::from_secs(5));
    gate.open();
    let _ = thread.join().unwrap();
    assert_eq!(answer, Ok(true), "the scheduler stands still while a device is asked");
}

#[test]
fn slow_query_of_free_memory_does_not_block_the_scheduler() {
    let door = Gate::new();
    let scheduler = Scripted { slow_free: Some(door), ..Scripted::new(1) }.scheduler(2);
    let (_, gate) = occupy_as(&scheduler, |task| Task { device_bytes: 100, ..task });
    let second = scheduler.submit(Task { device_bytes: 100, ..quick() }).unwrap();
    answers_meanwhile(&scheduler, door);
    assert_eq!(wait(&scheduler, second), Ok(WaitResult::Done));
    gate.open();
    wait_all(&scheduler);
}

#[test]
fn renewal_of_a_context_does_not_block_the_scheduler() {
    let door = Gate::new();
    let scheduler = Scripted { slow_renew: Some(door), ..Scripted::new(1) }.scheduler(1);
    let id = scheduler.submit(Task { priority: 1, ..poisons_once() }).unwrap();
    answers_meanwhile(&scheduler, door);
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
}

/// After a shortage of memory beside another task it runs alone. It then waits for others inside
/// its code.
#[test]
fn a_task_that_is_alone_on_the_device_may_wait_for_others() {
    let scheduler = Scripted::new(1).scheduler(2);
    let gate = occupy(&scheduler);
    let alone = Gate::opened();
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    let task = nested(&scheduler, move |scheduler, exec| {
        if exec.attempt == 1 {
            return Err(no_memory(exec, 9));
        }
        alone.pass();
        assert_eq!(run(scheduler, Task { priority: 1, ..quick() })?, WaitResult::Done);
        let other = told.lock().unwrap().recv().unwrap();
        assert_eq!(scheduler.wait(other, LONG)?, WaitResult::Done);
        Ok(())
    });
    let id = scheduler.submit(Task { priority: 1, ..task }).unwrap();
    until(|| scheduler.info(id).unwrap().attempts > 0);
    gate.open();
    alone.came(1);
    tell.send(scheduler.submit(quick()).unwrap()).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
}
