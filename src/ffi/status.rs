//! Statuses, their names, and the message of the last error of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem::ManuallyDrop;

use crate::error::Error;

/// Status of a call: 0 is success, a positive number is not finished but no error, a negative one
/// is an error. No value of `errno` and no CUDA status is one of them, so a callback that returns
/// such a number fails with SCHED_E_CALLBACK.
pub type sched_status_t = i32;

/// Success.
pub const SCHED_OK: i32 = 0;
/// Timed out.
pub const SCHED_PENDING: i32 = 730001;
/// The task was cancelled.
pub const SCHED_CANCELLED: i32 = 730002;
/// An argument or a field is outside what is accepted.
pub const SCHED_E_ARGUMENT: i32 = -730001;
/// A struct sets fields that this library does not know: the caller has a newer header.
pub const SCHED_E_TOO_NEW: i32 = -730002;
/// The id or handle was released or destroyed, or belongs to another scheduler.
pub const SCHED_E_STALE: i32 = -730003;
/// The task needs more memory than any allowed device has, or than the host provides.
pub const SCHED_E_MEMORY: i32 = -730004;
/// No device exists, or none that the selection or a mask allows.
pub const SCHED_E_NO_DEVICE: i32 = -730005;
/// A file could not be opened, read or written.
pub const SCHED_E_IO: i32 = -730006;
/// The task's callback returned something other than 0.
pub const SCHED_E_CALLBACK: i32 = -730007;
/// Code of the library or of a Rust task panicked; the panic was caught.
pub const SCHED_E_PANIC: i32 = -730008;
/// The wait could never have ended, so it did not begin.
pub const SCHED_E_DEADLOCK: i32 = -730009;
/// The scheduler accepts no tasks: it was drained, or is being destroyed.
pub const SCHED_E_SHUTDOWN: i32 = -730010;
/// The process was forked after the scheduler was created.
pub const SCHED_E_FORKED: i32 = -730011;
/// The numerical scheme is unstable.
pub const SCHED_E_UNSTABLE: i32 = -730012;
/// A device failed.
pub const SCHED_E_DEVICE: i32 = -730013;
/// A defect of the library. Please report it.
pub const SCHED_E_INTERNAL: i32 = -730014;
/// A task that had to succeed before this one did not, so this one did not start.
pub const SCHED_E_DEPENDENCY: i32 = -730015;
/// An attempt took longer than its deadline.
pub const SCHED_E_DEADLINE: i32 = -730016;
/// A device had too few resources to start the work beside other work, or the system provided no
/// thread.
pub const SCHED_E_RESOURCES: i32 = -730017;
/// The task's callback did not return: an exception or pthread_exit left it and was caught.
pub const SCHED_E_UNWOUND: i32 = -730018;
/// A call of a device driver failed in a way that does not concern the device.
pub const SCHED_E_DRIVER: i32 = -730019;
/// The device exists, but another process uses it exclusively.
pub const SCHED_E_BUSY: i32 = -730020;

/// The task's callback reported that a device computed a wrong result.
pub const SCHED_E_RESULT: i32 = -730021;

/// Version of the binary interface that this header describes. It increases, with the SONAME, when
/// programs that were built against an older header would stop working. Before 1.0 it is the minor
/// version of the library.
pub const SCHED_ABI_VERSION: u32 = 1;

/// Every status and its name.
const NAMES: [(sched_status_t, &CStr); 24] = [
    (SCHED_OK, c"SCHED_OK"),
    (SCHED_PENDING, c"SCHED_PENDING"),
    (SCHED_CANCELLED, c"SCHED_CANCELLED"),
    (SCHED_E_ARGUMENT, c"SCHED_E_ARGUMENT"),
    (SCHED_E_TOO_NEW, c"SCHED_E_TOO_NEW"),
    (SCHED_E_STALE, c"SCHED_E_STALE"),
    (SCHED_E_MEMORY, c"SCHED_E_MEMORY"),
    (SCHED_E_NO_DEVICE, c"SCHED_E_NO_DEVICE"),
    (SCHED_E_IO, c"SCHED_E_IO"),
    (SCHED_E_CALLBACK, c"SCHED_E_CALLBACK"),
    (SCHED_E_PANIC, c"SCHED_E_PANIC"),
    (SCHED_E_DEADLOCK, c"SCHED_E_DEADLOCK"),
    (SCHED_E_SHUTDOWN, c"SCHED_E_SHUTDOWN"),
    (SCHED_E_FORKED, c"SCHED_E_FORKED"),
    (SCHED_E_UNSTABLE, c"SCHED_E_UNSTABLE"),
    (SCHED_E_DEVICE, c"SCHED_E_DEVICE"),
    (SCHED_E_INTERNAL, c"SCHED_E_INTERNAL"),
    (SCHED_E_DEPENDENCY, c"SCHED_E_DEPENDENCY"),
    (SCHED_E_DEADLINE, c"SCHED_E_DEADLINE"),
    (SCHED_E_RESOURCES, c"SCHED_E_RESOURCES"),
    (SCHED_E_UNWOUND, c"SCHED_E_UNWOUND"),
    (SCHED_E_DRIVER, c"SCHED_E_DRIVER"),
    (SCHED_E_BUSY, c"SCHED_E_BUSY"),
    (SCHED_E_RESULT, c"SCHED_E_RESULT"),
];

