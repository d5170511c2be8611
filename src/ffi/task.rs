//! Tasks: submit, wait, cancel, query.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use super::device::{SCHED_BACKEND_CPU, SCHED_BACKEND_CUDA};
use super::guard::{guard, guard_in_callers_mode, guard_status};
use super::input::{
    OutParam, OutStruct, VersionedStruct, check_bits, read, read_all, slice_of, slice_of_mut, text,
    with_capacity,
};
use super::run_control::sched_task_t;
use super::scheduler::{timeout, wait_status};
use super::scheduler_handle::{sched_t, scheduler};
use super::status::{SCHED_CANCELLED, SCHED_E_INTERNAL, SCHED_OK, SCHED_PENDING, sched_status_t, status_of};
use super::task_run::{Callback, UserData, sched_drop_fn, sched_run_fn};
use crate::backend::callback_mode::CallbackMode;
use crate::backend::float_mode::FloatMode;
use crate::backend::thread::CancelGuard;
use crate::device::BackendKind;
use crate::error::{Error, Result};
use crate::sched::{DeviceMask, Task, TaskId, TaskInfo, TaskStatus};

/// Flag of a task: nobody will ask for its outcome, so its id is released when it ends.
pub const SCHED_TASK_DETACHED: u32 = 1;
/// Flag of a task: a second copy of it may be started on another device while the first still runs, and
/// after a failure of the device. The first to call sched_exec_commit, or to end well without,
/// counts; the other is asked to stop, and nobody hears how it ends. `user` and what it
/// points to are lent until `drop` is called, which may be after a wait has told the task's end.
pub const SCHED_TASK_IDEMPOTENT: u32 = 2;
/// Flag of a task: sched_wait_next hands it out in its turn. Not together with SCHED_TASK_DETACHED.
pub const SCHED_TASK_ORDERED: u32 = 4;

/// Not started yet.
pub const SCHED_STATE_QUEUED: i32 = 0;
/// Running.
pub const SCHED_STATE_RUNNING: i32 = 1;
/// Ended well.
pub const SCHED_STATE_DONE: i32 = 2;
/// Ended with an error.
pub const SCHED_STATE_FAILED: i32 = 3;
/// Cancelled before its result counted.
pub const SCHED_STATE_CANCELLED: i32 = 4;

/// What is to be run, and what the scheduler is told of it. Zero in every field but `size` and `run`
/// is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_task_desc_t {
    /// sizeof(sched_task_desc_t), set by the caller.
    pub size: usize,
    /// The task's code; called on a thread of the library, and again after a failure where `retries`
    /// says so. NULL in sched_fd_submit.
    pub run: sched_run_fn,
    /// Handed to `run` and `drop`.
    pub user: *mut c_void,
    /// NULL, or called exactly once with `user` when the library needs it no more: after the last
    /// `run`, after a cancel, and also when the submitting call fails. Only where that call could not
    /// read the struct (NULL, an impossible `size`, SCHED_E_TOO_NEW) it is not called.
    /// It is called before a wait tells the task's end, on any thread, and must not wait for a task.
    pub drop: sched_drop_fn,
    /// A name for messages and logs; NULL: none. Copied.
    pub label: *const c_char,
    /// Memory of the device that the task takes at its peak, in bytes; kept free for it while it runs.
    pub device_bytes: u64,
    /// How much there is to do, in any unit that all tasks of the scheduler share, from 1e-100 to 1e100;
    /// 0: unknown.
    pub work: f64,
    /// Devices that may run it: bit i for device i. 0: all.
    pub device_mask: u64,
    /// Kinds of device that may run it: SCHED_BACKEND_* together. 0: all.
    pub backend_mask: u32,
    /// Higher runs earlier.
    pub priority: i32,
    /// How often a failed attempt is followed by another.
    pub retries: u32,
    /// SCHED_TASK_* together.
    pub flags: u32,
    /// Tasks of a class are alike: for each, the speed of every device and the time that a task may
    /// take are learned. 0 is a class, too; in sched_fd_submit it means the class that all shots share.
    pub task_class: u32,
    /// Zero.
    pub reserved: u32,
    /// How long an attempt may take before it is asked to stop, in nanoseconds. 0: as long as those of
    /// its class lead to expect, and then no more than a warning.
    pub deadline_ns: i64,
    /// Tasks of the same scheduler that have to end well before this one starts. If one of them does
    /// not, this one ends with SCHED_E_DEPENDENCY and never runs. Copied.
    pub after: *const sched_task_t,
    /// Number of `after`.
    pub after_count: usize,
}

