//! Finite differences: shots, their sizes and warnings.

use std::ffi::c_char;
use std::sync::Arc;

use super::fd_model::{count, shape};
use super::guard::guard_status;
use super::input::{
    OutStruct, OutText, VersionedStruct, check_bits, copy, numbered, read, slice_of, with_capacity,
};
use super::model_handle::{SharedModel, sched_fd_model_t, shared_model};
use super::status::sched_status_t;
use crate::backend::cpu::threads;
use crate::error::{Error, Result};
use crate::fd::plan::{Options, Plan, Stencil, check_steps};
use crate::fd::survey::{Receivers, Shot, SourceKind};
use crate::fd::verify::direct_wave_mute;
use crate::fd::warnings::check_anisotropy;
use crate::fd::wavelet::{Shape, Wavelet};
use crate::memory::Bytes;

/// Flag of a shot: samples are zero until the direct wave has passed: its travel time as in the old
/// library, the length of the wavelet, and 60 steps. `wavelet_samples` count as 2 / frequency_hz.
pub const SCHED_FD_SHOT_MUTE_DIRECT: u32 = 1;
/// Flag of a shot: the dispersion error of the time steps is removed from the record, at almost no
/// cost. The record then equals one without that error to about 1e-4, if `record_every` leaves more
/// than two samples per period. A shot with snapshots is refused: they would keep the error.
pub const SCHED_FD_SHOT_EXACT_TIME: u32 = 2;
/// Flag of a shot: spatial derivatives are optimised for waves of 3.5 cells and more, with an error
/// of 3.6e-4. Without the flag they have eighth order, which is better from six cells on. With it
/// the largest time step is 0.9634 of the result of sched_fd_dt_max; of `acoustic2`, and of `tti` with
/// its default layer, 0.9616.
pub const SCHED_FD_SHOT_OPTIMISED_STENCIL: u32 = 4;
/// Flag of a shot: epsilon and delta keep their values around the source. Without it they are 0 up
/// to 4 cells from it and rise to the model's at 15 cells; a shot in a grid whose cells are all
/// nearer is refused. Ignored by equations without them.
pub const SCHED_FD_SHOT_ANISOTROPIC_SOURCE: u32 = 8;

/// Source without a unit, as in the old library; the default. The wavelet is added to the pressure
/// of cells. `acoustic1`, `acoustic2`: a vertical dipole, `source` its upper, negative pole, the
/// positive one two cells deeper, if necessary in the absorbing layer; its far field depends on the
/// spacing. `vti`, `tti`: a single cell. In `acoustic2` it stays in the pressure: sample i acts at
/// the time (i - 1) dt, in the others at i dt, and the pressure is proportional to 1/dt^2.
pub const SCHED_FD_SOURCE_PRESSURE: i32 = 0;
/// Monopole: wavelet times amplitude is the rate q at which volume is injected, in m3/s. In a
/// homogeneous medium the pressure at distance r is rho / (4 pi r) dq/dt (t - r/vp), in Pa.
pub const SCHED_FD_SOURCE_MONOPOLE: i32 = 1;
/// Point force along x: wavelet times amplitude is the force F in N, positive towards larger ix. It
/// acts half a cell after `source` along x. In a homogeneous medium the pressure at distance r is
/// cos(angle) / (4 pi r) (dF/dt / vp + F / r) (t - r/vp), in Pa; `angle` is that to the force.
pub const SCHED_FD_SOURCE_FORCE_X: i32 = 2;
/// Point force along y, likewise.
pub const SCHED_FD_SOURCE_FORCE_Y: i32 = 3;
/// Point force along z, likewise: positive downwards.
pub const SCHED_FD_SOURCE_FORCE_Z: i32 = 4;

