//! Schedulers: create, query, destroy.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use super::guard::{guard, guard_status};
use super::input::{OutParam, OutStruct, VersionedStruct, path, read_or_default, text};
use super::scheduler_handle::{SCHEDULERS, remove, sched_t, with_scheduler};
use super::status::{SCHED_CANCELLED, SCHED_OK, SCHED_PENDING, sched_status_t};
use crate::error::{Error, Result};
use crate::io::kept::Kept;
use crate::sched::{Scheduler, WaitResult};

/// Value of `timeout_ns`: no timeout. With 0 a call returns at once.
pub const SCHED_FOREVER: i64 = -1;

/// Value of `slots`: tuned automatically for each device while tasks run.
pub const SCHED_SLOTS_AUTO: u32 = 0xffff_ffff;

/// Configuration of a scheduler. Zero in every field is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_config_t {
    /// sizeof(sched_config_t), set by the caller.
    pub size: usize,
    /// Devices to use: "all" (the GPUs, or the CPU if there are none), "none", or a list such as
    /// "cpu,cuda:0,cuda:GPU-5b...". NULL: the value of GPUSCHED_DEVICES, else "all". Copied.
    pub devices: *const c_char,
    /// Tasks at a time on each device, at most 64, or SCHED_SLOTS_AUTO. 0: the value of
    /// GPUSCHED_SLOTS, else 1.
    pub slots: u32,
    /// Threads of the CPU device, shared by its slots, at most 4096. 0: one for each CPU that the
    /// calling thread may use. Threads of the library inherit the CPU mask of the thread that
    /// starts them.
    pub cpu_threads: u32,
    /// Largest number of events in a trace of the attempts, each about 150 bytes of memory. 0: no
    /// trace.
    pub trace_events: u32,
    /// Must be zero.
    pub reserved: u32,
    /// File that keeps the measured rates of devices and the results of autotuning between runs.
    /// Programs may share it if their task classes and units of work mean the same. A missing or
    /// damaged file is no error; missing folders are created. A relative path begins in the working
    /// directory of the call. NULL: none. Copied.
    pub rates_path: *const c_char,
    /// Bytes of stack for each callback, 1048576 to 68719476736 (1 MiB to 64 GiB). 0: 8 MiB. Each
    /// worker reserves 4 MiB more; only touched pages take memory.
    pub stack_bytes: u64,
}

/// Counts of the tasks of a scheduler since its creation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_stats_t {
    /// sizeof(sched_stats_t), set by the caller.
    pub size: usize,
    /// Tasks that were accepted.
    pub submitted: u64,
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
    /// Number of devices of the scheduler.
    pub devices: u32,
    /// Zero.
    pub reserved: u32,
    /// Time from the first submission to the latest end so far, in nanoseconds.
    pub makespan_ns: u64,
    /// Lower bound of the makespan, in nanoseconds: no schedule could have completed the successful
    /// tasks sooner, by the measured rates. It is the larger of two times: all work over the summed
    /// rates of the devices, and the longest task on the fastest device. It excludes ranges and tasks
    /// that state nothing (no label, work, memory, ...), and is 0 if no other task has succeeded.
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

/// Creates a scheduler and stores its handle in `*out`. `config` NULL: every default. No device is
/// touched before its first task. Destroy it with sched_destroy.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW; SCHED_E_NO_DEVICE if no device fits the selection, or
/// if the parent of a forked process has found GPUs, which the child can't use; SCHED_E_IO if the
/// folder that GPUSCHED_LEASE_DIR names is refused, or if no file can be opened.
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
        // The program may change its working directory.
        let rates = rates.map(|path| std::path::absolute(&path).unwrap_or(path));
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

/// Stores a handle of the scheduler that the whole process shares in `*out`. The scheduler is
/// created from the environment if no handle of it exists. This serves libraries that do not know
/// of each other: each call returns a new handle, which sched_destroy releases, and the last
/// release ends the scheduler.
///
/// Releasing a handle while others exist does not end its tasks: wait for them first.
/// sched_wait_next has an order for each handle; sched_wait_all, sched_stats and the devices belong
/// to all handles together. Passing NULL to any function uses the same scheduler and keeps it until
/// the process ends.
///
/// Errors: as sched_create; SCHED_E_FORKED in a child whose parent had one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_default(out: *mut *mut sched_t) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("out", out)? };
        out.write(SCHEDULERS.add(Arc::new(Scheduler::share_default()?)));
        Ok(())
    })
}

/// Closes the scheduler to new tasks and waits until all tasks have ended. Returns 0, or
/// SCHED_PENDING after a timeout. The outcomes remain available. The shared scheduler
/// (sched_default) stays open: the call only waits.
///
/// Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task or a `drop` of the same scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_drain(s: *mut sched_t, timeout_ns: i64) -> sched_status_t {
    guard(|| with_scheduler(s, |scheduler| scheduler.drain(timeout(timeout_ns))).map(wait_status))
}

/// Destroys a scheduler: cancels the queued tasks, asks the running ones to stop, waits for them
/// and ends the scheduler. When it returns, all drop callbacks have been called, waiting calls of
/// other threads return, and the handle is stale. A handle of sched_default is released; its
/// scheduler ends with the last handle. NULL: nothing to do.
///
/// The call waits as long as a callback runs; for a callback that may never return see
/// sched_shutdown. It does not wait for an attempt that was abandoned after its deadline: if that
/// callback returns later, `drop` is called then.
///
/// Errors: SCHED_E_STALE for a handle that was destroyed before; SCHED_E_DEADLOCK from inside a
/// task, a `drop` or the progress function of the same scheduler, which then continues as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_destroy(s: *mut sched_t) -> sched_status_t {
    guard(|| shut_down(s, None))
}

/// Does the same as sched_destroy, but returns SCHED_PENDING if a callback has not returned after
/// `timeout_ns`. The scheduler then accepts and starts no task, but still exists: sched_stats,
/// sched_task_info and the waits show which task hangs. Call this or sched_destroy again, or give
/// up: a scheduler that is never destroyed does not keep the process from ending.
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
            remove(s).map(|()| SCHED_OK)
        }
    }
}

/// Fills in the counts of tasks.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_stats(s: *const sched_t, stats: *mut sched_stats_t) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(stats)? };
        let stats = with_scheduler(s, Scheduler::stats)?;
        out.fill(sched_stats_t {
            size: 0,
            submitted: stats.counts.submitted,
            queued: stats.counts.queued,
            running: stats.counts.running,
            done: stats.counts.done,
            failed: stats.counts.failed,
            cancelled: stats.counts.cancelled,
            retried: stats.counts.retried,
            devices: stats.devices.len() as u32,
            reserved: 0,
            makespan_ns: stats.makespan_ns,
            lower_bound_ns: stats.lower_bound_ns,
        });
        Ok(())
    })
}
