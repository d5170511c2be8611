//! The coefficients of a plan as CUDA kernels read them.
//!
//! All pointers are to index 0 of row 0, [`Layout::lead`] values after the begin of an array.

use std::mem::offset_of;

use super::kernel_set::KernelSet;
use super::policy::CudaPolicy;
use crate::fd::grid::layout::Layout;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::{Scale, Storage};
use crate::fd::time_loop::launch::Address;

/// Coefficients of a step, at most.
pub const COEFFICIENTS: usize = 4;

/// The properties of an axis, as `struct Axis` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisParams {
    pub keep: Address,
    pub velocity_rate: Address,
    pub loss: Address,
    pub pressure_rate: Address,
    /// dt / h.
    pub rate: f32,
    /// All cells.
    pub n: i32,
    /// The user's cells.
    pub inner: i32,
    pub unused: i32,
}

// As the kernels assert it.
const _: () = assert!(
    size_of::<AxisParams>() == 48
        && offset_of!(AxisParams, rate) == 32
        && offset_of!(AxisParams, inner) == 40
);

/// The data of a plan that are uploaded once a GPU, except the coefficients.
pub struct Tables {
    pub kernels: &'static KernelSet,
    pub pressures: usize,
    pub layout: Layout,
    /// For x, y, z one after the other: keep, velocity rate, loss, pressure rate.
    pub profiles: Vec<f32>,
    /// Of each coefficient, values from column to column.
    pub steps: [[usize; 2]; COEFFICIENTS],
    rates: [f32; 3],
    pub storage: Storage,
    /// Scales of coefficients that are stored in 16 bits.
    pub scales: [Scale; COEFFICIENTS],
    pub stencil: [f32; HALF_WIDTH],
}

impl Tables {
    pub fn new<P: CudaPolicy>(policy: &P) -> Tables {
        let c = policy.coefficients();
        let layout = c.layout.on_gpu();
        let profiles = c.axes.iter().flat_map(|axis| {
            [&axis.keep, &axis.velocity_rate, &axis.loss, &axis.pressure_rate].into_iter().flatten().copied()
        });
        let mut steps = [[0; 2]; COEFFICIENTS];
        let mut scales = [Scale::default(); COEFFICIENTS];
        for (number, field) in policy.fields().into_iter().enumerate() {
            steps[number] = field.steps(layout.pitch);
            scales[number] = field.scale().unwrap_or_default();
        }
        Tables {
            kernels: P::kernels(),
            pressures: P::PRESSURES,
            layout,
            profiles: profiles.collect(),
            steps,
            rates: [0, 1, 2].map(|axis| c.axes[axis].rate),
            storage: c.storage,
            scales,
            stencil: c.stencil,
        }
    }

    /// Returns the properties of the axes, whose profiles are at an address.
    pub fn axes(&self, profiles: Address) -> [AxisParams; 3] {
        let mut profile = profiles;
        [0, 1, 2].map(|axis| {
            let n = self.layout.padded[axis];
            let mut next = || {
                profile += 4 * n as u64;
                profile - 4 * n as u64
            };
            AxisParams {
                keep: next(),
                velocity_rate: next(),
                loss: next(),
                pressure_rate: next(),
                rate: self.rates[axis],
                n: n as i32,
                inner: self.layout.inner[axis] as i32,
                unused: 0,
            }
        })
    }
}
