//! The pseudo-acoustic equation of a tilted transversely isotropic medium (Fletcher, Du and Fowler 2009; Zhang, Zhang and
//! Zhang 2011), pressures `P` and `Q`, `n` the unit vector along the symmetry axis:
//!
//! ```text
//! d²P/dt² = vp² (E (Lap P - div(n g)) + S div(n w))    g = n·grad P
//! d²Q/dt² = vp² (S (Lap P - div(n g)) +   div(n w))    w = n·grad Q
//! ```
//!
//! with `E = 1 + 2 epsilon` and `S = sqrt(1 + 2 delta)`. Density does not enter. All derivatives are at the cells. `div n` is minus
//! the transpose of `n·grad`, so steps are [stable](stability) for any angles. `P = E h + S v` and `Q = S h + v` for all time, so
//! a step computes one increment each of `h` and `v`. The [sponge] damps both, and the pressures.
//!
//! **Order of operations**, `fma(x, y, z) = x y + z` and `fnma(x, y, z) = z - x y` rounded once. `V = vp²`; `c` are the
//! [weights](centred::Weights) of an axis times `(dt/h)²`, `c0` their sum of all axes, `k` the coefficients of the first derivative times
//! `dt/h`; `r` are the sponge's values at the cell's indices.
//!
//! ```text
//! derivative D f = k_1 (f[1] - f[-1]);  D f = fma(k_m, f[m] - f[-m], D f) for m = 2, 3, 4
//! axis a     l_a = c_1 (P[-1] + P[1]);  l_a = fma(c_m, P[-m] + P[m], l_a) for m = 2, 3, 4
//! Laplacian  l = (fma(c0, P, l_x) + l_y) + l_z
//! fluxes     g = fma(n_z, D_z P, fma(n_y, D_y P, n_x D_x P));  likewise w of Q
//! divergence B = (D_x(n_x g) + D_z(n_z g)) + D_y(n_y g);       likewise C of w
//! sponge     r = (r_x + r_y) + r_z;  a = 1 / (1 + r);  b = (1 - r) a
//! increments h = fnma(a V, B, fma(a V, l, b h));  v = fma(a V, C, b v)
//! pressures  P = fma(a, fma(E, h, S v), b P);  Q = fma(a, fma(S, h, v), b Q)
//! ```
//!
//! Fluxes are 0 in the cells that are never updated. [`old`] has the operators of the old kernel, and a PML.

#![allow(unsafe_op_in_unsafe_fn, reason = "all of a kernel is unsafe, by its caller's promise")]

mod coefficients;
mod cpu;
mod cuda;
mod material;
pub mod old;
mod propagator;
mod rows;
mod sponge;
mod stability;
mod sweep;
#[cfg(test)]
mod tests;

pub use self::material::TtiMaterial;

use self::coefficients::SelfAdjoint;
use self::propagator::TiltedPropagator;
use super::traits::{Absorber, Equation, PropagatorFactory, Properties};
use crate::error::Result;
use crate::fd::centred;
use crate::fd::model::{Model, Property};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;

/// The equation with the self-adjoint operators, with a time step.
pub type TtiPropagator = TiltedPropagator<3, SelfAdjoint>;

/// The pseudo-acoustic equation of a tilted transversely isotropic medium: with a sponge, or a PML and the old operators.
pub struct Tti(pub Absorber);

impl Equation for Tti {
    fn name(&self) -> &'static str {
        "tti"
    }

    fn properties(&self) -> Properties {
        use Property::*;
        Properties { required: &[Vp], optional: &[(Epsilon, 0.0), (Delta, 0.0), (Theta, 0.0), (Phi, 0.0)] }
    }

    fn absorber(&self) -> Absorber {
        self.0
    }

    fn default_layer(&self) -> usize {
        40
    }

    fn class(&self) -> u32 {
        if self.0 == Absorber::Pml { 0xfd00_0005 } else { 0xfd00_0007 }
    }

    fn courant(&self, stencil: Stencil) -> f64 {
        if self.0 == Absorber::Pml { stencil.courant() } else { centred::courant(stencil) }
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        stability::dt_sure(model, self.courant(stencil))
    }

    fn propagator_factory(&self, model: &Model, pml: usize, storage: Storage) -> Result<PropagatorFactory> {
        Ok(match self.0 {
            Absorber::Pml => {
                let material = TtiMaterial::old(model, pml, storage)?;
                Box::new(move |dt, scheme| Box::new(material.old_coefficients(dt, scheme)))
            }
            Absorber::Sponge => {
                let material = TtiMaterial::new(model, pml, storage)?;
                Box::new(move |dt, scheme| Box::new(material.coefficients(dt, scheme)))
            }
        })
    }
}
