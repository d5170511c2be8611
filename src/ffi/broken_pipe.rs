//! Writes to files of the caller's choice, which may be pipes or sockets whose reader has ended.

/// Runs `write` and discards the SIGPIPE that it raises on this thread, which could end the
/// process. The write only fails.
pub(super) fn without_sigpipe(write: impl FnOnce()) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use std::mem::MaybeUninit;
        use std::ptr;

        let (mut broken, mut set) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: `sigemptyset` initialises `broken`; a successful `sigpending` or `pthread_sigmask`
        // initialises `set`.
        let before: libc::sigset_t = unsafe {
            libc::sigemptyset(broken.as_mut_ptr());
            libc::sigaddset(broken.as_mut_ptr(), libc::SIGPIPE);
            // A SIGPIPE that is pending is blocked here, and stays the program's.
            if libc::sigpending(set.as_mut_ptr()) != 0
                || libc::sigismember(set.as_ptr(), libc::SIGPIPE) != 0
                || libc::pthread_sigmask(libc::SIG_BLOCK, broken.as_ptr(), set.as_mut_ptr()) != 0
            {
                return write();
            }
            set.assume_init()
        };
        write();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets are valid; the mask is the thread's own from before.
        unsafe {
            libc::sigtimedwait(broken.as_ptr(), ptr::null_mut(), &at_once);
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    write()
}
