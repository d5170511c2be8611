//! Pseudo-acoustic VTI: horizontal velocities follow `p`, the vertical one follows `q`:
//! `dp/dt = -rho vp² ((1 + 2 epsilon) (du/dx + dv/dy) + sqrt(1 + 2 delta) dw/dz)`,
//! `dq/dt = -rho vp² (sqrt(1 + 2 delta) (du/dx + dv/dy) + dw/dz)`, with both split by axis.

use super::acoustic1::Density;
use super::grid::{Padded, Real, backward, forward};
use super::pml::Pml;
use super::thomsen::Thomsen;
use super::{Reference, Scheme, inject};

pub struct Vti<R> {
    grid: Padded,
    pml: Pml<R>,
    vp: Vec<R>,
    density: Density<R>,
    thomsen: Thomsen<R>,
    p: Vec<R>,
    q: Vec<R>,
    velocity: [Vec<R>; 3],
    p_part: [Vec<R>; 3],
    q_part: [Vec<R>; 3],
}

impl<R: Real> Vti<R> {
    pub fn new(reference: &Reference<'_>, grid: Padded, source: [usize; 3]) -> Self {
        let vp = grid.extend(&reference.medium.vp);
        let three = || [(); 3].map(|()| grid.zeros());
        Vti {
            pml: Pml::new(reference, &grid, &vp),
            density: Density::new(reference, &grid),
            thomsen: Thomsen::new(reference, &grid, source),
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

impl<R: Real> Scheme<R> for Vti<R> {
    fn step(&mut self, source: &[(usize, R)]) {
        let Vti { grid, pml, vp, density, thomsen, p, q, velocity, p_part, q_part } = self;
        inject(p, source);
        inject(q, source);
        for axis in 0..3 {
            let (u, s, r) = (&mut velocity[axis], grid.stride[axis], pml.rate[axis]);
            let f = if axis == 2 { &q } else { &p };
            grid.each(|index, at| {
                let [a, b] = pml.velocity[axis][index[axis]];
                u[at] = b * u[at] - a * r * (forward(f, at, s) / density.halfway(at, s));
            });
            let (p_part, q_part, rho) = (&mut p_part[axis], &mut q_part[axis], &density.rho);
            grid.each(|index, at| {
                let [a, b] = pml.pressure[axis][index[axis]];
                let modulus = a * rho[at] * vp[at] * vp[at];
                let (e, c) = (thomsen.horizontal[at], thomsen.coupling[at]);
                let (of_p, of_q) = if axis == 2 { (c, R::from(1.0)) } else { (e, c) };
                p_part[at] = b * p_part[at] - modulus * of_p * r * backward(u, at, s);
                q_part[at] = b * q_part[at] - modulus * of_q * r * backward(u, at, s);
            });
        }
        grid.each(|_, at| {
            p[at] = p_part[0][at] + p_part[1][at] + p_part[2][at];
            q[at] = q_part[0][at] + q_part[1][at] + q_part[2][at];
        });
    }

    fn pressure(&self) -> &[R] {
        &self.p
    }
}
