//! The threads of the library: named, and deaf to signals, so that the host's handlers run on the
//! host's threads, where they interrupt what its author expects them to interrupt. And the host's threads
//! while they are in the library: none is cancelled there.

use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle};

use super::cpu::begin_thread;
use crate::fork::ProcessMark;

thread_local! {
    /// The process in which a thread of the library began; `None` on other threads.
    static BORN: Cell<Option<ProcessMark>> = const { Cell::new(None) };
}

/// Returns the bytes that static thread-local variables of the program and its libraries take from
/// the stack of each thread, and some more. glibc puts them there; other C libraries add them to it.
fn static_locals() -> usize {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
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
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    0
}

/// Starts a thread in the standard floating-point mode, with at least `stack` bytes of stack, or as
/// many as the system gives by default.
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
    // A thread begins with the mask of who starts it.
    let _deaf = deaf::Deaf::here();
    let born = ProcessMark::here();
    builder.spawn(move || {
        BORN.set(Some(born));
        begin_thread();
        code();
    })
}

/// Whether it is the calling thread that this would wait for: code of the caller may run at a thread's very end, too
/// (a destructor of what the thread had), and end the scheduler whose thread it is.
pub fn is_this(thread: &JoinHandle<()>) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::thread::JoinHandleExt;
        // SAFETY: asks for the calling thread, and compares two threads that have not been joined.
        unsafe { libc::pthread_equal(thread.as_pthread_t(), libc::pthread_self()) != 0 }
    }
    #[cfg(not(unix))]
    {
        thread.thread().id() == std::thread::current().id()
    }
}

/// To be called when code of the caller has returned. If that code has forked, and this is the child, a
/// thread of the library has nothing to go on with: its frames hold what threads share that are not there. It ends as if it had
/// returned from its first function, and with it, as its last thread, the child. A thread of the caller
/// goes on.
pub fn end_in_child() {
    let born = BORN.try_with(Cell::get).ok().flatten();
    if born.is_some_and(|born| !born.is_here()) {
        #[cfg(unix)]
        // SAFETY: ends the process without running anything of it.
        unsafe {
            libc::_exit(0);
        }
    }
}

pub use uncancelled::Uncancelled;

/// Linux and BSD; macOS has another number, Android no such thing.
#[cfg(all(unix, not(any(target_os = "android", target_vendor = "apple"))))]
mod uncancelled {
    use libc::c_int;

    const DISABLE: c_int = 1;

    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }

    /// While it lives, `pthread_cancel` does not end the calling thread, which has locks of the library and
    /// frames that nothing may unwind: to open, read, write or sleep would be points where it does. A cancel
    /// waits until then. It takes 7 ns, so what does none of these goes without.
    pub struct Uncancelled(c_int);

    impl Uncancelled {
        pub fn here() -> Self {
            let mut before = 0;
            // SAFETY: the state is one of the two that there are, and `before` is ours.
            unsafe { pthread_setcancelstate(DISABLE, &mut before) };
            Uncancelled(before)
        }
    }

    impl Drop for Uncancelled {
        fn drop(&mut self) {
            // SAFETY: the state that this thread had; the place is ours.
            unsafe { pthread_setcancelstate(self.0, &mut 0) };
        }
    }
}

#[cfg(not(all(unix, not(any(target_os = "android", target_vendor = "apple")))))]
mod uncancelled {
    /// A thread that is cancelled is not looked at here.
    pub struct Uncancelled;

    impl Uncancelled {
        pub fn here() -> Self {
            Uncancelled
        }
    }
}

#[cfg(unix)]
mod deaf {
    use std::mem::MaybeUninit;
    use std::ptr;

    /// Signals that a thread causes itself, and a profiler's, stay open: blocked, the first would kill the
    /// process past the host's handler, and the last would count the library's work as somebody else's.
    const OPEN: [libc::c_int; 8] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
        libc::SIGPROF,
    ];

    /// While it lives, the calling thread hears no other signal.
    pub struct Deaf(Option<libc::sigset_t>);

    impl Deaf {
        pub fn here() -> Self {
            let (mut closed, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            // SAFETY: the sets are ours; `sigfillset` makes the first a valid one, and a successful
            // `pthread_sigmask` the second.
            unsafe {
                libc::sigfillset(closed.as_mut_ptr());
                for signal in OPEN {
                    libc::sigdelset(closed.as_mut_ptr(), signal);
                }
                let done = libc::pthread_sigmask(libc::SIG_SETMASK, closed.as_ptr(), before.as_mut_ptr());
                Deaf((done == 0).then(|| before.assume_init()))
            }
        }
    }

    impl Drop for Deaf {
        fn drop(&mut self) {
            if let Some(before) = &self.0 {
                // SAFETY: the mask that this thread had.
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn hears(signal: libc::c_int) -> bool {
            let mut mask = MaybeUninit::uninit();
            // SAFETY: asks for the calling thread's mask.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), mask.as_mut_ptr());
                libc::sigismember(mask.as_ptr(), signal) == 0
            }
        }

        #[test]
        fn threads_of_the_library_hear_only_what_they_cause_themselves() {
            let before = hears(libc::SIGTERM);
            let thread = super::super::spawn("deaf".into(), None, || {
                assert!(hears(libc::SIGSEGV) && hears(libc::SIGPROF));
                assert!(!hears(libc::SIGTERM) && !hears(libc::SIGINT) && !hears(libc::SIGUSR1));
            });
            thread.unwrap().join().unwrap();
            assert_eq!(hears(libc::SIGTERM), before, "the mask of who starts a thread stays");
        }
    }
}

#[cfg(not(unix))]
mod deaf {
    /// There are no signals to hear.
    pub struct Deaf;

    impl Deaf {
        pub fn here() -> Self {
            Deaf
        }
    }
}
