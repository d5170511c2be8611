//! Tasks without an id, and callbacks that end their thread: both are possible in C only.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::ffi::*;

use crate::scripted::until;

struct OneSlot(*mut sched_t);

// SAFETY: any thread may call.
unsafe impl Sync for OneSlot {}

impl OneSlot {
    fn new() -> Self {
        // SAFETY: all zero is a description that states nothing.
        let mut config: sched_config_t = unsafe { zeroed() };
        (config.size, config.devices, config.slots) = (size_of_val(&config), c"cpu".as_ptr(), 1);
        let mut scheduler = ptr::null_mut();
        // SAFETY: both live.
        assert_eq!(unsafe { sched_create(&config, &mut scheduler) }, SCHED_OK);
        OneSlot(scheduler)
    }

    /// Submits a task; without an id if the flags say so.
    fn submit<T>(&self, run: sched_run_fn, user: &T, priority: i32, flags: u32) -> sched_task_t {
        let (status, id) = self.try_submit(run, user, priority, flags);
        assert_eq!(status, SCHED_OK);
        id
    }

    fn try_submit<T>(
        &self,
        run: sched_run_fn,
        user: &T,
        priority: i32,
        flags: u32,
    ) -> (sched_status_t, sched_task_t) {
        // SAFETY: as above.
        let mut desc: sched_task_desc_t = unsafe { zeroed() };
        (desc.size, desc.run, desc.priority, desc.flags) = (size_of_val(&desc), run, priority, flags);
        desc.user = (&raw const *user).cast_mut().cast();
        let mut id = 0;
        let place = if flags == SCHED_TASK_DETACHED { ptr::null_mut() } else { &raw mut id };
        // SAFETY: the tests outlive their tasks.
        (unsafe { sched_submit(self.0, &desc, place) }, id)
    }

    fn wait(&self, id: sched_task_t) -> sched_status_t {
        // SAFETY: the scheduler lives.
        unsafe { sched_wait(self.0, id, SCHED_FOREVER) }
    }

    /// Destroys the scheduler.
    fn destroy(&self) {
        // SAFETY: no thread uses it any more.
        assert_eq!(unsafe { sched_destroy(self.0) }, SCHED_OK);
    }
}

unsafe extern "C-unwind" fn well(_: *const sched_exec_t, _: *mut c_void) -> i32 {
    SCHED_OK
}

unsafe extern "C-unwind" fn commits(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    // SAFETY: inside of its task.
    unsafe { sched_exec_commit(exec) }
}

struct Below {
    scheduler: OneSlot,
    /// The task commits before the nested task does.
    commits: bool,
    there: AtomicBool,
    told: AtomicBool,
}

unsafe extern "C-unwind" fn below(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    // SAFETY: what the test has handed over.
    let below = unsafe { &*user.cast::<Below>() };
    if below.commits {
        // SAFETY: inside of its task.
        assert_eq!(unsafe { sched_exec_commit(exec) }, SCHED_OK);
    }
    let known = below.scheduler.submit(Some(well), &(), 0, 0);
    below.scheduler.submit(Some(commits), &(), 0, SCHED_TASK_DETACHED);
    // The task without an id is the latest, so it is nested first.
    assert_eq!(below.scheduler.wait(known), SCHED_OK);
    below.there.store(true, Ordering::Release);
    // The task that can't be cancelled waits until the scheduler is being destroyed.
    let submits = || below.scheduler.try_submit(Some(well), &(), 0, SCHED_TASK_DETACHED).0 == SCHED_OK;
    until(|| !below.commits || !submits());
    let begin = Instant::now();
    let patience = Duration::from_millis(if below.commits { 100 } else { 15_000 });
    while begin.elapsed() < patience && !below.told.load(Ordering::Relaxed) {
        // SAFETY: inside of its task.
        below.told.store(unsafe { sched_exec_cancelled(exec) } != 0, Ordering::Release);
        thread::yield_now();
    }
    SCHED_OK
}

#[test]
fn commit_of_a_nested_detached_task_is_its_own() {
    for commits in [false, true] {
        let (there, told) = (AtomicBool::new(false), AtomicBool::new(false));
        let state = Below { scheduler: OneSlot::new(), commits, there, told };
        state.scheduler.submit(Some(below), &state, 0, SCHED_TASK_DETACHED);
        until(|| state.there.load(Ordering::Acquire));
        state.scheduler.destroy();
        // A committed task can't be cancelled any more.
        assert_eq!(state.told.load(Ordering::Acquire), !commits);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn tasks_submitted_while_the_only_worker_ends_run() {
    unsafe extern "C-unwind" fn leaves(_: *const sched_exec_t, _: *mut c_void) -> i32 {
        // SAFETY: nothing here has to be dropped.
        unsafe { libc::pthread_exit(ptr::null_mut()) }
    }
    let (scheduler, over, left) = (OneSlot::new(), AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let leaving = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                let id = scheduler.submit(Some(leaves), &(), 1, 0);
                assert_eq!(scheduler.wait(id), SCHED_E_UNWOUND);
                left.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (begin, mut ids) = (Instant::now(), Vec::new());
        let is_early = || begin.elapsed() < Duration::from_millis(500) || left.load(Ordering::Relaxed) == 0;
        while is_early() && !leaving.is_finished() {
            // Every 16th task is a planned one.
            ids.push(scheduler.submit(Some(well), &(), i32::from(ids.len() % 16 == 0), 0));
            (0..100).for_each(|_| std::hint::spin_loop());
        }
        let failed = ids.iter().filter(|&&id| scheduler.wait(id) != SCHED_OK).count();
        over.store(true, Ordering::Release);
        assert_eq!(failed, 0, "of {}", ids.len());
    });
    scheduler.destroy();
}
