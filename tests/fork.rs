//! What a forked child may and may not do. Each case runs in a process of its own, with one thread.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{Exec, Range, Scheduler, Task, WaitResult};
use testkit::process::in_child;
use testkit::{case, virtual_gpus};

const LONG: Option<Duration> = Some(Duration::from_secs(30));

/// Without the test harness, whose threads would make each fork a fork of a process with many.
fn main() -> ExitCode {
    virtual_gpus::main(&[
        case!(self::every_call_in_the_child_is_an_error_and_dropping_there_ends),
        case!(self::no_call_in_the_child_waits_for_a_lock_that_the_parent_held),
        case!(self::the_process_wide_scheduler_is_the_childs_if_the_parent_had_none),
        case!(self::a_child_may_have_one_though_its_parent_failed_to_make_one),
    ])
}

fn quick() -> Task {
    Task::new(|_: &Exec<'_>| Ok(()))
}

fn loop_of_three() -> Range {
    Range::new(0..3, |_, _| Ok(()))
}

fn own() -> Scheduler {
    let mut builder = Scheduler::builder();
    builder.devices = Some("cpu".into());
    builder.cpu_threads = Some(2);
    builder.build().expect("a scheduler")
}

fn works(scheduler: &Scheduler) -> bool {
    scheduler.submit(quick()).and_then(|id| scheduler.wait(id, LONG)) == Ok(WaitResult::Done)
}

/// A task that is in the middle of its work when the process forks.
fn busy() -> Task {
    Task::new(|exec: &Exec<'_>| {
        while !exec.cancelled() {
            thread::sleep(Duration::from_millis(1));
        }
        Err(Error::Cancelled)
    })
}

fn every_call_in_the_child_is_an_error_and_dropping_there_ends() {
    let mut held = Some(own());
    let id = held.as_ref().and_then(|scheduler| scheduler.submit(busy()).ok()).expect("a task");
    let well = in_child(|| {
        let Some(scheduler) = held.take() else { return false };
        let errors = [
            scheduler.submit(quick()).err(),
            scheduler.submit_range(loop_of_three()).err(),
            scheduler.wait(id, None).err(),
            scheduler.wait_all(None).err(),
            scheduler.wait_any(&[id], None).err(),
            scheduler.cancel(id).err(),
            scheduler.release(id).err(),
            scheduler.info(id).err(),
            scheduler.stats().err(),
            scheduler.drain(None).err(),
            scheduler.shutdown().err(),
        ];
        drop(scheduler);
        errors.iter().all(|error| *error == Some(Error::Forked))
    });
    assert!(well);
    // The child took its copy; ours is still here.
    let scheduler = held.expect("the parent's");
    scheduler.cancel(id).expect("to cancel");
    assert_eq!(scheduler.wait(id, LONG), Ok(WaitResult::Cancelled));
}

fn no_call_in_the_child_waits_for_a_lock_that_the_parent_held() {
    let scheduler = own();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = scheduler.stats();
                }
            });
        }
        let forks = || {
            in_child(|| {
                matches!(scheduler.submit(quick()), Err(Error::Forked))
                    && matches!(scheduler.submit_range(loop_of_three()), Err(Error::Forked))
            })
        };
        let well = (0..8).all(|_| forks());
        over.store(true, Ordering::Relaxed);
        assert!(well);
    });
}

fn the_process_wide_scheduler_is_the_childs_if_the_parent_had_none() {
    assert!(in_child(|| Scheduler::process_default().is_ok_and(works)));
    assert!(Scheduler::process_default().is_ok_and(works));
}

fn a_child_may_have_one_though_its_parent_failed_to_make_one() {
    // SAFETY: no other thread of this process looks at its variables.
    unsafe { std::env::set_var("GPUSCHED_DEVICES", "abacus") };
    assert!(Scheduler::process_default().is_err());
    // SAFETY: as above.
    unsafe { std::env::set_var("GPUSCHED_DEVICES", "cpu") };
    assert!(in_child(|| Scheduler::process_default().is_ok_and(works)));
    assert!(Scheduler::process_default().is_ok_and(works));
}
