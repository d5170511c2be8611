//! The acoustic equation of first order in a medium with a vertical axis of symmetry, by Thomsen's epsilon and delta:
//!
//! ```text
//! du/dt = -1/rho dp/dx    dv/dt = -1/rho dp/dy    dw/dt = -1/rho dq/dz
//! dp/dt = -rho vp² (E (du/dx + dv/dy) + S dw/dz)    E = 1 + 2 epsilon
//! dq/dt = -rho vp² (S (du/dx + dv/dy) +   dw/dz)    S = sqrt(1 + 2 delta)
//! ```
//!
//! Both pressures take the same two sums of terms, those of x and y and that of z, so the march is that of `acoustic1`
//! with the fluxes of `p` along x and y and of `q` along z. A step ends with
//!
//! ```text
//! p = p + fma(E, i_xy, S i_z)    q = q + fma(S, i_xy, i_z)
//! ```
//!
//! where the increments `i` are those of `one_pass/pass.rs`. Records and snapshots are of `p`. The source is in `p` and
//! `q`, with epsilon and delta reduced around it ([`anisotropy`](crate::fd::anisotropy)).

use super::acoustic1;
use super::traits::{Equation, PropagatorFactory, Properties};
use crate::error::Result;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::model::{Model, Property, WATER};
use crate::fd::one_pass::coefficients::BulkMaterial;
use crate::fd::one_pass::equation::{OnePassEquation, OnePassPropagator};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::vector::lanes::Lanes;

/// The acoustic equation of first order in a medium with a vertical axis of symmetry.
pub struct Vti;

impl Equation for Vti {
    fn name(&self) -> &'static str {
        "vti"
    }

    fn properties(&self) -> Properties {
        let required = &[Property::Vp, Property::Epsilon, Property::Delta];
        Properties { required, optional: &[(Property::Rho, WATER)] }
    }

    fn class(&self) -> u32 {
        0xfd00_0004
    }

    /// Those of `b`, `kappa` and E.
    fn speed_factors(&self) -> i32 {
        3
    }

    /// With epsilon not below delta the matrix `[E S; S 1]` is at most a diagonal one whose two entries balance the
    /// terms of x and y against that of z: no eigenvalue is above `rho vp² (E r_xy + r_z)`, with the sums `r` of the
    /// magnitudes in a row of `acoustic1`'s operator. Beside the source of a shot E is between its value and 1.
    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        let epsilon = model.or_zero(Property::Epsilon);
        acoustic1::dt_sure_with(model, stencil, |cell| (1.0 + 2.0 * f64::from(epsilon.at(cell))).max(1.0))
    }

    fn propagator_factory(&self, model: &Model, pml: usize, storage: Storage) -> Result<PropagatorFactory> {
        let material = BulkMaterial::new(model, pml, storage, true)?;
        Ok(Box::new(move |dt, scheme| {
            let c = material.coefficients(dt, scheme.stencil, scheme.old_rules);
            Box::new(OnePassPropagator::<Vti>::new(c, scheme.isotropic_source))
        }))
    }
}

/// The kernels of `kernels/vti_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("vti_one_pass", None, Some("vti_one_pass_4x2_16_bit"));

/// Two pressures, coupled by E and S.
impl OnePassEquation for Vti {
    const NAME: &'static str = "vti";
    const PRESSURES: usize = 2;
    const MIXING: usize = 2;
    const SOURCE: &'static [(usize, f32)] = &[(0, 1.0)];

    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }

    #[inline(always)]
    unsafe fn advance<L: Lanes>([p, q]: [L::V; 2], [xy, z]: [L::V; 2], [e, s]: [L::V; 2]) -> [L::V; 2] {
        // SAFETY: by the caller's promise.
        unsafe { [L::add(p, L::fma(e, xy, L::mul(s, z))), L::add(q, L::fma(s, xy, z))] }
    }
}
