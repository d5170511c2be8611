//! The coefficients of a medium with a vertical axis of symmetry.

use std::sync::Arc;

use crate::error::Result;
use crate::fd::anisotropy::{Anisotropy, IsotropicBall};
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::layout::Layout;
use crate::fd::model::Model;
use crate::fd::one_pass::coefficients::{BulkMaterial, Coefficients};
use crate::fd::storage::Storage;

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
    ///
    /// # Errors
    /// No memory; values that 16 bits are not enough for.
    pub fn new(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        let bulk = BulkMaterial::new(model, pml, storage)?;
        let layout = Layout::new(&model.grid, pml);
        Ok(VtiMaterial { bulk, anisotropy: Arc::new(Anisotropy::new(model, &layout, storage)?) })
    }

    /// Returns the propagator for steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32, scheme: Scheme) -> VtiPropagator {
        let bulk = Arc::new(self.bulk.coefficients(dt, scheme.stencil, scheme.old_rules));
        let anisotropy = Arc::clone(&self.anisotropy);
        VtiPropagator { bulk, anisotropy, isotropic_source: scheme.isotropic_source, ball: None }
    }
}
