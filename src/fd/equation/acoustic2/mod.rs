//! The acoustic equation of second order in time at constant density:
//!
//! ```text
//! d²p/dt² = vp² (d²p/dx² + d²p/dy² + d²p/dz²)
//! ```
//!
//! A step computes the next pressure `P+` from this one, `P`, and the one before, `P-`, whose place it takes.
//! **Order of operations**, `fma(x, y, z) = x y + z` rounded once. `V = vp²`, `c` are the
//! [weights](crate::fd::centred) of an axis times `(dt/h)²`, `c0` is the sum of all three axes; `g` are the
//! [sponge](sponge)'s factors, 1 if the layer is a [PML](layer).
//!
//! ```text
//! axis a     l_a = c_1 (P[-1] + P[1]);  l_a = fma(c_m, P[-m] + P[m], l_a) for m = 2, 3, 4
//! sum        l = (fma(c0, P, l_x) + l_y) + l_z
//! sponge     g = (g_y g_x) g_z
//! pressure   P+ = fma(g, fma(V, l, fma(-g, P-, P + P)), 0)
//! ```
//!
//! Where a PML damps the axes `a`, `P-` is replaced before: with its values `a`, `b`, `s`, `r` at an index and `k` the first
//! derivative's coefficients, for x, then y, then z,
//!
//! ```text
//! axis       l = fma(c0_a, P, l_a)
//! derivative D f = k_1 (f[1] - f[-1]);  D f = fma(k_m, f[m] - f[-m], D f) for m = 2, 3, 4
//! increment  u = fma(b, l, fma(s, D P, r D phi));  zeta = fma(b, l + u, chi);  P- = fma(-V, u + zeta, P-)
//! layer      chi = a zeta;  phi+ = a fma(b, D P, phi)
//! ```
//!
//! The last addition of the pressure turns -0 into 0: cells that are never updated have `g = 0` and keep the bits of 0.
//!
//! A source without a unit is a vertical dipole in the cells of [`Shot::source`], added to `P` before the step, where it stays.
//! One with a unit is subtracted from `P-`, which adds it to `P+`.

mod coefficients;
mod cpu;
mod cuda;
mod layer;
mod sponge;
mod sweep;

use std::sync::Arc;

pub use self::coefficients::{Acoustic2Coefficients, Acoustic2Medium};
use super::traits::{Absorber, Equation, PropagatorFactory, Properties};
use crate::error::Result;
use crate::fd::centred;
use crate::fd::grid::layout::Layout;
use crate::fd::inject::SourceMedium;
use crate::fd::model::{Model, Property, WATER};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;

/// The acoustic equation of second order, with an absorbing layer.
pub struct Acoustic2(pub Absorber);

impl Equation for Acoustic2 {
    fn name(&self) -> &'static str {
        "acoustic2"
    }

    fn properties(&self) -> Properties {
        Properties { required: &[Property::Vp], optional: &[] }
    }

    fn absorber(&self) -> Absorber {
        self.0
    }

    fn default_layer(&self) -> usize {
        if self.0 == Absorber::Pml { 20 } else { 54 }
    }

    fn class(&self) -> u32 {
        if self.0 == Absorber::Pml { 0xfd00_0006 } else { 0xfd00_0002 }
    }

    fn courant(&self, stencil: Stencil) -> f64 {
        centred::courant(stencil)
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        self.dt_max(model, stencil)
    }

    fn propagator_factory(&self, model: &Model, pml: usize, storage: Storage) -> Result<PropagatorFactory> {
        let medium = Acoustic2Medium::new(model, pml, storage, self.0)?;
        Ok(Box::new(move |dt, scheme| {
            let c = Arc::new(medium.coefficients(dt, scheme.stencil));
            match medium.absorber {
                Absorber::Pml => Box::new(Acoustic2Propagator::<true>(c)),
                Absorber::Sponge => Box::new(Acoustic2Propagator::<false>(c)),
            }
        }))
    }
}

/// The propagator of [`Acoustic2`], with a PML or a sponge.
#[derive(Clone)]
pub struct Acoustic2Propagator<const PML: bool>(pub Arc<Acoustic2Coefficients>);

impl<const PML: bool> SourceMedium for Acoustic2Propagator<PML> {
    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        f64::from(WATER) * self.0.v.value(&self.0.layout, cell)
    }

    /// A source is added to the pressure of the step before, which the next one has with a negative sign.
    fn increment_factor(&self) -> f64 {
        -1.0
    }
}
