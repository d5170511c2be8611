//! The traits of the material of `vti` and of its propagator, which runs shots.

use super::Vti;
use super::cpu::VtiShot;
use super::material::{VtiMaterial, VtiPropagator};
use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::equation::traits::{Equation, Material, Propagator, Scheme};
use crate::fd::grid::layout::Layout;
use crate::fd::isotropic_ball::IsotropicBall;
use crate::fd::march;
use crate::fd::model::Outline;
use crate::fd::one_pass;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Shot};

impl Material for VtiMaterial {
    fn equation(&self) -> &'static dyn Equation {
        &Vti
    }

    fn model(&self) -> &Outline {
        &self.bulk.model
    }

    fn pml(&self) -> usize {
        self.bulk.pml()
    }

    fn storage(&self) -> Storage {
        self.bulk.storage
    }

    fn propagator(&self, dt: f32, scheme: Scheme) -> Box<dyn Propagator> {
        Box::new(self.coefficients(dt, scheme))
    }
}

impl VtiPropagator {
    /// Returns the policy of a shot whose source is at a user's cell.
    pub fn shot(&self, source: [usize; 3]) -> VtiShot<'_> {
        let ball =
            self.isotropic_source.then(|| IsotropicBall::new(&self.bulk.layout, &self.e, &self.s, source));
        VtiShot { propagator: self, ball }
    }
}

impl Propagator for VtiPropagator {
    fn layout(&self) -> &Layout {
        &self.bulk.layout
    }

    fn bytes(&self) -> u64 {
        self.bulk.bytes() + self.e.bytes() + self.s.bytes()
    }

    fn field_bytes(&self) -> u64 {
        one_pass::field_bytes::<VtiShot<'_>>(&self.bulk).saturating_add(IsotropicBall::BYTES)
    }

    fn thread_bytes(&self, threads: usize) -> u64 {
        one_pass::thread_bytes::<VtiShot<'_>>(&self.bulk, threads)
    }

    fn gpu_bytes(&self, shot: &Shot) -> u64 {
        march::bytes(&VtiShot { propagator: self, ball: None }, shot)
    }

    fn gpu_shared_bytes(&self, stream: &Stream) -> u64 {
        march::shared_bytes(&self.bulk, stream)
    }

    fn tuning_steps(&self) -> usize {
        one_pass::geometry::TUNING_STEPS
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        self.bulk.kappa.value(&self.bulk.layout, cell)
    }

    fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        self.bulk.buoyancy(cell, axis)
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        one_pass::run(&self.shot(shot.source), shot, team, control)
    }

    fn run_on_gpu(&self, shot: &Shot, stream: &Stream, control: &dyn Control) -> Result<(Gather, Effort)> {
        march::run(&self.shot(shot.source), shot, stream, control)
    }
}
