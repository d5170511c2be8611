//! The caller's function as a job, and the functions that it may call while it runs.

use std::ffi::c_void;
use std::mem::{ManuallyDrop, size_of};
use std::ops::Range;
use std::ptr::null_mut;

use super::device::backend_of;
use super::device_memory::AllocationScope;
use super::guard::{guard_in_callers_mode, guard_status};
use super::input::SendPointer;
use super::run_control::{RunningCallback, sched_exec_t, with_exec};
use super::status::{
    SCHED_CANCELLED, SCHED_E_DEVICE, SCHED_E_MEMORY, SCHED_E_RESOURCES, SCHED_E_RESULT, SCHED_OK,
    sched_status_t,
};
use super::trampoline;
use crate::backend::Lane;
use crate::backend::callback_mode::CallbackMode;
use crate::backend::thread::CancelGuard;
use crate::error::{DeviceFault, Error, Result};
use crate::sched::{Exec, InlineJob, InlineJobKind, Job};

/// The code of a task. It returns 0 when it is done, and otherwise a number that says what to do:
///
/// - SCHED_CANCELLED: it has stopped before it was done. The task ends as cancelled, also where `retries` are
///   left; an attempt that was asked to make room for another ends alone.
/// - SCHED_E_MEMORY: memory of the device was short. It is tried again, alone on the device, then on other
///   devices, then after a while; in the end it fails with SCHED_E_MEMORY.
/// - SCHED_E_RESOURCES: a launch found too few resources beside what runs. The same.
/// - SCHED_E_DEVICE: the device's context is of no use any more (a sticky error). The context is made
///   anew, and the task tried elsewhere; the second time it fails with SCHED_E_DEVICE.
/// - SCHED_E_RESULT: what was computed is wrong, and the device may be why. The task is tried once more,
///   elsewhere if there is another device for it; if that is wrong, too, it fails with SCHED_E_RESULT. If it is
///   right, the first device was to blame; the second task that this befalls retires the device.
/// - anything else: the task has failed with SCHED_E_CALLBACK, or is tried again if `retries` are left; its
///   words name the number.
///
/// Where it was asked to stop by its deadline, the first and the last of these are SCHED_E_DEADLINE.
///
/// Called on a thread of the library with `stack_bytes` of stack (sched_config_t; 8 MiB by default), so
/// `user` is used from there. It may call any function of the library, also wait for other tasks: a task
/// that it has submitted may then run on the same thread, with as much stack of its own.
///
/// It should return. On Linux on x86-64 an exception, pthread_exit or pthread_cancel that leaves it fails
/// the task (SCHED_E_UNWOUND), and what it has on the stack is destroyed; elsewhere that ends the process
/// with a message. No longjmp may leave it.
///
/// It runs in the floating-point mode of the thread that submitted the task, as that was at the
/// submission: rounding direction, flush-to-zero, denormals-are-zero and trap masks, but not the
/// exception flags, which are clear. This holds for every attempt, on every slot. A change that it makes
/// to the mode ends when it returns.
pub type sched_run_fn =
    Option<unsafe extern "C-unwind" fn(exec: *const sched_exec_t, user: *mut c_void) -> i32>;

/// Gives `user` back to its owner. Called once, on any thread; must not wait for a task. An exception that
/// leaves it goes to the log. It runs in the floating-point mode of its task, see sched_run_fn.
pub type sched_drop_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void)>;

