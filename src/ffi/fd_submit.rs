//! Finite differences: the submission of shots.

use super::fd_shot::{
    plan_shot, sched_fd_cell_t, sched_fd_shot_desc_t, sched_fd_shot_size_t, size_of_shot, wavelet_stated,
};
use super::guard::guard_status;
use super::input::{SendPointer, read, read_or_default};
use super::model_handle::{sched_fd_model_t, shared_model};
use super::run_control::sched_task_t;
use super::scheduler_handle::{sched_t, with_scheduler};
use super::status::sched_status_t;
use super::submit::{SCHED_TASK_IDEMPOTENT, apply_desc, id_out, sched_task_desc_t};
use super::task_run::UserData;
use crate::backend::callback_mode::CallbackMode;
use crate::error::{Error, Result};
use crate::fd::shot::{ShotOutput, task as shot_task};
use crate::fd::survey::{Effort, Gather};
use crate::memory::Bytes;
use crate::sched::{Exec, Task};

/// The caller's buffers, which receive a shot's results.
struct ShotBuffers {
    record: SendPointer<f32>,
    snapshots: SendPointer<f32>,
    cells: usize,
    every: usize,
    /// Dropped with the task.
    _user: UserData,
}

impl ShotOutput for ShotBuffers {
    fn snapshot(&self, exec: &Exec<'_>, step: usize, field: &[f32]) -> Result<()> {
        // An abandoned attempt may go on after its task has ended.
        if exec.cancelled() {
            return Err(Error::Cancelled);
        }
        let at = step / self.every * self.cells;
        // SAFETY: `snapshots` is lent until the task has ended, and with a deadline until `drop`;
        // it was checked to have room for every snapshot of `cells` floats; one attempt at a time
        // writes.
        let room = unsafe { std::slice::from_raw_parts_mut(self.snapshots.pointer().add(at), self.cells) };
        room.copy_from_slice(field);
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, gather: Gather, _: Effort) -> Result<()> {
        // SAFETY: `record` is lent like `snapshots`, and was checked to have room for the gather;
        // called once, when the result counts.
        let room = unsafe { std::slice::from_raw_parts_mut(self.record.pointer(), gather.data.len()) };
        room.copy_from_slice(&gather.data);
        Ok(())
    }
}

/// Refuses a shot whose results would overwrite each other or an array of the description.
fn check_apart(desc: &sched_fd_shot_desc_t, need: &sched_fd_shot_size_t) -> Result<()> {
    let extent = |name, at: usize, bytes: usize| (name, at, at.saturating_add(bytes));
    let floats = |name, at: *const f32, len: usize| extent(name, at.addr(), len.saturating_mul(4));
    let arrays = [
        floats("record", desc.record, need.record_len as usize),
        floats("snapshots", desc.snapshots, need.snapshots_len as usize),
        floats("wavelet_samples", desc.wavelet_samples, desc.wavelet_len),
        extent("receivers", desc.receivers.addr(), desc.receiver_count * size_of::<sched_fd_cell_t>()),
    ];
    for (index, (output, begin, end)) in arrays[..2].iter().enumerate() {
        for (other, from, to) in &arrays[index + 1..] {
            if begin.max(from) < end.min(to) {
                let accepted = "memory that no other array of the call uses";
                return Err(Error::argument(*output, format!("overlapped by {other}"), accepted));
            }
        }
    }
    Ok(())
}

fn buffers(
    desc: &sched_fd_shot_desc_t,
    need: &sched_fd_shot_size_t,
    cells: usize,
    user: UserData,
) -> Result<ShotBuffers> {
    let check = |what: &str, at: *mut f32, len: usize, needed: u64| {
        if at.is_null() {
            return Err(Error::argument(what, "NULL", format!("a pointer to {needed} floats")));
        }
        if !at.is_aligned() {
            return Err(Error::argument(what, format!("{at:p}"), "an address aligned for floats"));
        }
        if (len as u64) < needed {
            return Err(Error::argument(format!("{what}_len"), len, format!("at least {needed} floats")));
        }
        Ok(())
    };
    check("record", desc.record, desc.record_len, need.record_len)?;
    if need.snapshots > 0 {
        check("snapshots", desc.snapshots, desc.snapshots_len, need.snapshots_len)?;
    }
    check_apart(desc, need)?;
    Ok(ShotBuffers {
        record: SendPointer::new(desc.record),
        snapshots: SendPointer::new(desc.snapshots),
        cells,
        every: (desc.snapshot_every as usize).max(1),
        _user: user,
    })
}

