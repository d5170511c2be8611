//! Finite differences: shots, their sizes, and their submission.

use std::ffi::c_char;
use std::sync::Arc;

use super::fd_model::{count, shape};
use super::guard::guard_status;
use super::input::{
    OutStruct, OutText, SendPointer, VersionedStruct, check_bits, copy, read, read_or_default, slice_of,
    with_capacity,
};
use super::model_handle::{SharedModel, sched_fd_model_t, shared_model};
use super::run_control::sched_task_t;
use super::scheduler_handle::{sched_t, scheduler};
use super::status::sched_status_t;
use super::submit::{SCHED_TASK_IDEMPOTENT, apply_desc, id_out, sched_task_desc_t};
use super::task_run::UserData;
use crate::backend::callback_mode::CallbackMode;
use crate::backend::cpu::threads;
use crate::error::{Error, Result};
use crate::fd::plan::{Options, Plan, Stencil};
use crate::fd::shot::{Output, task as shot_task};
use crate::fd::survey::{Effort, Gather, Receivers, Shot};
use crate::fd::verify::direct_wave_mute;
use crate::fd::wavelet::Wavelet;
use crate::memory::Bytes;
use crate::sched::{Exec, Task};

/// Flag of a shot: samples are zero until the direct wave has passed, as in the old library.
pub const SCHED_FD_SHOT_MUTE_DIRECT: u32 = 1;
/// Flag of a shot: the dispersion error of the time steps is removed from the record, at almost no
/// cost; snapshots keep it. The record then equals one without that error to about 1e-4, if
/// `record_every` leaves more than two samples per period.
pub const SCHED_FD_SHOT_EXACT_TIME: u32 = 2;
/// Flag of a shot: spatial derivatives are optimised for waves of 3.5 cells and more, with an error
/// of 3.6e-4, instead of eighth order, which is better from six cells on. The largest time step is
/// 0.9634 of the result of sched_fd_dt_max.
pub const SCHED_FD_SHOT_OPTIMISED_STENCIL: u32 = 4;
/// Flag of a shot: epsilon and delta keep their values around the source. Without it they are 0 up
/// to 4 cells from it and rise to the model's at 15 cells. Ignored by equations without them.
pub const SCHED_FD_SHOT_ANISOTROPIC_SOURCE: u32 = 8;

/// The amplitude for 0.
const DEFAULT_AMPLITUDE: f32 = 10_000.0;

/// A cell of a model's grid, counted from 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_fd_cell_t {
    /// Along x.
    pub ix: u64,
    /// Along y.
    pub iy: u64,
    /// Along z (depth).
    pub iz: u64,
}

/// A shot. `dt_s`, `nt`, `source`, `record` and `frequency_hz` (or `wavelet_samples`) must be set;
/// zero is the default of all other fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_fd_shot_desc_t {
    /// sizeof(sched_fd_shot_desc_t), set by the caller.
    pub size: usize,
    /// Time step in seconds; at most the result of sched_fd_dt_max.
    pub dt_s: f32,
    /// Peak frequency of `wavelet` in Hz. With `wavelet_samples` only SCHED_FD_SHOT_MUTE_DIRECT uses it.
    pub frequency_hz: f32,
    /// Time steps to compute, at least 1.
    pub nt: u64,
    /// SCHED_FD_WAVELET_*; 0: Ricker.
    pub wavelet: i32,
    /// Bits of SCHED_FD_SHOT_MUTE_DIRECT, SCHED_FD_SHOT_EXACT_TIME, SCHED_FD_SHOT_OPTIMISED_STENCIL,
    /// SCHED_FD_SHOT_ANISOTROPIC_SOURCE.
    pub flags: u32,
    /// Custom source function: one sample for each time step, zero after the last. Copied. NULL:
    /// `wavelet`.
    pub wavelet_samples: *const f32,
    /// Number of `wavelet_samples`.
    pub wavelet_len: usize,
    /// Factor on the wavelet; 0: 10000.
    pub amplitude: f32,
    /// Number of time steps between samples, from step 0; 0: 1.
    pub record_every: u32,
    /// Cell of the source. `acoustic1`, `acoustic2`: the upper, negative pole of a vertical dipole,
    /// whose positive pole lies two cells deeper, if necessary in the absorbing layer. Others: a
    /// monopole.
    pub source: sched_fd_cell_t,
    /// Receiver cells, in the order of the traces. Copied. NULL: a plane at depth `plane_iz`.
    pub receivers: *const sched_fd_cell_t,
    /// Number of `receivers`.
    pub receiver_count: usize,
    /// Depth index of the receiver plane; traces are [iy][ix]. Ignored with `receivers`.
    pub plane_iz: u64,
    /// Number of cells between receivers along x, from cell 0; 0: 1.
    pub plane_every_x: u32,
    /// Number of cells between receivers along y, from cell 0; 0: 1.
    pub plane_every_y: u32,
    /// Recorded pressure, [trace][sample]. Lent until the task has ended; written only if it
    /// succeeds.
    pub record: *mut f32,
    /// Length of `record` in floats; sched_fd_shot_size returns the necessary length.
    pub record_len: usize,
    /// Number of time steps between snapshots of the pressure, from step 0; 0: no snapshots.
    pub snapshot_every: u64,
    /// Snapshots, [snapshot][iy][ix][iz]. Lent until the task has ended. The task writes them while
    /// it runs, so they are valid only if it succeeds. NULL if `snapshot_every` is 0.
    pub snapshots: *mut f32,
    /// Length of `snapshots` in floats.
    pub snapshots_len: usize,
}

