//! Pseudo-acoustic VTI: horizontal velocities follow `p`, the vertical one follows `q`:
//! `dp/dt = -rho vp² ((1 + 2 epsilon) (du/dx + dv/dy) + sqrt(1 + 2 delta) dw/dz)`,
//! `dq/dt = -rho vp² (sqrt(1 + 2 delta) (du/dx + dv/dy) + dw/dz)`, with both split by axis.
//!
//! TTI of the old kernel: VTI of one density with derivatives rotated to the symmetry axis.
//! Derivatives at the half points of x, y and z are added as if they were at one point, and the
//! rotated ones are divided by the spacing, and damped by the profile, of the axis with their
//! number.

use super::acoustic1::Density;
use super::grid::{Padded, backward, forward};
use super::pml::Pml;
use super::thomsen::Thomsen;
use super::{Equation, Reference, Scheme, inject};

pub struct Anisotropic {
    grid: Padded,
    pml: Pml,
    vp: Vec<f64>,
    density: Density,
    thomsen: Thomsen,
    /// Directions of the rotated axes in each cell, for TTI.
    rotation: Option<Vec<[[f64; 3]; 3]>>,
    p: Vec<f64>,
    q: Vec<f64>,
    velocity: [Vec<f64>; 3],
    p_part: [Vec<f64>; 3],
    q_part: [Vec<f64>; 3],
}

impl Anisotropic {
    pub fn new(reference: &Reference<'_>, grid: Padded, source: [usize; 3]) -> Self {
        let medium = reference.medium;
        let vp = grid.extend(&medium.vp);
        let mut density = Density { rho: vec![1.0; vp.len()], at: reference.density_at };
        let mut rotation = None;
        if reference.equation == Equation::Tti {
            let angles = grid.extend(&medium.theta).into_iter().zip(grid.extend(&medium.phi));
            rotation = Some(angles.map(|(theta, phi)| axes(theta, phi)).collect());
        } else {
            density = Density::new(reference, &grid);
        }
        let three = || [(); 3].map(|()| grid.zeros());
        Anisotropic {
            pml: Pml::new(reference, &grid, &vp),
            density,
            thomsen: Thomsen::new(reference, &grid, source),
            rotation,
            p: grid.zeros(),
            q: grid.zeros(),
            velocity: three(),
            p_part: three(),
            q_part: three(),
            grid,
            vp,
        }
    }
}

fn axes(theta: f64, phi: f64) -> [[f64; 3]; 3] {
    let ((st, ct), (sp, cp)) = (theta.sin_cos(), phi.sin_cos());
    [[ct * cp, -ct * sp, -st], [sp, cp, 0.0], [st * cp, -st * sp, ct]]
}

impl Scheme for Anisotropic {
    fn step(&mut self, source: &[(usize, f64)]) {
        let Anisotropic { grid, pml, vp, density, thomsen, rotation, p, q, velocity, p_part, q_part } = self;
        inject(p, source);
        inject(q, source);
        let along = |axis: usize, at: usize, difference: fn(&[f64], usize, usize) -> f64, f: &[f64]| {
            let Some(axes) = rotation.as_deref() else { return difference(f, at, grid.stride[axis]) };
            (0..3).map(|k| axes[at][axis][k] * difference(f, at, grid.stride[k])).sum()
        };
        for axis in 0..3 {
            let (u, r) = (&mut velocity[axis], pml.rate[axis]);
            let f = if axis == 2 { &q } else { &p };
            grid.each(|index, at| {
                let [a, b] = pml.velocity[axis][index[axis]];
                let rho = density.halfway(at, grid.stride[axis]);
                u[at] = b * u[at] - a * r * along(axis, at, forward, f) / rho;
            });
            let (p_part, q_part, rho) = (&mut p_part[axis], &mut q_part[axis], &density.rho);
            grid.each(|index, at| {
                let [a, b] = pml.pressure[axis][index[axis]];
                let modulus = a * rho[at] * vp[at] * vp[at];
                let (e, c) = (thomsen.horizontal[at], thomsen.coupling[at]);
                let (of_p, of_q) = if axis == 2 { (c, 1.0) } else { (e, c) };
                let rate = r * along(axis, at, backward, u);
                p_part[at] = b * p_part[at] - modulus * of_p * rate;
                q_part[at] = b * q_part[at] - modulus * of_q * rate;
            });
        }
        grid.each(|_, at| {
            p[at] = p_part[0][at] + p_part[1][at] + p_part[2][at];
            q[at] = q_part[0][at] + q_part[1][at] + q_part[2][at];
        });
    }

    fn pressure(&self) -> &[f64] {
        &self.p
    }
}