/// What is known of a task.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_task_info_t {
    /// sizeof(sched_task_info_t), set by the caller.
    pub size: usize,
    /// SCHED_STATE_*.
    pub state: i32,
    /// What sched_wait would return now.
    pub status: sched_status_t,
    /// Number of the device where it runs or ran last; -1 if it was never started.
    pub device: i32,
    /// Slot of that device.
    pub slot: u32,
    /// Attempts begun.
    pub attempts: u32,
    /// Zero.
    pub reserved: u32,
    /// How much of the attempt is done, from 0 to 1, as the task reports it.
    pub progress: f64,
    /// Time from submit to start, or until now, in nanoseconds.
    pub queued_ns: u64,
    /// Time from start to end, or until now, in nanoseconds.
    pub running_ns: u64,
}

// SAFETY: `repr(C)`, `size` first; numbers, pointers and nullable functions.
unsafe impl VersionedStruct for sched_task_desc_t {
    const NAME: &'static str = "sched_task_desc_t";
}
// SAFETY: `repr(C)`, `size` first; numbers.
unsafe impl VersionedStruct for sched_task_info_t {
    const NAME: &'static str = "sched_task_info_t";
}

/// A larger `after_count` was never set.
const MAX_DEPENDENCIES: usize = 1 << 24;

/// Applies a descriptor to a task. Fields that are zero leave the task as it is.
///
/// # Safety
/// `desc.label` is NULL or points to a text that ends with NUL; `desc.after` is NULL or points to as many
/// ids as `after_count` says.
pub(super) unsafe fn apply_desc(task: &mut Task, desc: &sched_task_desc_t) -> Result<()> {
    let known = SCHED_TASK_DETACHED | SCHED_TASK_IDEMPOTENT | SCHED_TASK_ORDERED;
    check_bits("flags of a task", desc.flags, known)?;
    check_bits("reserved", desc.reserved, 0)?;
    let both = SCHED_TASK_DETACHED | SCHED_TASK_ORDERED;
    if desc.flags & both == both {
        let accepted =
            "either SCHED_TASK_ORDERED or SCHED_TASK_DETACHED: nobody is handed a task that is detached";
        return Err(Error::argument("flags of a task", format!("{:#x}", desc.flags), accepted));
    }
    if desc.deadline_ns < 0 {
        return Err(Error::argument("deadline_ns", desc.deadline_ns, "0 for none, or a positive number"));
    }
    if desc.after_count > MAX_DEPENDENCIES {
        return Err(Error::argument("after_count", desc.after_count, format!("at most {MAX_DEPENDENCIES}")));
    }
    if desc.after_count == 0 && !desc.after.is_null() {
        let accepted = "the number of ids that `after` points to, or `after` NULL";
        return Err(Error::argument("after_count", 0, accepted));
    }
    if desc.after_count > 0 {
        // SAFETY: as promised by the caller.
        let ids = unsafe { slice_of("after", desc.after, desc.after_count)? };
        task.after = with_capacity("after", ids.len())?;
        task.after.extend(ids.iter().copied().map(TaskId));
    }
    check_bits("backend_mask", desc.backend_mask, SCHED_BACKEND_CPU | SCHED_BACKEND_CUDA)?;
    if !(desc.work.is_finite() && desc.work >= 0.0) {
        return Err(Error::argument("work", desc.work, "0 for unknown, or 1e-100 to 1e100"));
    }
    // SAFETY: as promised by the caller.
    if let Some(label) = unsafe { text(desc.label) } {
        task.label = label.into_owned();
    }
    if desc.device_bytes != 0 {
        task.device_bytes = desc.device_bytes;
    }
    if desc.work > 0.0 {
        task.work = Some(desc.work);
    }
    if desc.device_mask != 0 {
        task.devices = DeviceMask(desc.device_mask);
    }
    for (bit, kind) in [(SCHED_BACKEND_CPU, BackendKind::Cpu), (SCHED_BACKEND_CUDA, BackendKind::Cuda)] {
        if desc.backend_mask & bit != 0 {
            task.backends.push(kind);
        }
    }
    task.priority = desc.priority;
    if desc.retries != 0 {
        task.retries = desc.retries;
    }
    task.detached = desc.flags & SCHED_TASK_DETACHED != 0;
    task.idempotent = desc.flags & SCHED_TASK_IDEMPOTENT != 0;
    task.ordered = desc.flags & SCHED_TASK_ORDERED != 0;
    if desc.task_class != 0 {
        task.class = desc.task_class;
    }
    task.deadline = (desc.deadline_ns > 0).then(|| Duration::from_nanos(desc.deadline_ns.unsigned_abs()));
    Ok(())
}

