//! Task descriptors and submission.

use std::ffi::{c_char, c_void};
use std::hint::black_box;
use std::time::Duration;

use super::device::{SCHED_BACKEND_CPU, SCHED_BACKEND_CUDA};
use super::guard::{guard_in_callers_mode, guard_status};
use super::input::{
    OutParam, VersionedStruct, check_bits, read, read_each, slice_of, slice_of_mut, text, with_capacity,
};
use super::run_control::sched_task_t;
use super::scheduler_handle::{sched_t, with_scheduler};
use super::status::{SCHED_OK, sched_status_t};
use super::task_run::{Callback, UserData, sched_drop_fn, sched_run_fn};
use crate::backend::callback_mode::CallbackMode;
use crate::backend::float_mode::FloatMode;
use crate::backend::thread::CancelGuard;
use crate::device::BackendKind;
use crate::error::{Error, Result};
use crate::sched::{DeviceMask, LightJob, Task, TaskId};

/// Flag of a task: no caller waits for it. Its id is released when it ends.
pub const SCHED_TASK_DETACHED: u32 = 1;
/// Flag of a task: up to three attempts may run at the same time. The scheduler may start further
/// attempts on devices where they should end sooner, and restart the task when an attempt hangs. (A
/// failed attempt is retried with and without this flag, see sched_run_fn.) The first attempt that
/// calls sched_exec_commit, or that succeeds without it, counts. The others are asked to stop, and
/// their ends are not reported. `user` and the memory behind it are lent until `drop` is called,
/// which may be after a wait has returned.
pub const SCHED_TASK_IDEMPOTENT: u32 = 2;
/// Flag of a task: sched_wait_next returns it in its turn. Not together with SCHED_TASK_DETACHED.
pub const SCHED_TASK_ORDERED: u32 = 4;

/// A task: its callback, and what the scheduler needs to place it. Zero in every field except
/// `size` and `run` is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_task_desc_t {
    /// sizeof(sched_task_desc_t), set by the caller.
    pub size: usize,
    /// The task's callback, called on a thread of the library, once for each attempt. NULL in
    /// sched_fd_submit.
    pub run: sched_run_fn,
    /// Passed to `run` and `drop`.
    pub user: *mut c_void,
    /// NULL, or called exactly once with `user` when the library no longer needs it: after the last
    /// `run`, after a cancel, and also if the submitting call fails. It is not called if that call
    /// could not read the struct (NULL, an impossible `size`, SCHED_E_TOO_NEW). The call happens on
    /// any thread, before a wait reports the task's end. If another attempt still runs or hangs,
    /// the call happens when that returns, which may be never. It must not wait for a task.
    pub drop: sched_drop_fn,
    /// A name for messages and logs; NULL: none. Copied.
    pub label: *const c_char,
    /// Peak use of device memory in bytes. The scheduler reserves that much while the task runs.
    pub device_bytes: u64,
    /// Amount of work, in any unit that all tasks of the scheduler share, from 1e-100 to 1e100; 0:
    /// unknown.
    pub work: f64,
    /// Devices that may run the task: bit i for device i. 0: all.
    pub device_mask: u64,
    /// Kinds of device that may run the task: bits of SCHED_BACKEND_*. 0: all.
    pub backend_mask: u32,
    /// A task with a higher priority runs earlier.
    pub priority: i32,
    /// Number of retries after a failure. Retries for lack of memory, after a device failure and
    /// after a wrong result do not count, see sched_run_fn.
    pub retries: u32,
    /// Bits of SCHED_TASK_*.
    pub flags: u32,
    /// Class of the task. Tasks of a class are alike: the scheduler learns the speed of every
    /// device, and the expected duration, for each class. 0 is a class like any other; in
    /// sched_fd_submit it means the class of the shot's equation and absorbing layer. Classes from
    /// 0xfd000000 up are the library's.
    pub task_class: u32,
    /// Must be zero.
    pub reserved: u32,
    /// Time limit of an attempt in nanoseconds, without the time in which its GPU creates a context
    /// or compiles kernels; after it the scheduler requests the attempt to stop. 0: none. A device
    /// whose attempt has not returned after as long again, and at least 10 s, counts as hung and is
    /// retired, also the CPU. Without a limit, an attempt that takes five times as long as usual in
    /// its class is late: it is logged as a warning, and SCHED_TASK_IDEMPOTENT allows a second
    /// attempt or a restart.
    pub deadline_ns: i64,
    /// Tasks of the same scheduler that must succeed before this one starts. If one of them does
    /// not, this task ends with SCHED_E_DEPENDENCY and never runs. Copied.
    pub after: *const sched_task_t,
    /// Number of `after`.
    pub after_count: usize,
}

// SAFETY: `repr(C)`, `size` first; numbers, pointers and nullable functions.
unsafe impl VersionedStruct for sched_task_desc_t {
    const NAME: &'static str = "sched_task_desc_t";
}
/// Largest accepted `after_count`.
const MAX_DEPENDENCIES: usize = 1 << 24;

