//! The medium and a time step as the numbers that a step multiplies with.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::layout::Layout;
use crate::fd::isotropic_ball::at_most_root;
use crate::fd::model::{Model, Outline, Property, Values};
use crate::fd::one_pass::coefficients::Axis;
use crate::fd::pml::{d0, reference_cell};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Storage;

/// The properties of a medium as a step multiplies with them.
#[derive(Clone)]
pub struct OldTtiMaterial {
    pub model: Outline,
    pub layout: Layout,
    /// Velocity in m/s of the cell that sets the damping.
    reference: f32,
    columns: Arc<RotatedMedium>,
}

pub struct RotatedMedium {
    /// `vp²`.
    pub modulus: EdgeField,
    /// `1 + 2 epsilon`.
    pub e: EdgeField,
    /// `sqrt(1 + 2 delta)`, at most `sqrt(E)`.
    pub s: EdgeField,
    /// Cosine and sine of theta, then of phi.
    pub angles: [EdgeField; 4],
}

/// Shared by all shots of a plan.
pub struct OldTtiCoefficients {
    pub layout: Layout,
    pub columns: Arc<RotatedMedium>,
    /// Seconds a step.
    pub dt: f32,
    /// Coefficients of the derivative.
    pub stencil: [f32; HALF_WIDTH],
    /// The same along x, y, z, times the spacing of `axes`' rates over that of the axis.
    pub stencils: [[f32; HALF_WIDTH]; 3],
    /// For the fluxes and split pressures of x, y, z.
    pub axes: [Axis; 3],
    /// Metres from cell to cell.
    pub spacing: [f32; 3],
    /// Whether the medium is isotropic around the source.
    pub isotropic_source: bool,
}

impl OldTtiMaterial {
    /// # Errors
    /// Storage in 16 bits; no memory.
    pub fn new(model: &Model, pml: usize, storage: Storage) -> Result<Self> {
        if storage != Storage::Float32 {
            let accepted = "float32, the only one of equation tti";
            return Err(Error::argument("the storage of coefficients", storage.name(), accepted));
        }
        let layout = Layout::new(&model.grid, pml);
        let zero = Values::Constant(0.0);
        let of = |property| model.get(property).unwrap_or(&zero);
        let field = |what, values: &Values, value: &dyn Fn(f32) -> f32| {
            EdgeField::from_properties(&layout, storage, what, &[values], |cell| value(values.at(cell)))
        };
        let angle = |property, of_angle: fn(f64) -> f64| {
            field("the angles of the model", of(property), &|value| of_angle(f64::from(value)) as f32)
        };
        let [epsilon, delta] = [Property::Epsilon, Property::Delta].map(of);
        let stretch = |value: f32| 1.0 + 2.0 * value;
        let columns = RotatedMedium {
            modulus: field("vp² of the model", model.vp(), &|vp| vp * vp)?,
            e: field("epsilon of the model", epsilon, &stretch)?,
            s: EdgeField::from_properties(
                &layout,
                storage,
                "delta of the model",
                &[epsilon, delta],
                |cell| at_most_root(stretch(delta.at(cell)).sqrt(), stretch(epsilon.at(cell))),
            )?,
            angles: [
                angle(Property::Theta, f64::cos)?,
                angle(Property::Theta, f64::sin)?,
                angle(Property::Phi, f64::cos)?,
                angle(Property::Phi, f64::sin)?,
            ],
        };
        let reference = model.vp().at(model.grid.index(reference_cell(&model.grid, pml)));
        Ok(OldTtiMaterial { model: model.outline, layout, reference, columns: Arc::new(columns) })
    }

    /// Returns the coefficients of steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32, scheme: Scheme) -> OldTtiCoefficients {
        let OldTtiMaterial { layout, model: Outline { grid, fastest, .. }, .. } = *self;
        // The old kernel scales all derivatives of a flux by the spacing along the flux.
        let h = if scheme.old_rules { grid.h } else { [grid.h[0]; 3] };
        let reference = if scheme.old_rules { self.reference } else { fastest };
        let axis = |axis: usize| {
            let d0 = d0(reference, layout.pml, grid.h, axis, scheme.old_rules);
            Axis::new(grid.n[axis], layout.pml, dt, h[axis], d0)
        };
        let stencil = scheme.stencil.coefficients();
        let stencils = [0, 1, 2].map(|axis| stencil.map(|c| c * (h[axis] / grid.h[axis])));
        let axes = [axis(0), axis(1), axis(2)];
        let columns = self.columns.clone();
        let Scheme { isotropic_source, .. } = scheme;
        OldTtiCoefficients { layout, columns, dt, stencil, stencils, axes, spacing: grid.h, isotropic_source }
    }
}
