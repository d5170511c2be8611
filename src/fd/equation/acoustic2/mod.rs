//! The acoustic equation of second order in time at constant density:
//!
//! ```text
//! d²p/dt² = vp² (d²p/dx² + d²p/dy² + d²p/dz²)
//! ```
//!
//! A step computes the next pressure `P+` from this one, `P`, and the one before, `P-`, whose place it takes.
//! **Order of operations**, `fma(x, y, z) = x y + z` rounded once. `V = vp²`, `c` are the
//! [weights](stencil) of an axis times `(dt/h)²`, `c0` is the sum of all three axes; `g` are the
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
mod describe;
mod layer;
mod sponge;
mod stencil;

use std::sync::Arc;

pub use self::coefficients::{Coefficients, Medium};
pub use self::cuda::OnGpu;
use super::traits::{Absorber, AbsorbingLayer, Equation, Material, Propagator, Properties, Scheme};
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::march;
use crate::fd::model::{Model, Outline, Property, WATER};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Shot};

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

    fn absorbing_layer(&self) -> AbsorbingLayer {
        let default = if self.0 == Absorber::Pml { 20 } else { 54 };
        AbsorbingLayer { default, accepted: 8..=1000 }
    }

    fn class(&self) -> u32 {
        if self.0 == Absorber::Pml { 0xfd00_0006 } else { 0xfd00_0002 }
    }

    fn runs_on_gpus(&self) -> bool {
        true
    }

    fn dt_max(&self, model: &Outline, stencil: Stencil) -> f64 {
        stencil::dt_max(model, stencil)
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        stencil::dt_max(model, stencil)
    }

    fn material(&self, model: &Model, pml: usize, storage: Storage) -> Result<Box<dyn Material>> {
        Ok(Box::new(Medium::new(model, pml, storage, self.0)?))
    }

    fn gpu_bytes_of_cells(&self, n: [usize; 3], pml: usize, storage: Storage) -> u64 {
        match self.0 {
            Absorber::Pml => march::bytes_of_cells::<OnGpu<true>>(n, pml, storage),
            Absorber::Sponge => march::bytes_of_cells::<OnGpu<false>>(n, pml, storage),
        }
    }
}

impl Material for Medium {
    fn equation(&self) -> &'static dyn Equation {
        match self.absorber {
            Absorber::Pml => &Acoustic2(Absorber::Pml),
            Absorber::Sponge => &Acoustic2(Absorber::Sponge),
        }
    }

    fn model(&self) -> &Outline {
        &self.model
    }

    fn pml(&self) -> usize {
        self.layout.pml
    }

    fn storage(&self) -> Storage {
        self.storage
    }

    fn propagator(&self, dt: f32, scheme: Scheme) -> Box<dyn Propagator> {
        Box::new(Arc::new(self.coefficients(dt, scheme.stencil)))
    }
}

/// Computes with the equation as a GPU has it.
macro_rules! on_gpu {
    ($coefficients:expr, $equation:ident => $result:expr) => {
        if $coefficients.layers.is_some() {
            let $equation = &OnGpu::<true>(Arc::clone($coefficients));
            $result
        } else {
            let $equation = &OnGpu::<false>(Arc::clone($coefficients));
            $result
        }
    };
}

impl Propagator for Arc<Coefficients> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn bytes(&self) -> u64 {
        self.v.bytes()
    }

    fn field_bytes(&self) -> u64 {
        cpu::field_bytes(self)
    }

    fn thread_bytes(&self, _threads: usize) -> u64 {
        0
    }

    fn gpu_bytes(&self, shot: &Shot) -> u64 {
        on_gpu!(self, equation => march::bytes(equation, shot))
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        march::shared_bytes(self, stream)
    }

    fn tuning_steps(&self) -> usize {
        cpu::TUNING_STEPS
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        f64::from(WATER) * self.v.value(&self.layout, cell)
    }

    /// A source is added to the pressure of the step before, which the next one has with a negative sign.
    fn increment_factor(&self) -> f64 {
        -1.0
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        cpu::run(self, shot, team, control)
    }

    fn run_on_gpu(&self, shot: &Shot, stream: &Stream, control: &dyn Control) -> Result<(Gather, Effort)> {
        on_gpu!(self, equation => march::run(equation, shot, stream, control))
    }
}
