//! Ranges: parallel loops.

use std::ffi::{c_char, c_void};

use super::guard::guard_status;
use super::input::{VersionedStruct, check_bits, read};
use super::run_control::{sched_exec_t, sched_task_t};
use super::scheduler_handle::{sched_t, with_scheduler};
use super::status::sched_status_t;
use super::submit::{SCHED_TASK_DETACHED, SCHED_TASK_ORDERED, apply_desc, id_out, sched_task_desc_t};
use super::task_run::{UserData, run_piece, sched_drop_fn};
use crate::backend::callback_mode::CallbackMode;
use crate::error::{Error, Result};
use crate::sched::{Range, Task};

/// The callback of a range. It processes the elements from `begin` up to but not including `end`;
/// `begin` is less than `end`. Several threads call it at the same time for different chunks. Its
/// result means the same as for sched_run_fn, except:
///
/// - SCHED_E_MEMORY: the chunk did not fit. It is halved and called again, down to one element. A
///   size that did not fit a device is not tried there again; an element that fits no device fails
///   the range.
/// - SCHED_CANCELLED: the whole range ends as cancelled.
/// - SCHED_E_RESULT and any other failure: the whole range fails, and the message names the
///   elements.
///
/// After a cancel or a failure no more chunks start; running ones continue to their end. Elements
/// count as done when the work on the device's stream has ended. The progress of a range is the
/// fraction of its elements that is done; one from sched_exec_report holds until the next chunk
/// ends. Every chunk runs in the floating-point mode of the thread that submitted the range, see
/// sched_run_fn.
pub type sched_range_fn = Option<
    unsafe extern "C-unwind" fn(exec: *const sched_exec_t, begin: u64, end: u64, user: *mut c_void) -> i32,
>;

/// A parallel loop. Zero in every field except `size`, `end` and `run` is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_range_desc_t {
    /// sizeof(sched_range_desc_t), set by the caller.
    pub size: usize,
    /// The first element.
    pub begin: u64,
    /// The element after the last. A range without elements is done at once, without a call of
    /// `run`.
    pub end: u64,
    /// Largest number of elements of a call; a call may get fewer. 0: tuned automatically for each
    /// device, so that a call takes about 0.75 ms.
    pub grain: u64,
    /// The callback. Every element is in exactly one successful call, unless the range fails.
    pub run: sched_range_fn,
    /// Passed to `run` and `drop`.
    pub user: *mut c_void,
    /// As in sched_task_desc_t: called once, after the last `run`.
    pub drop: sched_drop_fn,
    /// A name for messages and logs; NULL: none. Copied.
    pub label: *const c_char,
    /// Device memory of one element in bytes. A call gets no more elements than fit, and the
    /// scheduler reserves their memory.
    pub device_bytes: u64,
    /// As in sched_task_desc_t.
    pub device_mask: u64,
    /// As in sched_task_desc_t.
    pub backend_mask: u32,
    /// A range with a higher priority runs earlier.
    pub priority: i32,
    /// SCHED_TASK_DETACHED, SCHED_TASK_ORDERED.
    pub flags: u32,
    /// Must be zero.
    pub reserved: u32,
    /// Time limit of an attempt at the whole range in nanoseconds; after it the scheduler requests
    /// the attempt to stop. 0: none.
    pub deadline_ns: i64,
    /// Tasks that must succeed before the first call. Copied.
    pub after: *const sched_task_t,
    /// Number of `after`.
    pub after_count: usize,
}

// SAFETY: `repr(C)`, `size` first; numbers, pointers and nullable functions.
unsafe impl VersionedStruct for sched_range_desc_t {
    const NAME: &'static str = "sched_range_desc_t";
}

/// Returns the range of a descriptor.
///
/// # Safety
/// As for [`apply_desc`].
unsafe fn range_of(desc: &sched_range_desc_t, user: UserData) -> Result<Range> {
    let accepted = "the function that does the range's work";
    let run = desc.run.ok_or_else(|| Error::argument("run", "NULL", accepted))?;
    check_bits("flags of a range", desc.flags, SCHED_TASK_DETACHED | SCHED_TASK_ORDERED)?;
    let mut task = Task::new(|_: &crate::sched::Exec<'_>| Ok(()));
    let desc_of_task = sched_task_desc_t {
        label: desc.label,
        device_bytes: desc.device_bytes,
        device_mask: desc.device_mask,
        backend_mask: desc.backend_mask,
        priority: desc.priority,
        flags: desc.flags,
        reserved: desc.reserved,
        deadline_ns: desc.deadline_ns,
        after: desc.after,
        after_count: desc.after_count,
        ..sched_task_desc_t::zeroed()
    };
    // SAFETY: as promised by the caller.
    unsafe { apply_desc(&mut task, &desc_of_task)? };
    let range = Range::new(0..0, move |exec, elements| run_piece(run, &user, exec, elements));
    Ok(Range {
        begin: desc.begin,
        end: desc.end,
        grain: (desc.grain != 0).then_some(desc.grain),
        task,
        ..range
    })
}

/// Submits a range and returns at once. A range is one task: wait for it, cancel, release and query
/// it like any other. `*id` receives its id; `id` may be NULL if the range is detached. All allowed
/// devices process its elements as they become free, in chunks that are split while another worker
/// is free to help. A range may be submitted, and waited for, inside a chunk of another.
///
/// Errors: as sched_submit; SCHED_E_ARGUMENT also if `begin` is greater than `end`.
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
        let id = with_scheduler(s, |scheduler| scheduler.submit_range(range))?;
        if let Some(out) = out {
            out.write(id.0);
        }
        Ok(())
    })
}