/// Sizes of the results of a shot, and the memory that it takes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_fd_shot_size_t {
    /// sizeof(sched_fd_shot_size_t), set by the caller.
    pub size: usize,
    /// Number of traces of the record.
    pub traces: u64,
    /// Number of samples of a trace.
    pub samples: u64,
    /// Floats of the record: traces * samples.
    pub record_len: u64,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Floats of all snapshots together.
    pub snapshots_len: u64,
    /// Peak use of device memory in bytes; on the CPU with as many threads as the process may run
    /// at once.
    pub device_bytes: u64,
    /// Additional host memory in bytes, on any device: the record.
    pub host_bytes: u64,
}

// SAFETY: `repr(C)`, `size` first; numbers and pointers.
unsafe impl VersionedStruct for sched_fd_shot_desc_t {
    const NAME: &'static str = "sched_fd_shot_desc_t";
}
// SAFETY: `repr(C)`, `size` first; numbers.
unsafe impl VersionedStruct for sched_fd_shot_size_t {
    const NAME: &'static str = "sched_fd_shot_size_t";
}

fn cell(what: &str, cell: sched_fd_cell_t) -> Result<[usize; 3]> {
    let axis = |name: &str, value| count(&format!("{what} {name}"), value);
    Ok([axis("ix", cell.ix)?, axis("iy", cell.iy)?, axis("iz", cell.iz)?])
}

/// # Safety
/// The pointers of `desc` are NULL or point to as many elements as it says.
unsafe fn wavelet_of(desc: &sched_fd_shot_desc_t, nt: usize) -> Result<Wavelet> {
    if desc.wavelet_samples.is_null() {
        if desc.wavelet_len != 0 {
            return Err(Error::argument("wavelet_samples", "NULL", "a pointer to wavelet_len floats"));
        }
        return Wavelet::new(shape(desc.wavelet)?, desc.frequency_hz, desc.dt_s, nt);
    }
    if !(1..=nt).contains(&desc.wavelet_len) {
        return Err(Error::argument("wavelet_len", desc.wavelet_len, format!("1 to nt, which is {nt}")));
    }
    // SAFETY: as promised by the caller.
    let samples = unsafe { slice_of("wavelet_samples", desc.wavelet_samples, desc.wavelet_len)? };
    if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
        return Err(Error::argument(format!("wavelet_samples[{at}]"), samples[at], "a finite number"));
    }
    Ok(Wavelet { samples: copy("wavelet_samples", samples)? })
}

/// # Safety
/// As for [`wavelet_of`].
unsafe fn receivers_of(desc: &sched_fd_shot_desc_t) -> Result<Receivers> {
    if desc.receivers.is_null() {
        if desc.receiver_count != 0 {
            return Err(Error::argument("receivers", "NULL", "a pointer to receiver_count cells"));
        }
        let every = [desc.plane_every_x.max(1) as usize, desc.plane_every_y.max(1) as usize];
        return Ok(Receivers::Plane { iz: count("plane_iz", desc.plane_iz)?, every });
    }
    if desc.receiver_count == 0 {
        return Err(Error::argument(
            "receiver_count",
            0,
            "at least one receiver, or receivers NULL for a plane",
        ));
    }
    // SAFETY: as promised by the caller.
    let cells = unsafe { slice_of("receivers", desc.receivers, desc.receiver_count)? };
    let mut own = with_capacity("receivers", cells.len())?;
    for (at, &place) in cells.iter().enumerate() {
        own.push(cell(&format!("receivers[{at}]"), place)?);
    }
    Ok(Receivers::List(own))
}

