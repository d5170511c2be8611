//! Two schedulers that share devices through a folder of leases.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{DeviceMask, Policy, Scheduler, Task, TaskId, WaitResult};
use testkit::Folder;

use crate::scripted::*;

fn sharing(folder: &Folder, devices: u32, slots: u32) -> [Arc<Scheduler>; 2] {
    [(); 2].map(|()| member(folder, Arc::new(Scripted::new(devices)), slots))
}

fn member(folder: &Folder, backend: Arc<Scripted>, slots: u32) -> Arc<Scheduler> {
    tuned_member(folder, backend, slots, |_| ())
}

fn tuned_member(
    folder: &Folder,
    backend: Arc<Scripted>,
    slots: u32,
    tune: impl Fn(&mut Policy),
) -> Arc<Scheduler> {
    let mut builder = builder(backend, slots);
    tune(&mut builder.policy);
    builder.lease_folder = Some(folder.at("leases"));
    Arc::new(builder.build().unwrap())
}

fn planned(task: Task) -> Task {
    Task { work: Some(1.0), ..task }
}

fn taken(scheduler: &Scheduler) -> Vec<bool> {
    scheduler.stats().unwrap().devices.iter().map(|device| device.taken).collect()
}

#[test]
fn slots_of_other_processes_are_waited_for_and_reported() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 1);
    assert_eq!((taken(&first), taken(&second)), (vec![false], vec![false]));
    let (holds, gate) = occupy_as(&first, planned);
    let waits = second.submit(planned(quick())).unwrap();
    until(|| taken(&second) == [true]);
    assert_eq!(second.wait(waits, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
    assert_eq!(taken(&first), [false], "a scheduler's own lease is not of others");
    gate.open();
    assert_eq!(wait(&second, waits), Ok(WaitResult::Done));
    assert_eq!(wait(&first, holds), Ok(WaitResult::Done));
    // A scheduler reads the leases when a task may begin.
    assert_eq!(run(&second, planned(quick())), Ok(WaitResult::Done));
    until(|| taken(&second) == [false]);
}

#[test]
fn leased_bytes_that_are_not_allocated_yet_stay_reserved() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 2);
    let [allocates, ends] = [(); 2].map(|()| Gate::new());
    let large = |task| Task { device_bytes: 600, ..planned(task) };
    let holds = first.submit(large(code(move |exec| {
        allocates.pass();
        exec.report(0.5);
        ends.pass();
        Ok(())
    })));
    allocates.came(1);
    let waits = second.submit(large(quick())).unwrap();
    assert_eq!(second.wait(waits, Some(Duration::from_millis(50))), Ok(WaitResult::Pending));
    allocates.open();
    assert_eq!(wait(&second, waits), Ok(WaitResult::Done));
    ends.open();
    assert_eq!(wait(&first, holds.unwrap()), Ok(WaitResult::Done));
}

/// Its attempts would take all turns of its scheduler.
#[test]
fn task_whose_memory_others_have_leaves_its_turns_to_smaller_ones() {
    let (folder, backend) = (Folder::new(), Arc::new(Scripted::new(1)));
    let backoff = [Duration::from_millis(1); 3];
    let first = tuned_member(&folder, backend.clone(), 1, |policy| policy.backoff = backoff);
    let second = member(&folder, Scripted::new(1).into(), 1);
    backend.free[0].store(500, Ordering::SeqCst);
    let (holds, gate) = occupy_as(&second, planned);
    let refused = || Err(Error::NoMemory { what: "x".into(), needed: 600, place: "y".into(), there: 500 });
    let large = Task { priority: 1, device_bytes: 600, ..planned(code(move |_| refused())) };
    let large = first.submit(large).unwrap();
    let small: Vec<TaskId> = (0..5).map(|_| first.submit(planned(quick())).unwrap()).collect();
    let slow = || planned(effect(|| sleep(Duration::from_millis(5))));
    let others: Vec<TaskId> = (0..40).map(|_| second.submit(slow()).unwrap()).collect();
    gate.open();
    small.into_iter().for_each(|id| assert_eq!(wait(&first, id), Ok(WaitResult::Done)));
    let (done, attempts) = (second.stats().unwrap().counts.done, first.info(large).unwrap().attempts);
    first.cancel(large).unwrap();
    others.into_iter().chain([holds]).for_each(|id| assert_eq!(wait(&second, id), Ok(WaitResult::Done)));
    assert!(done < 30 && attempts < 4, "after {done} tasks of the other, and {attempts} attempts");
}

/// Runs a task that waits for another task of its scheduler, on one slot. `between` runs once the
/// first has begun.
fn run_waiting(outer: Option<f64>, inner: Option<f64>, between: impl Fn(&Scheduler)) {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 1);
    let (gate, awaited) = (Gate::new(), Arc::new(Mutex::new(TaskId(0))));
    let place = awaited.clone();
    let waits = nested(&first, move |scheduler, _| {
        gate.pass();
        let awaited = *place.lock().unwrap();
        let ended = scheduler.wait(awaited, LONG)?;
        if ended == WaitResult::Done { Ok(()) } else { Err(Error::Cancelled) }
    });
    let waits = first.submit(Task { work: outer, ..waits }).unwrap();
    gate.came(1);
    between(&second);
    *awaited.lock().unwrap() = first.submit(Task { work: inner, ..quick() }).unwrap();
    gate.open();
    assert_eq!(wait(&first, waits), Ok(WaitResult::Done), "{outer:?} waits for {inner:?}");
    wait_all(&second);
}

