//! The coefficients of a medium with a vertical axis of symmetry.

use std::sync::Arc;

use crate::error::Result;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::layout::Layout;
use crate::fd::isotropic_ball::at_most_root;
use crate::fd::model::{Model, Property, Values};
use crate::fd::one_pass::coefficients::{BulkMaterial, Coefficients};
use crate::fd::storage::Storage;

/// The coefficients of the equation `vti` without a time step.
pub struct VtiMaterial {
    pub bulk: BulkMaterial,
    e: Arc<EdgeField>,
    s: Arc<EdgeField>,
}

/// The coefficients with a time step.
pub struct VtiPropagator {
    pub bulk: Arc<Coefficients>,
    /// 1 + 2 epsilon.
    pub e: Arc<EdgeField>,
    /// sqrt(1 + 2 delta), at most sqrt(E): waves grow without limit where it is larger.
    pub s: Arc<EdgeField>,
    /// Whether epsilon and delta are reduced around the source.
    pub isotropic_source: bool,
}

impl VtiMaterial {
    /// Computes the coefficients with layers of `pml` cells. A property that the model lacks is 0.
    ///
    /// # Errors
    /// No memory; values that 16 bits are not enough for.
    pub fn new(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        let bulk = BulkMaterial::new(model, pml, storage)?;
        let layout = Layout::new(&model.grid, pml);
        let zero = Values::Constant(0.0);
        let [epsilon, delta] =
            [Property::Epsilon, Property::Delta].map(|property| model.get(property).unwrap_or(&zero));
        let stretch = |value: f32| 1.0 + 2.0 * value;
        // Numbers of 16 bits are rounded away from each other, so that S² stays at most E.
        let half_step = |values: &Values, of: &dyn Fn(f32) -> f32| {
            let [low, high] = values.range().map(of);
            if storage == Storage::Bits16 { 0.5 * (high - low) / f32::from(u16::MAX) } else { 0.0 }
        };
        let root = |value: f32| stretch(value).sqrt();
        let (up, down) = (half_step(epsilon, &stretch), half_step(delta, &root));
        let e = |cell: usize| stretch(epsilon.at(cell)) + up;
        let s = |cell: usize| at_most_root(root(delta.at(cell)), stretch(epsilon.at(cell))) - down;
        let field = |values: &[&Values], what: &str, value: &dyn Fn(usize) -> f32| {
            EdgeField::from_properties(&layout, storage, what, values, value).map(Arc::new)
        };
        Ok(VtiMaterial {
            e: field(&[epsilon], "1 + 2 epsilon of the model", &e)?,
            s: field(&[epsilon, delta], "sqrt(1 + 2 delta) of the model", &s)?,
            bulk,
        })
    }

    /// Returns the propagator for steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32, scheme: Scheme) -> VtiPropagator {
        let (e, s) = (Arc::clone(&self.e), Arc::clone(&self.s));
        let bulk = Arc::new(self.bulk.coefficients(dt, scheme.stencil, scheme.old_rules));
        VtiPropagator { bulk, e, s, isotropic_source: scheme.isotropic_source }
    }
}
