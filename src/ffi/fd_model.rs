//! Finite differences: models, and source wavelets.

use std::sync::Arc;

use super::guard::guard_status;
use super::input::{OutParam, VersionedStruct, check_bits, copy, read, slice_of, slice_of_mut};
use super::model_handle::{MODELS, SharedModel, sched_fd_model_t, shared_model};
use super::status::sched_status_t;
use crate::error::{Error, Result};
use crate::fd::grid::Grid;
use crate::fd::model::Model;
use crate::fd::plan::{Options, Storage, rounded_down};
use crate::fd::warnings::check_units;
use crate::fd::wavelet::{Shape, Wavelet};

/// Ricker wavelet, the default.
pub const SCHED_FD_WAVELET_RICKER: i32 = 1;
/// First derivative of a Gaussian.
pub const SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE: i32 = 2;
/// Gaussian.
pub const SCHED_FD_WAVELET_GAUSSIAN: i32 = 3;
/// Ricker wavelet, integrated once.
pub const SCHED_FD_WAVELET_RICKER_INTEGRAL: i32 = 4;
/// Ricker wavelet, integrated twice.
pub const SCHED_FD_WAVELET_RICKER_DOUBLE_INTEGRAL: i32 = 5;
/// Ricker wavelet, integrated three times.
pub const SCHED_FD_WAVELET_RICKER_TRIPLE_INTEGRAL: i32 = 6;

/// Flag of a model: 1/rho and rho vp² are stored in 16 bits, between the smallest and the largest
/// value of each in the model, instead of 32. Shots take up to a sixth less memory; speeds have a
/// relative error of at most 5e-4, nearly always much less. A model whose values are too far apart
/// for this is refused.
pub const SCHED_FD_MODEL_STORAGE_16_BIT: u32 = 1;

/// Flag of a model: velocities below 100 m/s everywhere, and densities below 30 kg/m3 everywhere, are
/// accepted. Without it a model with such values is refused: they look like km/s and g/cm3.
pub const SCHED_FD_MODEL_ANY_VALUES: u32 = 2;

/// A medium on a regular grid. Fields lie in memory as [iy][ix][iz], z fastest, which is Fortran's
/// (nz,nx,ny).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_fd_model_desc_t {
    /// sizeof(sched_fd_model_desc_t), set by the caller.
    pub size: usize,
    /// Cells along x, from 1 to 100000, the absorbing layer not included.
    pub nx: u64,
    /// Cells along y, likewise.
    pub ny: u64,
    /// Cells along z (depth), likewise.
    pub nz: u64,
    /// Metres between cells along x, at least 1e-6.
    pub dx_m: f32,
    /// Metres between cells along y, likewise.
    pub dy_m: f32,
    /// Metres between cells along z, likewise.
    pub dz_m: f32,
    /// SCHED_FD_MODEL_* flags together.
    pub flags: u32,
    /// P velocity in m/s, nx*ny*nz values, each positive and finite. Copied. If all are below 100,
    /// see SCHED_FD_MODEL_ANY_VALUES.
    pub vp_m_s: *const f32,
    /// Density in kg/m3, likewise. NULL: 1000 everywhere. Copied. If all are below 30, see
    /// SCHED_FD_MODEL_ANY_VALUES.
    pub rho_kg_m3: *const f32,
}

// SAFETY: `repr(C)`, `size` first; numbers and pointers.
unsafe impl VersionedStruct for sched_fd_model_desc_t {
    const NAME: &'static str = "sched_fd_model_desc_t";
}

/// Converts a number of cells or steps, which is 64 bits wide in C on every machine.
pub(super) fn count(what: &str, value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        Error::argument(what, value, format!("at most {}, the limit of this machine", usize::MAX))
    })
}

