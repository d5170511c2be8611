//! Medium and coefficients: the values that a step multiplies with.

use std::sync::Arc;

use super::layer::Layers;
use super::sponge;
use crate::error::Result;
use crate::fd::centred::Weights;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::traits::Absorber;
use crate::fd::grid::layout::{Layout, with_room};
use crate::fd::model::{Model, Outline};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;

/// The medium, for any time step.
pub struct Acoustic2Medium {
    pub model: Outline,
    pub storage: Storage,
    pub layout: Layout,
    pub absorber: Absorber,
    v: Arc<EdgeField>,
}

/// Coefficients for one time step. All shots of a plan share them.
pub struct Acoustic2Coefficients {
    pub layout: Layout,
    /// vp².
    pub v: Arc<EdgeField>,
    pub weights: Weights,
    /// The sponge's factor of each padded index of x, y, z, [with room](with_room) for whole vectors; 1 if
    /// the layer is a PML.
    pub sponge: [Vec<f32>; 3],
    /// The layers of x, y, z, if they are a PML.
    pub layers: Option<[Layers; 3]>,
    /// Metres between cells.
    pub spacing: [f32; 3],
    pub storage: Storage,
}

impl Acoustic2Medium {
    pub fn new(model: &Model, pml: usize, storage: Storage, absorber: Absorber) -> Result<Acoustic2Medium> {
        let layout = Layout::new(model.grid.n, pml);
        let vp = model.vp();
        let square = |i| vp.at(i) * vp.at(i);
        let v = EdgeField::from_properties(&layout, storage, "vp² of the model", &[vp], square)?;
        Ok(Acoustic2Medium { model: model.outline, storage, layout, absorber, v: Arc::new(v) })
    }

    pub fn coefficients(&self, dt: f32, stencil: Stencil) -> Acoustic2Coefficients {
        let Acoustic2Medium { layout, storage, model: Outline { grid, .. }, .. } = *self;
        let weights = Weights::new(stencil, dt, grid.h);
        let is_pml = self.absorber == Absorber::Pml;
        let ones = |axis: usize| vec![1.0; layout.padded[axis]];
        let factors = |axis| if is_pml { ones(axis) } else { sponge::factors(&layout, axis) };
        let sponge = [0, 1, 2].map(|axis| with_room(factors(axis)));
        let layers = |axis| Layers::new(&layout, axis, &self.model, dt, &weights.axes[axis]);
        let layers = is_pml.then(|| [0, 1, 2].map(layers));
        let (v, spacing) = (Arc::clone(&self.v), grid.h);
        Acoustic2Coefficients { layout, v, weights, sponge, layers, spacing, storage }
    }
}
