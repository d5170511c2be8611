//! Tasks that nobody can ask for, and callbacks that leave their thread: both come from C only.

use std::ffi::c_void;
use std::mem::{size_of, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpusched::ffi::*;

struct Scheduler(*mut sched_t);

/// A scheduler with one slot on the CPU.
fn one_slot() -> Scheduler {
    // SAFETY: all zero is a description that states nothing.
    let mut config: sched_config_t = unsafe { zeroed() };
    config.size = size_of::<sched_config_t>();
    config.devices = c"cpu".as_ptr();
    config.slots = 1;
    let mut scheduler = ptr::null_mut();
    // SAFETY: both live.
    assert_eq!(unsafe { sched_create(&config, &mut scheduler) }, SCHED_OK);
    Scheduler(scheduler)
}

// SAFETY: any thread may call.
unsafe impl Sync for Scheduler {}

impl Scheduler {
    fn submit<T>(&self, run: sched_run_fn, user: &T, priority: i32) -> sched_task_t {
        let mut id = 0;
        self.hand_over(run, user, priority, &mut id);
        id
    }

    /// Without an id.
    fn submit_loose<T>(&self, run: sched_run_fn, user: &T) {
        self.hand_over(run, user, 0, ptr::null_mut());
    }

    fn hand_over<T>(&self, run: sched_run_fn, user: &T, priority: i32, id: *mut sched_task_t) {
        // SAFETY: as above.
        let mut desc: sched_task_desc_t = unsafe { zeroed() };
        desc.size = size_of::<sched_task_desc_t>();
        desc.run = run;
        desc.user = (&raw const *user).cast_mut().cast();
        desc.priority = priority;
        desc.flags = if id.is_null() { SCHED_TASK_DETACHED } else { 0 };
        // SAFETY: the tests outlive their tasks.
        assert_eq!(unsafe { sched_submit(self.0, &desc, id) }, SCHED_OK);
    }

    fn wait(&self, id: sched_task_t) -> sched_status_t {
        // SAFETY: the scheduler lives.
        unsafe { sched_wait(self.0, id, SCHED_FOREVER) }
    }

    fn destroy(self) {
        // SAFETY: used no more.
        assert_eq!(unsafe { sched_destroy(self.0) }, SCHED_OK);
    }
}

struct Below {
    scheduler: Scheduler,
    /// It commits before the other does.
    commits: bool,
    there: AtomicBool,
    told: AtomicBool,
}

unsafe extern "C-unwind" fn well(_: *const sched_exec_t, _: *mut c_void) -> i32 {
    SCHED_OK
}

unsafe extern "C-unwind" fn commits(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    // SAFETY: inside of its task.
    unsafe { sched_exec_commit(exec) }
}

unsafe extern "C-unwind" fn below(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    // SAFETY: what the test has handed over.
    let below = unsafe { &*user.cast::<Below>() };
    if below.commits {
        // SAFETY: inside of its task.
        assert_eq!(unsafe { sched_exec_commit(exec) }, SCHED_OK);
    }
    let known = below.scheduler.submit(Some(well), &(), 0);
    below.scheduler.submit_loose(Some(commits), &());
    // The loose one, the latest, runs on top first.
    assert_eq!(below.scheduler.wait(known), SCHED_OK);
    below.there.store(true, Ordering::Release);
    let begin = Instant::now();
    let patience = Duration::from_secs(if below.commits { 1 } else { 15 });
    while begin.elapsed() < patience {
        // SAFETY: inside of its task.
        if unsafe { sched_exec_cancelled(exec) } != 0 {
            below.told.store(true, Ordering::Release);
            break;
        }
        std::thread::yield_now();
    }
    SCHED_OK
}

#[test]
fn what_a_loose_task_on_top_of_another_commits_is_its_own() {
    for commits in [false, true] {
        let (there, told) = (AtomicBool::new(false), AtomicBool::new(false));
        let state = Below { scheduler: one_slot(), commits, there, told };
        state.scheduler.submit_loose(Some(below), &state);
        while !state.there.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        Scheduler(state.scheduler.0).destroy();
        // One that has committed can't be cancelled any more.
        assert_eq!(state.told.load(Ordering::Acquire), !commits);
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn what_comes_while_the_only_worker_leaves_waits_for_the_next() {
    unsafe extern "C-unwind" fn leaves(_: *const sched_exec_t, _: *mut c_void) -> i32 {
        // SAFETY: nothing here has to be dropped.
        unsafe { libc::pthread_exit(ptr::null_mut()) }
    }
    let scheduler = one_slot();
    let over = AtomicBool::new(false);
    let left = std::thread::scope(|scope| {
        let (scheduler, over) = (&scheduler, &over);
        let leaving = scope.spawn(move || {
            let mut left = 0;
            while !over.load(Ordering::Acquire) {
                let id = scheduler.submit(Some(leaves), &(), 1);
                assert_eq!(scheduler.wait(id), SCHED_E_UNWOUND);
                left += 1;
            }
            left
        });
        let (begin, mut ids) = (Instant::now(), Vec::new());
        while begin.elapsed() < Duration::from_millis(500) {
            // Now and then a planned one among the light ones.
            ids.push(scheduler.submit(Some(well), &(), i32::from(ids.len() % 16 == 0)));
            (0..100).for_each(|_| std::hint::spin_loop());
        }
        let ends = ids.iter().map(|&id| scheduler.wait(id));
        let failed = ends.filter(|&end| end != SCHED_OK).count();
        over.store(true, Ordering::Release);
        assert_eq!(failed, 0, "of {}", ids.len());
        leaving.join().unwrap()
    });
    assert!(left > 0);
    scheduler.destroy();
}
