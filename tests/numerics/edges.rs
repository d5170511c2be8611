//! Compares grids of every shape with the double-precision reference; checks energy over many
//! steps.

use std::sync::Arc;

use gpusched::fd::equation::{Absorber, by_name, with_absorber};
use gpusched::fd::model::{DensityAt, Model, Property};
use gpusched::fd::plan::Options;
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::fd::{grid::Grid, survey::Shot};

use testkit::Random;
use testmodels::norms::{peak, peak_between, relative_l2};
use testmodels::reference::{Equation, Medium, Reference};
use testmodels::shots::{fire_with, plain_shot, rough_for};

/// Peak frequency times time step.
const PEAK: f32 = 0.04;

/// Returns the relative error of a record by rounding: `docs/numerics.md` derives it.
fn rounding(nt: usize) -> f64 {
    let turned = std::f64::consts::TAU * f64::from(PEAK) * nt as f64;
    f64::from(f32::EPSILON) / 2.0 * (turned / 2.0 + (nt as f64).sqrt())
}

/// Returns a random index at an edge along an axis of `n` cells: of the model, of the PML zone, or
/// the middle.
fn edge(n: usize, random: &mut Random) -> usize {
    let edges = [0, 1, 3, 4, 5, n / 2, n.saturating_sub(6), n.saturating_sub(5), n.saturating_sub(4), n - 1];
    edges[random.below(edges.len())].min(n - 1)
}

/// Returns a shot from an edge with receivers at edges. One is beside the source, so the record is
/// never weak.
fn shot_at_edges(n: [usize; 3], dt: f32, nt: usize, random: &mut Random) -> Shot {
    let source = n.map(|n| edge(n, random));
    let beside = [source[0], source[1], (source[2] + 1).min(n[2] - 1)];
    let mut receivers = vec![source, beside];
    receivers.extend((0..60).map(|_| n.map(|n| edge(n, random))));
    receivers.extend((0..20).map(|_| random.cell(n)));
    let mut shot = plain_shot(source, vec![0.0], nt, receivers);
    shot.wavelet = Wavelet::new(Shape::CutRicker, PEAK / dt, dt, nt).unwrap();
    shot.amplitude = 1e4;
    shot
}

fn compare(equation: Equation, n: [usize; 3], pml: usize, nt: usize, random: &mut Random) -> f64 {
    compare_with(equation, Absorber::Pml, n, pml, nt, [0; 3], random)
}

fn compare_with(
    equation: Equation,
    absorber: Absorber,
    n: [usize; 3],
    pml: usize,
    nt: usize,
    outside: [isize; 3],
    random: &mut Random,
) -> f64 {
    let mut h = [0; 3].map(|_| random.between(5.0, 20.0));
    if equation == Equation::Tti && absorber == Absorber::Pml {
        // The reference scales derivatives like the old kernel.
        h = [h[0]; 3];
    }
    let equation_of_library = with_absorber(equation.in_library().unwrap(), absorber).unwrap();
    let options = Options { equation: equation_of_library, pml, ..Options::default() };
    let density_at = [DensityAt::HalfPoints, DensityAt::Cells][random.below(2)];
    let model = Arc::into_inner(rough_for(options.equation, n, h, random)).unwrap();
    let model = Arc::new(model.with_density_at(density_at));
    let dt = (0.9 * options.dt_max(&model)) as f32;
    let mut shot = shot_at_edges(n, dt, nt, random);
    shot.outside = outside;
    for (axis, cells) in outside.into_iter().enumerate().filter(|(_, cells)| *cells != 0) {
        shot.source[axis] = if cells < 0 { 0 } else { n[axis] - 1 };
    }
    shot.snapshot_every = Some(nt / 2 - 1);
    let medium = Medium::from(&*model);
    let reference = Reference {
        layer: pml,
        pml: absorber == Absorber::Pml,
        density_at,
        old_rules: false,
        ..Reference::new(equation, &medium, dt)
    };
    let truth = reference.run(&shot);
    let found = fire_with(&model, dt, &shot, options, 2);
    let what = format!(
        "{equation:?}, {absorber:?}, {density_at:?}, {n:?} in {pml} from {:?} and {outside:?}",
        shot.source
    );
    let record = relative_l2(&found.record, &truth.record);
    let bound = rounding(nt);
    assert!(record <= bound, "{what}: {record:e}, and rounding gives {bound:e}");
    let largest = truth.snapshots.iter().map(|(_, field)| peak(field)).fold(0.0, f64::max);
    assert_eq!(found.snapshots.len(), truth.snapshots.len(), "{what}");
    for ((step, found), (_, truth)) in found.snapshots.iter().zip(&truth.snapshots) {
        let field = peak_between(found, truth) / largest;
        assert!(field <= 4.0 * bound, "{what}, the field at step {step}: {field:e}");
    }
    record / bound
}