#[test]
fn awaited_tasks_begin_in_the_slot_of_the_waiting_task() {
    for (outer, inner) in [(None, None), (None, Some(1.0)), (Some(1.0), None), (Some(1.0), Some(1.0))] {
        run_waiting(outer, inner, |_| {});
        run_waiting(outer, inner, |second| {
            second.submit(planned(quick())).unwrap();
            until(|| taken(second) == [true]);
        });
    }
}

#[test]
fn light_task_goes_to_the_device_that_no_other_holds() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 2, 1);
    let (_, gate) = occupy_as(&first, |task| Task { devices: DeviceMask::only(0), ..planned(task) });
    let ended = second.wait(second.submit(quick()).unwrap(), LONG);
    gate.open();
    assert_eq!(ended, Ok(WaitResult::Done));
}

#[test]
fn stream_of_light_tasks_leaves_the_slot_to_others_after_a_turn() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 1);
    let over = Arc::default();
    endless(&first, &over, |task| task, || sleep(Duration::from_millis(1)));
    until(|| first.stats().unwrap().counts.done > 0);
    assert_eq!(run(&first, planned(quick())), Ok(WaitResult::Done));
    let ended = second.wait(second.submit(planned(quick())).unwrap(), LONG);
    let goes_on = first.stats().unwrap().counts.done;
    until(|| first.stats().unwrap().counts.done > goes_on);
    over.store(true, Ordering::SeqCst);
    assert_eq!(ended, Ok(WaitResult::Done));
}

#[test]
fn light_task_begins_when_the_table_becomes_unreadable() {
    let folder = Folder::new();
    let [first, second] = sharing(&folder, 1, 1);
    let (_, gate) = occupy_as(&first, planned);
    let id = second.submit(quick()).unwrap();
    until(|| taken(&second) == [true]);
    let table = std::fs::File::options().write(true).open(folder.at("leases/leases-2")).unwrap();
    // A member that holds the table's lock may write the header once more.
    let ended = (0..200).any(|_| {
        table.write_all_at(&[0xff; 64], 0).unwrap();
        second.wait(id, Some(Duration::from_millis(100))) == Ok(WaitResult::Done)
    });
    gate.open();
    assert!(ended);
}

/// Only the end of the other process can make this one read the leases.
#[test]
fn late_task_gets_a_copy_once_no_other_process_is_left() {
    late_task_gets_a_copy_after(drop);
}

/// A thread may keep the last owner of the scheduler that it used as long as it lives.
#[test]
fn scheduler_that_has_ended_is_no_peer_while_a_thread_keeps_it() {
    let mut kept = None;
    late_task_gets_a_copy_after(|second| {
        second.shutdown().unwrap();
        kept = Some(second);
    });
    assert_eq!(kept.unwrap().stats().unwrap().counts.submitted, 0);
}

/// `end` ends the only other process.
fn late_task_gets_a_copy_after(end: impl FnOnce(Arc<Scheduler>)) {
    let folder = Folder::new();
    let late_least = Duration::from_millis(50);
    let first = tuned_member(&folder, Scripted::new(2).into(), 1, |policy| policy.late_least = late_least);
    let second = member(&folder, Scripted::new(2).into(), 1);
    for _ in 0..4 {
        assert_eq!(run(&first, planned(quick())), Ok(WaitResult::Done));
    }
    let task = code(|exec| {
        while exec.attempt == 1 && !exec.cancelled() {
            sleep(Duration::from_millis(1));
        }
        exec.commit()
    });
    let id = first.submit(Task { idempotent: true, ..planned(task) }).unwrap();
    sleep(4 * late_least);
    assert_eq!(first.info(id).unwrap().attempts, 1);
    end(second);
    let ended = first.wait(id, Some(Duration::from_secs(10)));
    first.cancel(id).unwrap();
    assert_eq!(ended, Ok(WaitResult::Done));
}

#[test]
fn scheduler_that_is_dropped_inside_its_task_ends_its_watcher() {
    let folder = Folder::new();
    let backend = Arc::new(Scripted::new(1));
    let (gone, second) = (Arc::downgrade(&backend), member(&folder, Scripted::new(1).into(), 1));
    let lease_interval = Duration::from_millis(50);
    let first = tuned_member(&folder, backend, 1, |policy| policy.lease_interval = lease_interval);
    let (_, gate) = occupy_as(&second, planned);
    let waits = first.submit(planned(quick())).unwrap();
    until(|| taken(&first) == [true]);
    gate.open();
    assert_eq!(wait(&first, waits), Ok(WaitResult::Done));
    // The watcher reads the table once more, then sleeps until it is woken.
    sleep(4 * lease_interval);
    let (hold, enter) = (Mutex::new(Some(first.clone())), Gate::new());
    let drops = effect(move || {
        enter.pass();
        drop(hold.lock().unwrap().take());
    });
    first.submit(drops).unwrap();
    enter.came(1);
    drop(first);
    enter.open();
    until(|| gone.upgrade().is_none());
}
