//! The properties of a medium as a step multiplies with them.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fd::anisotropy::Anisotropy;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::model::{Model, Outline, Property};
use crate::fd::pml::reference_cell;
use crate::fd::storage::Storage;

/// A number of the rotation: the angles that it depends on, and its value for theta and phi.
pub type Rotation = (&'static [Property], fn(f64, f64) -> f32);

/// The medium, for any time step. `N`: numbers of the rotation.
pub struct TtiMaterial<const N: usize> {
    pub model: Outline,
    pub layout: Layout,
    /// Velocity in m/s of the cell that sets the damping of the old kernel.
    pub reference: f32,
    pub medium: Arc<TiltedMedium<N>>,
}

pub struct TiltedMedium<const N: usize> {
    pub rotation: [EdgeField; N],
    /// `vp²`.
    pub modulus: EdgeField,
    pub anisotropy: Anisotropy,
}

impl<const N: usize> TtiMaterial<N> {
    pub fn of(model: &Model, pml: usize, storage: Storage, rotation: [Rotation; N]) -> Result<Self> {
        if storage != Storage::Float32 {
            let accepted = "float32, the only one of equation tti";
            return Err(Error::argument("the storage of coefficients", storage.name(), accepted));
        }
        let layout = Layout::new(model.grid.n, pml);
        let of = |property| model.or_zero(property);
        let [vp, theta, phi] = [Property::Vp, Property::Theta, Property::Phi].map(of);
        let mut numbers = Vec::with_capacity(N);
        for (properties, number) in rotation {
            let properties: Vec<_> = properties.iter().map(|property| of(*property)).collect();
            let value = |cell| number(theta.at(cell).into(), phi.at(cell).into());
            let what = "the angles of the model";
            numbers.push(EdgeField::from_properties(&layout, storage, what, &properties, value)?);
        }
        let square = |cell| vp.at(cell) * vp.at(cell);
        let medium = TiltedMedium {
            rotation: numbers
                .try_into()
                .map_err(|_| Error::Internal("a rotation has lost numbers".into()))?,
            modulus: EdgeField::from_properties(&layout, storage, "vp² of the model", &[vp], square)?,
            anisotropy: Anisotropy::new(model, &layout, storage)?,
        };
        let reference = vp.at(model.grid.index(reference_cell(&model.grid, pml)));
        Ok(TtiMaterial { model: model.outline, layout, reference, medium: Arc::new(medium) })
    }
}

impl<const N: usize> TiltedMedium<N> {
    /// Returns the fields in the order of the kernels.
    pub fn fields(&self) -> Vec<&EdgeField> {
        self.rotation.iter().chain([&self.modulus, &self.anisotropy.e, &self.anisotropy.s]).collect()
    }
}
