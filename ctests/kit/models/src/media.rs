//! Media and shots that look random and are the same on every run.

use std::sync::Arc;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::plan::Stencil;
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::verify::dt_max;
use gpusched::fd::wavelet::Wavelet;
use testkit::Random;

/// Every cell its own velocity, 1500 to 4500 m/s, and density, 1000 to 2500 kg/m³: as rough as a medium can be.
pub fn rough(n: [usize; 3], h: [f32; 3], random: &mut Random) -> Arc<Model> {
    let grid = Grid::new(n, h).unwrap();
    let vp = (0..grid.cells()).map(|_| random.between(1500.0, 4500.0)).collect();
    let rho = (0..grid.cells()).map(|_| random.between(1000.0, 2500.0)).collect();
    Arc::new(Model::new(grid, vp, Some(rho)).unwrap())
}

/// Nine tenths of what is stable.
pub fn time_step(model: &Model) -> f32 {
    (0.9 * dt_max(model, Stencil::Taylor)) as f32
}

/// The amplitude of a source whose velocities are denormal in a [`rough`] medium. Where denormal numbers
/// are kept, the pressure after some steps is a normal number.
pub const FAINT: f32 = 1e-36;

/// A shot with a wavelet that is shorter than it.
pub fn shot(random: &mut Random, n: [usize; 3], nt: usize, receivers: Receivers) -> Shot {
    let samples = (0..nt * 2 / 3).map(|_| random.between(-1.0, 1.0)).collect();
    Shot {
        source: random.cell(n),
        wavelet: Wavelet::from_samples(samples).unwrap(),
        amplitude: 10_000.0,
        nt,
        receivers,
        record_every: 1,
        snapshot_every: None,
        mute: None,
    }
}
