//! Threads. Those of the library are named and block signals, so the handlers of the host program
//! run on the host's threads. A `pthread_cancel` of a host's thread is delayed while the thread is
//! inside the library.

use std::cell::Cell;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::{Builder, JoinHandle};

use super::callback_mode::begin_thread;
use crate::fork::ProcessMark;

thread_local! {
    /// The process in which a thread of the library began; `None` on other threads.
    static BORN: Cell<Option<ProcessMark>> = const { Cell::new(None) };
}

/// Returns the stack bytes that a thread needs for static thread-local variables, plus a margin.
/// glibc takes them from the requested stack; other C libraries add them to it.
fn static_locals() -> usize {
    #[cfg(target_env = "gnu")]
    {
        type MinStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> libc::size_t;
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: the name ends with NUL. glibc has had this function, of this type, since 2.15.
        // `pthread_attr_init` makes `attributes` valid.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr());
            if found.is_null() || libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
                return 0;
            }
            let min_stack: MinStack = std::mem::transmute(found);
            let bytes = min_stack(attributes.as_ptr());
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            bytes
        }
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Starts a thread in the standard floating-point mode, with at least `stack` bytes of stack, or
/// with the system's default stack.
pub fn spawn(
    name: String,
    stack: Option<usize>,
    code: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name);
    let builder = match stack {
        Some(bytes) => builder.stack_size(bytes.saturating_add(static_locals())),
        None => builder,
    };
    // A thread inherits the signal mask of the thread that starts it.
    let _mask = signal_mask::SignalMask::here();
    let born = ProcessMark::here();
    builder.spawn(move || {
        BORN.set(Some(born));
        begin_thread();
        code();
    })
}

/// Waits for the end of a thread.
pub fn join(thread: JoinHandle<()>) {
    // A callback may have detached the thread. Then this fails, and the standard library's `join`
    // would panic.
    // SAFETY: the thread has not been joined.
    unsafe { libc::pthread_join(thread.into_pthread_t(), std::ptr::null_mut()) };
}

/// Returns true if `thread` is the calling thread, which must not join itself. The caller's code
/// may end the scheduler even at the very end of a thread, in a destructor of a thread-local value.
pub fn is_current_thread(thread: &JoinHandle<()>) -> bool {
    // SAFETY: both threads exist and have not been joined.
    unsafe { libc::pthread_equal(thread.as_pthread_t(), libc::pthread_self()) != 0 }
}

/// Ends a forked child on a thread of the library. Does nothing on other threads and in the parent.
///
/// Called after each callback, because a callback may fork. The child's thread can't continue: its
/// frames refer to threads that the child lacks. It is the child's only thread, so the child exits
/// with status 0.
pub fn exit_in_child() {
    let born = BORN.try_with(Cell::get).ok().flatten();
    if born.is_some_and(|born| !born.is_here()) {
        // SAFETY: ends the process without running destructors or handlers.
        unsafe {
            libc::_exit(0);
        }
    }
}

pub use cancel_guard::CancelGuard;
pub use signal_mask::unblock_signals;

mod cancel_guard {
    use libc::c_int;

    const DISABLE: c_int = 1;

    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }

    /// Delays a `pthread_cancel` of the calling thread until it is dropped. The thread may hold
    /// locks of the library and has frames that must not be unwound. Opening, reading, writing and
    /// sleeping are cancellation points. The guard costs 7 ns, so calls without such points omit
    /// it.
    pub struct CancelGuard(c_int);

    impl CancelGuard {
        pub fn here() -> Self {
            let mut before = 0;
            // SAFETY: the state is valid, and `before` is a valid place for the old one.
            unsafe { pthread_setcancelstate(DISABLE, &mut before) };
            CancelGuard(before)
        }
    }

    impl Drop for CancelGuard {
        fn drop(&mut self) {
            // SAFETY: the state is the thread's own from before.
            unsafe { pthread_setcancelstate(self.0, &mut 0) };
        }
    }
}

mod signal_mask {
    use std::mem::MaybeUninit;
    use std::ptr;

    /// Signals that stay unblocked: those that a thread raises by a fault, and a profiler's. A
    /// blocked fault would kill the process past the host's handler; a blocked SIGPROF would hide
    /// the library's work.
    const UNBLOCKED: [libc::c_int; 8] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
        libc::SIGPROF,
    ];

    /// Blocks all other signals on the calling thread until it is dropped.
    pub struct SignalMask(Option<libc::sigset_t>);

    impl SignalMask {
        pub fn here() -> Self {
            let (mut blocked, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            // SAFETY: `sigfillset` initialises the first set, a successful `pthread_sigmask` the
            // second.
            unsafe {
                libc::sigfillset(blocked.as_mut_ptr());
                for signal in UNBLOCKED {
                    libc::sigdelset(blocked.as_mut_ptr(), signal);
                }
                let done = libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
                SignalMask((done == 0).then(|| before.assume_init()))
            }
        }
    }

    impl Drop for SignalMask {
        fn drop(&mut self) {
            if let Some(before) = &self.0 {
                // SAFETY: the mask is the thread's own from before.
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
            }
        }
    }

    /// Unblocks these signals on the calling thread.
    pub fn unblock_signals(signals: &[libc::c_int]) {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set. The old mask is not requested.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for &signal in signals {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn receives(signal: libc::c_int) -> bool {
            let mut mask = MaybeUninit::uninit();
            // SAFETY: reads the calling thread's mask into `mask`.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), mask.as_mut_ptr());
                libc::sigismember(mask.as_ptr(), signal) == 0
            }
        }

        #[test]
        fn threads_of_the_library_block_all_signals_but_faults() {
            let before = receives(libc::SIGTERM);
            let thread = super::super::spawn("masked".into(), None, || {
                assert!(receives(libc::SIGSEGV) && receives(libc::SIGPROF));
                assert!(!receives(libc::SIGTERM) && !receives(libc::SIGINT) && !receives(libc::SIGUSR1));
            });
            thread.unwrap().join().unwrap();
            assert_eq!(receives(libc::SIGTERM), before, "spawn must restore the caller's mask");
        }
    }
}
