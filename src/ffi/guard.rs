//! The guard that every entry point goes through: errors and panics become a status and a message.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::status::{SCHED_OK, sched_status_t, set_last_error, status_of};
use super::{fork, logging};
use crate::backend::float_mode::FloatMode;
use crate::backend::thread::CancelGuard;
use crate::error::{Error, Result};

/// A type that a function of the C ABI returns.
pub(super) trait ReturnValue {
    /// Returns the value of a call that failed.
    fn failed(status: sched_status_t) -> Self;
}

impl ReturnValue for sched_status_t {
    /// Returns the value of a call that failed.
    fn failed(status: sched_status_t) -> Self {
        status
    }
}

impl ReturnValue for () {
    fn failed(_: sched_status_t) -> Self {}
}

/// Runs the body of an entry point. Catches panics. A failure sets the calling thread's last error.
pub(super) fn guard<R: ReturnValue>(body: impl FnOnce() -> Result<R>) -> R {
    // A caller may flush denormal numbers or trap overflows; the library's arithmetic must not
    // depend on it.
    let (_whole, _mode) = (CancelGuard::here(), FloatMode::standard());
    guard_in_callers_mode(body)
}

/// As [`guard`], but keeps the caller's floating-point mode. Used for frequent calls without
/// floating-point arithmetic, where changing the mode would cost more than the rest.
#[inline]
pub(super) fn guard_in_callers_mode<R: ReturnValue>(body: impl FnOnce() -> Result<R>) -> R {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        fork::install_handlers();
        logging::start();
        body()
    }));
    match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => failed(&error),
        Err(payload) => failed(&Error::panic(payload)),
    }
}

#[cold]
fn failed<R: ReturnValue>(error: &Error) -> R {
    // The message may contain numbers that are computed.
    let _mode = FloatMode::standard();
    let status = status_of(error);
    if status < 0 {
        set_last_error(error);
    }
    R::failed(status)
}

/// As [`guard`], for functions that return only a status.
pub(super) fn guard_status(body: impl FnOnce() -> Result<()>) -> sched_status_t {
    guard(|| body().map(|()| SCHED_OK))
}
