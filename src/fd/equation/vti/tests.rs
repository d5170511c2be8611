//! Whole shots on the CPU against `acoustic1` in media that it can describe, and at the certain time step.

use std::sync::Arc;

use super::{Vti, VtiMaterial};
use crate::backend::cpu::{Team, TeamMember};
use crate::fd::control::Silent;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::acoustic1::Acoustic1Propagator;
use crate::fd::equation::traits::{Equation, Propagator, Scheme};
use crate::fd::grid::Grid;
use crate::fd::march::kernel_set::KernelSet;
use crate::fd::model::{Model, Property, Values};
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::one_pass::policy::Policy;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::tiled;
use crate::fd::tiled::equation::TiledEquation;
use crate::fd::tiled::steps::TiledSteps;
use crate::fd::time_loop::cpu_steps::CpuSteps;
use crate::fd::vector::lanes::Lanes;
use crate::fd::wavelet::{Shape, Wavelet};
use testkit::Random;

/// `acoustic1` with the source of `vti`.
#[derive(Clone)]
struct Monopole(Acoustic1Propagator);

impl Policy for Monopole {
    const NAME: &'static str = "monopole";
    const PRESSURES: usize = 1;
    const MIXING: usize = 0;
    const SOURCE: &'static [(usize, f32)] = &[(0, 1.0)];

    fn kernel_set() -> &'static KernelSet {
        Acoustic1Propagator::kernel_set()
    }

    fn coefficients(&self) -> &Arc<Coefficients> {
        &self.0.0
    }

    fn mixing(&self, number: usize) -> &EdgeField {
        self.0.mixing(number)
    }

    #[inline(always)]
    unsafe fn advance<L: Lanes>(p: [L::V; 2], increments: [L::V; 2], mixing: [L::V; 2]) -> [L::V; 2] {
        // SAFETY: by the caller's promise.
        unsafe { Acoustic1Propagator::advance::<L>(p, increments, mixing) }
    }
}

fn shot(source: [usize; 3], dt: f32, nt: usize) -> Shot {
    Shot {
        source,
        wavelet: Wavelet::new(Shape::Ricker, 0.04 / dt, dt, nt).unwrap(),
        amplitude: 10.0,
        nt,
        receivers: Receivers::Plane { iz: 0, every: [2, 3] },
        ..Shot::default()
    }
}

fn relative_l2(found: &[f32], truth: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(truth).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    difference / norm(&mut truth.iter().map(|v| f64::from(*v)))
}

/// Returns a model whose cells are random, with densities that jump by up to 20 times from cell to cell.
fn rough(n: [usize; 3], largest_epsilon: f32, seed: u64) -> Model {
    let grid = Grid { n, h: [10.0, 11.0, 9.0] };
    let mut random = Random::new(seed);
    let mut values = |low, high| (0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>();
    let epsilon = values(0.0, largest_epsilon);
    let below = values(0.0, 0.3);
    let delta: Vec<_> = epsilon.iter().zip(below).map(|(epsilon, below)| epsilon - below).collect();
    let properties = [
        (Property::Vp, values(1500.0, 3000.0)),
        (Property::Rho, values(300.0, 6000.0)),
        (Property::Epsilon, epsilon),
        (Property::Delta, delta),
    ];
    Model::of(grid, properties.map(|(property, values)| (property, Values::from(values)))).unwrap()
}

#[test]
fn without_anisotropy_records_are_those_of_acoustic1() {
    let isotropic = rough([23, 17, 29], 0.0, 1);
    let vp = isotropic.vp().clone();
    let rho = isotropic.get(Property::Rho).unwrap().clone();
    let properties = [(Property::Vp, vp), (Property::Rho, rho)];
    let model = Model::of(isotropic.grid, properties).unwrap();
    let team = Team::new(2).unwrap();
    for source in [[11, 8, 14], [0, 16, 28]] {
        let shot = shot(source, 1e-3, 120);
        let vti = VtiMaterial::new(&model, 9, Storage::Float32).unwrap();
        let vti = vti.coefficients(1e-3, Scheme::default());
        let found = vti.run_on_cpu(&shot, &team, &Silent).unwrap().0;
        let acoustic1 = Coefficients::new(&model, 1e-3, 9).unwrap();
        let expected = Monopole(Acoustic1Propagator(acoustic1.into()));
        let expected = tiled::run(&expected, &shot, &team, &Silent).unwrap().0;
        let error = relative_l2(&found.data, &expected.data);
        assert!(error < 2e-6, "{source:?}: {error:e}");
    }
}

/// Returns the first pressure over the grid after steps from a smooth one in all pressures, times `factors`.
fn after<E: TiledEquation>(equation: &E, factors: [f32; 2], nt: usize) -> Vec<f32> {
    let layout = equation.layout();
    let partition = equation.partition(2);
    let mut fields = equation.fields_at_rest().unwrap();
    let [nx, ny, nz] = layout.inner;
    let cells = || (0..ny).flat_map(move |y| (0..nx).flat_map(move |x| (0..nz).map(move |z| [x, y, z])));
    let place = |cell: [usize; 3]| layout.at(cell.map(|index| index + layout.pml));
    for (p, factor) in fields.iter_mut().step_by(2).take(E::PRESSURES).zip(factors) {
        for cell in cells() {
            let squared: f32 =
                (0..3).map(|axis| (cell[axis] as f32 - (layout.inner[axis] / 2) as f32).powi(2)).sum();
            p[place(cell)] = factor * (-squared / 18.0).exp();
        }
    }
    let shot = Shot { wavelet: Wavelet { samples: Vec::new() }, ..shot([0; 3], 1e-3, nt) };
    let steps = TiledSteps::new(equation, &partition, &shot, &mut fields);
    steps.resumed();
    let run = |member: &TeamMember<'_>, _: Option<&()>| {
        let mut own = steps.own()?;
        (0..nt).try_for_each(|step| steps.step(member, &mut own, step))
    };
    Team::new(2).unwrap().run(&(), run).unwrap();
    // SAFETY: no thread computes.
    let p = unsafe { steps.pressure(nt - 1).all() };
    cells().map(|cell| p[place(cell)]).collect()
}

