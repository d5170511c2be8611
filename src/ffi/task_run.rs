//! Runs the caller's callbacks as jobs, and provides the functions that a callback may call.

use std::ffi::{c_char, c_void};
use std::mem::{ManuallyDrop, size_of};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::PoisonError;

use super::device::backend_of;
use super::device_memory::AllocationScope;
use super::guard::{guard, guard_in_callers_mode, guard_status};
use super::input::{self, SendPointer};
use super::run_control::{RunningCallback, RunningExec, sched_exec_t, with_exec, with_running};
use super::status::{
    SCHED_CANCELLED, SCHED_E_CALLBACK, SCHED_E_DEVICE, SCHED_E_MEMORY, SCHED_E_RESOURCES, SCHED_E_RESULT,
    SCHED_OK, name_of, sched_status_t,
};
use super::trampoline;
use crate::backend::Lane;
use crate::backend::callback_mode::CallbackMode;
use crate::backend::thread::CancelGuard;
use crate::error::{DeviceFault, Error, Result, plain};
use crate::sched::{Exec, InlineJob, InlineJobKind, Job};

/// The callback of a task. It returns 0 on success; any other number selects what follows:
///
/// - SCHED_CANCELLED: the callback stopped before it was done. The task ends as cancelled, also if
///   `retries` are left. If only this attempt was asked to stop, in favour of another, the attempt
///   ends alone.
/// - SCHED_E_MEMORY: the device was short of memory. The task is retried alone on the device, then
///   on other devices, then after a pause; at last it fails with SCHED_E_MEMORY. If it stated how
///   much it needs, and other processes have that, it waits for them for an hour.
/// - SCHED_E_RESOURCES: a launch found too few resources beside other work. Treated in the same
///   way.
/// - SCHED_E_DEVICE: the device's context is unusable (a sticky error). The scheduler renews the
///   context, or retires the device if the driver gives the process no new one, and retries the
///   task on another device; the second time the task fails with SCHED_E_DEVICE.
/// - SCHED_E_RESULT: the result is wrong, possibly because of the device. The task is retried once,
///   on another device if one may run it; if that result is wrong too, it fails with
///   SCHED_E_RESULT. If the retry succeeds, a fault is counted against the first device; the second
///   fault retires it.
/// - any other number: the task fails with SCHED_E_CALLBACK, or is retried if `retries` are left.
///   The message is that of sched_exec_fail, or else has the number, or the name of the status.
///
/// If the deadline has passed, SCHED_CANCELLED and "any other number" become SCHED_E_DEADLINE.
///
/// The callback runs on a thread of the library with `stack_bytes` of stack (sched_config_t; 8 MiB
/// by default), so that thread uses `user`. It may call any function of the library and wait for
/// other tasks. A task that it has submitted may then run on the same thread, with as much stack of
/// its own.
///
/// The callback should return. On Linux on x86-64, an exception, pthread_exit or pthread_cancel
/// that leaves it fails the task (SCHED_E_UNWOUND) and destroys the objects on its stack; elsewhere
/// it ends the process with a message. No longjmp may leave it.
///
/// It runs in the floating-point mode that the submitting thread had at the submission: rounding
/// direction, flush-to-zero, denormals-are-zero and trap masks. The exception flags are clear. This
/// holds for every attempt on every slot. A change of the mode ends when the callback returns.
pub type sched_run_fn =
    Option<unsafe extern "C-unwind" fn(exec: *const sched_exec_t, user: *mut c_void) -> i32>;

/// Returns `user` to its owner. Called once, on any thread; must not wait for a task. An exception
/// that leaves it is logged. It runs in the floating-point mode of its task, see sched_run_fn.
pub type sched_drop_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void)>;

/// The caller's pointer, its drop callback, and the floating-point mode of both callbacks.
pub(super) struct UserData {
    pointer: SendPointer<c_void>,
    drop: sched_drop_fn,
    mode: CallbackMode,
}

impl UserData {
    pub(super) fn new(pointer: *mut c_void, drop: sched_drop_fn, mode: CallbackMode) -> Self {
        UserData { pointer: SendPointer::new(pointer), drop, mode }
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            let _whole = CancelGuard::here();
            // SAFETY: the caller passed the two together; only this place calls it, and a
            // `UserData` is dropped once. A function with one parameter ignores more; its undefined
            // result is not read.
            let result = unsafe {
                let drop: trampoline::CallerFunction = std::mem::transmute(drop);
                trampoline::call(self.mode.enter(), drop, [self.pointer.pointer(), null_mut(), null_mut()])
            };
            if let Err(error) = result {
                log::error!("in a drop callback: {error}");
            }
        }
    }
}

