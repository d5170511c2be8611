//! `vti` and `tti` against each other in turned media, and against the wave equation in elliptical
//! ones.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::sync::Arc;

use gpusched::fd::equation::{Absorber, Equation, by_name, with_absorber};
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{DensityAt, Model, Property, Values};
use gpusched::fd::plan::Options;
use gpusched::fd::survey::{Shot, SourceKind};

use testkit::Random;
use testmodels::dipole::{Bell, samples};
use testmodels::norms::{peak, peak_between, relative_l2};
use testmodels::shots::{fire_with, model_for, plain_shot, rough, time_step};

/// A complex number: real and imaginary part.
type Complex = [f64; 2];

/// Velocity, epsilon and delta of a cell of a medium whose symmetry axis is z.
type Medium<'a> = &'a mut dyn FnMut([usize; 3]) -> [f32; 3];

/// A shot in a grid whose axes can be exchanged.
struct Turned {
    n: [usize; 3],
    h: [f32; 3],
    dt: f32,
    shot: Shot,
    options: Options,
}

impl Turned {
    /// Returns the pressure after the last step. The grid, the source and the symmetry axis are
    /// turned so that this axis lies along `axis`; the order of the cells is that of the grid before
    /// it was turned.
    fn pressure(&self, medium: Medium<'_>, axis: usize, equation: &'static dyn Equation) -> Vec<f32> {
        let (n, cells) = (self.n, || indices(self.n));
        let upright: Vec<_> = cells().map(medium).collect();
        let turn = |cell: [usize; 3]| turned(cell, axis);
        let grid = Grid::new(turn(n), turned(self.h, axis)).unwrap();
        let values = |number: usize| {
            let mut values = vec![0.0; grid.cells()];
            cells().zip(&upright).for_each(|(cell, of)| values[grid.index(turn(cell))] = of[number]);
            Values::from(values)
        };
        let mut properties =
            vec![(Property::Vp, values(0)), (Property::Epsilon, values(1)), (Property::Delta, values(2))];
        if equation.name() == "tti" {
            let (theta, phi) = [(FRAC_PI_2, 0.0), (FRAC_PI_2, FRAC_PI_2), (0.0, 0.0)][axis];
            properties.push((Property::Theta, (theta as f32).into()));
            properties.push((Property::Phi, (phi as f32).into()));
        }
        let model = Arc::new(Model::of(grid, properties).unwrap());
        let mut shot = Shot { source: turn(self.shot.source), ..self.shot.clone() };
        shot.snapshot_every = Some(shot.nt - 1);
        let field = fire_with(&model, self.dt, &shot, Options { equation, ..self.options }, 2).snapshots;
        let (_, field) = field.last().unwrap();
        cells().map(|cell| field[grid.index(turn(cell))]).collect()
    }
}

/// Returns the cells of a grid, `[iy][ix][iz]`.
fn indices(n: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..n[1]).flat_map(move |y| (0..n[0]).flat_map(move |x| (0..n[2]).map(move |z| [x, y, z])))
}

/// Exchanges z and another axis.
fn turned<T>(mut of: [T; 3], axis: usize) -> [T; 3] {
    of.swap(axis, 2);
    of
}

fn tilted(absorber: Absorber) -> &'static dyn Equation {
    with_absorber(by_name("tti").unwrap(), absorber).unwrap()
}

/// Operators are the same for all axes, and the cosine of float32's pi/2 is 4e-8, so only rounding
/// differs, also in a medium of random cells. The old operators damp by other profiles in the
/// layers, which no wave reaches here.
#[test]
fn axis_along_x_or_y_gives_the_pressure_of_a_turned_grid() {
    for (absorber, nt) in [(Absorber::Sponge, 100), (Absorber::Pml, 30)] {
        let bell = Bell { frequency: 25.0, delay: 0.02 };
        let shot = plain_shot([17, 12, 15], samples(|t| bell.at(t), bell.delay, 1e-3), nt, Vec::new());
        let options = Options { pml: 9, isotropic_source: false, ..Options::default() };
        let run = Turned { n: [33, 25, 29], h: [10.0, 12.0, 9.0], dt: 1e-3, shot, options };
        let pressure = |axis: usize| {
            let mut random = Random::new(8);
            let mut medium = |_: [usize; 3]| {
                [[1500.0, 2800.0], [0.1, 0.3], [-0.1, 0.1]].map(|[a, b]| random.between(a, b))
            };
            run.pressure(&mut medium, axis, tilted(absorber))
        };
        let upright = pressure(2);
        for axis in [0, 1] {
            let error = relative_l2(&pressure(axis), &upright);
            println!("tti, {absorber:?}, axis along {}: {error:.1e}", ["x", "y"][axis]);
            assert!(error < 3e-6, "{absorber:?}, {axis}: {error:e}");
        }
    }
}