/// Returns the place for the id of a new task; `None` for NULL, which only a detached task may have.
///
/// # Safety
/// `id` is NULL or points to room for an id.
pub(super) unsafe fn id_out(id: *mut sched_task_t, flags: u32) -> Result<Option<OutParam<sched_task_t>>> {
    if id.is_null() && flags & SCHED_TASK_DETACHED != 0 {
        return Ok(None);
    }
    if id.is_null() {
        return Err(Error::argument(
            "id",
            "NULL",
            "a place for the id, unless the task is SCHED_TASK_DETACHED",
        ));
    }
    // SAFETY: as promised by the caller.
    unsafe { OutParam::new("id", id) }.map(Some)
}

/// # Safety
/// As for [`apply_desc`].
unsafe fn task_of(desc: &sched_task_desc_t, user: UserData) -> Result<Task> {
    let run = desc.run;
    let run = run.ok_or_else(|| Error::argument("run", "NULL", "the function that does the task's work"))?;
    let mut task = Task::new(Callback::new(run, user));
    // SAFETY: as promised by the caller.
    unsafe { apply_desc(&mut task, desc)? };
    Ok(task)
}

/// Returns true if the descriptor has the code only, as is usual with very many tasks.
fn is_plain(desc: &sched_task_desc_t) -> bool {
    desc.label.is_null()
        && desc.after.is_null()
        && desc.flags & !SCHED_TASK_DETACHED == 0
        && desc.deadline_ns == 0
        && [desc.device_bytes, desc.work.to_bits(), desc.device_mask, desc.after_count as u64] == [0; 4]
        && [desc.backend_mask, desc.retries, desc.task_class, desc.reserved, desc.priority as u32] == [0; 5]
}

/// Hands a task to a scheduler and returns at once. `*id` may be NULL if the task is detached.
/// Refused, with the numbers, if no device could ever run it.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_NO_DEVICE, SCHED_E_MEMORY,
/// SCHED_E_SHUTDOWN, SCHED_E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_submit(
    s: *mut sched_t,
    desc: *const sched_task_desc_t,
    id: *mut sched_task_t,
) -> sched_status_t {
    let mode = CallbackMode::of_this_thread();
    guard_in_callers_mode(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let desc = unsafe { read(desc)? };
        let user = UserData::new(desc.user, desc.drop, mode);
        if let Some(run) = desc.run
            && is_plain(&desc)
        {
            let code = Callback::new(run, user).bare();
            // SAFETY: as above.
            match unsafe { id_out(id, desc.flags)? } {
                None => scheduler(s)?.submit_inline_without_id(code)?,
                Some(out) => {
                    out.write(scheduler(s)?.submit_inline(code, desc.flags & SCHED_TASK_DETACHED != 0)?.0)
                }
            }
            return Ok(SCHED_OK);
        }
        let (_whole, _mode) = (CancelGuard::here(), FloatMode::standard());
        // SAFETY: as above.
        let (task, out) = unsafe { (task_of(&desc, user)?, id_out(id, desc.flags)?) };
        let id = scheduler(s)?.submit(task)?;
        if let Some(out) = out {
            out.write(id.0);
        }
        Ok(SCHED_OK)
    })
}

