//! Finite differences: models, and source wavelets.

use std::sync::Arc;

use super::guard::guard_status;
use super::input::{OutParam, VersionedStruct, check_bits, copy, numbered, read, slice_of, slice_of_mut};
use super::model_handle::{MODELS, SharedModel, sched_fd_model_t, shared_model};
use super::status::sched_status_t;
use crate::error::{Error, Result};
use crate::fd::equation::{Absorber, Equation, by_name, with_absorber};
use crate::fd::grid::Grid;
use crate::fd::model::{DensityAt, Model, Property, Values};
use crate::fd::plan::{Options, Storage, rounded_down};
use crate::fd::warnings::check_units;
use crate::fd::wavelet::{Shape, Wavelet};

/// Ricker wavelet, the default. It begins and ends below 1e-5 of its peak. Like the next two it is
/// centred at 1.25 / frequency_hz after its first sample, lasts twice that, and has a peak of 1.
pub const SCHED_FD_WAVELET_RICKER: i32 = 7;
/// First derivative of a Gaussian, likewise; its spectrum is largest at `frequency_hz`.
pub const SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE: i32 = 8;
/// Gaussian, likewise; its second derivative is the Ricker wavelet of `frequency_hz`.
pub const SCHED_FD_WAVELET_GAUSSIAN: i32 = 9;

/// Ricker wavelet of the old library. Like the next five it is centred at 1 / frequency_hz and cut
/// at twice that, where Ricker has 1e-3 of its peak and a Gaussian 1e-2.
pub const SCHED_FD_WAVELET_CUT_RICKER: i32 = 1;
/// First derivative of a Gaussian.
pub const SCHED_FD_WAVELET_CUT_GAUSSIAN_DERIVATIVE: i32 = 2;
/// Gaussian.
pub const SCHED_FD_WAVELET_CUT_GAUSSIAN: i32 = 3;
/// Ricker wavelet, integrated once.
pub const SCHED_FD_WAVELET_CUT_RICKER_INTEGRAL: i32 = 4;
/// Ricker wavelet, integrated twice.
pub const SCHED_FD_WAVELET_CUT_RICKER_DOUBLE_INTEGRAL: i32 = 5;
/// Ricker wavelet, integrated three times.
pub const SCHED_FD_WAVELET_CUT_RICKER_TRIPLE_INTEGRAL: i32 = 6;

/// Flag of a model: rho and rho vp² are stored in 16 bits, between the smallest and the largest
/// value of each in the model, instead of 32. Shots take up to a sixth less memory; speeds have a
/// relative error of at most 1e-3, with densities of rocks 5e-4, nearly always much less. A model
/// whose values are too far apart for this is refused.
pub const SCHED_FD_MODEL_STORAGE_16_BIT: u32 = 1;

/// Flag of a model: velocities below 100 m/s everywhere, and densities below 30 kg/m3 everywhere,
/// are accepted. Without it a model with such values is refused: they look like km/s and g/cm3.
pub const SCHED_FD_MODEL_ANY_VALUES: u32 = 2;

/// Flag of a model: the density between two cells is that of the cell with the lower index, as in
/// the old kernels. Without the flag it is the mean of both cells. With the flag, interfaces of
/// density lie up to half a cell too deep, and their reflections are off by some tenths. Equations
/// without density ignore it.
pub const SCHED_FD_MODEL_DENSITY_AT_CELLS: u32 = 4;

/// Flag of a model: the absorbing layer is a PML with SCHED_FD_EQUATION_ACOUSTIC2 and
/// SCHED_FD_EQUATION_TTI, too: of 20 cells on each side in place of a sponge of 54, and of 40 in
/// place of a sponge of 40. TTI then has the derivatives of the old kernels. Other equations always
/// have a PML.
pub const SCHED_FD_MODEL_PML: u32 = 8;

/// Acoustic equation of first order; properties: vp, and if not 1000 kg/m3 rho. The default.
pub const SCHED_FD_EQUATION_ACOUSTIC1: i32 = 0;
/// Acoustic equation of second order, of constant density; property: vp.
pub const SCHED_FD_EQUATION_ACOUSTIC2: i32 = 1;
/// Pseudo-acoustic equation of a medium with a vertical symmetry axis; properties: vp, epsilon,
/// delta, and if not 1000 kg/m3 rho.
pub const SCHED_FD_EQUATION_VTI: i32 = 2;
/// Pseudo-acoustic equation of a medium with a tilted symmetry axis; properties: vp, epsilon,
/// delta, theta_rad, phi_rad.
pub const SCHED_FD_EQUATION_TTI: i32 = 3;

