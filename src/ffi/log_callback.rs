//! The log callback of the caller.

use std::ffi::{c_char, c_void};

use log::LevelFilter;

use super::guard::guard_status;
use super::input::SendPointer;
use super::logging::{LogTarget, install, is_inside_callback};
use super::status::sched_status_t;
use crate::backend::callback_mode::CallbackMode;
use crate::error::Error;

/// Receives a line of the log. `level` is 1 (error), 2 (warning), 3 (information), 4 (debug) or 5
/// (trace); `message` is valid during the call. Warnings report failed tasks, late attempts and
/// retired devices; information reports retries and copies of tasks. Any thread may call it,
/// several at the same time, some with a lock of the library held. So the function must not log
/// through the library, wait for a task or destroy a scheduler. No exception may leave it. It runs in
/// the floating-point mode of the thread that called sched_log_callback, see sched_run_fn.
pub type sched_log_fn =
    Option<unsafe extern "C-unwind" fn(level: i32, message: *const c_char, user: *mut c_void)>;

/// Sends the log of the whole process to a function of the caller, in place of the previous target.
///
/// `max_level`: 1 error, 2 warning, 3 information, 4 debug, 5 trace; lines of higher levels are
/// left out. `function` NULL turns the log off. `user` is passed to the function and stays the
/// caller's. Once a later call has returned, the previous function is not running and is not called
/// again.
///
/// Errors: SCHED_E_ARGUMENT for a level outside 1 to 5; SCHED_E_DEADLOCK from inside a log
/// function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_log_callback(
    function: sched_log_fn,
    user: *mut c_void,
    max_level: i32,
) -> sched_status_t {
    let mode = CallbackMode::of_this_thread();
    guard_status(|| {
        if is_inside_callback() {
            let why = "it was called from inside the log function that it would have to wait for".into();
            return Err(Error::Deadlock { what: "sched_log_callback", why });
        }
        let Some(function) = function else {
            install(LogTarget::Off, LevelFilter::Off);
            return Ok(());
        };
        let level = match max_level {
            1 => LevelFilter::Error,
            2 => LevelFilter::Warn,
            3 => LevelFilter::Info,
            4 => LevelFilter::Debug,
            5 => LevelFilter::Trace,
            _ => return Err(Error::argument("max_level", max_level, "1 (error) to 5 (trace)")),
        };
        install(LogTarget::Callback { function, user: SendPointer::new(user), mode }, level);
        Ok(())
    })
}
