//! Coefficients of a step, from a model and a time step.

use std::sync::Arc;

use super::axis::Axis;
use crate::error::Result;
use crate::fd::anisotropy::Anisotropy;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::model::{DensityAt, Model, Outline, Property, Values, WATER};
use crate::fd::pml::reference_cell;
use crate::fd::stencil::{HALF_WIDTH, Stencil};
use crate::fd::storage::Storage;

/// Coefficients of a model that do not depend on the time step.
pub struct BulkMaterial {
    pub model: Outline,
    pub storage: Storage,
    layout: Layout,
    /// Velocity in m/s of the cell that sets the damping by the old rules.
    reference: f32,
    b: Arc<EdgeField>,
    kappa: Arc<EdgeField>,
    anisotropy: Option<Arc<Anisotropy>>,
}

/// Coefficients that all shots of a plan share.
pub struct Coefficients {
    pub layout: Layout,
    /// 1 / rho if that is constant. Else rho / 2: then `1 / (b[i] + b[i + beside])` is 1 / rho
    /// between two cells.
    pub b: Arc<EdgeField>,
    /// Distance in cells from a cell to the second of the two cells whose densities its half point
    /// averages; the first is the cell itself. 0 takes the cell's density only; `None` if the density
    /// is constant.
    pub beside: Option<usize>,
    /// (rho vp) vp.
    pub kappa: Arc<EdgeField>,
    /// E and S, of an equation with mixing coefficients.
    pub anisotropy: Option<Arc<Anisotropy>>,
    /// Coefficients of the derivative.
    pub stencil: [f32; HALF_WIDTH],
    /// Factors of x, y, z. Those of z have no `loss` and `pressure_rate` where its velocities are
    /// eliminated.
    pub axes: [Axis; 3],
    /// (dt / h)² of z at each padded index, in (s/m)²; 0 where velocities are not eliminated.
    pub squares: Vec<f32>,
    /// Cell spacing in m.
    pub spacing: [f32; 3],
    pub storage: Storage,
}

impl BulkMaterial {
    /// Computes the coefficients with layers of `pml` cells, E and S if the equation `mixes` with them.
    pub fn new(model: &Model, pml: usize, storage: Storage, mixes: bool) -> Result<Self> {
        let grid = &model.grid;
        let layout = Layout::new(grid.n, pml);
        let vp = model.vp();
        let rho = model.get(Property::Rho).unwrap_or(&Values::Constant(WATER));
        let reference = vp.at(grid.index(reference_cell(grid, pml)));
        let b = match rho {
            Values::Constant(rho) => EdgeField::uniform(&layout, storage, "rho of the model", 1.0 / rho)?,
            Values::Volume(rho) => {
                // Continued, so that no sum of two values is zero.
                EdgeField::new(&layout, storage, "rho of the model", |i| 0.5 * rho[i])?
                    .continued_along_z(&layout)
            }
        };
        let kappa = |i| rho.at(i) * vp.at(i) * vp.at(i);
        let kappa = EdgeField::from_properties(&layout, storage, "rho vp² of the model", &[rho, vp], kappa)?;
        let (b, kappa) = (Arc::new(b), Arc::new(kappa));
        let anisotropy = mixes.then(|| Anisotropy::new(model, &layout, storage).map(Arc::new)).transpose()?;
        Ok(BulkMaterial { model: model.outline, storage, layout, reference, b, kappa, anisotropy })
    }

    /// Returns the coefficients for time steps of `dt` seconds. `old_rules`: see `pml::d0`.
    pub fn coefficients(&self, dt: f32, stencil: Stencil, old_rules: bool) -> Coefficients {
        let BulkMaterial { layout, storage, model: Outline { grid, density_at, .. }, .. } = *self;
        let beside = (!self.b.is_uniform()).then_some(usize::from(density_at == DensityAt::HalfPoints));
        let mut axes = Axis::of_model(&self.model, layout.pml, dt, grid.h, self.reference, old_rules);
        let Axis { rate, factors } = &mut axes[2];
        let mut squares = vec![0.0; factors.keep.len()];
        let middle = Zones::new(&layout, 2).middle;
        squares[middle.clone()].fill(*rate * *rate);
        factors.loss[middle.clone()].fill(0.0);
        factors.pressure_rate[middle].fill(0.0);
        let (b, kappa) = (Arc::clone(&self.b), Arc::clone(&self.kappa));
        let (stencil, anisotropy) = (stencil.coefficients(), self.anisotropy.clone());
        let spacing = grid.h;
        Coefficients { layout, b, beside, kappa, anisotropy, stencil, axes, squares, spacing, storage }
    }
}

impl Coefficients {
    /// Computes the coefficients of a model in float32, with the Taylor stencil.
    #[cfg(test)]
    pub fn new(model: &Model, dt: f32, pml: usize) -> Result<Self> {
        let material = BulkMaterial::new(model, pml, Storage::Float32, false)?;
        Ok(material.coefficients(dt, Stencil::Taylor, false))
    }