/// Submits a shot and returns at once. It is a task like any other: sched_wait, sched_cancel and
/// the rest apply.
///
/// `task` may be NULL; its `run` must be NULL. If `task` is NULL or has 0 in one of the fields
/// `device_bytes`, `work`, `task_class` and `retries`, the library sets that field (`retries`: 2).
/// A shot that becomes unstable is retried once if its time step is stable, and not at all if the
/// step is too large. `id` may be NULL if the task is detached. The same shot gives the same
/// record, bit for bit, on every device of a kind and after any number of retries. Shots are
/// idempotent (SCHED_TASK_IDEMPOTENT), except those with snapshots, and those whose `task` has a
/// `drop` without this flag.
///
/// Errors: SCHED_E_ARGUMENT, also for a source or receiver outside the grid, and for a buffer that
/// is too short or overlaps another array of the call; SCHED_E_UNSTABLE for a time step that is too
/// large, with the largest stable one; SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_NO_DEVICE,
/// SCHED_E_MEMORY, SCHED_E_SHUTDOWN, SCHED_E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_submit(
    s: *mut sched_t,
    model: *const sched_fd_model_t,
    shot: *const sched_fd_shot_desc_t,
    task: *const sched_task_desc_t,
    id: *mut sched_task_t,
) -> sched_status_t {
    let mode = CallbackMode::of_this_thread();
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let about = unsafe { read_or_default(task)? };
        let user = UserData::new(about.user, about.drop, mode);
        if about.run.is_some() {
            return Err(Error::argument("run", "set", "NULL: the library provides the code of a shot"));
        }
        // SAFETY: as above.
        let (desc, out) = unsafe { (read(shot)?, id_out(id, about.flags)?) };
        if about.flags & SCHED_TASK_IDEMPOTENT != 0 && desc.snapshot_every != 0 {
            let accepted = "no SCHED_TASK_IDEMPOTENT with snapshots: two attempts would write them";
            return Err(Error::argument("flags of a task", format!("{:#x}", about.flags), accepted));
        }
        let medium = shared_model(model)?;
        // SAFETY: as above.
        let (plan, shot) = unsafe { plan_shot(&medium, &desc)? };
        let need = size_of_shot(&medium, &shot, Bytes::default());
        let buffers = buffers(&desc, &need, medium.model().grid.cells(), user)?;
        medium.log_warnings(&plan, &shot, wavelet_stated(&desc));
        let threads = with_scheduler(s, |scheduler| Ok(scheduler.cpu_threads())).unwrap_or(0);
        // SAFETY: as above.
        let task = unsafe { described(shot_task(plan.clone(), shot, threads, buffers)?, &about) };
        let task = task.map_err(|error| plan.advise(error))?;
        let id = with_scheduler(s, |scheduler| scheduler.submit(task).map_err(|error| plan.advise(error)))?;
        if let Some(out) = out {
            out.write(id.0);
        }
        Ok(())
    })
}

/// Applies the caller's description to the task of a shot.
///
/// # Safety
/// As for [`apply_desc`].
unsafe fn described(mut task: Task, about: &sched_task_desc_t) -> Result<Task> {
    let idempotent = std::mem::take(&mut task.idempotent);
    let possible = std::mem::take(&mut task.backends);
    // SAFETY: as promised by the caller.
    unsafe { apply_desc(&mut task, about)? };
    if task.backends.is_empty() {
        task.backends = possible;
    } else if !possible.is_empty() {
        task.backends.retain(|kind| possible.contains(kind));
        if task.backends.is_empty() {
            let why = format!("backend_mask is {:#x}, without SCHED_BACKEND_CPU", about.backend_mask);
            return Err(Error::NoDevice { what: "a shot".into(), why });
        }
    }
    // Snapshots go to the caller's memory while the shot runs, so only one attempt runs at a time.
    // A second copy may outlive the wait, so a caller with a `drop` function has to allow it.
    task.idempotent = idempotent && (about.drop.is_none() || task.idempotent);
    Ok(task)
}

#[cfg(test)]
mod tests {
    use super::super::device::{SCHED_BACKEND_CPU, SCHED_BACKEND_CUDA};
    use super::super::input::VersionedStruct;
    use super::*;
    use crate::device::BackendKind;
    use crate::fd::plan::Options;

    unsafe extern "C-unwind" fn ignore(_: *mut std::ffi::c_void) {}

    /// Returns the task of a shot whose description is `change` of one with zeros.
    fn task_of(snapshots: bool, change: impl FnOnce(&mut sched_task_desc_t)) -> Task {
        let mut about = sched_task_desc_t::zeroed();
        change(&mut about);
        let task = Task {
            class: Options::default().equation.class(),
            idempotent: !snapshots,
            ..Task::new(|_: &Exec<'_>| Ok(()))
        };
        // SAFETY: the description has no pointers.
        unsafe { described(task, &about).unwrap() }
    }

    #[test]
    fn shot_keeps_its_class_unless_the_caller_names_another() {
        assert_eq!(task_of(false, |_| {}).class, Options::default().equation.class());
        assert_eq!(task_of(false, |about| about.task_class = 7).class, 7);
    }

    /// An empty list allows all kinds, so the caller's mask must not widen that of the equation.
    #[test]
    fn callers_backend_mask_narrows_the_devices_of_an_equation() {
        use BackendKind::{Cpu, Cuda};
        let table: [(&[_], u32, Option<&[_]>); 6] = [
            (&[], 0, Some(&[])),
            (&[], SCHED_BACKEND_CUDA, Some(&[Cuda])),
            (&[Cpu], 0, Some(&[Cpu])),
            (&[Cpu], SCHED_BACKEND_CPU, Some(&[Cpu])),
            (&[Cpu], SCHED_BACKEND_CPU | SCHED_BACKEND_CUDA, Some(&[Cpu])),
            (&[Cpu], SCHED_BACKEND_CUDA, None),
        ];
        for (possible, backend_mask, expected) in table {
            let about = sched_task_desc_t { backend_mask, ..sched_task_desc_t::zeroed() };
            let task = Task { backends: possible.to_vec(), ..Task::new(|_: &Exec<'_>| Ok(())) };
            // SAFETY: the description has no pointers.
            let found = unsafe { described(task, &about) }.map(|task| task.backends);
            assert_eq!(found.ok().as_deref(), expected, "{possible:?}, {backend_mask:#x}");
        }
    }

    #[test]
    fn shot_with_a_drop_function_has_copies_only_if_the_caller_allows_them() {
        let copies = |snapshots, drop: bool, flags| {
            task_of(snapshots, |about| {
                about.drop = drop.then_some(ignore);
                about.flags = flags;
            })
            .idempotent
        };
        assert!(copies(false, false, 0));
        assert!(!copies(false, true, 0), "the caller frees `user` before the second copy ends");
        assert!(copies(false, true, SCHED_TASK_IDEMPOTENT));
        assert!(!copies(true, false, 0), "two copies would write the same snapshots");
    }
}
