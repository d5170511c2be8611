//! Pseudo-acoustic TTI of the old kernel: VTI of one density with derivatives rotated to the symmetry axis. Derivatives
//! at the half points of x, y and z are added as if they were at one point, and the rotated ones are divided by the
//! spacing, and damped by the profile, of the axis with their number.

use super::grid::{Padded, Real, backward, forward};
use super::pml::Pml;
use super::thomsen::Thomsen;
use super::{Reference, Scheme, inject};

pub struct Tti<R> {
    grid: Padded,
    pml: Pml<R>,
    vp: Vec<R>,
    thomsen: Thomsen<R>,
    rotation: Vec<[[R; 3]; 3]>,
    p: Vec<R>,
    q: Vec<R>,
    velocity: [Vec<R>; 3],
    p_part: [Vec<R>; 3],
    q_part: [Vec<R>; 3],
}

impl<R: Real> Tti<R> {
    pub fn new(reference: &Reference<'_>, grid: Padded, source: [usize; 3]) -> Self {
        let medium = reference.medium;
        let vp = grid.extend(&medium.vp);
        let angles = grid.extend::<R>(&medium.theta).into_iter().zip(grid.extend::<R>(&medium.phi));
        let three = || [(); 3].map(|()| grid.zeros());
        Tti {
            pml: Pml::new(reference, &grid, &vp),
            thomsen: Thomsen::new(reference, &grid, source),
            rotation: angles.map(|(theta, phi)| rotation(theta, phi)).collect(),
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

fn rotation<R: Real>(theta: R, phi: R) -> [[R; 3]; 3] {
    let ((st, ct), (sp, cp)) = (theta.sin_cos(), phi.sin_cos());
    let zero = R::default();
    [[ct * cp, zero - ct * sp, zero - st], [sp, cp, zero], [st * cp, zero - st * sp, ct]]
}

fn along<R: Real>(row: [R; 3], gradient: [R; 3]) -> R {
    row[0] * gradient[0] + row[1] * gradient[1] + row[2] * gradient[2]
}

impl<R: Real> Scheme<R> for Tti<R> {
    fn step(&mut self, source: &[(usize, R)]) {
        let Tti { grid, pml, vp, thomsen, rotation, p, q, velocity, p_part, q_part } = self;
        inject(p, source);
        inject(q, source);
        for axis in 0..3 {
            let (u, r) = (&mut velocity[axis], pml.rate[axis]);
            let f = if axis == 2 { &q } else { &p };
            grid.each(|index, at| {
                let [a, b] = pml.velocity[axis][index[axis]];
                let rate = along(rotation[at][axis], grid.stride.map(|s| forward(f, at, s)));
                u[at] = b * u[at] - a * r * rate;
            });
            let (p_part, q_part) = (&mut p_part[axis], &mut q_part[axis]);
            grid.each(|index, at| {
                let [a, b] = pml.pressure[axis][index[axis]];
                let modulus = a * vp[at] * vp[at];
                let (e, c) = (thomsen.horizontal[at], thomsen.coupling[at]);
                let (of_p, of_q) = if axis == 2 { (c, R::from(1.0)) } else { (e, c) };
                let rate = along(rotation[at][axis], grid.stride.map(|s| backward(u, at, s)));
                p_part[at] = b * p_part[at] - modulus * of_p * r * rate;
                q_part[at] = b * q_part[at] - modulus * of_q * r * rate;
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
