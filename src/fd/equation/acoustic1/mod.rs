//! The acoustic equation of first order, pressure `p` and particle velocity `(u, v, w)`:
//!
//! ```text
//! du/dt = -1/rho dp/dx    dv/dt = -1/rho dp/dy    dw/dt = -1/rho dp/dz
//! dp/dt = -rho vp² (du/dx + dv/dy + dw/dz)
//! ```
//!
//! `p[i]` is at cell `i`, `u[i]` half a cell after it in x, `v[i]` in y, `w[i]` in z. A step is one pass over the grid,
//! which eliminates the velocities outside the absorbing layers: `one_pass/pass.rs` has the order of operations. The pressure is
//! whole everywhere; a layer also stores the split pressure that it damps along its axis.

mod stability;

pub use stability::dt_sure_with;

use super::traits::{Equation, PropagatorFactory, Properties};
use crate::error::Result;
use crate::fd::inject::DIPOLE;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::model::{Model, Property, WATER};
use crate::fd::one_pass::coefficients::BulkMaterial;
use crate::fd::one_pass::equation::{OnePassEquation, OnePassPropagator};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::vector::lanes::Lanes;

/// The acoustic equation of first order.
pub struct Acoustic1;

impl Equation for Acoustic1 {
    fn name(&self) -> &'static str {
        "acoustic1"
    }

    fn properties(&self) -> Properties {
        Properties { required: &[Property::Vp], optional: &[(Property::Rho, WATER)] }
    }

    fn class(&self) -> u32 {
        0xfd00_0001
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        dt_sure_with(model, stencil, |_| 1.0)
    }

    fn propagator_factory(&self, model: &Model, pml: usize, storage: Storage) -> Result<PropagatorFactory> {
        let material = BulkMaterial::new(model, pml, storage, false)?;
        Ok(Box::new(move |dt, scheme| {
            let c = material.coefficients(dt, scheme.stencil, scheme.old_rules);
            Box::new(OnePassPropagator::<Acoustic1>::new(c, scheme.isotropic_source))
        }))
    }
}

/// The kernels of `kernels/acoustic1_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("acoustic1_one_pass", None, Some("acoustic1_one_pass_4x2_16_bit"));

/// One pressure, whose increments are added to it.
impl OnePassEquation for Acoustic1 {
    const NAME: &'static str = "acoustic1";
    const PRESSURES: usize = 1;
    const MIXING: usize = 0;
    const SOURCE: &'static [(usize, f32)] = &DIPOLE;

    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }

    #[inline(always)]
    unsafe fn advance<L: Lanes>(p: [L::V; 2], increments: [L::V; 2], _mixing: [L::V; 2]) -> [L::V; 2] {
        // SAFETY: by the caller's promise.
        unsafe { [L::add(p[0], increments[0]), p[1]] }
    }
}
