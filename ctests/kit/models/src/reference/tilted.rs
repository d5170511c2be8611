//! Pseudo-acoustic TTI with self-adjoint operators, as two equations of second order in time,
//! without increments: `d²P/dt² + 2 d dP/dt + d² P = vp² (E H + S V)` and the same of `Q` with `vp²
//! (S H + V)`, where `H = laplacian(P) - div(n n·grad P)` and `V = div(n n·grad Q)`.

use super::acoustic2::{FIRST, STENCIL};
use super::grid::{Padded, RIM};
use super::thomsen::Thomsen;
use super::{Reference, Scheme, inject};

pub struct Tilted {
    grid: Padded,
    /// (vp dt)².
    courant: Vec<f64>,
    spacing: [f64; 3],
    axis: Vec<[f64; 3]>,
    thomsen: Thomsen,
    /// Half the damping times dt.
    damping: Vec<f64>,
    /// P and Q, and their values of the step before.
    now: [Vec<f64>; 2],
    before: [Vec<f64>; 2],
}

impl Tilted {
    pub fn new(reference: &Reference<'_>, grid: Padded, source: [usize; 3]) -> Self {
        let (medium, dt) = (reference.medium, f64::from(reference.dt));
        let (theta, phi) = (grid.extend(&medium.theta), grid.extend(&medium.phi));
        let axis =
            |(theta, phi): (&f64, &f64)| [theta.sin() * phi.cos(), -theta.sin() * phi.sin(), theta.cos()];
        let vp = grid.extend(&medium.vp);
        let fastest =
            vp.iter().zip(grid.extend(&medium.epsilon)).map(|(vp, e)| vp * (1.0 + 2.0 * e.max(0.0)).sqrt());
        let fastest = fastest.fold(0.0, f64::max);
        let width = reference.layer;
        let of_axis = |cell: [usize; 3], axis: usize| {
            let end = grid.size[axis] - width;
            let depth = width.saturating_sub(cell[axis]).max((cell[axis] + 1).saturating_sub(end));
            // A wave that crosses the updated cells and returns has 3e-3 of its amplitude.
            let updated = (width - RIM) as f64;
            let squares = updated * (updated + 1.0) * (2.0 * updated + 1.0) / 6.0;
            let first = -0.5 * 3e-3f64.ln() * fastest / (squares * f64::from(medium.h[axis]));
            0.5 * dt * first * (depth as f64).powi(2)
        };
        Tilted {
            courant: vp.iter().map(|vp| (vp * dt).powi(2)).collect(),
            spacing: medium.h.map(f64::from),
            axis: theta.iter().zip(&phi).map(axis).collect(),
            thomsen: Thomsen::new(reference, &grid, source),
            damping: grid.cells().map(|cell| (0..3).map(|axis| of_axis(cell, axis)).sum()).collect(),
            now: [grid.zeros(), grid.zeros()],
            before: [grid.zeros(), grid.zeros()],
            grid,
        }
    }

    fn derivative(&self, f: &[f64], at: usize, axis: usize) -> f64 {
        let (stride, h) = (self.grid.stride[axis], self.spacing[axis]);
        (1..5).map(|m| FIRST[m - 1] / h * (f[at + m * stride] - f[at - m * stride])).sum()
    }

    /// Returns `div(n n·grad f)` of all cells.
    fn along_axis(&self, f: &[f64]) -> Vec<f64> {
        let mut flux = [(); 3].map(|()| self.grid.zeros());
        self.grid.each(|_, at| {
            let n = self.axis[at];
            let slope: f64 = (0..3).map(|axis| n[axis] * self.derivative(f, at, axis)).sum();
            (0..3).for_each(|axis| flux[axis][at] = n[axis] * slope);
        });
        let mut divergence = self.grid.zeros();
        self.grid.each(|_, at| {
            divergence[at] = (0..3).map(|axis| self.derivative(&flux[axis], at, axis)).sum();
        });
        divergence
    }
}

impl Scheme for Tilted {
    fn step(&mut self, source: &[(usize, f64)]) {
        let without = self.now.clone();
        self.now.iter_mut().for_each(|field| inject(field, source));
        let [of_p, of_q] = [0, 1].map(|nth| self.along_axis(&self.now[nth]));
        let mut next = [self.grid.zeros(), self.grid.zeros()];
        self.grid.each(|_, at| {
            let p = &self.now[0];
            let second = |axis: usize| {
                let stride = self.grid.stride[axis];
                let sum = |m: usize| p[at - m * stride] + p[at + m * stride];
                (1..5).fold(STENCIL[0] * p[at], |total, m| total + STENCIL[m] * sum(m))
                    / self.spacing[axis].powi(2)
            };
            let h = second(0) + second(1) + second(2) - of_p[at];
            let (e, s) = (self.thomsen.horizontal[at], self.thomsen.coupling[at]);
            let change = [e * h + s * of_q[at], s * h + of_q[at]];
            let a = 1.0 / (1.0 + self.damping[at]);
            let b = (1.0 - self.damping[at]) * a;
            for (nth, change) in change.into_iter().enumerate() {
                let (now, before) = (without[nth][at], self.before[nth][at]);
                next[nth][at] = 2.0 * b * now - b * b * before + a * a * self.courant[at] * change;
            }
        });
        self.before = without;
        self.now = next;
    }

    fn pressure(&self) -> &[f64] {
        &self.now[0]
    }
}
