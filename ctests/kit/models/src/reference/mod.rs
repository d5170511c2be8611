//! Reference propagators of all equations, in double precision. They share only the description of
//! the shot with the library. A new [`Reference`] has the layer and the source of the old kernel.

mod acoustic1;
mod acoustic2;
mod anisotropic;
mod grid;
mod pml;
mod thomsen;
mod tilted;

use gpusched::fd::equation::{Absorber, with_absorber};
use gpusched::fd::model::{DensityAt, Model, Property, Values};
use gpusched::fd::survey::Shot;

use crate::shots::Shots;
use grid::Padded;

/// The ten digits of the old kernels.
#[expect(clippy::approx_constant)]
pub const PI: f64 = 3.141592653;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equation {
    /// First order, variable density.
    Acoustic1,
    /// Second order, constant density.
    Acoustic2,
    Vti,
    Tti,
}

/// Properties over a grid, `[iy][ix][iz]`.
#[derive(Debug, Clone)]
pub struct Medium {
    pub n: [usize; 3],
    pub h: [f32; 3],
    /// m/s, along the symmetry axis.
    pub vp: Vec<f32>,
    pub rho: Vec<f32>,
    pub epsilon: Vec<f32>,
    pub delta: Vec<f32>,
    /// Tilt of the symmetry axis from z, in radians.
    pub theta: Vec<f32>,
    /// Azimuth of the symmetry axis, in radians.
    pub phi: Vec<f32>,
}

impl From<&Model> for Medium {
    fn from(model: &Model) -> Medium {
        let of = |property, missing| {
            let value = |cell| model.get(property).map_or(missing, |values: &Values| values.at(cell));
            (0..model.grid.cells()).map(value).collect()
        };
        Medium {
            n: model.grid.n,
            h: model.grid.h,
            vp: of(Property::Vp, 0.0),
            rho: of(Property::Rho, 1000.0),
            epsilon: of(Property::Epsilon, 0.0),
            delta: of(Property::Delta, 0.0),
            theta: of(Property::Theta, 0.0),
            phi: of(Property::Phi, 0.0),
        }
    }
}

impl Equation {
    pub fn in_library(self) -> Option<&'static dyn gpusched::fd::equation::Equation> {
        let name = match self {
            Equation::Acoustic1 => "acoustic1",
            Equation::Acoustic2 => "acoustic2",
            Equation::Vti => "vti",
            Equation::Tti => "tti",
        };
        gpusched::fd::equation::by_name(name)
    }

    /// Returns the library's equation with the absorbing layer and the operators of the old kernel.
    pub fn of_old_kernel(self) -> Option<&'static dyn gpusched::fd::equation::Equation> {
        let absorber = if self == Equation::Acoustic2 { Absorber::Sponge } else { Absorber::Pml };
        with_absorber(self.in_library()?, absorber).ok()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Monopole,
    /// Negative in the shot's cell, positive two cells below it.
    Dipole,
}

#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    pub equation: Equation,
    pub medium: &'a Medium,
    /// s.
    pub dt: f32,
    pub layer: usize,
    /// Whether the layer of `Acoustic2` is a PML, and `Tti` has the operators of the old kernel.
    pub pml: bool,
    pub density_at: DensityAt,
    /// Whether layers are damped as if all spacings were the mean one, and all velocities that of
    /// one cell.
    pub old_rules: bool,
    /// Whether `Vti` and `Tti` have an isotropic ball around the source.
    pub taper: bool,
    pub source: Source,
}

impl<'a> Reference<'a> {
    pub fn new(equation: Equation, medium: &'a Medium, dt: f32) -> Self {
        let (layer, source) = match equation {
            Equation::Acoustic1 => (20, Source::Dipole),
            Equation::Acoustic2 => (50, Source::Dipole),
            Equation::Vti => (20, Source::Monopole),
            Equation::Tti => (40, Source::Monopole),
        };
        Reference {
            equation,
            medium,
            dt,
            layer,
            pml: equation == Equation::Tti,
            density_at: DensityAt::Cells,
            old_rules: true,
            taper: true,
            source,
        }
    }

    pub fn run(&self, shot: &Shot) -> Shots {
        let halo = if self.equation == Equation::Acoustic2 { 4 } else { 0 };
        let grid = Padded::new(self.medium.n, self.layer + halo);
        let padded @ [sx, sy, sz] = shot.padded_source(grid.margin);
        let mut scheme: Box<dyn Scheme> = match self.equation {
            Equation::Acoustic1 => Box::new(acoustic1::Acoustic1::new(self, grid)),
            Equation::Acoustic2 => Box::new(acoustic2::Acoustic2::new(self, grid)),
            Equation::Tti if !self.pml => Box::new(tilted::Tilted::new(self, grid, padded)),
            Equation::Vti | Equation::Tti => Box::new(anisotropic::Anisotropic::new(self, grid, padded)),
        };
        let at = grid.at(padded);
        let poles: &[(usize, f32)] = match self.source {
            Source::Monopole => &[(at, 1.0)],
            Source::Dipole => &[(at, -1.0), (grid.at([sx, sy, sz + 2]), 1.0)],
        };
        let receivers: Vec<_> = shot.receivers.cells(grid.n).map(|cell| grid.inside(cell)).collect();
        let narrow = |value: f64| value as f32;
        let mut traces = vec![Vec::new(); receivers.len()];
        let mut snapshots = Vec::new();
        for it in 0..shot.nt {
            let sample = shot.wavelet.samples.get(it).copied().unwrap_or(0.0);
            let value = |sign: f32| f64::from(sign * shot.amplitude) * f64::from(sample);
            let source: Vec<_> = poles.iter().map(|&(at, sign)| (at, value(sign))).collect();
            scheme.step(&source);
            let p = scheme.pressure();
            if it % shot.record_every == 0 {
                for (trace, &receiver) in receivers.iter().enumerate() {
                    let muted = shot.mute.as_ref().is_some_and(|steps| it < steps[trace] as usize);
                    traces[trace].push(if muted { 0.0 } else { narrow(p[receiver]) });
                }
            }
            if shot.snapshot_every.is_some_and(|every| it % every == 0) {
                snapshots.push((it, grid.crop(p).map(narrow).collect()));
            }
        }
        Shots { record: traces.concat(), samples: shot.samples(), snapshots }
    }
}

trait Scheme {
    /// Computes a step. `source`: cells in the padded grid, and the pressure that is added there.
    fn step(&mut self, source: &[(usize, f64)]);

    fn pressure(&self) -> &[f64];
}

fn inject(field: &mut [f64], source: &[(usize, f64)]) {
    for &(at, value) in source {
        field[at] += value;
    }
}
