//! Schedulers: create, query, destroy.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use super::guard::{guard, guard_status};
use super::input::{OutParam, OutStruct, VersionedStruct, path, read_or_default, text};
use super::scheduler_handle::{SCHEDULERS, sched_t, scheduler};
use super::status::{SCHED_CANCELLED, SCHED_OK, SCHED_PENDING, sched_status_t};
use crate::error::{Error, Result};
use crate::io::kept::Kept;
use crate::sched::{Scheduler, WaitResult};

/// As `timeout_ns`: wait as long as it takes. 0 looks and returns.
pub const SCHED_FOREVER: i64 = -1;

/// As `slots`: as many as each device turns out to do best with, found while tasks run.
pub const SCHED_SLOTS_AUTO: u32 = 0xffff_ffff;

/// What a scheduler is made of. Zero in every field is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_config_t {
    /// sizeof(sched_config_t), set by the caller.
    pub size: usize,
    /// Devices to use: "all", "none", or a list such as "cpu,cuda:0,cuda:GPU-5b...".
    /// NULL: what GPUSCHED_DEVICES says, else all. Copied.
    pub devices: *const c_char,
    /// Tasks at a time on each device, at most 64, or SCHED_SLOTS_AUTO. 0: what GPUSCHED_SLOTS says, else 1.
    pub slots: u32,
    /// Threads of the CPU device, shared by its slots. 0: all that the process may use.
    pub cpu_threads: u32,
    /// Events that a trace of what runs keeps at most, 150 bytes of memory or so each. 0: no trace.
    pub trace_events: u32,
    /// Zero.
    pub reserved: u32,
    /// File that keeps between runs what is learned of the devices, their speeds above all, for programs whose task classes
    /// and units of work mean the same. It need not be there, and need not be sound; folders are made.
    /// NULL: none. Copied.
    pub rates_path: *const c_char,
    /// Bytes of stack for the code of each task, 1048576 to 68719476736 (1 MiB to 64 GiB). 0: 8 MiB.
    /// Each worker reserves 4 MiB more; only pages that are touched take memory.
    pub stack_bytes: u64,
}

/// Numbers of tasks of a scheduler since it was made.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_stats_t {
    /// sizeof(sched_stats_t), set by the caller.
    pub size: usize,
    /// Tasks accepted.
    pub submitted: u64,
    /// Waiting to be started now.
    pub queued: u64,
    /// Running now.
    pub running: u64,
    /// Ended well.
    pub done: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Cancelled before their result counted.
    pub cancelled: u64,
    /// Attempts that followed a failed attempt.
    pub retried: u64,
    /// Devices that the scheduler has.
    pub devices: u32,
    /// Zero.
    pub reserved: u32,
    /// Time from the first submission to the last end so far, in nanoseconds.
    pub makespan_ns: u64,
    /// No schedule could have finished sooner what ended well, by the rates that were measured: the larger of
    /// all work over all devices' rates and the longest task on the fastest device, in nanoseconds.
    /// 0 where nothing has ended well.
    pub lower_bound_ns: u64,
}

// SAFETY (both): `repr(C)`, `size` first, and fields for which zero is valid.
unsafe impl VersionedStruct for sched_config_t {
    const NAME: &'static str = "sched_config_t";
}
// SAFETY: see above.
unsafe impl VersionedStruct for sched_stats_t {
    const NAME: &'static str = "sched_stats_t";
}

pub(super) fn timeout(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

pub(super) fn wait_status(wait: WaitResult) -> sched_status_t {
    match wait {
        WaitResult::Done => SCHED_OK,
        WaitResult::Pending => SCHED_PENDING,
        WaitResult::Cancelled => SCHED_CANCELLED,
    }
}

/// Makes a scheduler and puts its handle into `*out`. `config` NULL: every default.
/// No device is touched before its first task. To be ended with sched_destroy.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW; SCHED_E_NO_DEVICE where nothing fits the selection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_create(
    config: *const sched_config_t,
    out: *mut *mut sched_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let (config, out, devices, rates) = unsafe {
            let config = read_or_default(config)?;
            let rates = (!config.rates_path.is_null()).then(|| path("rates_path", config.rates_path));
            (config, OutParam::new("out", out)?, text(config.devices), rates.transpose()?)
        };
        if config.reserved != 0 {
            return Err(Error::argument("reserved of sched_config_t", config.reserved, "0"));
        }
        let mut builder = Scheduler::builder();
        builder.devices = devices.map(|text| text.into_owned());
        builder.slots = (config.slots != 0).then_some(config.slots);
        builder.cpu_threads = (config.cpu_threads != 0).then_some(config.cpu_threads);
        builder.stack_bytes = (config.stack_bytes != 0).then_some(config.stack_bytes);
        builder.trace_events = config.trace_events as usize;
        builder.rates = rates.map(|path| Arc::new(Kept::new(path)) as _);
        out.write(SCHEDULERS.add(Arc::new(builder.build()?)));
        Ok(())
    })
}

