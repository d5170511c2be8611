//! Fork detection. Threads do not survive a fork, and locks stay as other threads held them. So an
//! object that needs either stores its process and refuses to work in a child.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};

static FORKS: AtomicU64 = AtomicU64::new(0);
static REGISTER: ForkOnce = ForkOnce::new();

/// The state of a [`ForkOnce`] whose code has run.
const DONE: u32 = u32::MAX;

/// Runs code once. Unlike [`std::sync::Once`], it does not block a child that was forked while
/// another thread ran the code: the child runs it again.
pub(crate) struct ForkOnce {
    /// 0, the id of the process that runs the code, or [`DONE`].
    state: AtomicU32,
}

impl ForkOnce {
    pub const fn new() -> Self {
        ForkOnce { state: AtomicU32::new(0) }
    }

    /// Runs `code`, unless an earlier call has run it. Waits while another thread of this process
    /// runs it.
    #[inline]
    pub fn call_once(&self, code: impl FnOnce()) {
        if self.state.load(Ordering::Acquire) != DONE {
            self.run(code);
        }
    }

    #[cold]
    fn run(&self, code: impl FnOnce()) {
        let here = std::process::id();
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state == DONE {
                return;
            }
            if state == here {
                std::thread::sleep(Duration::from_micros(100));
            } else if self.state.compare_exchange(state, here, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                code();
                return self.set_done();
            }
        }
    }

    /// Makes later calls return at once. Code that registers a fork handler lets the handler call
    /// this, so that a child in which the handler runs does not register it again.
    pub fn set_done(&self) {
        self.state.store(DONE, Ordering::Release);
    }
}

/// Returns the number of forks between the first caller's process and the calling process.
///
/// A child made by the bare system call `clone` is not counted.
pub fn forks() -> u64 {
    REGISTER.call_once(|| {
        // SAFETY: the function is never unloaded, only changes atomics and does not unwind. If the
        // system has no memory to register it, forks are not counted.
        unsafe {
            libc::pthread_atfork(None, None, Some(count_fork));
        }
    });
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn count_fork() {
    REGISTER.set_done();
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process in which an object was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMark(u64);

impl ProcessMark {
    /// Returns the mark of the calling process.
    pub fn here() -> Self {
        ProcessMark(forks())
    }

    /// Returns true in the marked process, false in its forked children.
    pub fn is_here(self) -> bool {
        self.0 == forks()
    }

    /// Returns [`Error::Forked`] in a forked child of the marked process.
    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked) }
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Forks while another thread is inside `hold`. The child runs `code` for at most 20 s. Returns
    /// the child's exit status.
    pub fn fork_during(hold: impl FnOnce(&dyn Fn()) + Send, code: impl FnOnce()) -> i32 {
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                hold(&|| {
                    tell.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                })
            });
            told.recv().unwrap();
            // SAFETY: the child runs `code` and ends; if that blocks, its alarm ends it.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(20);
                    code();
                    libc::_exit(0);
                }
                let mut status = -1;
                libc::waitpid(child, &mut status, 0);
                status
            }
        })
    }

    #[test]
    fn child_does_not_wait_for_a_thread_of_its_parent() {
        let once = ForkOnce::new();
        let status = fork_during(
            |pause| once.call_once(pause),
            || {
                let mut runs = 0;
                once.call_once(|| runs += 1);
                once.call_once(|| runs += 1);
                assert_eq!(runs, 1);
            },
        );
        assert_eq!(status, 0);
        once.call_once(|| panic!("it ran before"));
    }
}