type RunFunction = unsafe extern "C-unwind" fn(*const sched_exec_t, *mut c_void) -> i32;

pub(super) struct Callback {
    run: RunFunction,
    user: UserData,
}

impl Callback {
    pub(super) fn new(run: RunFunction, user: UserData) -> Self {
        Callback { run, user }
    }
}

/// A callback as four words, without an allocation: its function, the caller's pointer, its drop
/// callback (0: none), the mode.
static KIND: InlineJobKind = InlineJobKind {
    run: |words, exec| {
        // SAFETY: only `bare` makes words of this kind, and the scheduler drops them after the last
        // run.
        let callback = ManuallyDrop::new(unsafe { Callback::of(words) });
        callback.run(exec)
    },
    drop: None,
};

/// As `KIND`, with a drop callback.
static KIND_WITH_DROP: InlineJobKind = InlineJobKind {
    // SAFETY: as above; the scheduler drops them once.
    drop: Some(|words| drop(unsafe { Callback::of(words) })),
    ..KIND
};

impl Callback {
    pub(super) fn bare(self) -> InlineJob {
        let this = ManuallyDrop::new(self);
        let drop = this.user.drop.map_or(0, |drop| drop as usize);
        let pointer = this.user.pointer.pointer().expose_provenance();
        let kind = if drop == 0 { &KIND } else { &KIND_WITH_DROP };
        InlineJob::new([this.run as usize, pointer, drop, this.user.mode.to_word()], kind)
    }

    /// Restores a callback from its words.
    ///
    /// # Safety
    /// The words are of [`Callback::bare`]; at most one of the callbacks made of them is dropped.
    unsafe fn of(words: [usize; 4]) -> Self {
        let [run, pointer, drop, mode] = words;
        // SAFETY: `bare` converted functions of these types; NULL is `None` of the second.
        let (run, drop) = unsafe {
            let function = std::ptr::with_exposed_provenance::<()>;
            (
                std::mem::transmute::<*const (), RunFunction>(function(run)),
                std::mem::transmute::<*const (), sched_drop_fn>(function(drop)),
            )
        };
        let pointer = std::ptr::with_exposed_provenance_mut(pointer);
        Callback { run, user: UserData::new(pointer, drop, CallbackMode::from_word(mode)) }
    }
}

impl Job for Callback {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        let (exec_info, running) = (exec_info(exec), RunningExec::new(exec));
        let code = {
            let _allocations = AllocationScope::of(&exec_info);
            let _listed = RunningCallback::enter(&exec_info, &running);
            // SAFETY: the caller passed the two together and allowed the call from this thread;
            // `exec_info` outlives the call. A function with two parameters ignores a third.
            unsafe {
                let run: trampoline::CallerFunction = std::mem::transmute(self.run);
                trampoline::call(
                    self.user.mode.enter_on_worker(),
                    run,
                    [(&raw const exec_info).cast_mut().cast(), self.user.pointer.pointer(), null_mut()],
                )?
            }
        };
        outcome(code, running)
    }

    fn has_drop(&self) -> bool {
        self.user.drop.is_some()
    }
}

/// Calls the callback of a range for one chunk.
pub(super) fn run_piece(
    run: unsafe extern "C-unwind" fn(*const sched_exec_t, u64, u64, *mut c_void) -> i32,
    user: &UserData,
    exec: &Exec<'_>,
    elements: Range<u64>,
) -> Result<()> {
    let (exec_info, running) = (exec_info(exec), RunningExec::new(exec));
    let code = {
        let _allocations = AllocationScope::of(&exec_info);
        let _listed = RunningCallback::enter(&exec_info, &running);
        let Range { start, end } = elements;
        let mode = user.mode.enter_on_worker();
        let word = |number: u64| std::ptr::without_provenance_mut(number as usize);
        // SAFETY: the caller passed the two together and allowed the call from this thread;
        // `exec_info` outlives the call. Where a 64-bit number is a word, it is passed like one.
        unsafe {
            if size_of::<usize>() == size_of::<u64>() {
                let run: trampoline::CallerFunction = std::mem::transmute(run);
                let first = (&raw const exec_info).cast_mut().cast();
                trampoline::call(mode, run, [first, word(start), word(end), user.pointer.pointer()])?
            } else {
                run(&exec_info, start, end, user.pointer.pointer())
            }
        }
    };
    outcome(code, running)
}

