//! Sweeps through tiles: their bits depend neither on tiles, threads and instructions, nor on which cells are taken to be at
//! rest.

use std::sync::Arc;

use testkit::Random;

use super::acoustic1::Acoustic1;
use super::acoustic2::{Acoustic2Medium, Acoustic2Propagator};
use super::traits::Absorber;
use super::tti::TtiMaterial;
use super::vti::Vti;
use crate::backend::cpu::{Buffer, Rows, Team, TeamMember};
use crate::fd::grid::Grid;
use crate::fd::model::{Model, Property, Values};
use crate::fd::one_pass::coefficients::BulkMaterial;
use crate::fd::one_pass::equation::OnePassPropagator;
use crate::fd::plan::Options;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::tiled::equation::TiledEquation;
use crate::fd::tiled::partition::Partition;
use crate::fd::tiled::steps::TiledSteps;
use crate::fd::time_loop::cpu::CpuSteps;
use crate::fd::vector::isa::Isa;
use crate::fd::wavelet::{Shape, Wavelet};

/// How a grid is swept.
#[derive(Debug, Clone, Copy)]
struct Execution {
    tiles: [usize; 2],
    threads: usize,
    isa: Isa,
    large: bool,
}

/// A grid, layers, a source's cell, whether the model has a density.
type GridCase = ([usize; 3], usize, [usize; 3], bool);

fn shot(source: [usize; 3], samples: Vec<f32>, amplitude: f32, nt: usize) -> Shot {
    Shot {
        source,
        wavelet: Wavelet { samples },
        amplitude,
        nt,
        receivers: Receivers::Plane { iz: 0, every: [1, 1] },
        ..Shot::default()
    }
}

/// Takes `nt` steps of a shot, each in the next of `tilings` tilings, and returns all fields.
fn fields<E: TiledEquation>(
    steps: &TiledSteps<'_, E>,
    threads: usize,
    nt: usize,
    tilings: usize,
) -> Vec<Vec<f32>> {
    let run = |member: &TeamMember<'_>, _: Option<&()>| {
        let mut own = steps.own()?;
        (0..nt).try_for_each(|step| {
            steps.step(member, &mut own, step)?;
            if tilings > 1 { member.barrier_then(|| steps.retile((step + 1) % tilings)) } else { Ok(()) }
        })
    };
    Team::new(threads).unwrap().run(&(), run).unwrap();
    // SAFETY: no thread computes.
    steps.fields().into_iter().map(|field: Rows<'_>| unsafe { field.all() }.to_vec()).collect()
}

/// A check of one equation.
trait Check {
    fn run<E: TiledEquation>(&mut self, equation: &E, source: [usize; 3]);
}