/// Amplitude of a source without a unit if the description has 0.
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
    /// Peak frequency of `wavelet` in Hz. With `wavelet_samples` only SCHED_FD_SHOT_MUTE_DIRECT
    /// uses it.
    pub frequency_hz: f32,
    /// Time steps to compute, at least 1.
    pub nt: u64,
    /// SCHED_FD_WAVELET_*; 0: Ricker.
    pub wavelet: i32,
    /// Bits of SCHED_FD_SHOT_MUTE_DIRECT, SCHED_FD_SHOT_EXACT_TIME,
    /// SCHED_FD_SHOT_OPTIMISED_STENCIL, SCHED_FD_SHOT_ANISOTROPIC_SOURCE.
    pub flags: u32,
    /// Custom source function: one sample for each time step, zero after the last. Copied. NULL:
    /// `wavelet`.
    pub wavelet_samples: *const f32,
    /// Number of `wavelet_samples`.
    pub wavelet_len: usize,
    /// Factor on the wavelet; the product has the unit of `source_kind`. 0: 10000 with
    /// SCHED_FD_SOURCE_PRESSURE, else 1.
    pub amplitude: f32,
    /// Number of time steps between samples, from step 0; 0: 1.
    pub record_every: u32,
    /// Cell of the source, see `source_kind`.
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
    /// Recorded pressure, [trace][sample]. Lent until the task has ended, and with a `deadline_ns`
    /// until `drop` of the task is called; written only if the task succeeds. No other shot may
    /// have the same memory meanwhile. The library does not check that: both tasks succeed, and
    /// their results overwrite each other.
    pub record: *mut f32,
    /// Length of `record` in floats; sched_fd_shot_size returns the necessary length.
    pub record_len: usize,
    /// Number of time steps between snapshots of the pressure, from step 0; 0: no snapshots. Must
    /// be 0 with SCHED_FD_SHOT_EXACT_TIME.
    pub snapshot_every: u64,
    /// Snapshots, [snapshot][iy][ix][iz]. Lent like `record`: an attempt that hangs after its
    /// deadline may go on after the task has ended. The task writes them while it runs, so they are
    /// valid only if it succeeds. NULL if `snapshot_every` is 0.
    pub snapshots: *mut f32,
    /// Length of `snapshots` in floats.
    pub snapshots_len: usize,
    /// SCHED_FD_SOURCE_*; 0: SCHED_FD_SOURCE_PRESSURE. `vti` and `tti` have the others only without
    /// SCHED_FD_SHOT_ANISOTROPIC_SOURCE.
    pub source_kind: i32,
    /// Reserved, 0.
    pub reserved: u32,
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
    /// Additional host memory in bytes, on any device: the record, and with exact time the memory
    /// of its correction. On a GPU not counted: at most two snapshots and the samples of 32 steps,
    /// on their way.
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

/// Returns the kind of a SCHED_FD_SOURCE_* number.
fn source_kind(number: i32) -> Result<SourceKind> {
    numbered("source_kind", number, SourceKind::NAMED.into_iter())
}

/// Returns the wavelet that a description states.
///
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

/// Returns the receivers that a description states.
///
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

/// Returns the shot that a description states, before any check of its values.
///
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
    if desc.reserved != 0 {
        return Err(Error::argument("reserved of sched_fd_shot_desc_t", desc.reserved, "0"));
    }
    let nt = count("nt", desc.nt)?;
    check_steps(nt)?;
    let kind = source_kind(desc.source_kind)?;
    let default = if kind == SourceKind::Pressure { DEFAULT_AMPLITUDE } else { 1.0 };
    let snapshot_every = count("snapshot_every", desc.snapshot_every)?;
    Ok(Shot {
        source: cell("source", desc.source)?,
        outside: [0; 3],
        kind,
        // SAFETY: as promised by the caller.
        wavelet: unsafe { wavelet_of(desc, nt)? },
        amplitude: if desc.amplitude == 0.0 { default } else { desc.amplitude },
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
pub(super) unsafe fn plan_shot(
    medium: &SharedModel,
    desc: &sched_fd_shot_desc_t,
) -> Result<(Arc<Plan>, Shot)> {
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
    check_anisotropy(&plan, &shot)?;
    if desc.flags & SCHED_FD_SHOT_MUTE_DIRECT != 0 {
        let frequency = desc.frequency_hz;
        if !(frequency.is_finite() && frequency > 0.0) {
            let accepted = "a positive, finite number of Hz, for SCHED_FD_SHOT_MUTE_DIRECT";
            return Err(Error::argument("frequency_hz", frequency, accepted));
        }
        let stated = wavelet_stated(desc).map_or(Shape::CutRicker, |(shape, _)| shape);
        let mute = direct_wave_mute(medium.model(), &shot, desc.dt_s, frequency, stated.periods())?;
        shot.mute = Some(mute);
    }
    Ok((plan, shot))
}

pub(super) fn size_of_shot(medium: &SharedModel, shot: &Shot, bytes: Bytes) -> sched_fd_shot_size_t {
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

/// Returns the shape and frequency of a shot's wavelet; `None` if the caller passes samples, or an
/// unknown wavelet number.
pub(super) fn wavelet_stated(desc: &sched_fd_shot_desc_t) -> Option<(Shape, f32)> {
    let shape = shape(desc.wavelet).ok().filter(|_| desc.wavelet_samples.is_null())?;
    Some((shape, desc.frequency_hz))
}

/// Writes the warnings of a shot into `buffer`, one per line, truncated to `len` bytes including
/// the NUL. They concern shots that are accepted but are usually mistakes, such as too few cells per
/// wavelength, a wavelet whose centre is after the end of the record, a step that density may make
/// unstable, a force beside the absorbing layer, or a mute of all samples. Stores the length of the
/// whole text without the NUL in `*length`: 0 if there is no warning. `buffer` may be NULL if `len`
/// is 0; `length` may be NULL. sched_fd_submit logs the same warnings, each once for a model.
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
        out.fill(&medium.warnings(&plan, &shot, wavelet_stated(&desc)).join("\n"));
        Ok(())
    })
}
