//! What a forked child may and may not do. Each case runs in a process of its own, with one thread.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gpusched::Error;
use gpusched::sched::{Exec, Range, Scheduler, Task, Wait};
use testkit::process::isolated;

const LONG: Option<Duration> = Some(Duration::from_secs(30));

type Case = (&'static str, fn() -> bool);

const CASES: [Case; 6] = [
    ("every call in the child is an error, and dropping there ends", calls_in_the_child),
    ("no call in the child waits for a lock that the parent held", calls_while_others_call),
    ("the parent goes on after its child has ended", parent_goes_on),
    ("the child makes a scheduler of its own", child_makes_its_own),
    ("the process-wide scheduler of the parent is none of the child's", default_after_use),
    ("the process-wide scheduler is the child's if the parent had none", default_before_use),
];

/// Without the test harness, whose threads would make each fork a fork of a process with many.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, number] = &arguments[..]
        && flag == "--case"
    {
        let number: usize = number.parse().expect("a number");
        return if CASES[number].1() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (mut passed, mut failed) = (0, 0);
    for (number, (name, _)) in CASES.iter().enumerate() {
        let this = std::env::current_exe().expect("this program");
        let ended = isolated(this).arg("--case").arg(number.to_string()).status();
        let well = ended.is_ok_and(|status| status.success());
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
        *(if well { &mut passed } else { &mut failed }) += 1;
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs `code` in a child; whether it came to its end, in time, with `true`.
fn in_child(mut code: impl FnMut() -> bool) -> bool {
    // SAFETY: the child only runs `code` and ends; it touches nothing that a thread of the parent holds,
    // which is what these tests are about.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: arms a clock that ends this child if it hangs.
        unsafe { libc::alarm(20) };
        let status = if code() { 0 } else { 1 };
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: `child` is ours and `status` is valid.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    ended == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
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
    scheduler.submit(quick()).and_then(|id| scheduler.wait(id, LONG)) == Ok(Wait::Done)
}

/// A task that is in the middle of its work when the process forks.
fn busy() -> Task {
    Task::new(|exec: &Exec<'_>| {
        while !exec.cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Error::Cancelled)
    })
}

fn calls_in_the_child() -> bool {
    let mut held = Some(own());
    let id = held.as_ref().and_then(|scheduler| scheduler.submit(busy()).ok()).expect("a task");
    let child = in_child(|| {
        let Some(scheduler) = held.take() else { return false };
        let forked = |error: Option<Error>| error == Some(Error::Forked);
        let all = forked(scheduler.submit(quick()).err())
            && forked(scheduler.submit_range(loop_of_three()).err())
            && forked(scheduler.wait(id, None).err())
            && forked(scheduler.wait_all(None).err())
            && forked(scheduler.wait_any(&[id], None).err())
            && forked(scheduler.cancel(id).err())
            && forked(scheduler.release(id).err())
            && forked(scheduler.info(id).err())
            && forked(scheduler.stats().err())
            && forked(scheduler.drain(None).err())
            && forked(scheduler.shutdown().err());
        drop(scheduler);
        all
    });
    // The child took its copy; ours is still here.
    let Some(scheduler) = held else { return false };
    child && scheduler.cancel(id).is_ok() && scheduler.wait(id, LONG) == Ok(Wait::Cancelled)
}

/// Whatever lock a thread of the parent holds when it forks.
fn calls_while_others_call() -> bool {
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
        let all = (0..8).all(|_| {
            in_child(|| {
                matches!(scheduler.submit(quick()), Err(Error::Forked))
                    && matches!(scheduler.submit_range(loop_of_three()), Err(Error::Forked))
            })
        });
        over.store(true, Ordering::Relaxed);
        all
    })
}

fn parent_goes_on() -> bool {
    let scheduler = own();
    let before = works(&scheduler);
    before && (0..20).all(|_| in_child(|| true) && works(&scheduler))
}

fn child_makes_its_own() -> bool {
    let scheduler = own();
    let id = scheduler.submit(busy()).expect("a task");
    let child = in_child(|| works(&own()));
    child && scheduler.cancel(id).is_ok() && scheduler.shutdown().is_ok()
}

fn default_after_use() -> bool {
    let used = Scheduler::process_default().is_ok_and(works);
    used && in_child(|| matches!(Scheduler::process_default(), Err(Error::Forked)))
        && Scheduler::process_default().is_ok_and(works)
}

fn default_before_use() -> bool {
    in_child(|| Scheduler::process_default().is_ok_and(works))
        && Scheduler::process_default().is_ok_and(works)
}
