//! Writes that raise no signal.
//!
//! A write to a pipe without a reader raises SIGPIPE, one beyond the process's limit of file sizes
//! SIGXFSZ. Either ends a program that has no handler. Threads of the library block both, those of
//! the program do not.

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `write` and discards a SIGPIPE or SIGXFSZ that it raises on this thread. The write only
/// fails.
pub fn without_signals<T>(write: impl FnOnce() -> T) -> T {
    let (mut raised, mut set) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `sigemptyset` initialises `raised`; a successful `sigpending` or
    // `pthread_sigmask` initialises `set`.
    let before: libc::sigset_t = unsafe {
        libc::sigemptyset(raised.as_mut_ptr());
        if libc::sigpending(set.as_mut_ptr()) != 0 {
            return write();
        }
        for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
            // A pending signal is blocked here, and stays the program's.
            if libc::sigismember(set.as_ptr(), signal) == 0 {
                libc::sigaddset(raised.as_mut_ptr(), signal);
            }
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, raised.as_ptr(), set.as_mut_ptr()) != 0 {
            return write();
        }
        set.assume_init()
    };
    let written = write();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are valid; the mask is the thread's own from before.
    unsafe {
        libc::sigtimedwait(raised.as_ptr(), ptr::null_mut(), &at_once);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
    }
    written
}
