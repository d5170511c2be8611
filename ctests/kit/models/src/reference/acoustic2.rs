//! `d²p/dt² = vp² laplacian(p)`, with a sponge that multiplies both time levels at every step.

use super::grid::{Padded, Real};
use super::{Reference, Scheme, inject};

const STENCIL: [f64; 5] = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0];

pub struct Acoustic2<R> {
    grid: Padded,
    /// (vp dt)².
    courant: Vec<R>,
    rate: [R; 3],
    sponge: [Vec<f64>; 3],
    p: Vec<R>,
    /// One step before `p`; after an update the next one.
    other: Vec<R>,
}

impl<R: Real> Acoustic2<R> {
    pub fn new(reference: &Reference<'_>, grid: Padded) -> Self {
        let mut courant = grid.extend(&reference.medium.vp);
        for value in &mut courant {
            let step: R = *value * R::from(reference.dt);
            *value = step * step;
        }
        let rate = reference.medium.h.map(R::from).map(|h| R::round(1.0 / (h * h).wide()));
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

impl<R: Real> Scheme<R> for Acoustic2<R> {
    fn step(&mut self, source: &[(usize, R)]) {
        std::mem::swap(&mut self.p, &mut self.other);
        let Acoustic2 { grid, courant, rate, sponge, p, other } = self;
        inject(p, source);
        let s = STENCIL.map(|c| R::from(c as f32));
        grid.each(|_, at| {
            let second = |axis: usize| {
                let sum = |i: usize| p[at - i * grid.stride[axis]] + p[at + i * grid.stride[axis]];
                (1..5).fold(s[0] * p[at], |total, i| total + s[i] * sum(i)) * rate[axis]
            };
            let change = courant[at] * (second(2) + second(0) + second(1));
            other[at] = R::round(2.0 * p[at].wide() - other[at].wide() + change.wide());
        });
        for ([x, y, z], (p, next)) in grid.cells().zip(p.iter_mut().zip(other)) {
            for factor in [sponge[1][y], sponge[0][x], sponge[2][z]] {
                *p = R::round((*p).wide() * factor);
                *next = R::round((*next).wide() * factor);
            }
        }
    }

    fn pressure(&self) -> &[R] {
        &self.p
    }
}