/// Hands `count` tasks to a scheduler, all of them or, on any error, none, and puts their ids into `ids`
/// in the same order. `descs` is an array of structs: `size` is the same in all. `ids` may be NULL
/// if all are detached. Cheaper than as many calls of sched_submit. None at all is no error.
///
/// Where a struct could not be read (NULL, an impossible `size`, SCHED_E_TOO_NEW), no `drop` is called;
/// after any other error that of each task has been, once.
///
/// Errors: as sched_submit, for the first task that is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_submit_many(
    s: *mut sched_t,
    descs: *const sched_task_desc_t,
    count: usize,
    ids: *mut sched_task_t,
) -> sched_status_t {
    let mode = CallbackMode::of_this_thread();
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let descs = unsafe { read_all(descs, count)? };
        let mut users: Vec<_> = with_capacity("the tasks", count)?;
        users.extend(descs.iter().map(|desc| UserData::new(desc.user, desc.drop, mode)));
        let scheduler = scheduler(s)?;
        if count == 0 {
            return Ok(());
        }
        let no_ids = ids.is_null() && descs.iter().all(|desc| desc.flags & SCHED_TASK_DETACHED != 0);
        // SAFETY: as above.
        let ids = if no_ids { &mut [] } else { unsafe { slice_of_mut("ids", ids, count)? } };
        let mut tasks = with_capacity("the tasks", count)?;
        for (index, (desc, user)) in descs.iter().zip(users).enumerate() {
            // SAFETY: as above.
            let task = unsafe { task_of(desc, user) };
            tasks.push(task.map_err(|error| with_index(error, index))?);
        }
        for (to, id) in ids.iter_mut().zip(scheduler.submit_many(tasks)?) {
            *to = id.0;
        }
        Ok(())
    })
}

/// Adds the index of the descriptor to an error.
fn with_index(error: Error, index: usize) -> Error {
    match error {
        Error::Argument { what, value, accepted } => {
            Error::Argument { what: format!("descs[{index}]: {what}"), value, accepted }
        }
        other => other,
    }
}

/// Waits for a task, from any number of threads and as often as one likes: 0 when it ended well,
/// SCHED_CANCELLED, SCHED_PENDING when the time was up first, or the task's own failure, whose words
/// are then in sched_last_error and, from any thread, in sched_task_error.
///
/// Errors besides: SCHED_E_STALE; SCHED_E_ARGUMENT for a task that is detached; SCHED_E_DEADLOCK for a
/// wait inside a task that could never end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait(s: *mut sched_t, id: sched_task_t, timeout_ns: i64) -> sched_status_t {
    guard_in_callers_mode(|| Ok(wait_status(scheduler(s)?.wait(TaskId(id), timeout(timeout_ns))?)))
}

/// Waits until every task submitted so far has ended, well or not: 0, or SCHED_PENDING when the time
/// was up first. Outcomes stay to be asked for.
///
/// Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task of the same scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait_all(s: *mut sched_t, timeout_ns: i64) -> sched_status_t {
    guard(|| Ok(wait_status(scheduler(s)?.wait_all(timeout(timeout_ns))?)))
}

/// Waits until one of `count` tasks has ended, well or not, and puts its position in `ids` into
/// `*index`: 0, or SCHED_PENDING when the time was up first. Its outcome is then told by sched_wait.
/// It names an ended task each time, so take it from the list before the next call.
///
/// Errors: SCHED_E_ARGUMENT, also for an empty list; SCHED_E_STALE if any id is unknown;
/// SCHED_E_DEADLOCK for a wait inside a task that could never end.
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
        match scheduler(s)?.wait_any(&list, timeout(timeout_ns))? {
            Some(index) => {
                out.write(index);
                Ok(SCHED_OK)
            }
            None => Ok(SCHED_PENDING),
        }
    })
}