/// Applies a descriptor to a task. Fields that are zero leave the task as it is.
///
/// # Safety
/// `desc.label` is NULL or points to a text that ends with NUL. `desc.after` is NULL or points to
/// as many ids as `after_count` says.
pub(super) unsafe fn apply_desc(task: &mut Task, desc: &sched_task_desc_t) -> Result<()> {
    let known = SCHED_TASK_DETACHED | SCHED_TASK_IDEMPOTENT | SCHED_TASK_ORDERED;
    check_bits("flags of a task", desc.flags, known)?;
    check_bits("reserved", desc.reserved, 0)?;
    let both = SCHED_TASK_DETACHED | SCHED_TASK_ORDERED;
    if desc.flags & both == both {
        let accepted =
            "either SCHED_TASK_ORDERED or SCHED_TASK_DETACHED: sched_wait_next returns no detached task";
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

/// Returns the place for the id of a new task. NULL, which only a detached task may pass, gives
/// `None`.
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
            "a pointer to the id, unless the task is SCHED_TASK_DETACHED",
        ));
    }
    // SAFETY: as promised by the caller.
    unsafe { OutParam::new("id", id) }.map(Some)
}

/// Returns the task of a descriptor.
///
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

/// Returns true if the descriptor sets only the callback, as is usual for many small tasks.
fn is_plain(desc: &sched_task_desc_t) -> bool {
    desc.label.is_null()
        && desc.after.is_null()
        && desc.flags & !SCHED_TASK_DETACHED == 0
        && desc.deadline_ns == 0
        && desc.device_bytes | desc.work.to_bits() | desc.device_mask | desc.after_count as u64 == 0
        && desc.backend_mask | desc.retries | desc.task_class | desc.reserved | desc.priority as u32 == 0
}

/// Submits a task and returns at once. `*id` receives its id; `id` may be NULL if the task is
/// detached. A task that no device could ever run is refused, and the message has the numbers.
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
            let detached = desc.flags & SCHED_TASK_DETACHED != 0;
            // SAFETY: as above.
            let out = unsafe { id_out(id, desc.flags)? };
            return with_scheduler(s, |scheduler| {
                match out {
                    None => scheduler.submit_inline_without_id(code)?,
                    Some(out) => out.write(scheduler.submit_light(LightJob::Inline(code), detached)?.0),
                }
                Ok(SCHED_OK)
            });
        }
        let (_whole, _mode) = (CancelGuard::here(), FloatMode::standard());
        // SAFETY: as above.
        let (task, out) = unsafe { (task_of(&desc, user)?, id_out(id, desc.flags)?) };
        let id = with_scheduler(s, |scheduler| scheduler.submit(task))?;
        if let Some(out) = out {
            out.write(id.0);
        }
        Ok(SCHED_OK)
    })
}

/// Submits `count` tasks: all of them or, on any error, none. `ids` receives their ids in the same
/// order; it may be NULL if all tasks are detached. `descs` is an array of structs with the same
/// `size`. One call is cheaper than `count` calls of sched_submit. A `count` of 0 is no error.
///
/// If a struct could not be read (NULL, an impossible `size`, SCHED_E_TOO_NEW), no `drop` is
/// called. After any other error the `drop` of each task has been called once.
///
/// Errors: as sched_submit, for the first refused task. The message begins with its place in
/// `descs`.
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
        let tasks = unsafe { tasks_of(descs, count, mode)? };
        with_scheduler(s, |scheduler| {
            if count == 0 {
                return Ok(());
            }
            let no_ids = ids.is_null() && tasks.iter().all(|task| task.detached);
            // SAFETY: as above.
            let ids = if no_ids { &mut [] } else { unsafe { slice_of_mut("ids", ids, count)? } };
            for (to, id) in ids.iter_mut().zip(scheduler.submit_list(tasks, with_index)?) {
                *to = id.0;
            }
            Ok(())
        })
    })
}

/// Returns the tasks of descriptors. After an error each `drop` has been called, unless a struct
/// can't be read.
///
/// # Safety
/// As for [`read_each`] and [`apply_desc`].
unsafe fn tasks_of(at: *const sched_task_desc_t, count: usize, mode: CallbackMode) -> Result<Vec<Task>> {
    // SAFETY: as promised by the caller.
    unsafe { read_each(at, count, |_| ())? };
    let mut tasks = with_capacity("the tasks", count).and_then(|tasks| {
        // An allocation for a job aborts the process if it fails, so all are tried at once.
        drop(black_box(with_capacity::<[u8; 64]>("the tasks", count)?));
        Ok(tasks)
    });
    let mut refused = None;
    let add = |desc: sched_task_desc_t| {
        let user = UserData::new(desc.user, desc.drop, mode);
        let Ok(tasks) = &mut tasks else { return };
        // SAFETY: as promised by the caller.
        match unsafe { task_of(&desc, user) } {
            Ok(task) => tasks.push(task),
            Err(error) => _ = refused.get_or_insert(with_index(tasks.len(), error)),
        }
    };
    // SAFETY: as promised by the caller.
    unsafe { read_each(at, count, add)? };
    refused.map_or(tasks, Err)
}

/// Adds the index of the refused descriptor to its error.
fn with_index(index: usize, error: Error) -> Error {
    match error {
        Error::Shutdown { .. } => error,
        error => Error::Listed { index, why: Box::new(error) },
    }
}