#[test]
fn thin_grids_in_layers_of_any_width() {
    let mut random = Random::new(22);
    let mut worst = 0.0f64;
    for (turn, pml) in [8, 9, 13, 20, 27].into_iter().enumerate() {
        for thin in 1..=9 {
            let mut n = [11 + random.below(9), 20 + random.below(6), 26 + random.below(9)];
            n.rotate_left(random.below(3));
            n[(thin + turn) % 3] = thin;
            let nt = if pml > 20 { 40 } else { 60 };
            worst = compare(Equation::Acoustic1, n, pml, nt, &mut random).max(worst);
            if pml == 9 {
                for absorber in Absorber::ALL {
                    worst = compare_with(Equation::Tti, absorber, n, pml, nt, [0; 3], &mut random).max(worst);
                }
            }
        }
    }
    println!("edges, thin grids: at most {worst:.2} of the bound");
}

#[test]
fn sources_in_absorbing_layers() {
    let mut random = Random::new(26);
    let mut worst = 0.0f64;
    for equation in [Equation::Acoustic1, Equation::Vti, Equation::Tti] {
        for outside in [[0, 0, -1], [0, 0, 2], [-2, 0, 0], [1, 0, 0], [0, -2, 0], [1, 2, -1]] {
            worst =
                compare_with(equation, Absorber::Pml, [9, 10, 8], 11, 50, outside, &mut random).max(worst);
        }
    }
    println!("edges, sources in layers: at most {worst:.2} of the bound");
}

/// Compares each odd grid in layers of 8 with one equation, in layers of 13 with the other, and
/// each small grid with one. The equations share rows and tiles.
fn compare_odd_grids(first: usize) {
    let mut random = Random::new(23);
    let mut worst = 0.0f64;
    let odd =
        [[33, 9, 17], [10, 67, 12], [9, 10, 131], [41, 37, 24], [16, 16, 16], [65, 3, 64], [12, 13, 129]];
    // Slabs, rods and a cell; cubes without an interior.
    let small =
        [[3, 25, 21], [27, 2, 19], [1, 1, 30], [30, 1, 1], [1, 30, 1], [1, 1, 1], [8, 8, 8], [9, 10, 9]];
    let cases = [8, 13].into_iter().flat_map(|pml| odd.map(|n| (n, pml)));
    for (turn, (n, pml)) in cases.chain(small.map(|n| (n, 20))).enumerate() {
        let equation = [Equation::Acoustic1, Equation::Vti][(first + turn) % 2];
        worst = compare(equation, n, pml, 90, &mut random).max(worst);
    }
    println!("edges, odd sizes: at most {worst:.2} of the bound");
}

#[test]
fn grids_that_fit_no_vector_and_no_tile() {
    compare_odd_grids(0);
}

#[test]
fn odd_grids_with_the_other_equation() {
    compare_odd_grids(1);
}

/// Accepted rounding error of the scheme without increments, and of its weights.
const SECOND_ORDER: f64 = 3e-6;

/// The second-order equation. Its reference records the field before an update, so the shot begins
/// a step late.
#[test]
fn second_order_in_grids_of_any_size() {
    let mut random = Random::new(14);
    let cases = [([1, 1, 5], 54), ([3, 25, 131], 24), ([9, 5, 40], 12)];
    let cases = cases.into_iter().flat_map(|(n, pml)| Absorber::ALL.map(|absorber| (n, pml, absorber)));
    for (n, pml, absorber) in cases {
        let equation = with_absorber(by_name("acoustic2").unwrap(), absorber).unwrap();
        let options = Options { equation, pml, ..Options::default() };
        let h = [0; 3].map(|_| random.between(5.0, 20.0));
        let model = rough_for(options.equation, n, h, &mut random);
        let (dt, nt) = (0.9 * options.dt_max(&model) as f32, 90);
        let wavelet = Wavelet::new(Shape::CutRicker, 0.04 / dt, dt, nt).unwrap().samples;
        let source = random.cell(n);
        let is_pole =
            |cell: &[usize; 3]| cell[..2] == source[..2] && [0, 2].contains(&cell[2].abs_diff(source[2]));
        let receivers: Vec<_> = (0..40).map(|_| random.cell(n)).filter(|cell| !is_pole(cell)).collect();
        let shot = |samples| plain_shot(source, samples, nt, receivers.clone());
        let medium = Medium::from(&*model);
        // The library's layer includes four cells that remain at rest.
        let reference = Reference {
            layer: pml - 4,
            pml: absorber == Absorber::Pml,
            ..Reference::new(Equation::Acoustic2, &medium, dt)
        };
        let truth = reference.run(&shot(wavelet.clone()));
        let found = fire_with(&model, dt, &shot([vec![0.0], wavelet].concat()), options, 2);
        let error = relative_l2(&found.record, &truth.record);
        println!("random, second order, {n:?}, {absorber:?} from {source:?}: {error:.1e}");
        assert!(error <= SECOND_ORDER, "{n:?}, {absorber:?}: {error:e}");
    }
}