    /// Returns 1/rho half a cell after a padded cell along an axis, rounded as in a step: equal
    /// densities give that of a constant.
    pub fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        let (b, mut next) = (self.b.value(&self.layout, cell), cell);
        next[axis] += self.beside.unwrap_or(0);
        let mean = || f64::from(1.0 / (b as f32 + self.b.value(&self.layout, next) as f32));
        if self.beside.is_some() { mean() } else { b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;

    /// Returns the value of a coefficient at a padded cell.
    fn at(c: &Coefficients, field: &EdgeField, cell: [usize; 3]) -> f32 {
        field.row(&c.layout, cell, 1).values(&mut Vec::new())[0]
    }

    #[test]
    fn coefficients_continue_beyond_the_grid_as_at_its_edge() {
        let grid = Grid { n: [3, 4, 5], h: [10.0; 3] };
        let vp: Vec<f32> = (0..60).map(|i| 1500.0 + i as f32).collect();
        let rho: Vec<f32> = (0..60).map(|i| 1000.0 + 7.0 * i as f32).collect();
        let model = Model::new(grid, vp.clone(), Some(rho.clone())).unwrap();
        let c = Coefficients::new(&model, 1e-3, 8).unwrap();
        let [nx, ny, nz] = c.layout.padded;
        for (x, y, z) in [(0, 0, 4), (8, 8, 8), (9, 11, 10), (nx - 1, ny - 1, nz - 5), (0, ny - 1, 9)] {
            let clamp = |i: usize, n: usize| i.saturating_sub(8).min(n - 1);
            let near = grid.index([clamp(x, 3), clamp(y, 4), clamp(z, 5)]);
            assert_eq!(at(&c, &c.kappa, [x, y, z]), rho[near] * vp[near] * vp[near]);
            assert_eq!(at(&c, &c.b, [x, y, z]), 0.5 * rho[near]);
        }
        for z in [0, 3, nz - 4, nz - 1] {
            let end = grid.index([0, 0, if z < 4 { 0 } else { 4 }]);
            assert_eq!([&c.b, &c.kappa].map(|field| at(&c, field, [8, 8, z])), [0.5 * rho[end], 0.0]);
        }
        let model = Model::new(grid, vp, None).unwrap();
        let light = Coefficients::new(&model, 1e-3, 8).unwrap();
        assert_eq!([4, 5].map(|z| at(&light, &light.b, [2, 3, z])), [1.0 / 1000.0; 2]);
        assert!(light.b.is_uniform() && !c.b.is_uniform());
    }

    /// Water, sediment, salt: the smallest and the largest value are exact, all others within half
    /// a step.
    #[test]
    fn sixteen_bits_lie_between_the_smallest_and_the_largest() {
        let grid = Grid { n: [2, 3, 5], h: [10.0; 3] };
        let values = |of: [f32; 3]| (0..30).map(|i| of[i / 2 % 3]).collect::<Vec<_>>();
        let three =
            Model::new(grid, values([1500.0, 2345.6, 4500.0]), Some(values([1000.0, 1987.6, 2200.0])));
        let two = Model::new(grid, values([1480.0, 1480.0, 2222.2]), None);
        for (model, exact) in [(three.unwrap(), false), (two.unwrap(), true)] {
            let full = Coefficients::new(&model, 1e-3, 8).unwrap();
            let c = BulkMaterial::new(&model, 8, Storage::Bits16, false).unwrap();
            let c = c.coefficients(1e-3, Stencil::Taylor, false);
            let gpu = c.layout.on_gpu();
            for (field, full_field) in [(&c.b, &full.b), (&c.kappa, &full.kappa)] {
                let scale = field.scale().unwrap();
                let [values, numbers] =
                    [full_field, field].map(|field| field.on_gpu(&c.layout, &gpu).unwrap());
                assert!(values.len() == 2 * numbers.len() && scale.low > 0.0);
                for cell in (0..30).map(|i| [8 + i / 5 % 2, 8 + i / 10, 8 + i % 5]) {
                    let (found, truth) = (at(&c, field, cell), at(&full, full_field, cell));
                    let most = 0.5 * f64::from(scale.step) + 6e-8 * f64::from(truth);
                    assert!((f64::from(found) - f64::from(truth)).abs() <= most, "{found}, not {truth}");
                    assert!(found == truth || !exact && truth != scale.low, "{found}, not {truth}");
                    // The same values are uploaded.
                    let [sx, sy] = field.steps(gpu.pitch);
                    let there = gpu.row(0) + (cell[0] - 8) * sx + (cell[1] - 8) * sy + cell[2];
                    let number = (numbers[there / 2].to_bits() >> (16 * (there % 2))) as u16;
                    assert_eq!([values[there], scale.value(number)], [truth, found]);
                }
            }
        }
        let air = Model::new(grid, values([330.0, 340.0, 5500.0]), Some(values([1.2, 1.5, 2600.0])));
        let why =
            BulkMaterial::new(&air.unwrap(), 8, Storage::Bits16, false).map(drop).unwrap_err().to_string();
        assert!(why.contains("rho of the model in 16 bits") && why.contains("float32"), "{why}");
    }
}
