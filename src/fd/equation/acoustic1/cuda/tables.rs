//! The coefficients of a plan as CUDA kernels read them.
//!
//! All pointers are to index 0 of row 0,
//! [`Layout::lead`] values after the begin of an array.

use std::mem::offset_of;

use crate::error::Result;
use crate::fd::grid::layout::Layout;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::time_loop::launch::Address;

/// What depends on the index along one axis, as `struct Axis` of the kernels.
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

/// What is the same for all shots of a plan, as it is uploaded once a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    pub layout: Layout,
    /// For x, y, z one after the other: keep, velocity rate, loss, pressure rate.
    pub profiles: Vec<f32>,
    b_step: [usize; 2],
    kappa_step: [usize; 2],
    rates: [f32; 3],
    /// Of 1/rho and of kappa, if they are kept in 16 bits.
    pub scales: Option<[Scale; 2]>,
    pub stencil: [f32; HALF_WIDTH],
}

impl Tables {
    pub fn new(c: &Coefficients) -> Tables {
        let layout = c.layout.on_gpu();
        let profiles = c.axes.iter().flat_map(|axis| {
            [&axis.keep, &axis.velocity_rate, &axis.loss, &axis.pressure_rate].into_iter().flatten().copied()
        });
        let rates = [0, 1, 2].map(|axis| c.axes[axis].rate);
        let [b_step, kappa_step] = [&c.b, &c.kappa].map(|field| field.steps(layout.pitch));
        let scales = c.b.scale().zip(c.kappa.scale()).map(|(b, kappa)| [b, kappa]);
        let (profiles, stencil) = (profiles.collect(), c.stencil);
        Tables { layout, profiles, b_step, kappa_step, rates, scales, stencil }
    }

    /// Of the same coefficients, as it lies on a GPU: rows with a lead.
    pub fn b(&self, c: &Coefficients) -> Result<Vec<f32>> {
        c.b.copied(&c.layout, &self.layout)
    }

    /// And this.
    pub fn kappa(&self, c: &Coefficients) -> Result<Vec<f32>> {
        c.kappa.copied(&c.layout, &self.layout)
    }

    /// The same as the numbers that [`Tables::scales`] gives a meaning, for the kernel that takes these.
    pub fn b_numbers(&self, c: &Coefficients) -> Result<Vec<u16>> {
        c.b.numbers(&c.layout, &self.layout)
    }

    /// And this.
    pub fn kappa_numbers(&self, c: &Coefficients) -> Result<Vec<u16>> {
        c.kappa.numbers(&c.layout, &self.layout)
    }

    /// What depends on one index only, with the profiles from there on.
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

    /// Values from column to column of 1/rho, and of kappa.
    pub fn steps(&self) -> [[usize; 2]; 2] {
        [self.b_step, self.kappa_step]
    }
}