/// Converts the status that a callback returned, with the message of sched_exec_fail if it failed.
fn outcome(code: i32, running: RunningExec<'_>) -> Result<()> {
    if code == SCHED_OK {
        return Ok(());
    }
    let exec = running.exec;
    let message = running.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    let device = exec.device.label();
    let what = || match (&message, name_of(code)) {
        (Some(message), _) => plain(message),
        (None, name) => format!("the callback returned {}", name.unwrap_or_default().to_string_lossy()),
    };
    Err(match code {
        SCHED_CANCELLED => Error::Cancelled,
        SCHED_E_MEMORY => {
            Error::NoMemory { what: what(), needed: 0, place: device, there: exec.lane.free_bytes() }
        }
        SCHED_E_RESOURCES => Error::Resources { device, what: what() },
        SCHED_E_DEVICE => Error::Device { device, what: what(), fault: DeviceFault::Poisoned },
        SCHED_E_RESULT => Error::WrongResult { device, what: what() },
        code => match (message, name_of(code)) {
            (Some(message), _) => Error::Reported { message },
            (None, Some(name)) => {
                Error::Reported { message: format!("it returned {}", name.to_string_lossy()) }
            }
            (None, None) => Error::Callback { code },
        },
    })
}

/// Returns the `sched_exec_t` that a callback receives.
fn exec_info(exec: &Exec<'_>) -> sched_exec_t {
    let (cpu_threads, stream) = match exec.lane {
        Lane::Cpu(team) => (team.threads() as u32, std::ptr::null_mut()),
        Lane::Cuda(stream) => (0, stream.handle()),
    };
    sched_exec_t {
        size: size_of::<sched_exec_t>(),
        task: exec.task.0,
        device: exec.device_index as u32,
        backend: backend_of(exec.device.backend),
        ordinal: exec.device.ordinal,
        slot: exec.slot,
        attempt: exec.attempt,
        cpu_threads,
        stream,
    }
}

/// Returns 1 if the attempt was asked to stop, else 0. A long callback should call this regularly,
/// and return SCHED_CANCELLED soon after a 1. If it returns 0 instead, the task succeeds, unless it
/// was cancelled or another attempt was first. `exec` is the argument of the callback; any thread
/// may pass it until the callback returns.
///
/// Errors (negative): SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_cancelled(exec: *const sched_exec_t) -> i32 {
    guard_in_callers_mode(|| with_exec(exec, |exec| i32::from(exec.cancelled())))
}

/// Reports the fraction of the task that is done, from 0 to 1, for sched_task_info. Call this with
/// a number above 0 when the callback has allocated its device memory: until then other processes
/// keep the rest of its `device_bytes` free. `exec` as above.
///
/// Errors: SCHED_E_ARGUMENT for a number outside 0 to 1; SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_report(exec: *const sched_exec_t, fraction: f64) -> sched_status_t {
    guard_status(|| {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Error::argument("fraction", fraction, "0 to 1"));
        }
        with_exec(exec, |exec| exec.report(fraction))
    })
}

/// Commits this attempt. A callback calls this before it publishes its results. Returns 0 if this
/// attempt counts; the task can't be cancelled from then on. Returns SCHED_CANCELLED if another
/// attempt or a cancel came first, or if this attempt was given up after its deadline: discard the
/// results and return. If a second attempt may run (SCHED_TASK_IDEMPOTENT), only the attempt that
/// got 0 may publish. `exec` as above.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_commit(exec: *const sched_exec_t) -> sched_status_t {
    guard_status(|| with_exec(exec, |exec| exec.commit())?)
}

/// Says why the callback fails: `return sched_exec_fail(exec, "no such trace");`. The message
/// becomes that of the task's error (sched_wait, sched_task_error) and of the log, if the
/// callback then returns a number that fails the task. The last message counts. It is copied.
/// `exec` as above.
///
/// Returns SCHED_E_CALLBACK. Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_fail(
    exec: *const sched_exec_t,
    message: *const c_char,
) -> sched_status_t {
    guard(|| {
        // SAFETY: a text that ends with NUL, as the header requires it; `text` checks for NULL.
        let message = unsafe { input::text(message) };
        let message = message.ok_or_else(|| Error::argument("message", "NULL", "a text"))?.into_owned();
        with_running(exec, |running| {
            *running.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
            SCHED_E_CALLBACK
        })
    })
}
