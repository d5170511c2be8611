//! Calls of schedulers that a forked child may and may not make.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{Exec, Range, Scheduler, Task, WaitResult};
use testkit::process::in_child;

use super::member::LONG;

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
    scheduler.submit(quick()).and_then(|id| scheduler.wait(id, Some(LONG))) == Ok(WaitResult::Done)
}

pub fn no_call_in_the_child_waits_for_a_lock_that_the_parent_held() {
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

pub fn the_process_wide_scheduler_is_the_childs_if_the_parent_had_none() {
    assert!(in_child(|| Scheduler::process_default().is_ok_and(works)));
    assert!(Scheduler::process_default().is_ok_and(works));
}

pub fn a_child_may_have_one_though_its_parent_failed_to_make_one() {
    // SAFETY: no other thread of this process reads its variables.
    unsafe { std::env::set_var("GPUSCHED_DEVICES", "abacus") };
    assert!(Scheduler::process_default().is_err());
    // SAFETY: as above.
    unsafe { std::env::set_var("GPUSCHED_DEVICES", "cpu") };
    assert!(in_child(|| Scheduler::process_default().is_ok_and(works)));
    assert!(Scheduler::process_default().is_ok_and(works));
}

/// Pauses the first thread that logs, until the test lets it go on.
struct PausingLog {
    paused: AtomicBool,
    goes_on: AtomicBool,
}

impl log::Log for PausingLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, _: &log::Record<'_>) {
        if !self.paused.swap(true, Ordering::SeqCst) {
            while !self.goes_on.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn flush(&self) {}
}

pub fn a_child_may_have_one_while_a_thread_of_its_parent_makes_one() {
    static LOG: PausingLog = PausingLog { paused: AtomicBool::new(false), goes_on: AtomicBool::new(false) };
    log::set_logger(&LOG).expect("the only logger");
    log::set_max_level(log::LevelFilter::Debug);
    thread::scope(|scope| {
        let creator = scope.spawn(|| Scheduler::process_default().is_ok_and(works));
        // Without a GPU the scheduler logs that it has found none.
        while !LOG.paused.load(Ordering::SeqCst) && !creator.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let well = creator.is_finished() || in_child(|| Scheduler::process_default().is_ok_and(works));
        LOG.goes_on.store(true, Ordering::SeqCst);
        assert!(creator.join().expect("a thread that does not panic"));
        assert!(well);
    });
}
