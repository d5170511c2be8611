//! What a task's code was given may be asked about from any thread until that code returns, and is
//! a plain error from then on.

use std::ffi::c_void;
use std::mem::{size_of, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::thread;

use gpusched::ffi::*;

struct Scheduler(*mut sched_t);

impl Scheduler {
    fn new() -> Self {
        let mut config: sched_config_t = unsafe { zeroed() };
        config.size = size_of::<sched_config_t>();
        config.devices = c"cpu".as_ptr();
        config.slots = 2;
        let mut scheduler = ptr::null_mut();
        assert_eq!(unsafe { sched_create(&config, &mut scheduler) }, SCHED_OK);
        Scheduler(scheduler)
    }

    fn submit<T>(&self, run: sched_run_fn, user: &T) -> sched_task_t {
        let mut desc: sched_task_desc_t = unsafe { zeroed() };
        desc.size = size_of::<sched_task_desc_t>();
        desc.run = run;
        desc.user = (&raw const *user).cast_mut().cast();
        let mut id = 0;
        assert_eq!(unsafe { sched_submit(self.0, &desc, &mut id) }, SCHED_OK);
        id
    }

    fn wait(&self, id: sched_task_t) -> sched_status_t {
        unsafe { sched_wait(self.0, id, SCHED_FOREVER) }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        assert_eq!(unsafe { sched_destroy(self.0) }, SCHED_OK);
    }
}

type Shown = AtomicPtr<sched_exec_t>;

#[derive(Default)]
struct Stay {
    exec: Shown,
    go: AtomicBool,
}

unsafe extern "C-unwind" fn stay(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    let stay = unsafe { &*user.cast::<Stay>() };
    stay.exec.store(exec.cast_mut(), Ordering::Release);
    while !stay.go.load(Ordering::Acquire) {
        thread::yield_now();
    }
    unsafe { sched_exec_cancelled(exec) }
}

#[test]
fn another_thread_may_ask_until_the_code_returns() {
    let scheduler = Scheduler::new();
    let (stays, other) = (Stay::default(), Stay::default());
    let ids = [scheduler.submit(Some(stay), &stays), scheduler.submit(Some(stay), &other)];
    for stay in [&stays, &other] {
        while stay.exec.load(Ordering::Acquire).is_null() {
            thread::yield_now();
        }
    }
    let exec = stays.exec.load(Ordering::Acquire);
    unsafe {
        assert_eq!(sched_exec_cancelled(exec), 0);
        assert_eq!(sched_exec_report(exec, 0.25), SCHED_OK);
        let mut info: sched_task_info_t = zeroed();
        info.size = size_of::<sched_task_info_t>();
        assert_eq!(sched_task_info(scheduler.0, ids[0], &mut info), SCHED_OK);
        assert_eq!(info.progress, 0.25);
        assert_eq!(sched_cancel(scheduler.0, ids[0]), SCHED_OK);
        assert_eq!(sched_exec_cancelled(exec), 1);
        assert_eq!(sched_exec_cancelled(other.exec.load(Ordering::Acquire)), 0);
        stays.go.store(true, Ordering::Release);
        assert_eq!(scheduler.wait(ids[0]), SCHED_CANCELLED);
        assert_eq!(sched_exec_cancelled(exec), SCHED_E_STALE);
        assert_eq!(sched_exec_cancelled(other.exec.load(Ordering::Acquire)), 0);
    }
    other.go.store(true, Ordering::Release);
    assert_eq!(scheduler.wait(ids[1]), SCHED_OK);
}

unsafe extern "C-unwind" fn show(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    unsafe { &*user.cast::<Shown>() }.store(exec.cast_mut(), Ordering::Release);
    0
}

#[test]
fn who_asks_while_the_code_returns_hears_one_or_the_other() {
    let scheduler = Scheduler::new();
    let shown = Shown::default();
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let exec = shown.load(Ordering::Acquire);
                    let answer = unsafe { sched_exec_cancelled(exec) };
                    let accepted = if exec.is_null() { SCHED_E_ARGUMENT } else { SCHED_E_STALE };
                    assert!(answer == 0 || answer == accepted, "{answer}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0.. {
            if round >= 2000 && asked.load(Ordering::Relaxed) >= 2000 {
                break;
            }
            let id = scheduler.submit(Some(show), &shown);
            assert_eq!(scheduler.wait(id), SCHED_OK);
            assert_eq!(unsafe { sched_release(scheduler.0, id) }, SCHED_OK);
        }
        over.store(true, Ordering::Relaxed);
    });
}

struct Outer<'a> {
    scheduler: &'a Scheduler,
    inner: Shown,
}

unsafe extern "C-unwind" fn waits_inside(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    let outer = unsafe { &*user.cast::<Outer<'_>>() };
    let id = outer.scheduler.submit(Some(show), &outer.inner);
    let waited = outer.scheduler.wait(id);
    // Whoever ran the inner one, this one still runs, and that one does not.
    let inner = outer.inner.load(Ordering::Acquire);
    waited | unsafe { sched_exec_cancelled(exec) } | (unsafe { sched_exec_cancelled(inner) } ^ SCHED_E_STALE)
}

#[test]
fn a_callback_inside_of_another_ends_alone() {
    let scheduler = Scheduler::new();
    let outer = Outer { scheduler: &scheduler, inner: Shown::default() };
    let id = scheduler.submit(Some(waits_inside), &outer);
    assert_eq!(scheduler.wait(id), SCHED_OK);
}
