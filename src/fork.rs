//! Fork detection. Threads do not survive a fork, and locks stay as other threads held them, so an
//! object that needs either notes its process and refuses to work in a child.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of forks between the process that called this first and the calling process.
///
/// A child made by the bare system call `clone` is not counted.
pub fn forks() -> u64 {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the function is never unloaded, only adds to an atomic and does not unwind. If
        // the system has no memory to register it, a child takes itself for its parent.
        unsafe {
            libc::pthread_atfork(None, None, Some(count_fork));
        }
    });
    FORKS.load(Ordering::Relaxed)
}

#[cfg(unix)]
extern "C" fn count_fork() {
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
