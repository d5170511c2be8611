//! Notices a fork without asking the system each time who one is.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between the process that first asked and this one.
pub fn forks() -> u64 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the function stays where it is, only adds to an atomic and does not unwind. Refused, for want of
        // memory, it leaves a child that takes itself for its parent, as it would be without.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
    FORKS.load(Ordering::Relaxed)
}

#[cfg(unix)]
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