/// Returns the status of an error.
pub(super) fn status_of(error: &Error) -> sched_status_t {
    match error {
        Error::Argument { .. } => SCHED_E_ARGUMENT,
        Error::TooNew { .. } => SCHED_E_TOO_NEW,
        Error::Stale { .. } => SCHED_E_STALE,
        Error::NoMemory { .. } | Error::NoContext { .. } => SCHED_E_MEMORY,
        Error::NoHostMemory { .. } | Error::ProcessLimit { .. } => SCHED_E_MEMORY,
        Error::NoDevice { .. } => SCHED_E_NO_DEVICE,
        Error::Io { .. } => SCHED_E_IO,
        Error::Callback { .. } | Error::Reported { .. } => SCHED_E_CALLBACK,
        Error::Elements { why, .. } | Error::Listed { why, .. } => status_of(why),
        Error::Panic { .. } => SCHED_E_PANIC,
        Error::Unwound { .. } => SCHED_E_UNWOUND,
        Error::Cancelled => SCHED_CANCELLED,
        Error::Deadlock { .. } => SCHED_E_DEADLOCK,
        Error::Shutdown { .. } => SCHED_E_SHUTDOWN,
        Error::Forked => SCHED_E_FORKED,
        Error::Unstable { .. } => SCHED_E_UNSTABLE,
        Error::Device { .. } => SCHED_E_DEVICE,
        Error::Driver { .. } => SCHED_E_DRIVER,
        Error::Busy { .. } => SCHED_E_BUSY,
        Error::WrongResult { .. } => SCHED_E_RESULT,
        Error::Internal(_) => SCHED_E_INTERNAL,
        Error::Dependency { .. } => SCHED_E_DEPENDENCY,
        Error::Deadline { .. } => SCHED_E_DEADLINE,
        Error::Resources { .. } | Error::NoThread { .. } => SCHED_E_RESOURCES,
    }
}

/// Message of a thread.
struct LastError {
    text: Option<CString>,
    /// `sched_last_error` returns "". The text stays, because the caller may still read it.
    is_reset: bool,
}

impl LastError {
    const NONE: LastError = LastError { text: None, is_reset: false };
}

thread_local! {
    /// Outlives the thread's other locals. Handlers of `exit` and destructors of the caller run
    /// after those are destroyed, and may call `sched_last_error`.
    static LAST_ERROR: ManuallyDrop<RefCell<LastError>> = const { ManuallyDrop::new(RefCell::new(LastError::NONE)) };
    static CLEAR_AT_THREAD_END: ClearAtThreadEnd = const { ClearAtThreadEnd };
}

/// Frees the message at the end of its thread. A message that is set after that, at most one per
/// thread, is not freed.
struct ClearAtThreadEnd;

impl Drop for ClearAtThreadEnd {
    fn drop(&mut self) {
        change(|last| *last = LastError::NONE);
    }
}

/// Sets the message of the calling thread.
pub(super) fn set_last_error(error: &Error) {
    // The first use registers the destructor.
    let _ = CLEAR_AT_THREAD_END.try_with(|_| ());
    let text = Some(c_text(error.to_string()));
    change(|last| *last = LastError { text, is_reset: false });
}

fn change(change: impl FnOnce(&mut LastError)) {
    let _ = LAST_ERROR.try_with(|last| last.try_borrow_mut().map(|mut last| change(&mut last)));
}

/// Resets the message to "", for a function without a status, so that its caller can detect
/// success. The text stays valid until the next failure.
pub(super) fn reset_last_error() {
    change(|last| last.is_reset = true);
}

/// Converts any text for C: a NUL inside becomes a space.
pub(super) fn c_text(text: String) -> CString {
    let mut bytes = text.into_bytes();
    for byte in &mut bytes {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    CString::new(bytes).unwrap_or_default()
}

/// Returns the version of the binary interface. It changes only when a program that was built
/// against an older header would break. Compare it with `SCHED_ABI_VERSION` if the library is
/// loaded at run time.
#[unsafe(no_mangle)]
pub extern "C" fn sched_abi_version() -> u32 {
    SCHED_ABI_VERSION
}

/// Returns the version of the library, such as "0.1.0". Static; do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn sched_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the name of a status, such as "SCHED_E_ARGUMENT", or "unknown status". Static; do not
/// free it.
#[unsafe(no_mangle)]
pub extern "C" fn sched_status_name(status: sched_status_t) -> *const c_char {
    name_of(status).unwrap_or(c"unknown status").as_ptr()
}

/// Returns the name of a status, or `None` for a number that is no status.
pub(super) fn name_of(status: sched_status_t) -> Option<&'static CStr> {
    NAMES.iter().find(|(number, _)| *number == status).map(|(_, name)| *name)
}

/// Returns the message of the calling thread's last call with a negative status, in one sentence;
/// "" if none has failed. A successful call does not change it, except that it is "" after a
/// successful call of gpusched_legacy.h. The library owns the text; it is valid until the thread's
/// next failing call or its end.
#[unsafe(no_mangle)]
pub extern "C" fn sched_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| {
        let last = last.try_borrow().ok()?;
        last.text.as_ref().filter(|_| !last.is_reset).map(|text| text.as_ptr())
    });
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_reset_and_its_text_stays_until_the_next_failure() {
        let error = Error::argument("nx", 0, "a message of many words that the caller still reads");
        set_last_error(&error);
        let text = sched_last_error();
        reset_last_error();
        // Would be written into the memory of the message if that were free.
        let others = vec![vec![b'x'; error.to_string().len() + 1]; 100];
        // SAFETY: both texts end with NUL, and no other failure has followed.
        let (before, now) = unsafe { (CStr::from_ptr(text), CStr::from_ptr(sched_last_error())) };
        assert_eq!((before.to_str().unwrap(), now), (error.to_string().as_str(), c""));
        drop(others);
        set_last_error(&Error::Forked);
        // SAFETY: as above.
        let now = unsafe { CStr::from_ptr(sched_last_error()) };
        assert_eq!(now.to_str().unwrap(), Error::Forked.to_string());
    }
}
