//! `d²p/dt² = vp² laplacian(p)`, with a sponge that multiplies both time levels at every step, or
//! with a PML.

use super::grid::Padded;
use super::{Reference, Scheme, inject};

pub const STENCIL: [f64; 5] = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0];

pub const FIRST: [f64; 4] = [4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0];

/// The PML of an axis: factors (a, b) of each index, and fields over the grid.
struct Pml {
    factors: Vec<[f64; 2]>,
    psi: Vec<f64>,
    zeta: Vec<f64>,
}

pub struct Acoustic2 {
    grid: Padded,
    /// (vp dt)².
    courant: Vec<f64>,
    rate: [f64; 3],
    sponge: [Vec<f64>; 3],
    pml: Option<[Pml; 3]>,
    p: Vec<f64>,
    /// Pressure one step before `p`; after an update that of the next step.
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
        let pml = reference.pml.then(|| {
            let (dt, fastest) =
                (f64::from(reference.dt), reference.medium.vp.iter().copied().fold(0.0, f32::max));
            [0, 1, 2].map(|axis| {
                let crossing = width as f64 * f64::from(reference.medium.h[axis]) / f64::from(fastest);
                let alpha = 0.3 / crossing;
                let factors = |i: usize| {
                    let inner = width + 4..grid.size[axis] - width - 4;
                    let depth = inner.start.saturating_sub(i).max((i + 1).saturating_sub(inner.end));
                    let d = 1.5 * 1e5f64.ln() / crossing * (depth as f64 / width as f64).powi(2);
                    let a = (-(d + alpha) * dt).exp();
                    [a, d / (d + alpha) * (a - 1.0)]
                };
                let factors = (0..grid.size[axis]).map(factors).collect();
                Pml { factors, psi: grid.zeros(), zeta: grid.zeros() }
            })
        });
        let ones = || [0, 1, 2].map(|axis| vec![1.0; grid.size[axis]]);
        let sponge = if pml.is_some() { ones() } else { sponge };
        Acoustic2 { courant, rate, sponge, pml, p: grid.zeros(), other: grid.zeros(), grid }
    }
}

impl Scheme for Acoustic2 {
    fn step(&mut self, source: &[(usize, f64)]) {
        std::mem::swap(&mut self.p, &mut self.other);
        let Acoustic2 { grid, courant, rate, sponge, pml, p, other } = self;
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
        for (axis, Pml { factors, psi, zeta }) in pml.iter_mut().flatten().enumerate() {
            let stride = grid.stride[axis];
            let derivative = |f: &dyn Fn(isize) -> f64| -> f64 {
                (1..5).map(|m| FIRST[m as usize - 1] * (f(m) - f(-m))).sum()
            };
            let before = psi.clone();
            grid.each(|cell, at| {
                let near = |m: isize| at.wrapping_add_signed(m * stride as isize);
                let there = |m: isize| factors[cell[axis].wrapping_add_signed(m)];
                let [a, b] = there(0);
                let second =
                    (1..5).fold(s[0] * p[at], |sum, m| sum + s[m as usize] * (p[near(m)] + p[near(-m)]));
                let first = derivative(&|m| p[near(m)]);
                let slope = derivative(&|m| there(m)[1]);
                psi[at] = a * before[at] + b * first;
                let change = derivative(&|m| there(m)[0] * before[near(m)]) + b * second + slope * first;
                zeta[at] = a * zeta[at] + b * (second + change);
                other[at] += courant[at] * rate[axis] * (change + zeta[at]);
            });
        }
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
