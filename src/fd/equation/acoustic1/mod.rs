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

mod cpu;
mod cuda;
mod describe;
mod stability;
#[cfg(test)]
mod tests;

pub use stability::{dt_max, dt_sure, dt_sure_with};

use std::sync::Arc;

use super::traits::{AbsorbingLayer, Equation, Material, Propagator, Properties, Scheme};
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::march;
use crate::fd::model::{Model, Outline, Property, WATER};
use crate::fd::one_pass;
use crate::fd::one_pass::coefficients::{BulkMaterial, Coefficients};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Shot};

/// The acoustic equation of first order.
pub struct Acoustic1;

/// The material of [`Acoustic1`].
pub struct Acoustic1Material(pub BulkMaterial);

/// The propagator of [`Acoustic1`].
pub struct Acoustic1Propagator(pub Arc<Coefficients>);

impl Acoustic1Material {
    /// See [`BulkMaterial::new`].
    pub fn new(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        BulkMaterial::new(model, pml, storage).map(Acoustic1Material)
    }

    /// Returns the coefficients for steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32) -> Coefficients {
        self.0.coefficients(dt)
    }
}

impl Equation for Acoustic1 {
    fn name(&self) -> &'static str {
        "acoustic1"
    }

    fn properties(&self) -> Properties {
        Properties { required: &[Property::Vp], optional: &[(Property::Rho, WATER)] }
    }

    fn absorbing_layer(&self) -> AbsorbingLayer {
        AbsorbingLayer { default: 20, accepted: 8..=1000 }
    }

    fn class(&self) -> u32 {
        0xfd00_0001
    }

    fn runs_on_gpus(&self) -> bool {
        true
    }

    fn dt_max(&self, model: &Outline, stencil: Stencil) -> f64 {
        dt_max(model, stencil)
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        dt_sure(model, stencil)
    }

    fn material(&self, model: &Model, pml: usize, storage: Storage) -> Result<Box<dyn Material>> {
        Ok(Box::new(Acoustic1Material::new(model, pml, storage)?))
    }

    fn gpu_bytes_of_cells(&self, n: [usize; 3], pml: usize, storage: Storage) -> u64 {
        march::bytes_of_cells::<Acoustic1Propagator>(n, pml, storage)
    }
}

impl Material for Acoustic1Material {
    fn equation(&self) -> &'static dyn Equation {
        &Acoustic1
    }

    fn model(&self) -> &Outline {
        &self.0.model
    }

    fn pml(&self) -> usize {
        self.0.pml()
    }

    fn storage(&self) -> Storage {
        self.0.storage
    }

    fn propagator(&self, dt: f32, scheme: Scheme) -> Box<dyn Propagator> {
        Box::new(Acoustic1Propagator(Arc::new(self.0.coefficients(dt).with(scheme.stencil))))
    }
}

impl Propagator for Acoustic1Propagator {
    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn field_bytes(&self) -> u64 {
        one_pass::field_bytes::<Self>(&self.0)
    }

    fn thread_bytes(&self, threads: usize) -> u64 {
        one_pass::thread_bytes::<Self>(&self.0, threads)
    }

    fn gpu_bytes(&self, shot: &Shot) -> u64 {
        march::bytes(self, shot)
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        march::shared_bytes(&self.0, stream)
    }

    fn tuning_steps(&self) -> usize {
        one_pass::geometry::TUNING_STEPS
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        self.0.kappa.value(&self.0.layout, cell)
    }

    fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        self.0.buoyancy(cell, axis)
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        one_pass::run(self, shot, team, control)
    }

    fn run_on_gpu(&self, shot: &Shot, stream: &Stream, control: &dyn Control) -> Result<(Gather, Effort)> {
        march::run(self, shot, stream, control)
    }
}
