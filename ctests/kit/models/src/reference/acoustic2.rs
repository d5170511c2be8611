//! `d²p/dt² = vp² laplacian(p)`, with a sponge that multiplies both time levels at every step.

use super::grid::Padded;
use super::{Reference, Scheme, inject};

const STENCIL: [f64; 5] = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0];

pub struct Acoustic2 {
    grid: Padded,
    /// (vp dt)².
    courant: Vec<f64>,
    rate: [f64; 3],
    sponge: [Vec<f64>; 3],
    p: Vec<f64>,
    /// One step before `p`; after an update the next one.
    other: Vec<f64>,
}

impl Acoustic2 {
    pub fn new(reference: &Reference<'_>, grid: Padded) -> Self {
        let mut courant = grid.extend(&reference.medium.vp);
        courant.iter_mut().for_each(|value| *value = (*value * f64::from(reference.dt)).powi(2));
        let rate = reference.medium.h.map(|h| f64::from(h).powi(-2));
        let width = reference.layer;
        let sponge = [0, 1, 2].map(|axis| {
            let end = grid.size[axis] - width;
            let factor = |i: usize| {
                let depth = if i < width { width - i } else { i.saturating_sub(end) } as f64 / width as f64;
                1.0 - 0.25 * depth * depth
            };
            (0..grid.size[axis]).map(factor).collect()
        });
        Acoustic2 { courant, rate, sponge, p: grid.zeros(), other: grid.zeros(), grid }
    }
}

impl Scheme for Acoustic2 {
    fn step(&mut self, source: &[(usize, f64)]) {
        std::mem::swap(&mut self.p, &mut self.other);
        let Acoustic2 { grid, courant, rate, sponge, p, other } = self;
        inject(p, source);
        let s = STENCIL.map(|c| f64::from(c as f32));
        grid.each(|_, at| {
            let second = |axis: usize| {
                let sum = |i: usize| p[at - i * grid.stride[axis]] + p[at + i * grid.stride[axis]];
                (1..5).fold(s[0] * p[at], |total, i| total + s[i] * sum(i)) * rate[axis]
            };
            let change = courant[at] * (second(2) + second(0) + second(1));
            other[at] = 2.0 * p[at] - other[at] + change;
        });
        for ([x, y, z], (p, next)) in grid.cells().zip(p.iter_mut().zip(other)) {
            for factor in [sponge[1][y], sponge[0][x], sponge[2][z]] {
                *p *= factor;
                *next *= factor;
            }
        }
    }

    fn pressure(&self) -> &[f64] {
        &self.p
    }
}