/// The old operators are those of `vti` where the axis is upright. The new ones have derivatives at
/// the cells, not at half points: the difference is dispersion, of eighth order in the spacing.
#[test]
fn upright_axis_gives_the_pressure_of_vti() {
    let bell = Bell { frequency: 16.0, delay: 0.07 };
    let wavelet = samples(|t| bell.at(t), bell.delay, 1.5e-3);
    let shot = Shot { kind: SourceKind::Monopole, ..plain_shot([30, 27, 31], wavelet, 100, Vec::new()) };
    let options = Options { pml: 8, ..Options::default() };
    let run = Turned { n: [60, 55, 63], h: [10.0, 11.0, 9.0], dt: 1.5e-3, shot, options };
    let mut medium = |cell: [usize; 3]| {
        let [x, y, z] = cell.map(|i| 0.15 * i as f32);
        [2000.0 + 200.0 * (x + y).sin(), 0.2 + 0.05 * (y - z).cos(), 0.06 + 0.04 * (x + z).sin()]
    };
    let mut pressure = |axis, equation| run.pressure(&mut medium, axis, equation);
    let truth = pressure(2, by_name("vti").unwrap());
    let cases = [(Absorber::Pml, &[2][..], 3e-6), (Absorber::Sponge, &[0, 1, 2], 1e-3)];
    for (absorber, axes, accepted) in cases {
        for &axis in axes {
            let error = relative_l2(&pressure(axis, tilted(absorber)), &truth);
            println!("tti, {absorber:?}, axis along {}, beside vti: {error:.1e}", ["x", "y", "z"][axis]);
            assert!(error < accepted, "{absorber:?}, {axis}: {error:e}");
        }
    }
}

/// With epsilon and delta of 0 both pressures of `vti` are that of `acoustic1`, layers included.
/// Only rounding differs, because `vti` adds the increments of x and y first: at most 2.3e-6 after 200
/// steps by the formula in `docs/numerics.md`.
#[test]
fn vti_without_anisotropy_gives_the_pressure_of_acoustic1() {
    let isotropic = rough([26, 23, 29], [10.0, 12.0, 9.0], &mut Random::new(51));
    let dt = time_step(&isotropic);
    let bell = Bell { frequency: f64::from(0.04 / dt), delay: f64::from(25.0 * dt) };
    let wavelet = samples(|t| bell.at(t), bell.delay, dt.into());
    let receivers = vec![[12, 11, 16], [0, 0, 0], [25, 3, 28], [7, 22, 2]];
    let shot = plain_shot([12, 11, 14], wavelet, 200, receivers);
    let shot = Shot { kind: SourceKind::Monopole, snapshot_every: Some(40), ..shot };
    for density_at in [DensityAt::HalfPoints, DensityAt::Cells] {
        let [truth, found] = ["acoustic1", "vti"].map(|name| {
            let options = Options { equation: by_name(name).unwrap(), pml: 10, ..Options::default() };
            let values = |property| isotropic.get(property).cloned().unwrap_or(0.0.into());
            let model = model_for(options.equation, isotropic.grid.n, isotropic.grid.h, values);
            let model = Arc::into_inner(model).unwrap().with_density_at(density_at);
            fire_with(&Arc::new(model), dt, &shot, options, 2)
        });
        let record = relative_l2(&found.record, &truth.record);
        let fields = truth.snapshots.iter().zip(&found.snapshots);
        let apart = fields.map(|((_, a), (_, b))| peak_between(b, a)).fold(0.0, f64::max);
        let field = apart / truth.snapshots.iter().map(|(_, field)| peak(field)).fold(0.0, f64::max);
        println!("vti without anisotropy, {density_at:?}: record {record:.1e}, fields {field:.1e}");
        assert!(record < 2e-6 && field < 2e-6, "{density_at:?}: {record:e}, {field:e}");
    }
}

