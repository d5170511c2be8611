//! The running callbacks, found by the address of their `exec`. An `exec` is looked up before it is
//! dereferenced. So an `exec` whose callback has returned is an error, not a crash.
//!
//! Each thread has a list of frames, one for each callback that it is inside of, and searches it
//! without a lock. A second list has the frames of all threads, for the rare lookup from another
//! thread. That lookup holds the list's lock:
//!
//! - the lookup sets the frame's `is_looked_at`, and then checks that the callback still runs
//!   there;
//! - a callback that returns clears its address, and then reads `is_looked_at`; if it is set, the
//!   callback waits for the lock.
//!
//! Both write first and then read, with `SeqCst`. So at least one of them sees the other, and a
//! lookup never follows an `Exec` that does not exist any more.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::sched::Exec;

/// Id of a task. Never 0. A scheduler never issues an id twice: a released one is an error.
pub type sched_task_t = u64;

/// The place where an attempt runs: argument of its callback, valid until that returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_exec_t {
    /// sizeof(sched_exec_t) in the library. Fields beyond it do not exist.
    pub size: usize,
    /// The task; 0 may stand for a detached one that was submitted with `id` NULL.
    pub task: sched_task_t,
    /// Index of the device in its scheduler, as sched_device_info takes it.
    pub device: u32,
    /// SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA.
    pub backend: u32,
    /// Number of the device in its backend.
    pub ordinal: u32,
    /// Slot of the device. No two tasks run in a slot at the same time, with one exception: while a
    /// callback waits for other tasks, one of those may run in its slot, and may still run when the
    /// callback continues.
    pub slot: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Threads that the task may use on the CPU device, its own included; 0 on a GPU.
    pub cpu_threads: u32,
    /// CUDA stream (CUstream) for the callback's work; NULL on the CPU device. The device's context
    /// is current on the thread. The task is done when the callback has returned and the work on
    /// the stream has ended.
    pub stream: *mut c_void,
}

/// The part of a running callback that other threads may reach.
pub(super) struct RunningExec<'a> {
    pub exec: &'a Exec<'a>,
    /// Message of sched_exec_fail.
    pub failure: Mutex<Option<String>>,
}

impl<'a> RunningExec<'a> {
    pub(super) fn new(exec: &'a Exec<'a>) -> Self {
        RunningExec { exec, failure: Mutex::new(None) }
    }
}

/// A running callback, or a free entry for one. Only its own thread writes it, except
/// `is_looked_at`.
struct CallbackFrame {
    /// Address of the callback's `sched_exec_t`; 0: no callback runs.
    address: AtomicUsize,
    exec: AtomicPtr<RunningExec<'static>>,
    /// Whether another thread uses `exec`.
    is_looked_at: AtomicBool,
}

/// The frames of all threads. A thread holds the lock while it uses another thread's frame.
static FRAMES: Mutex<Vec<Arc<CallbackFrame>>> = Mutex::new(Vec::new());

fn frames() -> MutexGuard<'static, Vec<Arc<CallbackFrame>>> {
    FRAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the list of all frames until the result is dropped.
pub(super) fn lock_frames() -> impl Sized + 'static {
    frames()
}

impl CallbackFrame {
    fn listed() -> Arc<Self> {
        let frame = Arc::new(CallbackFrame {
            address: AtomicUsize::new(0),
            exec: AtomicPtr::new(ptr::null_mut()),
            is_looked_at: AtomicBool::new(false),
        });
        frames().push(frame.clone());
        frame
    }

    fn unlist(&self) {
        frames().retain(|frame| !ptr::eq(&**frame, self));
    }

    fn begin(&self, address: usize, exec: *mut RunningExec<'static>) {
        self.exec.store(exec, Ordering::Relaxed);
        self.address.store(address, Ordering::Release);
    }

    fn end(&self) {
        self.address.swap(0, Ordering::SeqCst);
        if self.is_looked_at.load(Ordering::SeqCst) {
            drop(frames());
        }
    }
}

/// The frames of one thread. The first `inside` of them have a callback.
struct ThreadFrames {
    frames: Vec<Arc<CallbackFrame>>,
    inside: usize,
}

impl Drop for ThreadFrames {
    fn drop(&mut self) {
        self.frames.iter().for_each(|frame| frame.unlist());
    }
}

thread_local! {
    static OWN: RefCell<ThreadFrames> =
        const { RefCell::new(ThreadFrames { frames: Vec::new(), inside: 0 }) };
}

/// Keeps a callback listed as running until dropped.
pub(super) struct RunningCallback {
    /// The frame, if the thread-local list is already destroyed.
    separate: Option<Arc<CallbackFrame>>,
}

