//! The equation in a medium: two pressures, coupled by E and S.

use std::sync::Arc;

use crate::error::Result;
use crate::fd::anisotropy::{Anisotropy, IsotropicBall};
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::layout::Layout;
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::model::Model;
use crate::fd::one_pass::coefficients::{BulkMaterial, Coefficients};
use crate::fd::one_pass::equation::OnePassEquation;
use crate::fd::storage::Storage;
use crate::fd::vector::lanes::Lanes;

/// The coefficients of the equation `vti` without a time step.
pub struct VtiMaterial {
    pub bulk: BulkMaterial,
    anisotropy: Arc<Anisotropy>,
}

/// The equation in a medium, with a time step.
#[derive(Clone)]
pub struct VtiPropagator {
    pub bulk: Arc<Coefficients>,
    pub anisotropy: Arc<Anisotropy>,
    /// Whether epsilon and delta are reduced around the source.
    pub isotropic_source: bool,
    /// The medium around a shot's source.
    pub ball: Option<IsotropicBall>,
}

impl VtiMaterial {
    /// Computes the coefficients with layers of `pml` cells. A property that the model lacks is 0.
    pub fn new(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        let bulk = BulkMaterial::new(model, pml, storage)?;
        let layout = Layout::new(model.grid.n, pml);
        Ok(VtiMaterial { bulk, anisotropy: Arc::new(Anisotropy::new(model, &layout, storage)?) })
    }

    /// Returns the propagator for steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32, scheme: Scheme) -> VtiPropagator {
        let bulk = Arc::new(self.bulk.coefficients(dt, scheme.stencil, scheme.old_rules));
        let anisotropy = Arc::clone(&self.anisotropy);
        VtiPropagator { bulk, anisotropy, isotropic_source: scheme.isotropic_source, ball: None }
    }
}

/// The kernels of `kernels/vti_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("vti_one_pass", None, Some("vti_one_pass_4x2_16_bit"));

impl OnePassEquation for VtiPropagator {
    const NAME: &'static str = "vti";
    const PRESSURES: usize = 2;
    const MIXING: usize = 2;
    const SOURCE: &'static [(usize, f32)] = &[(0, 1.0)];

    fn kernel_set() -> &'static KernelSet {
        &KERNELS
    }

    fn coefficients(&self) -> &Arc<Coefficients> {
        &self.bulk
    }

    fn stretch(&self, cell: [usize; 3]) -> (f64, String) {
        let [epsilon, delta] = self.anisotropy.parameters(&self.bulk.layout, cell);
        ((1.0 + 2.0 * epsilon).max(1.0).sqrt(), format!(", epsilon {epsilon:.3}, delta {delta:.3}"))
    }

    fn mixing(&self, number: usize) -> &EdgeField {
        let Anisotropy { e, s } = &*self.anisotropy;
        if number == 0 { e } else { s }
    }

    fn around(&self, source: [usize; 3]) -> Self {
        let ball = self.isotropic_source.then(|| self.anisotropy.ball(&self.bulk.layout, source));
        VtiPropagator { ball, ..self.clone() }
    }

    fn ball(&self) -> Option<&IsotropicBall> {
        self.ball.as_ref()
    }

    #[inline(always)]
    unsafe fn advance<L: Lanes>([p, q]: [L::V; 2], [xy, z]: [L::V; 2], [e, s]: [L::V; 2]) -> [L::V; 2] {
        // SAFETY: by the caller's promise.
        unsafe { [L::add(p, L::fma(e, xy, L::mul(s, z))), L::add(q, L::fma(s, xy, z))] }
    }
}
