//! Density between two cells: the depth of an interface, the strength of its reflection, and the
//! equality of all directions.

use std::sync::Arc;

use gpusched::fd::equation::{Equation, by_name};
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{DensityAt, Model, Property, Values};
use gpusched::fd::plan::Options;
use gpusched::fd::survey::Receivers;

use testkit::Random;
use testmodels::dipole::{Bell, samples, stepped};
use testmodels::norms::relative_l2;
use testmodels::shots::{World, fire_with, model_for, plain_shot};

const SPEED: f32 = 2000.0;
/// Cells are cubes of this side in metres. A wavelength has 20 cells at the peak frequency, and 8
/// at 2.5 times that.
const H: f32 = 10.0;
const FREQUENCY: f64 = 10.0;
const DT: f32 = 0.0015;
const STEPS: usize = 260;
const SOURCE: [usize; 3] = [14, 16, 13];
/// The interface lies half a cell after the cells of this index.
const LAST: usize = 25;

/// Returns the error of an interface's reflection, and its amplitude, both in percent, and how far
/// the interface is too deep, in cells. The densities are those before and after the interface
/// along the axis. The medium is isotropic, whatever the equation.
///
/// The error is relative to the image solution. With one velocity the reflection coefficient is
/// `(after - before) / (after + before)` at all angles, so the reflection is the wave of the
/// source's mirror image.
fn reflection(
    equation: &'static dyn Equation,
    axis: usize,
    [before, after]: [f32; 2],
    density_at: DensityAt,
) -> [f64; 3] {
    let grid = Grid::new([40, 38, 41], [H; 3]).unwrap();
    let model = |after: f32| {
        let rho = |i: usize| {
            let cell = [i / grid.n[2] % grid.n[0], i / grid.n[2] / grid.n[0], i % grid.n[2]];
            if cell[axis] <= LAST { before } else { after }
        };
        let model = model_for(equation, grid.n, grid.h, |property| match property {
            Property::Vp => SPEED.into(),
            Property::Rho => (0..grid.cells()).map(rho).collect::<Vec<_>>().into(),
            _ => 0.0.into(),
        });
        Arc::new(Arc::into_inner(model).unwrap().with_density_at(density_at))
    };
    let bell = Bell { frequency: FREQUENCY, delay: 0.16 };
    let wavelet = samples(|t| bell.at(t), bell.delay, DT.into());
    let offsets = [[0, 5, -3], [-4, 0, 7], [6, -6, 0]];
    let receivers = offsets.map(|offset| [0, 1, 2].map(|a| SOURCE[a].checked_add_signed(offset[a]).unwrap()));
    let shot = plain_shot(SOURCE, wavelet.clone(), STEPS, receivers.to_vec());
    let options = Options { equation, ..Options::default() };
    let [with, without] = [after, before].map(|after| fire_with(&model(after), DT, &shot, options, 2).record);
    let found: Vec<f32> = with.iter().zip(without).map(|(with, without)| with - without).collect();

    let (h, coefficient) = (f64::from(H), f64::from((after - before) / (after + before)));
    // The source of `vti` is one cell.
    let poles = if equation.name() == "vti" { [(0, 1.0), (0, 0.0)] } else { [(0, -1.0), (2, 1.0)] };
    // The solution with the interface `deeper` cells below its place.
    let truth = |deeper: f64| -> Vec<f32> {
        let of = |receiver: [usize; 3]| {
            let poles = poles.map(|(below, sign)| {
                let mut image = SOURCE.map(|index| index as f64);
                image[2] += f64::from(below);
                image[axis] = 2.0 * (LAST as f64 + 0.5 + deeper) - image[axis];
                let square: f64 = (0..3).map(|a| (image[a] - receiver[a] as f64).powi(2)).sum();
                (h * square.sqrt(), sign * coefficient * h.powi(3))
            });
            stepped(&poles, &wavelet, 5.0 * FREQUENCY, SPEED.into(), DT.into(), STEPS)
        };
        receivers.into_iter().flat_map(of).collect()
    };
    let exact = truth(0.0);
    // Least squares of amplitude and depth; the reflection is linear in a small depth.
    let slope: Vec<f32> = truth(0.05).iter().zip(truth(-0.05)).map(|(a, b)| (a - b) / 0.1).collect();
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let (ee, es, ss) = (product(&exact, &exact), product(&exact, &slope), product(&slope, &slope));
    let (fe, fs) = (product(&found, &exact), product(&found, &slope));
    let determinant = ee * ss - es * es;
    let [amplitude, moved] = [fe * ss - fs * es, fs * ee - fe * es].map(|value| value / determinant);
    [100.0 * relative_l2(&found, &exact), 100.0 * amplitude, moved / amplitude]
}

