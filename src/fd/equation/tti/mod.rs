//! The pseudo-acoustic equation of a tilted transversely isotropic medium, pressures `P` and `Q`, of first order:
//!
//! ```text
//! du/dt = -R_x P    dv/dt = -R_y P    dw/dt = -R_z Q
//! dP/dt = -vp² (E (R_x u + R_y v) + S R_z w)
//! dQ/dt = -vp² (S (R_x u + R_y v) + R_z w)
//! R_x = cos theta cos phi d/dx - cos theta sin phi d/dy - sin theta d/dz
//! R_y =           sin phi d/dx +           cos phi d/dy
//! R_z = sin theta cos phi d/dx - sin theta sin phi d/dy + cos theta d/dz
//! ```
//!
//! with `E = 1 + 2 epsilon` and `S = sqrt(1 + 2 delta)`. `R_z` is along the symmetry axis. There is no density. Derivatives of
//! the pressures are half a cell after their cell, each along its own axis; those of the fluxes half a cell before. The three
//! are added up as if they were at one place, which in tilted media is an error of first order in the spacing.
//!
//! `P = E h + S g` and `Q = S h + g` for all time, `h` the split pressures of `u` and `v`, `g` that of `w`. A step so computes the
//! fluxes of a cell and one increment each of `h` and `g`: `cpu/sweep.rs` has the order of operations. It eliminates `u` and
//! `v` outside the absorbing layers of their axes. It stores `w` everywhere, which takes the bandwidth of an increment of `g`
//! and needs no second form of `w` where the layers of z begin.

mod coefficients;
mod cpu;
mod cuda;
mod describe;
mod stability;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::coefficients::TtiMaterial;
pub use self::cuda::TtiShot;

use self::coefficients::TtiCoefficients;
use super::traits::{AbsorbingLayer, Equation, Material, Propagator, Properties, Scheme};
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::march;
use crate::fd::model::{Model, Outline, Property, WATER, check_epsilon_not_below_delta};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;

/// The pseudo-acoustic equation of a tilted transversely isotropic medium.
pub struct Tti;

impl Equation for Tti {
    fn name(&self) -> &'static str {
        "tti"
    }

    fn properties(&self) -> Properties {
        use Property::*;
        Properties { required: &[Vp], optional: &[(Epsilon, 0.0), (Delta, 0.0), (Theta, 0.0), (Phi, 0.0)] }
    }

    fn check(&self, model: &Model) -> Result<()> {
        check_epsilon_not_below_delta(model)
    }

    fn absorbing_layer(&self) -> AbsorbingLayer {
        AbsorbingLayer { default: 40, accepted: 8..=1000 }
    }

    fn class(&self) -> u32 {
        0xfd00_0005
    }

    fn runs_on_gpus(&self) -> bool {
        true
    }

    fn dt_max(&self, model: &Outline, stencil: Stencil) -> f64 {
        stability::dt_max(model, stencil)
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        stability::dt_sure(model, stencil)
    }

    fn material(&self, model: &Model, pml: usize, storage: Storage) -> Result<Box<dyn Material>> {
        Ok(Box::new(TtiMaterial::new(model, pml, storage)?))
    }

    fn gpu_bytes_of_cells(&self, n: [usize; 3], pml: usize, storage: Storage) -> u64 {
        march::bytes_of_cells::<TtiShot<'_>>(n, pml, storage)
    }
}

impl Material for TtiMaterial {
    fn equation(&self) -> &'static dyn Equation {
        &Tti
    }

    fn model(&self) -> &Outline {
        &self.model
    }

    fn pml(&self) -> usize {
        self.layout.pml
    }

    fn storage(&self) -> Storage {
        Storage::Float32
    }

    fn propagator(&self, dt: f32, scheme: Scheme) -> Box<dyn Propagator> {
        Box::new(Arc::new(self.coefficients(dt, scheme)))
    }
}

impl Propagator for Arc<TtiCoefficients> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn bytes(&self) -> u64 {
        TtiCoefficients::bytes(self)
    }

    fn field_bytes(&self) -> u64 {
        cpu::TtiFields::bytes(&self.layout)
    }

    fn thread_bytes(&self, threads: usize) -> u64 {
        cpu::thread_bytes(self).saturating_mul(threads as u64)
    }

    fn gpu_bytes(&self, shot: &Shot) -> u64 {
        march::bytes(&TtiShot { c: self, ball: None }, shot)
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        march::shared_bytes(self, stream)
    }

    fn tuning_steps(&self) -> usize {
        cpu::TUNING_STEPS
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        f64::from(WATER) * self.columns.modulus.value(&self.layout, cell)
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        run(self, shot, team, control)
    }

    fn run_on_gpu(&self, shot: &Shot, stream: &Stream, control: &dyn Control) -> Result<(Gather, Effort)> {
        march::run(&TtiShot::new(self, shot.source), shot, stream, control)
    }
}

/// Runs a shot that fits the coefficients' grid on the CPU.
fn run(c: &TtiCoefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
    let (layout, threads) = (&c.layout, team.threads());
    let own = cpu::thread_bytes(c).saturating_mul(threads as u64);
    time_loop::cpu::check_memory(layout, shot, cpu::TtiFields::bytes(layout).saturating_add(own))?;
    let geometry = cpu::TtiGeometry::new(c, threads);
    let mut fields = cpu::TtiFields::new(layout, &geometry.partition)?;
    let tuner = cpu::tile_tuner(c, &geometry, threads, control);
    let steps = cpu::TwoStages::new(c, &geometry, shot, &mut fields).tuned(&tuner);
    let done = time_loop::cpu::run(layout, shot, &steps, team, control);
    tuner.report(control);
    done
}