/// An elliptical medium: epsilon is delta, and `1 + 2 delta` the square of `stretch`.
struct Ellipse {
    stretch: f64,
    speed: f64,
    /// The unit vector along the symmetry axis.
    axis: [f64; 3],
}

impl Ellipse {
    /// Returns the pressure of a wave of angular frequency `w` over the source's samples times the
    /// volume of a cell.
    ///
    /// With S for `stretch`, `d` for the derivative along the axis, and the source `s` in both
    /// pressures, `p - S q` is `(1 - S) s` for all time, so
    /// `p_tt = c² (S² (Lap - d²) + d²) p + s_tt + (S - 1) c² d² s`. Lengths across the axis over S
    /// turn this into the wave equation of an isotropic medium, and `δ` into `δ / S²`.
    fn pressure(&self, offset: [f64; 3], w: f64) -> Complex {
        let Ellipse { stretch: s, speed: c, axis } = *self;
        let along: f64 = offset.iter().zip(axis).map(|(x, n)| x * n).sum();
        let square: f64 = offset.iter().map(|x| x * x).sum();
        let r = (along * along + (square - along * along) / (s * s)).sqrt();
        // With `u = exp(-i k r) / r`, `u' = -a u` and `u'' = (a² + 1/r²) u`, where `a = 1/r + i k`.
        let k = w / c;
        let (first, second) = ([-1.0 / r, -k], [2.0 / (r * r) - k * k, 2.0 * k / r]);
        let slope = along / r;
        let curve = |part: usize| second[part] * slope * slope + first[part] / r * (1.0 - slope * slope);
        let [re, im] = [-k * k + (s - 1.0) * curve(0), (s - 1.0) * curve(1)];
        let (sin, cos) = (-k * r).sin_cos();
        let scale = 1.0 / (4.0 * PI * s * s * r);
        [scale * (re * cos - im * sin), scale * (re * sin + im * cos)]
    }
}

/// Returns a trace's component at `cycles` per sample. Sample `first` is at the time 0.
fn component(trace: &[f32], cycles: f64, first: usize) -> Complex {
    trace.iter().enumerate().fold([0.0; 2], |[re, im], (i, &v)| {
        let (sin, cos) = (TAU * cycles * (i + first) as f64).sin_cos();
        [re + f64::from(v) * cos, im - f64::from(v) * sin]
    })
}

/// Frequency in Hz of the narrow-band source, and its wavelength in m at [`SPEED`].
const FREQUENCY: f64 = 10.0;
const SPEED: f64 = 2000.0;
const WAVELENGTH: f64 = SPEED / FREQUENCY;

/// Receivers in all directions, one wavelength along the axis away and farther: their offsets from
/// the source in wavelengths.
const OFFSETS: [[f64; 3]; 6] =
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, -1.0], [1.0, 1.0, 0.0], [0.0, -1.0, 1.0]];

/// Returns the components at [`FREQUENCY`] of the source's samples times the volume of a cell, and
/// of the pressure at [`OFFSETS`]. `cells`: cells per [`WAVELENGTH`]. `medium`: the values of a
/// property by the offset from the source in wavelengths. Exact time leaves the error of space.
fn components(
    equation: &'static dyn Equation,
    cells: usize,
    medium: impl Fn(Property, [f64; 3]) -> f32,
) -> (Complex, [Complex; 6]) {
    let h = (WAVELENGTH / cells as f64) as f32;
    let dt = 0.35 * h / SPEED as f32;
    let (delay, half_width) = (2.0 / FREQUENCY, 2.0 / FREQUENCY);
    let pulse = |t: f64| {
        let cycles = FREQUENCY * (t - delay);
        (TAU * cycles).cos() * (-(PI * cycles / 2.0).powi(2)).exp()
    };
    let wavelet = samples(pulse, delay, dt.into());
    let nt = ((delay + 1.45 / FREQUENCY + half_width) / f64::from(dt)) as usize;
    let n = 13 * cells / 2;
    let source = [n / 2; 3];
    let from_source =
        |cell: [usize; 3]| [0, 1, 2].map(|axis| (cell[axis] as f64 - source[axis] as f64) / cells as f64);
    let receivers = OFFSETS.map(|offset| {
        offset.map(|along| (n / 2).checked_add_signed((along * cells as f64) as isize).unwrap())
    });
    let model = model_for(equation, [n; 3], [h; 3], |property| {
        Values::from(indices([n; 3]).map(|cell| medium(property, from_source(cell))).collect::<Vec<_>>())
    });
    let options =
        Options { equation, pml: 8, exact_time: true, isotropic_source: false, ..Options::default() };
    let shot = plain_shot(source, wavelet.clone(), nt, receivers.to_vec());
    let record = fire_with(&model, dt, &shot, options, 2);
    let cycles = FREQUENCY * f64::from(dt);
    let volume = f64::from(h).powi(3);
    let source = component(&wavelet, cycles, 0).map(|part| volume * part);
    (source, std::array::from_fn(|trace| component(record.trace(trace), cycles, 1)))
}

