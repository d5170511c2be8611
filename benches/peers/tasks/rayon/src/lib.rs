//! rayon: a pool of two threads, used from a thread outside of it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

type Work = unsafe extern "C" fn(*mut c_void);
type Body = unsafe extern "C" fn(usize, *mut c_void);

static POOL: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);
static LEFT: AtomicUsize = AtomicUsize::new(0);
static WAITER: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

thread_local! {
    /// Spares a submission the lock of `POOL`.
    static MINE: std::cell::RefCell<Option<Arc<ThreadPool>>> = const { std::cell::RefCell::new(None) };
}

fn with<R>(use_it: impl FnOnce(&ThreadPool) -> R) -> R {
    MINE.with_borrow(|pool| use_it(pool.as_ref().expect("peer_init came first")))
}

#[derive(Clone, Copy)]
struct User(*mut c_void);
unsafe impl Send for User {}
unsafe impl Sync for User {}

impl User {
    fn get(self) -> *mut c_void {
        self.0
    }
}

#[no_mangle]
pub extern "C" fn peer_init() {
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(2).build().expect("two threads"));
    *POOL.lock().unwrap() = Some(pool.clone());
    MINE.set(Some(pool));
}

#[no_mangle]
pub extern "C" fn peer_fini() {
    MINE.set(None);
    *POOL.lock().unwrap() = None;
}

#[no_mangle]
pub extern "C" fn peer_submit(work: Work, user: *mut c_void) {
    LEFT.fetch_add(1, Ordering::Relaxed);
    let user = User(user);
    with(|pool| {
        pool.spawn(move || {
            unsafe { work(user.get()) };
            if LEFT.fetch_sub(1, Ordering::AcqRel) == 1 {
                let _held = WAITER.0.lock().unwrap();
                WAITER.1.notify_all();
            }
        })
    });
}

#[no_mangle]
pub extern "C" fn peer_wait_all() {
    let mut held = WAITER.0.lock().unwrap();
    while LEFT.load(Ordering::Acquire) > 0 {
        held = WAITER.1.wait(held).unwrap();
    }
}

/// A flag that a thread polls for a moment, then sleeps on: the usual handle in programs that use
/// rayon.
#[derive(Default)]
struct Handle {
    done: AtomicBool,
    lock: Mutex<()>,
    ended: Condvar,
}

#[no_mangle]
pub extern "C" fn peer_submit_handle(work: Work, user: *mut c_void) -> *const c_void {
    let handle = Arc::new(Handle::default());
    let (user, ours) = (User(user), handle.clone());
    with(|pool| {
        pool.spawn(move || {
            unsafe { work(user.get()) };
            let _held = ours.lock.lock().unwrap();
            ours.done.store(true, Ordering::Release);
            ours.ended.notify_all();
        })
    });
    Arc::into_raw(handle).cast()
}

/// # Safety
/// `handle` comes from `peer_submit_handle`, and is passed once.
#[no_mangle]
pub unsafe extern "C" fn peer_wait(handle: *const c_void) {
    let handle = unsafe { Arc::from_raw(handle.cast::<Handle>()) };
    for _ in 0..2000 {
        if handle.done.load(Ordering::Acquire) {
            return;
        }
        std::hint::spin_loop();
    }
    let mut held = handle.lock.lock().unwrap();
    while !handle.done.load(Ordering::Acquire) {
        held = handle.ended.wait(held).unwrap();
    }
}

#[no_mangle]
pub extern "C" fn peer_for(count: usize, body: Body, user: *mut c_void) -> i32 {
    let user = User(user);
    with(|pool| {
        pool.install(|| {
            (0..count).into_par_iter().with_max_len(1).for_each(|i| unsafe { body(i, user.get()) })
        })
    });
    1
}
