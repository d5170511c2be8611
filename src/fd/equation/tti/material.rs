//! The properties of a medium as a step multiplies with them.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::isotropic_ball::{IsotropicBall, at_most_root};
use crate::fd::model::{Model, Outline, Property, Values};
use crate::fd::pml::reference_cell;
use crate::fd::storage::Storage;

/// A number of the rotation: the angles that it depends on, and its value for theta and phi.
pub type Rotation = (&'static [Property], fn(f64, f64) -> f32);

/// The medium, for any time step. `N`: numbers of the rotation.
#[derive(Clone)]
pub struct TtiMaterial<const N: usize> {
    pub model: Outline,
    pub layout: Layout,
    /// Velocity in m/s of the cell that sets the damping of the old kernel.
    pub reference: f32,
    pub columns: Arc<TiltedMedium<N>>,
}

pub struct TiltedMedium<const N: usize> {
    pub rotation: [EdgeField; N],
    /// `vp²`.
    pub modulus: EdgeField,
    /// `1 + 2 epsilon`.
    pub e: EdgeField,
    /// `sqrt(1 + 2 delta)`, at most `sqrt(E)`.
    pub s: EdgeField,
}

impl<const N: usize> TtiMaterial<N> {
    /// # Errors
    /// Storage in 16 bits; no memory.
    pub fn of(model: &Model, pml: usize, storage: Storage, rotation: [Rotation; N]) -> Result<Self> {
        if storage != Storage::Float32 {
            let accepted = "float32, the only one of equation tti";
            return Err(Error::argument("the storage of coefficients", storage.name(), accepted));
        }
        let layout = Layout::new(&model.grid, pml);
        let zero = Values::Constant(0.0);
        let of = |property| model.get(property).unwrap_or(&zero);
        let field = |what, properties: &[&Values], value: &dyn Fn(usize) -> f32| {
            EdgeField::from_properties(&layout, storage, what, properties, value)
        };
        let (vp, [epsilon, delta]) = (model.vp(), [Property::Epsilon, Property::Delta].map(of));
        let [theta, phi] = [Property::Theta, Property::Phi].map(of);
        let stretch = |value: f32| 1.0 + 2.0 * value;
        let mut numbers = Vec::with_capacity(N);
        for (properties, number) in rotation {
            let properties: Vec<_> = properties.iter().map(|property| of(*property)).collect();
            numbers.push(field("the angles of the model", &properties, &|cell| {
                number(theta.at(cell).into(), phi.at(cell).into())
            })?);
        }
        let columns = TiltedMedium {
            rotation: numbers
                .try_into()
                .map_err(|_| Error::Internal("a rotation has lost numbers".into()))?,
            modulus: field("vp² of the model", &[vp], &|cell| vp.at(cell) * vp.at(cell))?,
            e: field("epsilon of the model", &[epsilon], &|cell| stretch(epsilon.at(cell)))?,
            s: field("delta of the model", &[epsilon, delta], &|cell| {
                at_most_root(stretch(delta.at(cell)).sqrt(), stretch(epsilon.at(cell)))
            })?,
        };
        let reference = model.vp().at(model.grid.index(reference_cell(&model.grid, pml)));
        Ok(TtiMaterial { model: model.outline, layout, reference, columns: Arc::new(columns) })
    }
}

impl<const N: usize> TiltedMedium<N> {
    /// Returns the ball around a user's cell in which the medium is isotropic.
    pub fn ball(&self, layout: &Layout, source: [usize; 3]) -> IsotropicBall {
        IsotropicBall::new(layout, &self.e, &self.s, source)
    }
}