/// Where epsilon is delta, `p = S q`, and `q` is an acoustic pressure on a grid whose x and y are shorter by S.
#[test]
fn elliptical_waves_are_those_of_a_stretched_grid() {
    let (n, dt, nt) = ([60, 60, 60], 1e-3, 60);
    let s = 1.3f32;
    let model = |h: [f32; 3], epsilon: f32| {
        let properties = [(Property::Vp, 2000.0), (Property::Epsilon, epsilon), (Property::Delta, epsilon)];
        Model::of(Grid { n, h }, properties.map(|(property, value)| (property, value.into()))).unwrap()
    };
    let vti = model([13.0, 13.0, 10.0], 0.5 * (s * s - 1.0));
    let vti = VtiMaterial::new(&vti, 8, Storage::Float32).unwrap();
    let vti = vti.coefficients(dt, Scheme { isotropic_source: false, ..Scheme::default() });
    let found = after(&vti, [s, 1.0], nt);
    let acoustic1 = Model::new(Grid { n, h: [10.0; 3] }, vec![2000.0; 60 * 60 * 60], None).unwrap();
    let acoustic1 = Coefficients::new(&acoustic1, dt, 8).unwrap();
    let expected = after(&Monopole(Acoustic1Propagator(acoustic1.into())), [s; 2], nt);
    let error = relative_l2(&found, &expected);
    assert!(error < 5e-6, "{error:e}");
}

#[test]
fn certain_time_step_is_stable() {
    let team = Team::new(2).unwrap();
    for (seed, storage) in Storage::ALL.into_iter().enumerate() {
        let model = rough([17, 14, 19], 0.5, 7 + seed as u64);
        for stencil in Stencil::ALL {
            let dt = (Vti.dt_sure(&model, stencil) * storage.stable(Vti.speed_factors())) as f32;
            assert!(f64::from(dt) < 0.999 * Vti.dt_max(&model, stencil), "densities jump");
            let vti = VtiMaterial::new(&model, 8, storage).unwrap();
            let vti = vti.coefficients(dt, Scheme { stencil, ..Scheme::default() });
            let gather = vti.run_on_cpu(&shot([8, 7, 9], dt, 1500), &team, &Silent).unwrap().0;
            let largest = |from: usize| {
                let traces = gather.data.chunks(gather.samples);
                traces.flat_map(|trace| &trace[from..from + 300]).fold(0.0f32, |most, v| most.max(v.abs()))
            };
            assert!(largest(1200) < largest(0), "{stencil:?}, {storage:?}: {} {}", largest(0), largest(1200));
        }
    }
}
