//! Tasks: wait, cancel, query.

use std::ffi::c_char;

use super::guard::{guard, guard_in_callers_mode, guard_status};
use super::input::{OutParam, OutStruct, OutText, VersionedStruct, slice_of, with_capacity};
use super::run_control::sched_task_t;
use super::scheduler::{timeout, wait_status};
use super::scheduler_handle::{sched_t, with_scheduler};
use super::status::{SCHED_CANCELLED, SCHED_E_INTERNAL, SCHED_OK, SCHED_PENDING, sched_status_t, status_of};
use crate::error::Error;
use crate::sched::{TaskId, TaskInfo, TaskStatus};

/// Not started yet.
pub const SCHED_STATE_QUEUED: i32 = 0;
/// Running.
pub const SCHED_STATE_RUNNING: i32 = 1;
/// Succeeded.
pub const SCHED_STATE_DONE: i32 = 2;
/// Failed with an error.
pub const SCHED_STATE_FAILED: i32 = 3;
/// Cancelled.
pub const SCHED_STATE_CANCELLED: i32 = 4;

/// State of a task.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_task_info_t {
    /// sizeof(sched_task_info_t), set by the caller.
    pub size: usize,
    /// SCHED_STATE_*.
    pub state: i32,
    /// The status that sched_wait would return now.
    pub status: sched_status_t,
    /// Index of the device where the task runs or ran last; -1 if it never started.
    pub device: i32,
    /// Slot of that device.
    pub slot: u32,
    /// Number of attempts that have begun.
    pub attempts: u32,
    /// Zero.
    pub reserved: u32,
    /// Fraction of the attempt that is done, from 0 to 1, as the callback reports it.
    pub progress: f64,
    /// Time from submit to start, or until now, in nanoseconds.
    pub queued_ns: u64,
    /// Time from start to end, or until now, in nanoseconds.
    pub running_ns: u64,
}

// SAFETY: `repr(C)`, `size` first; numbers.
unsafe impl VersionedStruct for sched_task_info_t {
    const NAME: &'static str = "sched_task_info_t";
}

/// Waits for a task. Any number of threads may wait, any number of times. Returns 0 if the task
/// succeeded, SCHED_CANCELLED, SCHED_PENDING after a timeout, or the task's failure. The message of
/// a failure is then in sched_last_error and, for any thread, in sched_task_error.
///
/// Other errors: SCHED_E_STALE; SCHED_E_ARGUMENT for a detached task; SCHED_E_DEADLOCK for a wait
/// inside a task that could never end, or beside 64 tasks that wait already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait(s: *mut sched_t, id: sched_task_t, timeout_ns: i64) -> sched_status_t {
    guard_in_callers_mode(|| {
        with_scheduler(s, |scheduler| scheduler.wait(TaskId(id), timeout(timeout_ns))).map(wait_status)
    })
}

/// Waits until every task that was submitted before has ended, successfully or not. Returns 0, or
/// SCHED_PENDING after a timeout. The outcomes remain available.
///
/// Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task or a `drop` of the same scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait_all(s: *mut sched_t, timeout_ns: i64) -> sched_status_t {
    guard(|| with_scheduler(s, |scheduler| scheduler.wait_all(timeout(timeout_ns))).map(wait_status))
}

/// Waits until one of `count` tasks has ended, successfully or not, and stores its position in
/// `ids` in `*index`. Returns 0, or SCHED_PENDING after a timeout. sched_wait then returns the
/// outcome. A task that has ended is reported by every call, so remove it from the list before the
/// next call.
///
/// Errors: SCHED_E_ARGUMENT, also for an empty list; SCHED_E_STALE if any id is unknown;
/// SCHED_E_DEADLOCK as in sched_wait; SCHED_E_MEMORY for the copy of the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait_any(
    s: *mut sched_t,
    ids: *const sched_task_t,
    count: usize,
    timeout_ns: i64,
    index: *mut usize,
) -> sched_status_t {
    guard(|| {
        if count == 0 {
            return Err(Error::argument("count", 0, "at least one task to wait for"));
        }
        // SAFETY: pointers as the header requires them; `input` checks each.
        let (ids, out) = unsafe { (slice_of("ids", ids, count)?, OutParam::new("index", index)?) };
        let mut list = with_capacity("ids", count)?;
        list.extend(ids.iter().copied().map(TaskId));
        let found = with_scheduler(s, |scheduler| scheduler.wait_any(&list, timeout(timeout_ns)))?;
        Ok(write_or_pending(out, found))
    })
}