/// Bit of the velocity in sched_fd_model_desc_t::constants.
pub const SCHED_FD_PROPERTY_VP: u32 = 1;
/// Bit of the density.
pub const SCHED_FD_PROPERTY_RHO: u32 = 2;
/// Bit of epsilon.
pub const SCHED_FD_PROPERTY_EPSILON: u32 = 4;
/// Bit of delta.
pub const SCHED_FD_PROPERTY_DELTA: u32 = 8;
/// Bit of the tilt.
pub const SCHED_FD_PROPERTY_THETA: u32 = 16;
/// Bit of the azimuth.
pub const SCHED_FD_PROPERTY_PHI: u32 = 32;

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
    /// Equation that shots of the model solve, SCHED_FD_EQUATION_*. Refused: an equation that this
    /// library does not have, and a model that lacks a property of the equation or has another one.
    pub equation: i32,
    /// SCHED_FD_PROPERTY_* bits together: those properties are the same in all cells, and their
    /// pointers point to one value. It takes less memory than equal values. 0: none.
    pub constants: u32,
    /// Thomsen's epsilon, nx*ny*nz values, each finite and above -0.5; nowhere below delta. NULL:
    /// absent. Copied.
    pub epsilon: *const f32,
    /// Thomsen's delta, likewise.
    pub delta: *const f32,
    /// Tilt of the symmetry axis from the vertical in radians, nx*ny*nz values, each from -2 pi to
    /// 2 pi. NULL: absent. Copied.
    pub theta_rad: *const f32,
    /// Azimuth of the symmetry axis in radians, likewise. The axis is (sin theta cos phi,
    /// -sin theta sin phi, cos theta) along x, y, z, with z down.
    pub phi_rad: *const f32,
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

/// Names of the equations by their SCHED_FD_EQUATION_* number.
const EQUATION_NAMES: [&str; 4] = ["acoustic1", "acoustic2", "vti", "tti"];

// The constants SCHED_FD_PROPERTY_* have the order of the properties.
const _: () = assert!(
    SCHED_FD_PROPERTY_VP == 1 << Property::Vp as u32
        && SCHED_FD_PROPERTY_RHO == 1 << Property::Rho as u32
        && SCHED_FD_PROPERTY_EPSILON == 1 << Property::Epsilon as u32
        && SCHED_FD_PROPERTY_DELTA == 1 << Property::Delta as u32
        && SCHED_FD_PROPERTY_THETA == 1 << Property::Theta as u32
        && SCHED_FD_PROPERTY_PHI == 1 << Property::Phi as u32
);

/// Returns the equation of a number.
fn equation(number: i32) -> Result<&'static dyn Equation> {
    numbered("equation", number, EQUATION_NAMES.into_iter().filter_map(|name| Some((name, by_name(name)?))))
}

/// Copies the properties of a model.
///
/// # Safety
/// Each pointer is NULL or points to as many values as the header requires.
unsafe fn properties(desc: &sched_fd_model_desc_t, cells: usize) -> Result<Vec<(Property, Values)>> {
    let fields = [
        (Property::Vp, "vp_m_s", desc.vp_m_s),
        (Property::Rho, "rho_kg_m3", desc.rho_kg_m3),
        (Property::Epsilon, "epsilon", desc.epsilon),
        (Property::Delta, "delta", desc.delta),
        (Property::Theta, "theta_rad", desc.theta_rad),
        (Property::Phi, "phi_rad", desc.phi_rad),
    ];
    check_bits("constants", desc.constants, (1 << fields.len()) - 1)?;
    let mut properties = Vec::new();
    for (property, name, first) in fields {
        let constant = desc.constants & (1 << property as u32) != 0;
        // A NULL velocity is an error, and so is a NULL constant.
        if first.is_null() && !constant && property != Property::Vp {
            continue;
        }
        // SAFETY: by the caller's promise.
        let values = unsafe { slice_of(name, first, if constant { 1 } else { cells })? };
        let values = if constant { Values::Constant(values[0]) } else { Values::Volume(copy(name, values)?) };
        properties.push((property, values));
    }
    Ok(properties)
}

