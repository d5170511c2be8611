//! The acoustic equation of first order, pressure `p` and particle velocity `(u, v, w)`:
//!
//! ```text
//! du/dt = -1/rho dp/dx    dv/dt = -1/rho dp/dy    dw/dt = -1/rho dp/dz
//! dp/dt = -rho vp² (du/dx + dv/dy + dw/dz)
//! ```
//!
//! `p[i]` is at cell `i`, `u[i]` half a cell after it in x, `v[i]` in y, `w[i]` in z. A step is one pass over the grid,
//! which eliminates the velocities outside the absorbing layers: `cpu/pass.rs` has the order of operations. The pressure is
//! whole everywhere; a layer also stores the split pressure that it damps along its axis.

mod coefficients;
pub mod cpu;
pub mod cuda;
mod describe;
mod stability;
#[cfg(test)]
mod tests;

pub use coefficients::{Acoustic1Material, Coefficients};
pub use stability::{dt_max, dt_sure};

use std::sync::Arc;

use super::traits::{Equation, Material, Propagator};
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::model::{Model, Outline};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;
use crate::fd::time_loop::block_shape::BlockShape;

/// The acoustic equation of first order.
pub struct Acoustic1;

impl Equation for Acoustic1 {
    fn name(&self) -> &'static str {
        "acoustic1"
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
        cuda::bytes_of_cells(n, pml, storage)
    }
}

impl Material for Acoustic1Material {
    fn equation(&self) -> &'static dyn Equation {
        &Acoustic1
    }

    fn model(&self) -> &Outline {
        &self.model
    }

    fn pml(&self) -> usize {
        Acoustic1Material::pml(self)
    }

    fn storage(&self) -> Storage {
        self.storage
    }

    fn propagator(&self, dt: f32, stencil: Stencil) -> Box<dyn Propagator> {
        Box::new(Arc::new(self.coefficients(dt).with(stencil)))
    }
}

impl Propagator for Arc<Coefficients> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn bytes(&self) -> u64 {
        Coefficients::bytes(self)
    }

    fn field_bytes(&self) -> u64 {
        cpu::Fields::bytes(&self.layout)
    }

    fn thread_bytes(&self, threads: usize) -> u64 {
        cpu::threads_bytes(self, threads)
    }

    fn gpu_bytes(&self, shot: &Shot) -> u64 {
        cuda::bytes(self, shot)
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        cuda::shared_bytes(self, stream)
    }

    fn shape(&self, stream: &Stream) -> Option<BlockShape> {
        cuda::shape(self, stream)
    }

    fn tuning_steps(&self) -> usize {
        cpu::TUNING_STEPS
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        run(self, shot, team, control)
    }

    fn run_on_gpu(
        &self,
        shot: &Shot,
        shape: Option<BlockShape>,
        stream: &Stream,
        control: &dyn Control,
    ) -> Result<(Gather, Effort)> {
        cuda::run(self, shot, shape, stream, control)
    }
}

/// Runs a shot that fits the coefficients' grid on the CPU.
fn run(c: &Coefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
    let layout = &c.layout;
    let own = cpu::Fields::bytes(layout).saturating_add(cpu::threads_bytes(c, team.threads()));
    time_loop::cpu::check_memory(layout, shot, own)?;
    let geometry = cpu::Geometry::new(c, team.threads());
    let mut fields = cpu::Fields::new(layout, &geometry)?;
    let kind = if c.b.steps(layout.pitch)[0] == 0 { "acoustic1, no density" } else { "acoustic1" };
    let tuner = cpu::TileTuner::new(kind, layout, c.storage, &geometry.partition, team.threads(), control);
    let steps = cpu::OnePass::new(c, &geometry, shot, &mut fields).tuned(&tuner);
    let done = time_loop::cpu::run(layout, shot, &steps, team, control);
    tuner.report(control);
    done
}
