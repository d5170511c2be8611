//! Medium and coefficients: the values that a step multiplies with.

use std::sync::Arc;

use super::layer::Layers;
use super::{sponge, stencil};
use crate::error::Result;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::traits::Absorber;
use crate::fd::grid::layout::Layout;
use crate::fd::model::{Model, Outline};
use crate::fd::stencil::{HALF_WIDTH, Stencil};
use crate::fd::storage::Storage;

/// The medium, for any time step.
pub struct Medium {
    pub model: Outline,
    pub storage: Storage,
    pub layout: Layout,
    pub absorber: Absorber,
    v: Arc<EdgeField>,
}

/// Coefficients for one time step. All shots of a plan share them.
pub struct Coefficients {
    pub layout: Layout,
    /// vp².
    pub v: Arc<EdgeField>,
    pub weights: Weights,
    /// The sponge's factor of each padded index of x, y, z; 1 if the layer is a PML.
    pub sponge: [Vec<f32>; 3],
    /// The layers of x, y, z, if they are a PML.
    pub layers: Option<[Layers; 3]>,
    /// Metres between cells.
    pub spacing: [f32; 3],
    pub storage: Storage,
}

/// The coefficients of the second derivatives times `(dt/h)²`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// `c_0`, summed over the axes.
    pub centre: f32,
    /// `c_1` to `c_4` of x, y, z.
    pub axes: [[f32; HALF_WIDTH]; 3],
}

impl Medium {
    /// # Errors
    /// No memory; values that 16 bits are not enough for.
    pub fn new(model: &Model, pml: usize, storage: Storage, absorber: Absorber) -> Result<Medium> {
        let layout = Layout::new(&model.grid, pml);
        let vp = model.vp();
        let square = |i| vp.at(i) * vp.at(i);
        let v = EdgeField::from_properties(&layout, storage, "vp² of the model", &[vp], square)?;
        Ok(Medium { model: model.outline, storage, layout, absorber, v: Arc::new(v) })
    }

    pub fn coefficients(&self, dt: f32, stencil: Stencil) -> Coefficients {
        let Medium { layout, storage, model: Outline { grid, .. }, .. } = *self;
        let c = stencil::coefficients(stencil);
        let rates = grid.h.map(|h| (f64::from(dt) / f64::from(h)).powi(2));
        let axes: [[f32; HALF_WIDTH]; 3] =
            rates.map(|rate| std::array::from_fn(|m| (c[m + 1] * rate) as f32));
        // The sum of the rounded weights, so that a constant pressure stays constant as exactly as
        // float32 allows.
        let centre = axes.iter().flatten().map(|weight| -2.0 * f64::from(*weight)).sum::<f64>() as f32;
        let weights = Weights { centre, axes };
        let is_pml = self.absorber == Absorber::Pml;
        let ones = |axis: usize| vec![1.0; layout.padded[axis]];
        let sponge = [0, 1, 2].map(|axis| if is_pml { ones(axis) } else { sponge::factors(&layout, axis) });
        let layers = |axis| Layers::new(&layout, axis, &self.model, dt, &weights.axes[axis]);
        let layers = is_pml.then(|| [0, 1, 2].map(layers));
        Coefficients { layout, v: Arc::clone(&self.v), weights, sponge, layers, spacing: grid.h, storage }
    }
}