/// Waits for the next task with SCHED_TASK_ORDERED, in the order in which they were submitted through
/// this handle, until it has ended, well or not, and puts its id into `*id`: 0, or SCHED_PENDING when
/// the time was up first. Each is handed out once, to one of those who wait; its outcome is
/// then told by sched_wait. One that was released before its turn is passed over.
///
/// Errors: SCHED_E_ARGUMENT, also if none is left to hand out; SCHED_E_STALE; SCHED_E_DEADLOCK for a
/// wait inside a task that could never end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_wait_next(
    s: *mut sched_t,
    timeout_ns: i64,
    id: *mut sched_task_t,
) -> sched_status_t {
    guard(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("id", id)? };
        match scheduler(s)?.wait_next(timeout(timeout_ns))? {
            Some(next) => {
                out.write(next.0);
                Ok(SCHED_OK)
            }
            None => Ok(SCHED_PENDING),
        }
    })
}

/// Asks a task to stop: a queued one never starts, a running one sees it in sched_exec_cancelled, and ends as
/// cancelled, whatever it returns, unless it has committed before.
/// Nothing happens to one that has ended. Does not wait.
///
/// Errors: SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_cancel(s: *mut sched_t, id: sched_task_t) -> sched_status_t {
    guard_status(|| scheduler(s)?.cancel(TaskId(id)))
}

/// Forgets the outcome of a task and makes its id stale. One that has not ended becomes detached: it can be
/// cancelled and asked about until it ends, and its id is stale from then on.
/// Outcomes that nobody releases are kept as long as the scheduler.
///
/// Errors: SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_release(s: *mut sched_t, id: sched_task_t) -> sched_status_t {
    guard_in_callers_mode(|| scheduler(s)?.release(TaskId(id)).map(|()| SCHED_OK))
}

/// Returns what sched_wait would return now.
fn status_now(info: &TaskInfo) -> sched_status_t {
    match info.state {
        TaskStatus::Queued | TaskStatus::Running => SCHED_PENDING,
        TaskStatus::Done => SCHED_OK,
        TaskStatus::Cancelled => SCHED_CANCELLED,
        TaskStatus::Failed => info.error.as_ref().map_or(SCHED_E_INTERNAL, status_of),
    }
}

/// Fills in what is known of a task.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_task_info(
    s: *mut sched_t,
    id: sched_task_t,
    info: *mut sched_task_info_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(info)? };
        let info = scheduler(s)?.info(TaskId(id))?;
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

/// Writes why a task failed, in one sentence, into `buffer`, cut to `len` bytes, the NUL at the end
/// included, and returns how many bytes the whole sentence has, the NUL not included: as snprintf
/// does. `buffer` may be NULL if `len` is 0. Any thread may ask, until the task is released.
/// 0, and an empty text, if the task has not failed; also if it is unknown, which sched_last_error tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_task_error(
    s: *mut sched_t,
    id: sched_task_t,
    buffer: *mut c_char,
    len: usize,
) -> usize {
    guard(|| {
        // SAFETY: a pointer as the header requires it; `slice_of_mut` checks it.
        let buffer =
            if len == 0 { &mut [] } else { unsafe { slice_of_mut("buffer", buffer.cast::<u8>(), len)? } };
        if let Some(first) = buffer.first_mut() {
            *first = 0;
        }
        let sentence =
            scheduler(s)?.info(TaskId(id))?.error.map(|error| error.to_string()).unwrap_or_default();
        let room = buffer.len().saturating_sub(1).min(sentence.len());
        buffer[..room].copy_from_slice(&sentence.as_bytes()[..room]);
        if let Some(end) = buffer.get_mut(room) {
            *end = 0;
        }
        Ok(sentence.len())
    })
}
