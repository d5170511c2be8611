//! Ranges: parallel loops.

use std::ffi::{c_char, c_void};
use std::ptr;

use super::guard::guard_status;
use super::input::{VersionedStruct, check_bits, read};
use super::run_control::{sched_exec_t, sched_task_t};
use super::scheduler_handle::{sched_t, scheduler};
use super::status::sched_status_t;
use super::task::{SCHED_TASK_DETACHED, SCHED_TASK_ORDERED, apply_desc, id_out, sched_task_desc_t};
use super::task_run::{UserData, run_piece, sched_drop_fn};
use crate::backend::callback_mode::CallbackMode;
use crate::error::{Error, Result};
use crate::sched::{Range, Task};

/// The code of a range, called for the elements `begin` to `end`, `end` not included and never equal to
/// `begin`; for different pieces on several threads at the same time. What it returns means what it
/// means for sched_run_fn, and besides:
///
/// - SCHED_E_MEMORY: the piece did not fit. It is called again with half of it, down to one element, and
///   what did not fit a device is not tried there again; an element that fits no device fails the range.
/// - SCHED_CANCELLED: the whole range ends as cancelled.
/// - SCHED_E_RESULT and any other failure: the whole range fails, and its words name the elements.
///
/// After either of the last two no piece begins any more; those that run elsewhere end. The device's
/// stream is waited for before the elements count as done. What sched_exec_report
/// tells here lasts until the next piece ends: the range's progress is the part of the elements that is done.
/// Every piece runs in the floating-point mode of the thread that submitted the range, see sched_run_fn.
pub type sched_range_fn = Option<
    unsafe extern "C-unwind" fn(exec: *const sched_exec_t, begin: u64, end: u64, user: *mut c_void) -> i32,
>;

/// A parallel loop and what the scheduler is told of it. Zero in every field but `size`, `end` and `run` is the
/// default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_range_desc_t {
    /// sizeof(sched_range_desc_t), set by the caller.
    pub size: usize,
    /// The first element.
    pub begin: u64,
    /// The element after the last. A range without elements is done at once, and `run` is not called.
    pub end: u64,
    /// The most elements of a call; a call may get fewer. 0: found by measuring, for each device, so
    /// that a call takes about 0.75 ms.
    pub grain: u64,
    /// The code; every element is in exactly one call that ends well, unless the range fails.
    pub run: sched_range_fn,
    /// Handed to `run` and `drop`.
    pub user: *mut c_void,
    /// As in sched_task_desc_t: called once, after the last `run`.
    pub drop: sched_drop_fn,
    /// A name for messages and logs; NULL: none. Copied.
    pub label: *const c_char,
    /// Memory of the device that one element takes, in bytes. A call gets no more elements than there
    /// is memory for, and that much is kept free for it.
    pub device_bytes: u64,
    /// As in sched_task_desc_t.
    pub device_mask: u64,
    /// As in sched_task_desc_t.
    pub backend_mask: u32,
    /// Higher runs earlier.
    pub priority: i32,
    /// SCHED_TASK_DETACHED, SCHED_TASK_ORDERED.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// How long the whole range may take before it is asked to stop, in nanoseconds. 0: as long as it takes.
    pub deadline_ns: i64,
    /// Tasks that have to end well before the first call. Copied.
    pub after: *const sched_task_t,
    /// Number of `after`.
    pub after_count: usize,
}

// SAFETY: `repr(C)`, `size` first; numbers, pointers and nullable functions.
unsafe impl VersionedStruct for sched_range_desc_t {
    const NAME: &'static str = "sched_range_desc_t";
}

/// # Safety
/// As for [`apply_desc`].
unsafe fn range_of(desc: &sched_range_desc_t, user: UserData) -> Result<Range> {
    let accepted = "the function that does the range's work";
    let run = desc.run.ok_or_else(|| Error::argument("run", "NULL", accepted))?;
    check_bits("flags of a range", desc.flags, SCHED_TASK_DETACHED | SCHED_TASK_ORDERED)?;
    let mut task = Task::new(|_: &crate::sched::Exec<'_>| Ok(()));
    let desc_of_task = sched_task_desc_t {
        size: size_of::<sched_task_desc_t>(),
        run: None,
        user: ptr::null_mut(),
        drop: None,
        label: desc.label,
        device_bytes: desc.device_bytes,
        work: 0.0,
        device_mask: desc.device_mask,
        backend_mask: desc.backend_mask,
        priority: desc.priority,
        retries: 0,
        flags: desc.flags,
        task_class: 0,
        reserved: desc.reserved,
        deadline_ns: desc.deadline_ns,
        after: desc.after,
        after_count: desc.after_count,
    };
    // SAFETY: as promised by the caller.
    unsafe { apply_desc(&mut task, &desc_of_task)? };
    let range = Range::new(0..0, move |exec, elements| run_piece(run, &user, exec, elements));
    Ok(Range {
        begin: desc.begin,
        end: desc.end,
        grain: (desc.grain != 0).then_some(desc.grain),
        label: task.label,
        device_bytes: task.device_bytes,
        priority: task.priority,
        devices: task.devices,
        backends: task.backends,
        deadline: task.deadline,
        detached: task.detached,
        after: task.after,
        ordered: task.ordered,
        ..range
    })
}

/// Hands a range to a scheduler and returns at once: one task, to be waited for, cancelled, released and
/// asked about like any other. `*id` may be NULL if it is detached. Its elements are done by
/// all devices that it allows, as they become free, in pieces that are split while there is somebody to
/// take a part. A range may be submitted, and waited for, inside a piece of another.
///
/// Errors: as sched_submit; SCHED_E_ARGUMENT also if `begin` is beyond `end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_submit_range(
    s: *mut sched_t,
    desc: *const sched_range_desc_t,
    id: *mut sched_task_t,
) -> sched_status_t {
    let mode = CallbackMode::of_this_thread();
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let desc = unsafe { read(desc)? };
        let user = UserData::new(desc.user, desc.drop, mode);
        // SAFETY: as above.
        let (range, out) = unsafe { (range_of(&desc, user)?, id_out(id, desc.flags)?) };
        let id = scheduler(s)?.submit_range(range)?;
        if let Some(out) = out {
            out.write(id.0);
        }
        Ok(())
    })
}