/// Runs a check with all equations, in a random medium.
fn with_all((n, pml, source, density): GridCase, storage: Storage, seed: u64, check: &mut impl Check) {
    let mut random = Random::new(seed);
    let grid = Grid { n, h: [10.0, 11.0, 9.0] };
    let mut values =
        |low, high| Values::from((0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>());
    let stencil = if seed.is_multiple_of(2) { Stencil::Optimised } else { Stencil::Taylor };
    let rho = if density { values(1000.0, 2000.0) } else { 1000.0.into() };
    let vp = (Property::Vp, values(1500.0, 3000.0));
    let properties = [vp.clone(), (Property::Rho, rho)];
    let model = Model::of(grid, properties.clone()).unwrap();
    let acoustic1 = BulkMaterial::new(&model, pml, storage, false).unwrap();
    let c = acoustic1.coefficients(1e-3, stencil, false);
    check.run(&OnePassPropagator::<Acoustic1>::new(c, true), source);

    let anisotropy = [(Property::Epsilon, values(0.1, 0.3)), (Property::Delta, values(-0.1, 0.1))];
    let model = Model::of(grid, properties.into_iter().chain(anisotropy.clone())).unwrap();
    let vti = BulkMaterial::new(&model, pml, storage, true).unwrap();
    let c = vti.coefficients(1e-3, Options::default().stencil, false);
    let padded = source.map(|index| index + pml);
    check.run(&OnePassPropagator::<Vti>::new(c, true).around(padded), source);

    let model = Model::of(grid, [vp.clone()]).unwrap();
    for absorber in Absorber::ALL {
        let medium = Acoustic2Medium::new(&model, pml, storage, absorber).unwrap();
        let c = Arc::new(medium.coefficients(9e-4, stencil));
        match absorber {
            Absorber::Pml => check.run(&Acoustic2Propagator::<true>(c), source),
            Absorber::Sponge => check.run(&Acoustic2Propagator::<false>(c), source),
        }
    }
    if storage == Storage::Float32 {
        let is_tilted = !seed.is_multiple_of(3);
        let (theta, phi) =
            if is_tilted { (values(-1.5, 1.5), values(-3.0, 3.0)) } else { (0.4.into(), 0.0.into()) };
        let angles = [(Property::Theta, theta), (Property::Phi, phi)];
        let model = Model::of(grid, [vp].into_iter().chain(anisotropy).chain(angles)).unwrap();
        let scheme = Options { isotropic_source: !seed.is_multiple_of(5), ..Options::default() }.scheme();
        let c = TtiMaterial::new(&model, pml, storage).unwrap().coefficients(8e-4, scheme);
        check.run(&c.around(padded), source);
        let c = TtiMaterial::old(&model, pml, storage).unwrap().old_coefficients(8e-4, scheme);
        check.run(&c.around(padded), source);
    }
}

/// Returns a grid in tiles of some sizes.
fn cut<E: TiledEquation>(equation: &E, threads: usize, sizes: &[[usize; 2]]) -> Partition {
    Partition::new(equation.layout(), E::zones(equation.layout()), threads, sizes)
}

/// Each step uses the values at four neighbours on each side, and those that the step before stored.
const STEPS: usize = 4;

/// Returns all fields after steps from random pressures.
fn swept<E: TiledEquation>(
    equation: &E,
    source: [usize; 3],
    execution: Execution,
    seed: u64,
) -> Vec<Vec<f32>> {
    let layout = equation.layout();
    let shot = shot(source, vec![0.5; STEPS - 1], 1.0, STEPS);
    let partition = cut(equation, execution.threads, &[execution.tiles]);
    let mut all = equation.fields_at_rest().unwrap();
    let [x, y, z] = [0, 1, 2].map(|axis| layout.active(axis));
    let mut random = Random::new(seed);
    for pressure in all.iter_mut().step_by(2).take(E::PRESSURES) {
        for (x, y) in y.clone().flat_map(|y| x.clone().map(move |x| (x, y))) {
            let row = &mut pressure[layout.at([x, y, z.start])..][..z.len()];
            row.iter_mut().for_each(|p| *p = random.between(-1.0, 1.0));
        }
    }
    let steps = TiledSteps::new(equation, &partition, &shot, &mut all).with(execution.isa, execution.large);
    steps.resumed();
    fields(&steps, execution.threads, STEPS, 1)
}

/// Compares random executions with a sweep of one row at a time, in which no fluxes of one row remain for another.
struct EveryExecution<'a>(&'a mut Random, u64, String);

impl Check for EveryExecution<'_> {
    fn run<E: TiledEquation>(&mut self, equation: &E, source: [usize; 3]) {
        let EveryExecution(random, seed, case) = self;
        let fused: Vec<_> =
            Isa::all().into_iter().filter(|isa| isa.is_fused() == Isa::best().is_fused()).collect();
        let alone = Execution { tiles: [1, 1], threads: 1, isa: Isa::best(), large: false };
        let one_by_one = swept(equation, source, alone, *seed);
        for (columns, depth) in [(1000, 1000), (32, 64), (0, 0), (0, 0), (0, 0)] {
            let any = [1 + random.below(20), 1 + random.below(30)];
            let execution = Execution {
                tiles: if columns == 0 { any } else { [columns, depth] },
                threads: 1 + random.below(4),
                isa: fused[random.below(fused.len())],
                large: random.below(2) == 0,
            };
            let found = swept(equation, source, execution, *seed);
            for (number, (found, expected)) in found.iter().zip(&one_by_one).enumerate() {
                let differs = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
                assert_eq!(differs, None, "{}, field {number}, {case}, {execution:?}", equation.kind());
            }
        }
    }
}

