//! Progress and trace of a scheduler.

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr::null_mut;
use std::time::Duration;

use super::guard::guard_status;
use super::input::{self, OutStruct, VersionedStruct, path};
use super::scheduler_handle::{sched_t, with_scheduler};
use super::status::sched_status_t;
use super::trampoline;
use crate::backend::callback_mode::CallbackMode;
use crate::error::{Error, Result};
use crate::io::atomic;
use crate::sched::{Progress, Scheduler};

/// Progress of a scheduler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_progress_t {
    /// sizeof(sched_progress_t), set by the caller; in a callback, by the library.
    pub size: usize,
    /// Tasks that wait to start now.
    pub queued: u64,
    /// Tasks that run now.
    pub running: u64,
    /// Tasks that succeeded.
    pub done: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Attempts that followed a failed attempt.
    pub retried: u64,
    /// Time since the first task was submitted, in nanoseconds.
    pub elapsed_ns: u64,
    /// Estimated time until all tasks that were submitted so far have ended, in nanoseconds; -1:
    /// unknown. It needs rates: from tasks that have ended, from progress reports of running ones,
    /// or from an earlier run.
    pub eta_ns: i64,
    /// Work of all tasks that state it.
    pub work_total: f64,
    /// Part of `work_total` that is done: all of a task that has ended, successfully or not, and
    /// the reported fraction of one that runs.
    pub work_done: f64,
}

// SAFETY: `repr(C)`, `size` first, and fields for which zero is valid.
unsafe impl VersionedStruct for sched_progress_t {
    const NAME: &'static str = "sched_progress_t";
}

/// Receives the progress of a scheduler. `progress` is valid during the call. Called on a thread of
/// the library, never twice at once for one scheduler. It may call any function of the library
/// except sched_destroy for this scheduler. It must return, and no exception may leave it. It runs
/// in the floating-point mode of the thread that called sched_progress_callback, see sched_run_fn.
pub type sched_progress_fn =
    Option<unsafe extern "C-unwind" fn(progress: *const sched_progress_t, user: *mut c_void)>;

/// Interval that `interval_ns` 0 means.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval. Shorter ones cost time and are of no use.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

fn progress_of(progress: &Progress) -> sched_progress_t {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sched_progress_t {
        size: size_of::<sched_progress_t>(),
        queued: progress.counts.queued,
        running: progress.counts.running,
        done: progress.counts.done,
        failed: progress.counts.failed,
        cancelled: progress.counts.cancelled,
        retried: progress.counts.retried,
        elapsed_ns: nanoseconds(progress.elapsed),
        eta_ns: progress.eta.map_or(-1, |eta| i64::try_from(eta.as_nanos()).unwrap_or(i64::MAX)),
        work_total: progress.work_total,
        work_done: progress.work_done,
    }
}

/// Fills in the progress of the scheduler.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_progress(
    s: *const sched_t,
    progress: *mut sched_progress_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(progress)? };
        out.fill(progress_of(&with_scheduler(s, Scheduler::progress)?));
        Ok(())
    })
}

/// Calls `function` with the progress every `interval_ns` (at least 1000000; 0: one second), first
/// after that time. It replaces the function that was set before; NULL ends the calls. The thread
/// for the calls exists only while a function is set. `user` is passed to the function and stays
/// the caller's. Once this call, or sched_destroy, has returned, the previous function is not
/// running (unless it made this call itself) and is not called again. So the function must not wait
/// for the thread that replaces it.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_FORKED; SCHED_E_RESOURCES without a thread for
/// it; SCHED_E_SHUTDOWN for a function while another thread ends the scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_progress_callback(
    s: *mut sched_t,
    function: sched_progress_fn,
    user: *mut c_void,
    interval_ns: u64,
) -> sched_status_t {
    let mode = CallbackMode::of_this_thread();
    guard_status(|| {
        let interval = interval(interval_ns)?;
        let user = input::SendPointer::new(user);
        let callback = function.map(|function| {
            move |progress: &Progress| {
                let progress = progress_of(progress);
                // SAFETY: the caller passed the two together and allowed the call from this thread;
                // `progress` outlives the call. A function with two parameters ignores a third.
                let result = unsafe {
                    let function: trampoline::CallerFunction = std::mem::transmute(function);
                    trampoline::call(
                        mode.enter(),
                        function,
                        [(&raw const progress).cast_mut().cast(), user.pointer(), null_mut()],
                    )
                };
                if let Err(error) = result {
                    log::error!("in a progress function: {error}");
                }
            }
        });
        with_scheduler(s, |scheduler| scheduler.on_progress(interval, callback))
    })
}

fn interval(ns: u64) -> Result<Duration> {
    match Duration::from_nanos(ns) {
        Duration::ZERO => Ok(DEFAULT_INTERVAL),
        interval if interval < MIN_INTERVAL => {
            Err(Error::argument("interval_ns", ns, "0, for a second, or 1000000 (a millisecond) and more"))
        }
        interval => Ok(interval),
    }
}

/// Writes a trace of all attempts up to now to a file in the Chrome trace event format (JSON), for
/// chrome://tracing and ui.perfetto.dev. The trace has a process for each device, a row for each
/// slot, a bar for each attempt, a flag for each warning or retry, and a curve of the reserved
/// memory. The scheduler needs `trace_events` in its sched_config_t; events beyond that number are
/// only counted ("left_out"). The file is complete or absent.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_trace_write(s: *const sched_t, path: *const c_char) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a text as the header requires it.
        let path = unsafe { self::path("path", path)? };
        let timeline = with_scheduler(s, Scheduler::timeline)?;
        atomic::write_with(&path, |out| timeline.write(out))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_progress_calls_is_a_second_unless_it_is_set() {
        assert_eq!(interval(0), Ok(Duration::from_secs(1)));
        for ns in [1_000_000, 7_000_000, u64::MAX] {
            assert_eq!(interval(ns), Ok(Duration::from_nanos(ns)));
        }
        for ns in [1, 999_999] {
            let refused = interval(ns).unwrap_err().to_string();
            assert!(refused.contains(&format!("interval_ns is {ns}")), "{refused}");
        }
    }
}
