//! Which callbacks run now, by the address of what they were given: so that an `exec` is looked up before
//! it is followed, and one whose code has returned is an error and not a crash.
//!
//! Each thread keeps its own list of frames, one for each callback that it is inside of, and finds
//! those without a lock. All frames of all threads are in one list besides, for the seldom case
//! that another thread asks. That one works under the list's lock:
//!
//! - it marks the frame as asked, and then looks whether the callback still runs there;
//! - a callback that returns takes its address away, and then looks whether the frame is asked; if so, it waits
//!   for the lock.
//!
//! Both first write and then read, in the one order that all threads agree upon (`SeqCst`). So one
//! at least sees the other: who asks never follows an `Exec` that is gone.

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::task_run::sched_exec_t;
use crate::sched::Exec;

/// A callback that runs, or room for one. Written by its thread only, but for `asked`.
struct Frame {
    /// Where the callback's `sched_exec_t` lies; 0: none runs.
    told: AtomicUsize,
    exec: AtomicPtr<Exec<'static>>,
    /// Another thread is looking at `exec`.
    asked: AtomicBool,
}

/// The frames of all threads. Whoever looks at another thread's frame holds the lock until it is done.
static FRAMES: Mutex<Vec<Arc<Frame>>> = Mutex::new(Vec::new());

fn frames() -> MutexGuard<'static, Vec<Arc<Frame>>> {
    FRAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No thread looks at another's callbacks until the result is dropped.
pub(super) fn hold() -> impl Sized + 'static {
    frames()
}

impl Frame {
    fn listed() -> Arc<Self> {
        let frame = Arc::new(Frame {
            told: AtomicUsize::new(0),
            exec: AtomicPtr::new(ptr::null_mut()),
            asked: AtomicBool::new(false),
        });
        frames().push(frame.clone());
        frame
    }

    fn unlist(&self) {
        frames().retain(|frame| !ptr::eq(&**frame, self));
    }

    fn begin(&self, told: usize, exec: *mut Exec<'static>) {
        self.exec.store(exec, Ordering::Relaxed);
        self.told.store(told, Ordering::Release);
    }

    fn end(&self) {
        self.told.swap(0, Ordering::SeqCst);
        if self.asked.load(Ordering::SeqCst) {
            drop(frames());
        }
    }
}

/// The frames of one thread, the callbacks that it is inside of first.
struct Own {
    frames: Vec<Arc<Frame>>,
    inside: usize,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.frames.iter().for_each(|frame| frame.unlist());
    }
}

thread_local! {
    static OWN: RefCell<Own> = const { RefCell::new(Own { frames: Vec::new(), inside: 0 }) };
}

/// A callback that runs, until dropped, before `told` and `exec` are gone.
pub(super) struct Running {
    /// The frame, if the thread is at its very end and has no list any more.
    homeless: Option<Arc<Frame>>,
}

impl Running {
    pub(super) fn enter(told: &sched_exec_t, exec: &Exec<'_>) -> Self {
        let told = (&raw const *told).addr();
        let exec = (&raw const *shared(exec)).cast_mut().cast();
        let entered = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            let inside = own.inside;
            if inside == own.frames.len() {
                own.frames.push(Frame::listed());
            }
            own.frames[inside].begin(told, exec);
            own.inside += 1;
        });
        let homeless = entered.is_err().then(Frame::listed);
        if let Some(frame) = &homeless {
            frame.begin(told, exec);
        }
        Running { homeless }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(frame) = &self.homeless {
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

/// Whether the calling thread is inside of the code that was given it.
pub(super) fn is_here(exec: *const sched_exec_t) -> bool {
    let told = exec.addr();
    let here = OWN.try_with(|own| {
        let own = own.borrow();
        own.frames[..own.inside].iter().any(|frame| frame.told.load(Ordering::Relaxed) == told)
    });
    told != 0 && here.unwrap_or(false)
}

/// Asks the task whose code was given `exec`; `None` if no such code runs.
pub(super) fn ask<R>(exec: *const sched_exec_t, ask: impl FnOnce(&Exec<'_>) -> R) -> Option<R> {
    let told = exec.addr();
    if told == 0 {
        return None;
    }
    let own = OWN.try_with(|own| {
        let own = own.borrow();
        let frame =
            own.frames[..own.inside].iter().rev().find(|frame| frame.told.load(Ordering::Relaxed) == told);
        frame.map(|frame| frame.exec.load(Ordering::Relaxed))
    });
    if let Ok(Some(exec)) = own {
        // SAFETY: a callback that was given it has not returned, for it is this thread that is inside of it.
        return Some(ask(unsafe { &*exec }));
    }
    // SAFETY: it is there until the closure has returned; `Exec` is `Sync` (checked by `shared`).
    while_it_runs(told, |exec| ask(unsafe { &*exec }))
}

/// For a callback of any thread: it does not return before the closure has.
#[cold]
fn while_it_runs<R>(told: usize, look: impl FnOnce(*const Exec<'static>) -> R) -> Option<R> {
    let frames = frames();
    let frame = frames.iter().find(|frame| frame.told.load(Ordering::Relaxed) == told)?;
    let _asked = Asked::mark(frame);
    // If it runs still, now that the frame is marked, it will wait for the lock.
    (frame.told.load(Ordering::SeqCst) == told).then(|| look(frame.exec.load(Ordering::Relaxed)))
}

/// The mark goes also where an answer panics; before the lock does.
struct Asked<'a>(&'a Frame);

impl<'a> Asked<'a> {
    fn mark(frame: &'a Frame) -> Self {
        frame.asked.store(true, Ordering::SeqCst);
        Asked(frame)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_returns_waits_for_who_looks() {
        /// No address of a `sched_exec_t`.
        const TOLD: usize = 7;
        let (looks, looked) = (AtomicBool::new(false), AtomicBool::new(false));
        let frame = Frame::listed();
        frame.begin(TOLD, ptr::dangling_mut());
        thread::scope(|scope| {
            scope.spawn(|| {
                while_it_runs(TOLD, |_| {
                    looks.store(true, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    looked.store(true, Ordering::SeqCst);
                })
            });
            while !looks.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            frame.end();
            assert!(looked.load(Ordering::SeqCst));
        });
        assert!(while_it_runs(TOLD, |_| ()).is_none());
        frame.unlist();
        frame.begin(TOLD, ptr::dangling_mut());
        assert!(while_it_runs(TOLD, |_| ()).is_none(), "it is in the list still");
    }
}
