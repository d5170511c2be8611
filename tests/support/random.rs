//! Numbers and media that look random and are the same on every run.

use std::sync::Arc;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::plan::Stencil;
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::verify::dt_max;
use gpusched::fd::wavelet::Wavelet;

/// xorshift64*: a line of state is all that these tests need.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.unit() * end as f64) as usize
    }

    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit() as f32
    }

    pub fn cell(&mut self, n: [usize; 3]) -> [usize; 3] {
        n.map(|n| self.below(n))
    }
}

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