/// The remaining error of the reflection is that of coarse sampling: it falls with the square of
/// the spacing.
#[test]
fn density_interface_lies_halfway_between_its_cells() {
    let contrasts = [[1000.0, 2400.0], [2400.0, 1000.0]];
    let equations = ["acoustic1", "vti"].map(|name| by_name(name).unwrap());
    for (equation, densities) in equations.into_iter().flat_map(|of| contrasts.map(|both| (of, both))) {
        let half_points = [0, 1, 2].map(|axis| (axis, DensityAt::HalfPoints, 0.0, 0.02));
        // The depth in the old kernels. The least squares are valid for small depths.
        let beside = 0.5 * f64::from(densities[0] / (densities[0] + densities[1]));
        for (axis, density_at, place, accepted) in
            half_points.into_iter().chain([(2, DensityAt::Cells, beside, 0.03)])
        {
            let [off, amplitude, deeper] = reflection(equation, axis, densities, density_at);
            println!(
                "interface, {equation:?}, {densities:?} across axis {axis}, {density_at:?}: off by {off:.2} %, \
                 amplitude {amplitude:.2} %, {deeper:.4} cells too deep"
            );
            assert!((deeper - place).abs() < accepted, "{deeper}, should be {place}");
            assert_eq!(off < 3.0, density_at == DensityAt::HalfPoints, "{off} %");
        }
    }
}

/// Returns a model mirrored along an axis.
fn mirrored(model: &Model, axis: usize) -> Arc<Model> {
    let grid = model.grid;
    let [nx, _, nz] = grid.n;
    let turned = |property: Property| {
        let values = model.get(property)?;
        let of = |i: usize| {
            let mut cell = [i / nz % nx, i / nz / nx, i % nz];
            cell[axis] = grid.n[axis] - 1 - cell[axis];
            values.at(grid.index(cell))
        };
        Some((property, Values::Volume((0..grid.cells()).map(of).collect())))
    };
    let properties = Property::ALL.into_iter().filter_map(turned);
    Arc::new(Model::of(grid, properties).unwrap().with_density_at(model.density_at))
}

/// Returns the relative difference of records in a random medium and in the medium mirrored along
/// an axis. The record ends before the arrival of reflections from the layers, which begin a cell
/// later at the far end.
fn asymmetry(equation: &'static dyn Equation, axis: usize, density_at: DensityAt) -> f64 {
    let (n, nt) = ([33, 31, 35], 48);
    let mut random = Random::new(41);
    let mut world = World::rough_for(equation, n, nt, Receivers::List(Vec::new()), &mut random);
    let model = Arc::into_inner(world.model).unwrap();
    world.model = Arc::new(model.with_density_at(density_at));
    let receivers = vec![[14, 15, 19], [18, 16, 16], [15, 18, 20], [16, 12, 14]];
    world.shot.source = [15, 16, 18];
    world.shot.receivers = Receivers::List(receivers.clone());
    let record = world.fire().record;
    let turn = |mut cell: [usize; 3]| {
        cell[axis] = n[axis] - 1 - cell[axis];
        cell
    };
    let mut turned = World { model: mirrored(&world.model, axis), ..world.clone() };
    turned.shot.source = turn(world.shot.source);
    if axis == 2 && equation.name() == "acoustic1" {
        // The lower pole of the dipole becomes the upper one.
        turned.shot.source[2] -= 2;
        turned.shot.amplitude = -turned.shot.amplitude;
    }
    turned.shot.receivers = Receivers::List(receivers.into_iter().map(turn).collect());
    relative_l2(&turned.fire().record, &record)
}

/// Rounding alone remains: the mirrored derivative adds its taps in the reverse order.
#[test]
fn mirrored_models_have_mirrored_records() {
    for equation in ["acoustic1", "vti"].map(|name| by_name(name).unwrap()) {
        for axis in 0..3 {
            for density_at in [DensityAt::HalfPoints, DensityAt::Cells] {
                let off = asymmetry(equation, axis, density_at);
                println!("mirrored along axis {axis}, {equation:?}, {density_at:?}: {off:.1e}");
                assert_eq!(off < 1e-5, density_at == DensityAt::HalfPoints, "{off:e}");
            }
        }
    }
}