/// Returns the relative difference of components.
fn apart(found: &[Complex], truth: &[Complex]) -> f64 {
    let square = |of: &[Complex]| of.iter().flatten().map(|part| part * part).sum::<f64>();
    let differences: Vec<_> = found.iter().zip(truth).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]).collect();
    (square(&differences) / square(truth)).sqrt()
}

/// Returns the relative error of the pressure in an elliptical medium.
fn error_in_ellipse(equation: &str, [theta, phi]: [f32; 2], cells: usize) -> f64 {
    let stretch = 1.2;
    let [sin, cos] = [f64::from(theta).sin(), f64::from(theta).cos()];
    let axis = [sin * f64::from(phi).cos(), -sin * f64::from(phi).sin(), cos];
    let ellipse = Ellipse { stretch, speed: SPEED, axis };
    let medium = |property, _| match property {
        Property::Vp => SPEED as f32,
        Property::Rho => 1000.0,
        Property::Epsilon | Property::Delta => (0.5 * (stretch * stretch - 1.0)) as f32,
        Property::Theta => theta,
        Property::Phi => phi,
    };
    let ([re, im], found) = components(by_name(equation).unwrap(), cells, medium);
    let truth = OFFSETS.map(|offset| {
        let [a, b] = ellipse.pressure(offset.map(|along| along * WAVELENGTH), TAU * FREQUENCY);
        [a * re - b * im, a * im + b * re]
    });
    apart(&found, &truth)
}

/// The operators are of eighth order; a spacing of 5/8 divides the error by 43, and by 17 at sixth
/// order.
#[test]
fn elliptical_waves_converge_to_those_of_a_stretched_medium() {
    for (equation, angles) in [("vti", [0.0; 2]), ("tti", [0.6, 0.8])] {
        let [coarse, fine] = [5, 8].map(|cells| error_in_ellipse(equation, angles, cells));
        let order = (coarse / fine).ln() / 1.6f64.ln();
        println!("{equation}, elliptical: {coarse:.1e} at 5 cells, {fine:.1e} at 8, order {order:.2}");
        assert!(
            fine < 3e-4 && (7.0..9.0).contains(&order),
            "{equation}: {coarse:e}, {fine:e}, order {order}"
        );
    }
}

/// Both solve one equation, with derivatives of eighth order at the cells or at half points; 12 cells
/// in place of 8 divide the difference by 18, and by 11 at sixth order. Epsilon is delta near the
/// source: otherwise it radiates a slow wave, which no grid resolves.
#[test]
fn upright_axis_nears_vti_by_the_order_of_the_operators() {
    let medium = |property, [x, y, z]: [f64; 3]| {
        let away = 1.0 - (-(x * x + y * y + z * z).powi(4)).exp();
        let value = match property {
            Property::Vp => 1500.0 + 100.0 * (x + y - z).sin(),
            Property::Rho => 1000.0,
            Property::Epsilon => 0.15 + 0.1 * away,
            Property::Delta => 0.15 - 0.1 * away,
            Property::Theta | Property::Phi => 0.0,
        };
        value as f32
    };
    let [coarse, fine] = [8, 12].map(|cells| {
        let [(_, found), (_, truth)] =
            ["tti", "vti"].map(|name| components(by_name(name).unwrap(), cells, medium));
        apart(&found, &truth)
    });
    let order = (coarse / fine).ln() / 1.5f64.ln();
    println!("tti, upright, beside vti: {coarse:.1e} at 8 cells, {fine:.1e} at 12, order {order:.2}");
    assert!(fine < 5e-4 && (6.5..9.0).contains(&order), "{coarse:e}, {fine:e}, order {order}");
}