/// # Safety
/// As for [`wavelet_of`].
unsafe fn shot_of(desc: &sched_fd_shot_desc_t) -> Result<Shot> {
    check_bits(
        "flags of a shot",
        desc.flags,
        SCHED_FD_SHOT_MUTE_DIRECT
            | SCHED_FD_SHOT_EXACT_TIME
            | SCHED_FD_SHOT_OPTIMISED_STENCIL
            | SCHED_FD_SHOT_ANISOTROPIC_SOURCE,
    )?;
    let nt = count("nt", desc.nt)?;
    let snapshot_every = count("snapshot_every", desc.snapshot_every)?;
    Ok(Shot {
        source: cell("source", desc.source)?,
        // SAFETY: as promised by the caller.
        wavelet: unsafe { wavelet_of(desc, nt)? },
        amplitude: if desc.amplitude == 0.0 { DEFAULT_AMPLITUDE } else { desc.amplitude },
        nt,
        // SAFETY: as promised by the caller.
        receivers: unsafe { receivers_of(desc)? },
        record_every: desc.record_every.max(1) as usize,
        snapshot_every: (snapshot_every != 0).then_some(snapshot_every),
        mute: None,
    })
}

/// Returns a checked shot and the plan that it runs with.
///
/// # Safety
/// As for [`wavelet_of`].
unsafe fn plan_shot(medium: &SharedModel, desc: &sched_fd_shot_desc_t) -> Result<(Arc<Plan>, Shot)> {
    // SAFETY: as promised by the caller.
    let mut shot = unsafe { shot_of(desc)? };
    let set = |flag| desc.flags & flag != 0;
    let stencil = if set(SCHED_FD_SHOT_OPTIMISED_STENCIL) { Stencil::Optimised } else { Stencil::Taylor };
    let options = Options {
        stencil,
        exact_time: set(SCHED_FD_SHOT_EXACT_TIME),
        isotropic_source: !set(SCHED_FD_SHOT_ANISOTROPIC_SOURCE),
        ..Options::default()
    };
    let plan = medium.plan(desc.dt_s, options)?;
    plan.check(&shot)?;
    if desc.flags & SCHED_FD_SHOT_MUTE_DIRECT != 0 {
        let frequency = desc.frequency_hz;
        if !(frequency.is_finite() && frequency > 0.0) {
            let accepted = "a positive, finite number of Hz, for SCHED_FD_SHOT_MUTE_DIRECT";
            return Err(Error::argument("frequency_hz", frequency, accepted));
        }
        shot.mute = Some(direct_wave_mute(medium.model(), &shot, desc.dt_s, frequency));
    }
    Ok((plan, shot))
}

fn size_of_shot(medium: &SharedModel, shot: &Shot, bytes: Bytes) -> sched_fd_shot_size_t {
    let grid = medium.model().grid;
    let traces = shot.receivers.count(grid.n) as u64;
    let samples = shot.samples() as u64;
    let snapshots = shot.snapshot_every.map_or(0, |every| shot.nt.div_ceil(every)) as u64;
    sched_fd_shot_size_t {
        size: 0,
        traces,
        samples,
        record_len: traces.saturating_mul(samples),
        snapshots,
        snapshots_len: snapshots.saturating_mul(grid.cells() as u64),
        device_bytes: bytes.device,
        host_bytes: bytes.host,
    }
}

/// Fills in the sizes of a shot's results. The shot is checked as in sched_fd_submit, except for
/// `record` and `snapshots`.
///
/// Errors: as sched_fd_submit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_shot_size(
    model: *const sched_fd_model_t,
    shot: *const sched_fd_shot_desc_t,
    size: *mut sched_fd_shot_size_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let (desc, out) = unsafe { (read(shot)?, OutStruct::new(size)?) };
        let medium = shared_model(model)?;
        // SAFETY: as above.
        let (plan, shot) = unsafe { plan_shot(&medium, &desc)? };
        out.fill(size_of_shot(&medium, &shot, plan.shot_bytes(&shot, threads())));
        Ok(())
    })
}