/// Waits until the next task with SCHED_TASK_ORDERED has ended, successfully or not, and stores its
/// id in `*id`. The order is that of submission through this handle. Returns 0, or SCHED_PENDING
/// after a timeout. Each task is returned once, to one of the waiting threads; sched_wait then
/// returns its outcome. A task that was released before its turn is skipped.
///
/// Errors: SCHED_E_ARGUMENT, also if no task is left to return; SCHED_E_STALE; SCHED_E_DEADLOCK as
/// in sched_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait_next(
    s: *mut sched_t,
    timeout_ns: i64,
    id: *mut sched_task_t,
) -> sched_status_t {
    guard(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("id", id)? };
        let next = with_scheduler(s, |scheduler| scheduler.wait_next(timeout(timeout_ns)))?;
        Ok(write_or_pending(out, next.map(|id| id.0)))
    })
}

/// Cancels a task. Does not wait. A queued task never starts. A running one sees the request in
/// sched_exec_cancelled and ends as cancelled, whatever its callback returns, unless it has
/// committed before. If the callback does not return and has a deadline, the task may end with
/// SCHED_E_DEADLINE. A task that has ended does not change.
///
/// Errors: SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_cancel(s: *mut sched_t, id: sched_task_t) -> sched_status_t {
    guard_status(|| with_scheduler(s, |scheduler| scheduler.cancel(TaskId(id))))
}

/// Releases a task: drops its outcome and makes its id stale. A task that has not ended becomes
/// detached; its id stays valid for cancels and queries until it ends. The scheduler keeps
/// unreleased outcomes until it is destroyed.
///
/// Errors: SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_release(s: *mut sched_t, id: sched_task_t) -> sched_status_t {
    guard_in_callers_mode(|| with_scheduler(s, |scheduler| scheduler.release(TaskId(id))).map(|()| SCHED_OK))
}

fn write_or_pending<T>(out: OutParam<T>, found: Option<T>) -> sched_status_t {
    let Some(value) = found else { return SCHED_PENDING };
    out.write(value);
    SCHED_OK
}

/// Returns the status that sched_wait would return now.
fn status_now(info: &TaskInfo) -> sched_status_t {
    match info.state {
        TaskStatus::Queued | TaskStatus::Running => SCHED_PENDING,
        TaskStatus::Done => SCHED_OK,
        TaskStatus::Cancelled => SCHED_CANCELLED,
        TaskStatus::Failed => info.error.as_ref().map_or(SCHED_E_INTERNAL, status_of),
    }
}

/// Fills in the state of a task.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_task_info(
    s: *const sched_t,
    id: sched_task_t,
    info: *mut sched_task_info_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(info)? };
        let info = with_scheduler(s, |scheduler| scheduler.info(TaskId(id)))?;
        out.fill(sched_task_info_t {
            size: 0,
            state: match info.state {
                TaskStatus::Queued => SCHED_STATE_QUEUED,
                TaskStatus::Running => SCHED_STATE_RUNNING,
                TaskStatus::Done => SCHED_STATE_DONE,
                TaskStatus::Failed => SCHED_STATE_FAILED,
                TaskStatus::Cancelled => SCHED_STATE_CANCELLED,
            },
            status: status_now(&info),
            device: info.device.map_or(-1, |device| device as i32),
            slot: info.slot,
            attempts: info.attempts,
            reserved: 0,
            progress: info.progress,
            queued_ns: info.queued_ns,
            running_ns: info.running_ns,
        });
        Ok(())
    })
}

/// Writes the message of a failed task into `buffer`, truncated to `len` bytes including the NUL.
/// Stores the length of the whole message without the NUL in `*length`: 0 if the task has not
/// failed. `buffer` may be NULL if `len` is 0; `length` may be NULL. Any thread may call it until
/// the task is released.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_task_error(
    s: *const sched_t,
    id: sched_task_t,
    buffer: *mut c_char,
    len: usize,
    length: *mut usize,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `OutText` checks them.
        let out = unsafe { OutText::new("buffer", buffer, len, length)? };
        let error = with_scheduler(s, |scheduler| scheduler.info(TaskId(id)))?.error;
        out.fill(&error.map(|error| error.to_string()).unwrap_or_default());
        Ok(())
    })
}
