//! What a model and a time step become: everything that a step multiplies with.

use std::sync::Arc;

use super::layout::Layout;
use super::record::host_zeros;
use crate::backend::cpu::Buffer;
use crate::error::Result;
use crate::fd::model::{Model, Outline, WATER};
use crate::fd::pml::{Profiles, d0, reference_cell};
use crate::fd::stencil::{REACH, Stencil};

/// What of a model a step multiplies with, whatever the time step.
#[derive(Clone)]
pub struct Moduli {
    pub model: Outline,
    layout: Layout,
    /// Velocity of the cell that sets the damping.
    reference: f32,
    b: Arc<Columns>,
    kappa: Arc<Columns>,
}

/// Shared by all shots of a plan.
pub struct Coefficients {
    pub layout: Layout,
    /// 1 / rho.
    pub b: Arc<Columns>,
    /// (rho vp) vp.
    pub kappa: Arc<Columns>,
    /// Of the derivative.
    pub stencil: [f32; REACH],
    /// For x, y, z.
    pub axes: [Axis; 3],
    /// How large the tiles of each form are.
    pub tiles: [[usize; 2]; 2],
}

/// What depends on the index along one axis only.
pub struct Axis {
    /// dt / h, for where nothing is damped.
    pub rate: f32,
    /// `b` of the velocity's profile: what is kept of it.
    pub keep: Vec<f32>,
    /// `a` of the velocity's profile times dt / h.
    pub velocity_rate: Vec<f32>,
    /// `b - 1` of the pressure's profile: what is lost of its part.
    pub loss: Vec<f32>,
    /// `a` of the pressure's profile times dt / h.
    pub pressure_rate: Vec<f32>,
}

/// A field that continues beyond the user's grid as it is at its edge: one row for each of the
/// user's columns, or for all of them, padded along z only. Cells that are never updated have 0.
pub struct Columns {
    values: Buffer,
    /// Rows from column to column along x and y; 0 where all are the same.
    step: [usize; 2],
}

/// Rows along x and planes along y that a thread takes at most at a time, in two sweeps and in one pass: planes of such a
/// tile stay in a core's own cache while the sweep along y needs them. In one pass the first seven planes of a tile are
/// slopes only, so it goes further.
const TILES: [[usize; 2]; 2] = [[32, 16], [32, 64]];

impl Moduli {
    /// With layers of `pml` cells.
    pub fn new(model: &Model, pml: usize) -> Result<Self> {
        let grid = &model.grid;
        let layout = Layout::new(grid, pml);
        let reference = model.vp[grid.index(reference_cell(grid, pml))];
        let vp = &model.vp;
        let (b, kappa) = match &model.rho {
            Some(rho) => (
                Columns::new(&layout, "1/rho of the model", |i| 1.0 / rho[i])?,
                Columns::new(&layout, "rho vp² of the model", |i| rho[i] * vp[i] * vp[i])?,
            ),
            None => (
                Columns::uniform(&layout, 1.0 / WATER)?,
                Columns::new(&layout, "rho vp² of the model", |i| WATER * vp[i] * vp[i])?,
            ),
        };
        Ok(Moduli { model: model.outline, layout, reference, b: Arc::new(b), kappa: Arc::new(kappa) })
    }

    /// Bytes of the fields that [`Moduli::new`] makes, with density or without.
    #[cfg(test)]
    pub fn bytes(layout: &Layout, density: bool) -> u64 {
        let field = Buffer::bytes_of(layout.rows(layout.inner[0] * layout.inner[1]));
        field + if density { field } else { Buffer::bytes_of(layout.rows(1)) }
    }

    /// The layers' cells.
    pub fn pml(&self) -> usize {
        self.layout.pml
    }

    /// For steps of `dt` seconds.
    pub fn coefficients(&self, dt: f32) -> Coefficients {
        let Moduli { layout, model: Outline { grid, .. }, .. } = *self;
        let pml = layout.pml;
        let d0 = d0(self.reference, pml, grid.h);
        let axis = |axis: usize| {
            let rate = dt / grid.h[axis];
            let profiles = Profiles::new(grid.n[axis], pml, dt, d0);
            Axis {
                rate,
                velocity_rate: profiles.velocity.a.iter().map(|a| a * rate).collect(),
                keep: profiles.velocity.b,
                pressure_rate: profiles.pressure.a.iter().map(|a| a * rate).collect(),
                loss: profiles.pressure.b.iter().map(|b| b - 1.0).collect(),
            }
        };
        let (b, kappa) = (Arc::clone(&self.b), Arc::clone(&self.kappa));
        let stencil = Stencil::Taylor.coefficients();
        Coefficients { layout, b, kappa, stencil, axes: [axis(0), axis(1), axis(2)], tiles: TILES }
    }
}