/// Returns the frequency that a shot's description states for its wavelet.
fn frequency_of(desc: &sched_fd_shot_desc_t) -> Option<f32> {
    desc.wavelet_samples.is_null().then_some(desc.frequency_hz)
}

/// Writes the warnings of a shot into `buffer`, one per line, truncated to `len` bytes including the
/// NUL. They concern shots that are accepted but are usually mistakes: too few cells per wavelength,
/// a wavelet that begins after the record's end, a step that density may make unstable. Stores the
/// length of the whole text without the NUL in `*length`: 0 if there is no warning. `buffer` may be
/// NULL if `len` is 0; `length` may be NULL. sched_fd_submit logs the same warnings, each once for a
/// model.
///
/// Errors: as sched_fd_shot_size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_shot_warnings(
    model: *const sched_fd_model_t,
    shot: *const sched_fd_shot_desc_t,
    buffer: *mut c_char,
    len: usize,
    length: *mut usize,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let (out, desc) = unsafe { (OutText::new("buffer", buffer, len, length)?, read(shot)?) };
        let medium = shared_model(model)?;
        // SAFETY: as above.
        let (plan, shot) = unsafe { plan_shot(&medium, &desc)? };
        out.fill(&medium.warnings(&plan, &shot, frequency_of(&desc)).join("\n"));
        Ok(())
    })
}

/// The caller's buffers, which receive a shot's results.
struct ShotBuffers {
    record: SendPointer<f32>,
    snapshots: SendPointer<f32>,
    cells: usize,
    every: usize,
    /// Dropped with the task.
    _user: UserData,
}

impl Output for ShotBuffers {
    fn snapshot(&self, _: &Exec<'_>, step: usize, field: &[f32]) -> Result<()> {
        let at = step / self.every * self.cells;
        // SAFETY: `snapshots` is lent until the task has ended, and was checked to have room for
        // every snapshot of `cells` floats; one attempt at a time writes.
        let room = unsafe { std::slice::from_raw_parts_mut(self.snapshots.pointer().add(at), self.cells) };
        room.copy_from_slice(field);
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, gather: Gather, _: Effort) -> Result<()> {
        // SAFETY: `record` is lent until the task has ended, and was checked to have room for the
        // gather; called once, when the result counts.
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
/// `device_bytes`, `work`, `task_class` and `retries`, the library sets that field (`retries`: 2). A
/// shot that becomes unstable is retried once if its time step is stable, and not at all if the step
/// is too large. `id` may be NULL if the task is detached. The same shot gives the same record, bit
/// for bit, on every device of a kind and after any number of retries. Shots are idempotent
/// (SCHED_TASK_IDEMPOTENT), except those with snapshots, and those whose `task` has a `drop` without
/// this flag.
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
        medium.log_warnings(&plan, &shot, frequency_of(&desc));
        let scheduler = scheduler(s);
        let threads = scheduler.as_ref().map_or(0, |there| there.cpu_threads());
        // SAFETY: as above.
        let task = unsafe { described(shot_task(plan.clone(), shot, threads, buffers)?, &about) };
        let task = task.map_err(|error| plan.advise(error))?;
        let id = scheduler?.submit(task).map_err(|error| plan.advise(error))?;
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
    // Snapshots go to the caller's memory while the shot runs, so one attempt at a time. A second copy may
    // outlive the wait, so a caller with a `drop` function has to allow it.
    task.idempotent = idempotent && (about.drop.is_none() || task.idempotent);
    Ok(task)
}

#[cfg(test)]
mod tests {
    use super::super::device::{SCHED_BACKEND_CPU, SCHED_BACKEND_CUDA};
    use super::*;
    use crate::device::BackendKind;
    use crate::fd::plan::Options;

    unsafe extern "C-unwind" fn ignore(_: *mut std::ffi::c_void) {}

    /// The task of a shot, described by `change` of a description of zeros.
    fn task_of(snapshots: bool, change: impl FnOnce(&mut sched_task_desc_t)) -> Task {
        // SAFETY: NULL is a description of zeros.
        let mut about: sched_task_desc_t = unsafe { read_or_default(std::ptr::null()).unwrap() };
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
            // SAFETY: NULL is a description of zeros.
            let about =
                sched_task_desc_t { backend_mask, ..unsafe { read_or_default(std::ptr::null()).unwrap() } };
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