#[test]
fn no_bit_depends_on_tiles_threads_and_instructions() {
    let mut random = Random::new(1);
    // Long along each axis, thin along each, and random ones.
    let fixed = [([1, 70, 1], 8), ([70, 1, 2], 8), ([2, 1, 70], 8), ([1, 1, 1], 31), ([9, 41, 17], 11)];
    let any = (0..10).map(|_| ([0; 3], 0));
    for (n, pml) in fixed.into_iter().chain(any) {
        let drawn = pml == 0;
        let n = if drawn { [30, 44, 40].map(|most| 1 + random.below(most)) } else { n };
        let pml = if drawn { 8 + random.below(8) } else { pml };
        let source = n.map(|n| random.below(n));
        let case = (n, pml, source, random.below(3) > 0);
        let seed = random.next();
        for storage in Storage::ALL {
            let mut check = EveryExecution(&mut random, seed, format!("{case:?}, {storage:?}"));
            with_all(case, storage, seed, &mut check);
        }
    }
}

/// A small grid whose axes all have a middle.
const SMALL: GridCase = ([19, 14, 33], 9, [4, 2, 16], true);

/// Returns all fields after 40 steps of a wavelet.
fn fields_of<E: TiledEquation>(equation: &E, amplitude: f32, isa: Isa, large: bool) -> Vec<Vec<f32>> {
    let wavelet = Wavelet::new(Shape::CutRicker, 30.0, 1e-3, 40).unwrap();
    let shot = shot(SMALL.2, wavelet.samples, amplitude, 40);
    let partition = equation.partition(2);
    let mut all = equation.fields_at_rest().unwrap();
    fields(&TiledSteps::new(equation, &partition, &shot, &mut all).with(isa, large), 2, 40, 1)
}

/// The fluxes of a source of 1e-36 are denormal, and so are pressures of `acoustic2` a few cells from one of 3e-38.
struct Flushed;

impl Check for Flushed {
    fn run<E: TiledEquation>(&mut self, equation: &E, _: [usize; 3]) {
        let has_fluxes = !equation.kind().starts_with("acoustic2");
        for (isa, large) in Isa::all().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let all = fields_of(equation, if has_fluxes { 1e-36 } else { 3e-38 }, isa, large);
            assert!(!all.iter().flatten().any(|value| value.is_subnormal()), "{}, {isa:?}", equation.kind());
            // The pressures after an even number of steps; the others still have the source in them.
            let mut pressures = all.iter().step_by(2).take(E::PRESSURES).flatten();
            assert_eq!(pressures.all(|value| *value == 0.0), has_fluxes, "{}, {isa:?}", equation.kind());
        }
    }
}

#[test]
fn denormal_numbers_are_flushed_with_all_instructions() {
    Storage::ALL.into_iter().for_each(|storage| with_all(SMALL, storage, 1, &mut Flushed));
}

/// Fused and separate rounding drift apart by some 1e-7; a wrong lane would be of order one.
struct Baseline;

impl Check for Baseline {
    fn run<E: TiledEquation>(&mut self, equation: &E, _: [usize; 3]) {
        let [narrow, wide] =
            [Isa::Baseline, Isa::best()].map(|isa| fields_of(equation, 1.0, isa, false).swap_remove(0));
        let norm = |a: &mut dyn Iterator<Item = f32>| a.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        let difference = norm(&mut narrow.iter().zip(&wide).map(|(a, b)| a - b));
        let relative = difference / norm(&mut narrow.iter().copied());
        assert!(relative < 2e-6, "{}: {relative}", equation.kind());
    }
}

#[test]
fn the_baseline_rounds_twice_at_most() {
    Storage::ALL.into_iter().for_each(|storage| with_all(SMALL, storage, 1, &mut Baseline));
}