/// Returns a model whose neighbouring cells may differ fifteen times in velocity and twenty times
/// in density. No `rho vp²` is above the least density times the greatest velocity squared, because
/// the step's limit holds for its product with the `1/rho` of neighbours.
fn contrasts(n: [usize; 3], random: &mut Random) -> Arc<Model> {
    const RHO: [f64; 2] = [300.0, 6000.0];
    const VP: [f64; 2] = [400.0, 6000.0];
    let grid = Grid::new(n, [10.0, 12.0, 8.0]).unwrap();
    let mut between = |[low, high]: [f64; 2]| low * (high / low).powf(random.unit());
    let mut rho: Vec<_> = (0..grid.cells()).map(|_| between(RHO)).collect();
    let mut vp: Vec<_> = rho.iter().map(|rho| between([VP[0], VP[1] * (RHO[0] / rho).sqrt()])).collect();
    (rho[0], vp[0]) = (RHO[0], VP[1]);
    let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
    Arc::new(Model::new(grid, narrow(vp), Some(narrow(rho))).unwrap())
}

#[test]
fn energy_decreases_over_20000_steps() {
    let model = contrasts([10, 12, 11], &mut Random::new(24));
    check_energy(&model, Options { pml: 8, ..Options::default() });
    let second = with_absorber(by_name("acoustic2").unwrap(), Absorber::Pml).unwrap();
    let model = Arc::new(Model::of(model.grid, [(Property::Vp, model.vp().clone())]).unwrap());
    check_energy(&model, Options { equation: second, pml: 8, ..Options::default() });
    // A sponge of 8 cells, four of which damp, keeps waves of few cells for longer.
    let sponge = by_name("acoustic2").unwrap();
    check_energy(&model, Options { equation: sponge, pml: 10, ..Options::default() });
}

/// The source is in the model's own medium, so it radiates slow waves, too.
#[test]
fn anisotropic_energy_decreases_over_20000_steps() {
    let old = with_absorber(by_name("tti").unwrap(), Absorber::Pml).unwrap();
    for equation in [by_name("vti").unwrap(), by_name("tti").unwrap(), old] {
        let model = rough_for(equation, [7, 9, 8], [10.0, 12.0, 8.0], &mut Random::new(25));
        let options = Options { equation, pml: 8, isotropic_source: false, ..Options::default() };
        check_energy(&model, options);
    }
}

/// Runs a shot of 20,000 steps, and checks that its energy decreases.
fn check_energy(model: &Arc<Model>, options: Options) {
    let dt = (0.99 * options.dt_max(model)) as f32;
    let nt = 20_000;
    let mut shot = plain_shot([4, 6, 3], vec![0.0], nt, vec![[5, 5, 5]]);
    shot.wavelet = Wavelet::new(Shape::CutRicker, PEAK / dt, dt, nt).unwrap();
    shot.amplitude = 1e4;
    shot.snapshot_every = Some(50);
    // The energy that the pressure stores: p² / 2 kappa.
    let stored = |field: &[f32]| -> f64 {
        let rho = |at: usize| model.get(Property::Rho).map_or(1000.0, |rho| rho.at(at));
        let kappa = |at: usize| f64::from(rho(at)) * f64::from(model.vp().at(at)).powi(2);
        field.iter().enumerate().map(|(at, &p)| f64::from(p).powi(2) / kappa(at)).sum()
    };
    let run = fire_with(model, dt, &shot, options, 1);
    let energy: Vec<_> = run.snapshots.iter().map(|(_, field)| stored(field)).collect();
    // The source is off after 50 steps. Then energy only leaves, slowly, because contrasts trap it.
    // The share that the pressure stores varies by some percent.
    let most: Vec<_> = energy[1..].chunks(100).map(|part| part.iter().copied().fold(0.0, f64::max)).collect();
    let layer = options.equation.absorber();
    println!("{:?}, {layer:?}, most energy in each 5000 steps: {most:?}", options.equation);
    assert!(most.iter().all(|&part| part <= 1.05 * most[0]), "{most:?}");
    assert!(most[3] < 0.5 * most[0], "{most:?}");
}
