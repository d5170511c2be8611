//! The guard that every entry point goes through: errors and panics become a status and a message.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::status::{SCHED_OK, remember, sched_status_t, status_of};
use super::{fork, logging};
use crate::backend::cpu::FloatMode;
use crate::backend::thread::Uncancelled;
use crate::error::{Error, Result};

/// What a function returns when it failed.
pub(super) trait Returned {
    fn failed(status: sched_status_t) -> Self;
}

impl Returned for sched_status_t {
    fn failed(status: sched_status_t) -> Self {
        status
    }
}

impl Returned for () {
    fn failed(_: sched_status_t) -> Self {}
}

impl Returned for usize {
    fn failed(_: sched_status_t) -> Self {
        0
    }
}

/// The landing pad: nothing unwinds past it, and every failure leaves its words
/// with the calling thread.
pub(super) fn guard<R: Returned>(body: impl FnOnce() -> Result<R>) -> R {
    // A caller may flush denormal numbers or trap on overflows; our arithmetic must not depend on it.
    let (_whole, _mode) = (Uncancelled::here(), FloatMode::standard());
    without_arithmetic(body)
}

/// [`guard`] for what has no arithmetic with floating-point numbers in it, and is called so often that
/// putting the caller's mode aside would cost more than the rest.
#[inline]
pub(super) fn without_arithmetic<R: Returned>(body: impl FnOnce() -> Result<R>) -> R {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        fork::watch();
        logging::start();
        body()
    }));
    match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => failed(&error),
        Err(payload) => failed(&Error::Panic { message: words(&*payload) }),
    }
}

#[cold]
fn failed<R: Returned>(error: &Error) -> R {
    let status = status_of(error);
    if status < 0 {
        remember(error);
    }
    R::failed(status)
}

/// [`guard`] for the many functions that have nothing to tell but that they are done.
pub(super) fn done(body: impl FnOnce() -> Result<()>) -> sched_status_t {
    guard(|| body().map(|()| SCHED_OK))
}

pub(super) fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