/// Cells that are never updated stay at rest, and so do the values between rows.
struct Border;

impl Check for Border {
    fn run<E: TiledEquation>(&mut self, equation: &E, _: [usize; 3]) {
        let layout = equation.layout();
        let [nx, ny, _] = layout.padded;
        let all = fields_of(equation, 1.0, Isa::best(), false);
        for p in all.iter().take(2 * E::PRESSURES) {
            assert!(p.iter().any(|value| *value != 0.0));
            for row in 0..nx * ny {
                let active = layout.active(0).contains(&(row % nx)) && layout.active(1).contains(&(row / nx));
                let len = layout.pitch.min(p.len() - layout.row(row));
                for (z, value) in p[layout.row(row)..][..len].iter().enumerate() {
                    let moves = active && layout.active(2).contains(&z);
                    assert!(moves || value.to_bits() == 0, "{}, row {row}, {z}: {value}", equation.kind());
                }
            }
        }
    }
}

#[test]
fn nothing_moves_beyond_the_updated_cells() {
    Storage::ALL.into_iter().for_each(|storage| with_all(SMALL, storage, 1, &mut Border));
}

/// The front's smallest values are among the bits: a tile that is left out for one step loses them.
struct AtRest;

impl Check for AtRest {
    fn run<E: TiledEquation>(&mut self, equation: &E, source: [usize; 3]) {
        let partition = cut(equation, 2, &[[12, 16], [31, 9], [7, 40]]);
        // `all`: every cell is computed; `retiled`: every step has other tiles than the one before.
        let run = |all: bool, retiled: bool, silent: usize| {
            let samples = [vec![0.0; silent], vec![0.3, -0.7, 0.4]].concat();
            let shot = shot(source, samples, 1e4, silent + 12);
            let mut of = equation.fields_at_rest().unwrap();
            let steps = TiledSteps::new(equation, &partition, &shot, &mut of);
            if all {
                steps.resumed();
            }
            let bits = |field: Vec<f32>| field.into_iter().map(f32::to_bits).collect();
            let tilings = if retiled { 3 } else { 1 };
            let all = fields(&steps, 2, shot.nt, tilings).into_iter().map(bits);
            (all.collect::<Vec<Vec<u32>>>(), steps.computed())
        };
        let (whole, everything) = run(true, false, 0);
        assert_eq!(everything, 1.0);
        for retiled in [false, true] {
            let (part, computed) = run(false, retiled, 0);
            assert!(computed < 0.7, "{source:?}, retiled {retiled}: {computed}");
            assert!(part == whole, "{}, {source:?}, retiled {retiled}", equation.kind());
        }
        // Nothing is computed until the wavelet begins.
        let [early, late] = [0, 25].map(|silent| run(false, false, silent).1 * (silent + 12) as f64);
        assert!((early - late).abs() < 1e-9);
    }
}

#[test]
fn cells_at_rest_are_left_out_without_a_change_of_a_bit() {
    let n = [90, 50, 70];
    let [x, y, z] = n.map(|n| n - 1);
    for storage in Storage::ALL {
        for source in [[0, 0, 0], [x, y, z - 2], [44, 25, 2], [3, 47, 60]] {
            with_all((n, 9, source, true), storage, 2, &mut AtRest);
        }
    }
}

/// A tile of a partition for any number of threads is as wide.
struct ThreadBytes;

impl Check for ThreadBytes {
    fn run<E: TiledEquation>(&mut self, equation: &E, _: [usize; 3]) {
        for threads in [2, 7, 64] {
            let len = equation.scratch_len(&equation.partition(threads));
            assert_eq!(threads as u64 * Buffer::bytes_of(len), equation.thread_bytes(threads));
        }
    }
}

#[test]
fn bytes_of_threads_are_what_they_allocate() {
    for (n, pml) in [([1, 1, 1], 8), ([40, 9, 70], 13), ([7, 150, 31], 20)] {
        Storage::ALL
            .into_iter()
            .for_each(|storage| with_all((n, pml, [0; 3], true), storage, 1, &mut ThreadBytes));
    }
}