impl RunningCallback {
    pub(super) fn enter(address: &sched_exec_t, exec: &RunningExec<'_>) -> Self {
        let address = (&raw const *address).addr();
        let exec = (&raw const *shared(exec)).cast_mut().cast();
        let entered = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            let inside = own.inside;
            if inside == own.frames.len() {
                own.frames.push(CallbackFrame::listed());
            }
            own.frames[inside].begin(address, exec);
            own.inside += 1;
        });
        let separate = entered.is_err().then(CallbackFrame::listed);
        if let Some(frame) = &separate {
            frame.begin(address, exec);
        }
        RunningCallback { separate }
    }
}

impl Drop for RunningCallback {
    fn drop(&mut self) {
        if let Some(frame) = &self.separate {
            frame.end();
            return frame.unlist();
        }
        let _ = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            own.inside -= 1;
            own.frames[own.inside].end();
        });
    }
}

fn shared<T: Sync>(thing: &T) -> &T {
    thing
}

/// Returns the [`RunningExec`] of the callback that received `exec`, if the calling thread is inside
/// it.
fn own_exec(exec: *const sched_exec_t) -> Option<*mut RunningExec<'static>> {
    let own = OWN.try_with(|own| {
        let own = own.borrow();
        let mut frames = own.frames[..own.inside].iter().rev();
        let frame = frames.find(|frame| frame.address.load(Ordering::Relaxed) == exec.addr());
        frame.map(|frame| frame.exec.load(Ordering::Relaxed))
    });
    own.ok().flatten()
}

/// Returns true if the calling thread is inside the callback that received `exec`.
pub(super) fn is_here(exec: *const sched_exec_t) -> bool {
    own_exec(exec).is_some()
}

/// Calls `use_exec` with the `Exec` behind `exec`; `None` if no such callback runs.
fn look_up<R>(exec: *const sched_exec_t, use_exec: impl FnOnce(&RunningExec<'_>) -> R) -> Option<R> {
    if exec.is_null() {
        return None;
    }
    if let Some(own) = own_exec(exec) {
        // SAFETY: this thread is inside the callback that received it.
        return Some(use_exec(unsafe { &*own }));
    }
    // SAFETY: the `RunningExec` lives until the closure has returned; it is `Sync` (checked by
    // `shared`).
    while_it_runs(exec.addr(), |exec| use_exec(unsafe { &*exec }))
}

/// Calls `use_exec` with the `Exec` behind `exec`.
///
/// Errors: [`Error::Argument`] for NULL; [`Error::Stale`] if no callback that received `exec` runs.
pub(super) fn with_exec<R>(exec: *const sched_exec_t, use_exec: impl FnOnce(&Exec<'_>) -> R) -> Result<R> {
    with_running(exec, |running| use_exec(running.exec))
}

/// As [`with_exec`], with the [`RunningExec`] of the callback.
pub(super) fn with_running<R>(
    exec: *const sched_exec_t,
    use_exec: impl FnOnce(&RunningExec<'_>) -> R,
) -> Result<R> {
    look_up(exec, use_exec).ok_or_else(|| match exec.is_null() {
        true => Error::argument("exec", "NULL", "the argument of the task's callback"),
        false => Error::Stale { what: "exec", id: exec.addr() as u64 },
    })
}

/// Calls `use_exec` for a callback of any thread. The callback does not return before `use_exec`
/// has returned.
#[cold]
fn while_it_runs<R>(address: usize, use_exec: impl FnOnce(*const RunningExec<'static>) -> R) -> Option<R> {
    let frames = frames();
    let frame = frames.iter().find(|frame| frame.address.load(Ordering::Relaxed) == address)?;
    frame.is_looked_at.store(true, Ordering::SeqCst);
    // A callback that still runs now, with the frame marked, waits for the lock.
    let runs = frame.address.load(Ordering::SeqCst) == address;
    let result = runs.then(|| use_exec(frame.exec.load(Ordering::Relaxed)));
    // After a panic the mark stays, and costs later callbacks of the frame a lock.
    frame.is_looked_at.store(false, Ordering::SeqCst);
    result
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn returning_callback_waits_for_a_lookup() {
        /// Not the address of a `sched_exec_t`.
        const ADDRESS: usize = 7;
        let (started, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let frame = CallbackFrame::listed();
        frame.begin(ADDRESS, ptr::dangling_mut());
        thread::scope(|scope| {
            scope.spawn(|| {
                while_it_runs(ADDRESS, |_| {
                    started.store(true, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    ended.store(true, Ordering::SeqCst);
                })
            });
            while !started.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            frame.end();
            assert!(ended.load(Ordering::SeqCst));
        });
        assert!(while_it_runs(ADDRESS, |_| ()).is_none());
        frame.unlist();
        frame.begin(ADDRESS, ptr::dangling_mut());
        assert!(while_it_runs(ADDRESS, |_| ()).is_none(), "it is still in the list");
    }
}