/// Creates a model and stores its handle in `*out`. The arrays are copied. Destroy it with
/// sched_fd_model_destroy.
///
/// Errors: SCHED_E_ARGUMENT, with the first cell that is not accepted, and for values too far apart
/// for SCHED_FD_MODEL_STORAGE_16_BIT; SCHED_E_TOO_NEW; SCHED_E_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_model_create(
    desc: *const sched_fd_model_desc_t,
    out: *mut *mut sched_fd_model_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: pointers as the header requires them; `input` checks each.
        let (desc, out) = unsafe { (read(desc)?, OutParam::new("out", out)?) };
        let set = |flag| desc.flags & flag != 0;
        check_bits(
            "flags of a model",
            desc.flags,
            SCHED_FD_MODEL_STORAGE_16_BIT | SCHED_FD_MODEL_ANY_VALUES,
        )?;
        let n = [count("nx", desc.nx)?, count("ny", desc.ny)?, count("nz", desc.nz)?];
        let grid = Grid::new(n, [desc.dx_m, desc.dy_m, desc.dz_m])?;
        // SAFETY: the header asks for nx*ny*nz values behind each pointer.
        let (vp, rho) = unsafe {
            let vp = copy("vp_m_s", slice_of("vp_m_s", desc.vp_m_s, grid.cells())?)?;
            let rho = match desc.rho_kg_m3.is_null() {
                true => None,
                false => Some(copy("rho_kg_m3", slice_of("rho_kg_m3", desc.rho_kg_m3, grid.cells())?)?),
            };
            (vp, rho)
        };
        let model = Model::new(grid, vp, rho)?;
        if !set(SCHED_FD_MODEL_ANY_VALUES) {
            check_units(&model, "SCHED_FD_MODEL_ANY_VALUES")?;
        }
        let storage = if set(SCHED_FD_MODEL_STORAGE_16_BIT) { Storage::Bits16 } else { Storage::Float32 };
        out.write(MODELS.add(Arc::new(SharedModel::new(&model, storage)?)));
        Ok(())
    })
}

/// Destroys a model; its handle is stale from then on. Submitted shots keep what they need. NULL:
/// nothing to do.
///
/// Errors: SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_model_destroy(model: *mut sched_fd_model_t) -> sched_status_t {
    guard_status(|| if model.is_null() { Ok(()) } else { MODELS.remove(model).map(drop) })
}

/// Stores the largest stable time step of a model, in seconds, in `*dt_s`. A float holds the number
/// exactly, so `shot.dt_s = (float)dt_s` is accepted; with SCHED_FD_SHOT_OPTIMISED_STENCIL the
/// limit is 0.9634 of it. If density jumps from cell to cell, a shot may become unstable with a
/// smaller step, and then fails with SCHED_E_UNSTABLE: sched_fd_shot_warnings states the largest
/// step that is certainly stable.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_dt_max(model: *const sched_fd_model_t, dt_s: *mut f64) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("dt_s", dt_s)? };
        let model = shared_model(model)?;
        let options = Options { storage: model.storage(), ..Options::default() };
        let limit = options.dt_max(model.model());
        // Rounded down, so that the result is accepted as the `dt_s` of a shot.
        out.write(f64::from(rounded_down(limit)));
        Ok(())
    })
}

pub(super) fn shape(number: i32) -> Result<Shape> {
    if number == 0 { Ok(Shape::Ricker) } else { Shape::try_from(number) }
}

// The constants SCHED_FD_WAVELET_* and the variants of `Shape` have the same numbers.
const _: () = assert!(
    Shape::Ricker as i32 == SCHED_FD_WAVELET_RICKER
        && Shape::GaussianDerivative as i32 == SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE
        && Shape::Gaussian as i32 == SCHED_FD_WAVELET_GAUSSIAN
        && Shape::RickerIntegral as i32 == SCHED_FD_WAVELET_RICKER_INTEGRAL
        && Shape::RickerDoubleIntegral as i32 == SCHED_FD_WAVELET_RICKER_DOUBLE_INTEGRAL
        && Shape::RickerTripleIntegral as i32 == SCHED_FD_WAVELET_RICKER_TRIPLE_INTEGRAL
);

/// Fills the `nt` floats of `samples` with a source wavelet of unit amplitude: one sample for each
/// time step of `dt_s` seconds, the first for the time `dt_s`, zero after the end of the wavelet.
/// `wavelet` is one of SCHED_FD_WAVELET_*, 0 for Ricker; `frequency_hz` is its peak frequency.
///
/// Errors: SCHED_E_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_wavelet(
    wavelet: i32,
    frequency_hz: f32,
    dt_s: f32,
    samples: *mut f32,
    nt: usize,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `slice_of_mut` checks it.
        let out = unsafe { slice_of_mut("samples", samples, nt)? };
        let wavelet = Wavelet::new(shape(wavelet)?, frequency_hz, dt_s, nt)?;
        let active = wavelet.samples.len().min(nt);
        out[..active].copy_from_slice(&wavelet.samples[..active]);
        out[active..].fill(0.0);
        Ok(())
    })
}