/// The caller's pointer, its drop callback, and the floating-point mode of that and of the task's code.
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
            // SAFETY: the caller passed the two together; only this place calls it, and a `UserData` is dropped
            // once. A function with one parameter ignores more; its undefined result is not read.
            let result = unsafe {
                let drop: trampoline::Function = std::mem::transmute(drop);
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

/// A callback as four words without an allocation: its function, the caller's pointer, its drop callback (0: none),
/// the mode.
static KIND: InlineJobKind = InlineJobKind {
    run: |words, exec| {
        // SAFETY: only `bare` makes words of this kind, and the scheduler drops them after the last run.
        let callback = ManuallyDrop::new(unsafe { Callback::of(words) });
        callback.run(exec)
    },
    // SAFETY: as above; the scheduler drops them once.
    drop: |words| drop(unsafe { Callback::of(words) }),
};

impl Callback {
    pub(super) fn bare(self) -> InlineJob {
        let this = ManuallyDrop::new(self);
        let drop = this.user.drop.map_or(0, |drop| drop as usize);
        let pointer = this.user.pointer.pointer().expose_provenance();
        InlineJob::new([this.run as usize, pointer, drop, this.user.mode.to_word()], &KIND)
    }

    /// # Safety
    /// The words are of [`Callback::bare`]; at most one of the callbacks made of them is dropped.
    unsafe fn of(words: [usize; 4]) -> Self {
        let [run, pointer, drop, mode] = words;
        // SAFETY: they were functions of these types; NULL is `None` of the second.
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
        let exec_info = exec_info(exec);
        let code = {
            let _allocations = AllocationScope::enter(&exec_info);
            let _listed = RunningCallback::enter(&exec_info, exec);
            // SAFETY: the caller passed the two together and allowed the call from this thread; `exec_info`
            // outlives the call. A function with two parameters ignores a third.
            unsafe {
                let run: trampoline::Function = std::mem::transmute(self.run);
                trampoline::call(
                    self.user.mode.enter_on_worker(),
                    run,
                    [(&raw const exec_info).cast_mut().cast(), self.user.pointer.pointer(), null_mut()],
                )?
            }
        };
        outcome(code, exec)
    }
}

/// Calls the code of a range for one piece.
pub(super) fn run_piece(
    run: unsafe extern "C-unwind" fn(*const sched_exec_t, u64, u64, *mut c_void) -> i32,
    user: &UserData,
    exec: &Exec<'_>,
    elements: Range<u64>,
) -> Result<()> {
    let exec_info = exec_info(exec);
    let code = {
        let _allocations = AllocationScope::enter(&exec_info);
        let _listed = RunningCallback::enter(&exec_info, exec);
        let Range { start, end } = elements;
        let mode = user.mode.enter_on_worker();
        let word = |number: u64| std::ptr::without_provenance_mut(number as usize);
        // SAFETY: the caller passed the two together and allowed the call from this thread; `exec_info` outlives
        // the call. Where a 64-bit number is a word, it is passed like one.
        unsafe {
            if size_of::<usize>() == size_of::<u64>() {
                let run: trampoline::Function = std::mem::transmute(run);
                let first = (&raw const exec_info).cast_mut().cast();
                trampoline::call(mode, run, [first, word(start), word(end), user.pointer.pointer()])?
            } else {
                run(&exec_info, start, end, user.pointer.pointer())
            }
        }
    };
    outcome(code, exec)
}

/// Translates the number that the caller's code returned.
fn outcome(code: i32, exec: &Exec<'_>) -> Result<()> {
    match code {
        SCHED_OK => Ok(()),
        SCHED_CANCELLED => Err(Error::Cancelled),
        SCHED_E_MEMORY => Err(Error::NoMemory {
            what: "what the callback wanted (it returned SCHED_E_MEMORY)".into(),
            needed: 0,
            place: exec.device.label(),
            there: exec.device.total_bytes,
        }),
        SCHED_E_RESOURCES => Err(Error::Resources {
            device: exec.device.label(),
            what: "the callback returned SCHED_E_RESOURCES".into(),
        }),
        SCHED_E_DEVICE => Err(Error::Device {
            device: exec.device.label(),
            what: "the callback returned SCHED_E_DEVICE".into(),
            fault: DeviceFault::Poisoned,
        }),
        SCHED_E_RESULT => Err(Error::WrongResult {
            device: exec.device.label(),
            what: "the callback returned SCHED_E_RESULT".into(),
        }),
        code => Err(Error::Callback { code }),
    }
}

/// Returns what the caller's code receives.
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

/// 1 if the task was asked to stop, 0 if not. Long tasks look now and then, and return soon, with
/// SCHED_CANCELLED: 0 says that they are done all the same, and is believed unless the task was cancelled.
/// `exec` is what the task's code was given; any thread may ask, until that code returns.
///
/// Errors (negative): SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_cancelled(exec: *const sched_exec_t) -> i32 {
    guard_in_callers_mode(|| with_exec(exec, |exec| i32::from(exec.cancelled())))
}

/// Tells how much of the task is done, from 0 to 1, for sched_task_info. `exec` as above.
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

/// Called before a task puts its results where others see them: 0 if this attempt counts, and then the task
/// can't be cancelled any more; SCHED_CANCELLED if another attempt or a cancel was first: discard
/// the results and return. Where a copy may run (SCHED_TASK_IDEMPOTENT), only the attempt that was told 0
/// may write them. `exec` as above.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_commit(exec: *const sched_exec_t) -> sched_status_t {
    guard_status(|| with_exec(exec, |exec| exec.commit())?)
}