/// Puts a handle of the scheduler that all of the process share into `*out`: made from the environment if
/// nobody holds it. For libraries that don't know of each other: each call gives a handle
/// of its own, to be given back with sched_destroy, and the last one ends the scheduler.
///
/// Whoever gives back a handle while others hold theirs leaves its tasks to run on: wait for them first.
/// sched_wait_next has an order for each handle; sched_wait_all, sched_stats and the devices are
/// of all together. Passing NULL to any function uses the same scheduler and keeps it for good.
///
/// Errors: SCHED_E_ARGUMENT; SCHED_E_NO_DEVICE; SCHED_E_FORKED in a child whose parent had one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_default(out: *mut *mut sched_t) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("out", out)? };
        out.write(SCHEDULERS.add(Arc::new(Scheduler::share_default()?)));
        Ok(())
    })
}

/// Accepts no more tasks and waits until all have ended: 0, or SCHED_PENDING when the time was up first.
/// Outcomes can still be asked for. The shared scheduler (sched_default) goes on accepting: it only waits.
///
/// Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task of the same scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_drain(s: *mut sched_t, timeout_ns: i64) -> sched_status_t {
    guard(|| Ok(wait_status(scheduler(s)?.drain(timeout(timeout_ns))?)))
}

/// Cancels what is queued, asks what runs to stop, waits for it, and ends the scheduler. Drop callbacks
/// have been called when it returns, waiting calls of other threads return, and the handle is stale.
/// A handle of sched_default is given back, and its scheduler ends with the last. NULL: nothing to do.
///
/// It waits as long as a task's code runs; for code that may never return see sched_shutdown. It does not
/// wait for an attempt that was given up after its deadline: should its code return one day, `drop` is called then.
///
/// Errors: SCHED_E_STALE for a handle that was destroyed before; SCHED_E_DEADLOCK from inside a task
/// or a `drop` of the same scheduler, which then goes on as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_destroy(s: *mut sched_t) -> sched_status_t {
    guard(|| shut_down(s, None))
}

/// As sched_destroy, but SCHED_PENDING when the time is up and some task's code has not returned. Then the
/// scheduler takes and starts nothing more, but is still there: sched_stats, sched_task_info and
/// the waits tell what hangs. Call it, or sched_destroy, again; or leave it: a scheduler that is never
/// destroyed does not keep the process from ending.
///
/// Errors: as sched_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_shutdown(s: *mut sched_t, timeout_ns: i64) -> sched_status_t {
    guard(|| shut_down(s, timeout(timeout_ns)))
}

fn shut_down(s: *mut sched_t, timeout: Option<Duration>) -> Result<sched_status_t> {
    if s.is_null() {
        return Ok(SCHED_OK);
    }
    match SCHEDULERS.get(s)?.shutdown_within(timeout)? {
        None => Ok(SCHED_PENDING),
        Some(cancelled) => {
            if cancelled > 0 {
                log::info!("a scheduler was destroyed; {cancelled} of its tasks were cancelled");
            }
            SCHEDULERS.remove(s).map(|_| SCHED_OK)
        }
    }
}

/// Fills in the numbers of tasks.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_stats(s: *mut sched_t, stats: *mut sched_stats_t) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(stats)? };
        let stats = scheduler(s)?.stats()?;
        out.fill(sched_stats_t {
            size: 0,
            submitted: stats.submitted,
            queued: stats.queued,
            running: stats.running,
            done: stats.done,
            failed: stats.failed,
            cancelled: stats.cancelled,
            retried: stats.retried,
            devices: stats.devices.len() as u32,
            reserved: 0,
            makespan_ns: stats.makespan_ns,
            lower_bound_ns: stats.lower_bound_ns,
        });
        Ok(())
    })
}