/// Creates a model and stores its handle in `*out`. The arrays are copied. Destroy it with
/// sched_fd_model_destroy.
///
/// Errors: SCHED_E_ARGUMENT, with the first cell that is not accepted, for properties that the
/// equation lacks or does not have, and for values too far apart for SCHED_FD_MODEL_STORAGE_16_BIT;
/// SCHED_E_TOO_NEW; SCHED_E_MEMORY.
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
            SCHED_FD_MODEL_STORAGE_16_BIT
                | SCHED_FD_MODEL_ANY_VALUES
                | SCHED_FD_MODEL_DENSITY_AT_CELLS
                | SCHED_FD_MODEL_PML,
        )?;
        let n = [count("nx", desc.nx)?, count("ny", desc.ny)?, count("nz", desc.nz)?];
        let grid = Grid::new(n, [desc.dx_m, desc.dy_m, desc.dz_m])?;
        let mut equation = equation(desc.equation)?;
        if set(SCHED_FD_MODEL_PML) {
            equation = with_absorber(equation, Absorber::Pml)?;
        }
        // SAFETY: the header requires nx*ny*nz values, or one of a constant, behind each pointer.
        let model = Model::of(grid, unsafe { properties(&desc, grid.cells())? })?;
        let at_cells = set(SCHED_FD_MODEL_DENSITY_AT_CELLS);
        let model = model.with_density_at(if at_cells { DensityAt::Cells } else { DensityAt::HalfPoints });
        if !set(SCHED_FD_MODEL_ANY_VALUES) {
            check_units(&model, "SCHED_FD_MODEL_ANY_VALUES")?;
        }
        let storage = if set(SCHED_FD_MODEL_STORAGE_16_BIT) { Storage::Bits16 } else { Storage::Float32 };
        out.write(
            MODELS.add(Arc::new(SharedModel::new(
                &model,
                Options { equation, storage, ..Options::default() },
            )?)),
        );
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
/// limit is 0.9634 of it; of `acoustic2`, and of `tti` with its default layer, 0.9616. If density
/// jumps from cell to cell, a shot may become unstable with a smaller step, and then fails with
/// SCHED_E_UNSTABLE: sched_fd_shot_warnings states the largest step that is certainly stable.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_fd_dt_max(model: *const sched_fd_model_t, dt_s: *mut f64) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("dt_s", dt_s)? };
        let model = shared_model(model)?;
        let limit = model.options().dt_max(model.model());
        // Rounded down, so that the result is accepted as the `dt_s` of a shot.
        out.write(f64::from(rounded_down(limit)));
        Ok(())
    })
}

pub(super) fn shape(number: i32) -> Result<Shape> {
    match number {
        0 | SCHED_FD_WAVELET_RICKER => Ok(Shape::Ricker),
        SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE => Ok(Shape::GaussianDerivative),
        SCHED_FD_WAVELET_GAUSSIAN => Ok(Shape::Gaussian),
        _ => Shape::try_from(number).map_err(|_| {
            let accepted = "0 to 9, see SCHED_FD_WAVELET_*: 7 Ricker, the default, 8 derivative of a Gaussian, 9 Gaussian; \
                            1, 2, 3: the same, cut; 4, 5, 6: 1 integrated once, twice, three times";
            Error::argument("the wavelet's number", number, accepted)
        }),
    }
}

// The constants SCHED_FD_WAVELET_* and the variants of `Shape` have the same numbers.
const _: () = assert!(
    Shape::CutRicker as i32 == SCHED_FD_WAVELET_CUT_RICKER
        && Shape::CutGaussianDerivative as i32 == SCHED_FD_WAVELET_CUT_GAUSSIAN_DERIVATIVE
        && Shape::CutGaussian as i32 == SCHED_FD_WAVELET_CUT_GAUSSIAN
        && Shape::CutRickerIntegral as i32 == SCHED_FD_WAVELET_CUT_RICKER_INTEGRAL
        && Shape::CutRickerDoubleIntegral as i32 == SCHED_FD_WAVELET_CUT_RICKER_DOUBLE_INTEGRAL
        && Shape::CutRickerTripleIntegral as i32 == SCHED_FD_WAVELET_CUT_RICKER_TRIPLE_INTEGRAL
);

/// Fills the `nt` floats of `samples` with a source wavelet of unit amplitude: one sample for each
/// time step of `dt_s` seconds, the first for the time 0, with SCHED_FD_WAVELET_CUT_* for the time
/// `dt_s`; zero after the end of the wavelet.
/// `wavelet` is one of SCHED_FD_WAVELET_*, 0 for Ricker; `frequency_hz` is its peak frequency.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_MEMORY.
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