impl Coefficients {
    /// Of moduli that nobody else shares.
    pub fn new(model: &Model, dt: f32, pml: usize) -> Result<Self> {
        Ok(Moduli::new(model, pml)?.coefficients(dt))
    }

    /// The same with another derivative.
    pub fn with(self, stencil: Stencil) -> Self {
        Coefficients { stencil: stencil.coefficients(), ..self }
    }

    /// Bytes allocated for them.
    pub fn bytes(&self) -> u64 {
        self.b.values.bytes() + self.kappa.values.bytes()
    }
}

impl Columns {
    /// `value` is asked for each of the user's cells by its position in the model.
    fn new(layout: &Layout, what: &str, value: impl Fn(usize) -> f32) -> Result<Self> {
        let [nx, ny, nz] = layout.inner;
        let mut values = Buffer::zeroed(layout.rows(nx * ny), what)?;
        for column in 0..nx * ny {
            let row = &mut values[layout.row(column)..][..layout.padded[2]];
            for (z, to) in row.iter_mut().enumerate().filter(|(z, _)| layout.active(2).contains(z)) {
                *to = value(column * nz + z.saturating_sub(layout.pml).min(nz - 1));
            }
        }
        Ok(Columns { values, step: [1, nx] })
    }

    fn uniform(layout: &Layout, value: f32) -> Result<Self> {
        let mut values = Buffer::zeroed(layout.rows(1), "a row of coefficients")?;
        let row = layout.row(0);
        values[row..][layout.active(2)].fill(value);
        Ok(Columns { values, step: [0, 0] })
    }

    /// How many rows there are.
    fn rows(&self, layout: &Layout) -> usize {
        if self.step == [0, 0] { 1 } else { layout.inner[0] * layout.inner[1] }
    }

    /// Values from column to column along x and y, where rows are `pitch` values apart.
    pub fn steps(&self, pitch: usize) -> [usize; 2] {
        self.step.map(|step| step * pitch)
    }

    /// How many values they are in another layout of the same grid.
    pub fn len_in(&self, to: &Layout) -> usize {
        to.rows(self.rows(to))
    }

    /// Their rows as they lie in another layout of the same grid.
    pub fn copied(&self, from: &Layout, to: &Layout) -> Result<Vec<f32>> {
        let mut values = host_zeros(self.len_in(to), "coefficients on their way to a card")?;
        for row in 0..self.rows(from) {
            let len = from.padded[2];
            values[to.row(row)..][..len].copy_from_slice(&self.values[from.row(row)..][..len]);
        }
        Ok(values)
    }

    /// The values at the padded indices (x, y) from index `z` on, `len` of them.
    #[inline(always)]
    pub fn row(&self, layout: &Layout, [x, y, z]: [usize; 3], len: usize) -> &[f32] {
        let column = |axis: usize, index: usize| {
            index.saturating_sub(layout.pml).min(layout.inner[axis] - 1) * self.step[axis]
        };
        &self.values[layout.row(column(0, x) + column(1, y)) + z..][..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;

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
            let at = grid.index([clamp(x, 3), clamp(y, 4), clamp(z, 5)]);
            assert_eq!(c.kappa.row(&c.layout, [x, y, z], 1)[0], rho[at] * vp[at] * vp[at]);
            assert_eq!(c.b.row(&c.layout, [x, y, z], 1)[0], 1.0 / rho[at]);
        }
        for z in [0, 3, nz - 4, nz - 1] {
            let never_updated = [&c.b, &c.kappa].map(|columns| columns.row(&c.layout, [8, 8, z], 1)[0]);
            assert_eq!(never_updated, [0.0; 2]);
        }
        let model = Model::new(grid, vp, None).unwrap();
        let light = Coefficients::new(&model, 1e-3, 8).unwrap();
        assert_eq!(light.b.row(&light.layout, [2, 3, 4], 2), [1.0 / 1000.0; 2]);
        // Without a density 1/rho is a row.
        assert_eq!(c.bytes(), Moduli::bytes(&c.layout, true));
        assert_eq!(light.bytes(), Moduli::bytes(&c.layout, false));
        assert!(c.bytes() - light.bytes() > 4 * (12 - 1) * c.layout.padded[2] as u64);
    }
}
