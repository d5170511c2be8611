//! `rho du/dt = -grad p`, `dp/dt = -rho vp² div u`, with the pressure split by axis.

use super::grid::{Padded, Real, backward, forward};
use super::pml::Pml;
use gpusched::fd::model::DensityAt;

use super::{Reference, Scheme, inject};

pub struct Acoustic1<R> {
    grid: Padded,
    pml: Pml<R>,
    vp: Vec<R>,
    density: Density<R>,
    p: Vec<R>,
    velocity: [Vec<R>; 3],
    part: [Vec<R>; 3],
}

impl<R: Real> Acoustic1<R> {
    pub fn new(reference: &Reference<'_>, grid: Padded) -> Self {
        let vp = grid.extend(&reference.medium.vp);
        Acoustic1 {
            pml: Pml::new(reference, &grid, &vp),
            density: Density::new(reference, &grid),
            p: grid.zeros(),
            velocity: [(); 3].map(|()| grid.zeros()),
            part: [(); 3].map(|()| grid.zeros()),
            grid,
            vp,
        }
    }
}

impl<R: Real> Scheme<R> for Acoustic1<R> {
    fn step(&mut self, source: &[(usize, R)]) {
        let Acoustic1 { grid, pml, vp, density, p, velocity, part } = self;
        inject(p, source);
        for axis in 0..3 {
            let (u, s, r) = (&mut velocity[axis], grid.stride[axis], pml.rate[axis]);
            grid.each(|index, at| {
                let [a, b] = pml.velocity[axis][index[axis]];
                u[at] = b * u[at] - a * r * (forward(p, at, s) / density.halfway(at, s));
            });
            let (part, rho) = (&mut part[axis], &density.rho);
            grid.each(|index, at| {
                let [a, b] = pml.pressure[axis][index[axis]];
                part[at] = b * part[at] - a * rho[at] * vp[at] * vp[at] * r * backward(u, at, s);
            });
        }
        // The sum has no source value: the source acts through the velocities alone.
        grid.each(|_, at| p[at] = part[0][at] + part[1][at] + part[2][at]);
    }

    fn pressure(&self) -> &[R] {
        &self.p
    }
}

pub struct Density<R> {
    pub rho: Vec<R>,
    at: DensityAt,
}

impl<R: Real> Density<R> {
    pub fn new(reference: &Reference<'_>, grid: &Padded) -> Self {
        Density { rho: grid.extend(&reference.medium.rho), at: reference.density_at }
    }

    /// Returns the density between a cell and the next one along the axis of stride `s`.
    #[inline(always)]
    pub fn halfway(&self, at: usize, s: usize) -> R {
        match self.at {
            DensityAt::Cells => self.rho[at],
            DensityAt::HalfPoints => (self.rho[at] + self.rho[at + s]) / R::from(2.0),
        }
    }
}
