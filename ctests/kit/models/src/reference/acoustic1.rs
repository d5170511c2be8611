//! `rho du/dt = -grad p`, `dp/dt = -rho vp² div u`, with the pressure split by axis.

use super::grid::{Padded, backward, forward};
use super::pml::Pml;
use gpusched::fd::model::DensityAt;

use super::{Reference, Scheme, inject};

pub struct Acoustic1 {
    grid: Padded,
    pml: Pml,
    vp: Vec<f64>,
    density: Density,
    p: Vec<f64>,
    velocity: [Vec<f64>; 3],
    part: [Vec<f64>; 3],
}

impl Acoustic1 {
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

impl Scheme for Acoustic1 {
    fn step(&mut self, source: &[(usize, f64)]) {
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

    fn pressure(&self) -> &[f64] {
        &self.p
    }
}

pub struct Density {
    pub rho: Vec<f64>,
    pub at: DensityAt,
}

impl Density {
    pub fn new(reference: &Reference<'_>, grid: &Padded) -> Self {
        Density { rho: grid.extend(&reference.medium.rho), at: reference.density_at }
    }

    /// Returns the density between a cell and the next one along the axis of stride `s`.
    #[inline(always)]
    pub fn halfway(&self, at: usize, s: usize) -> f64 {
        match self.at {
            DensityAt::Cells => self.rho[at],
            DensityAt::HalfPoints => (self.rho[at] + self.rho[at + s]) / 2.0,
        }
    }
}
