//! Options that change the result, compared with the wave equation.

use std::sync::Arc;

use gpusched::fd::plan::{Options, Stencil};
use gpusched::fd::survey::{Shot, SourceKind};
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::fd::{grid::Grid, model::Model};

use testkit::Random;
use testmodels::dipole::{Bell, samples};
use testmodels::norms::relative_l2;
use testmodels::shots::{fire_with, homogeneous, plain_shot};

/// Cells per wavelength at 2.5 times the peak frequency, and about how many cells the wave travels.
const CELLS: f64 = 3.5;
const DISTANCE: usize = 80;

/// Returns the relative error of a Ricker wavelet after 23 of its shortest wavelengths along the z
/// axis, at a Courant number of 0.42.
///
/// The record is that of one pole. Both poles of the dipole emit the same wave along the axis, two
/// cells apart. So the sum over receivers every two cells contains the nearest pole's wave, and the
/// farthest's, which has not arrived yet.
fn after_23_wavelengths(options: Options) -> f64 {
    let (h, speed) = (10.0f32, 2000.0f32);
    let dt = 0.42 * h / speed;
    let frequency = f64::from(speed / h) / CELLS / 2.5;
    let bell = Bell { frequency, delay: 1.6 / frequency };
    let (c, step) = (f64::from(speed), f64::from(dt));
    let distance = DISTANCE as f64 * f64::from(h);
    let nt = ((distance / c + 2.0 * bell.delay) / step) as usize;
    let wavelet = samples(|t| bell.at(t), bell.delay, step);

    let source = [16, 16, 6];
    let beyond = (2.0 * bell.delay * c / f64::from(h)) as usize + 4;
    let depths = (DISTANCE + 2..DISTANCE + 2 + beyond).step_by(2);
    let receivers: Vec<_> = depths.map(|depth| [source[0], source[1], source[2] + depth]).collect();
    let model = homogeneous([33, 33, receivers[receivers.len() - 1][2] + 6], [h; 3], speed, 1700.0);
    let shots = fire_with(&model, dt, &plain_shot(source, wavelet, nt, receivers.clone()), options, 2);
    let record: Vec<f32> = (0..nt).map(|i| (0..receivers.len()).map(|r| shots.trace(r)[i]).sum()).collect();

    let volume = f64::from(h).powi(3);
    let scale = volume / (4.0 * std::f64::consts::PI * c * c * distance);
    let at = |i: usize| (scale * bell.second_derivative((i + 1) as f64 * step - distance / c)) as f32;
    relative_l2(&record, &(0..nt).map(at).collect::<Vec<_>>())
}

/// The error of each option alone is that of its dispersion relation; `docs/numerics.md` has the
/// numbers.
#[test]
fn a_coarse_grid_is_enough_with_all_options() {
    let plain = Options { pml: 12, ..Options::default() };
    let exact = Options { exact_time: true, ..plain };
    let optimised = Options { stencil: Stencil::Optimised, ..plain };
    let both = Options { exact_time: true, ..optimised };
    let cases = [
        ("plain", plain, 0.42..0.46),
        ("optimised stencil", optimised, 0.43..0.47),
        ("exact time", exact, 0.032..0.042),
        ("both", both, 0.003..0.01),
    ];
    for (name, options, accepted) in cases {
        let error = after_23_wavelengths(options);
        println!("23 wavelengths of 3.5 cells, {name}: {error:.4}");
        assert!(accepted.contains(&error), "{name}: {error}");
    }
}

/// Compares a rough medium with steps of a thousandth of the error. The correction does not include
/// the layers' damping.
#[test]
fn steps_in_time_leave_no_error_in_any_medium() {
    let n = [26, 22, 30];
    let mut random = Random::new(5);
    let grid = Grid::new(n, [10.0, 11.0, 9.0]).unwrap();
    let mut field = |low, high| (0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>();
    let (vp, rho) = (field(1800.0, 2600.0), field(1500.0, 2200.0));
    let model = Arc::new(Model::new(grid, vp, Some(rho)).unwrap());
    let (small, times) = (1.0 / 32768.0, 32);
    let (dt, nt) = (small * times as f32, 170);
    let bell = Bell { frequency: 28.0, delay: 0.06 };
    let pulse = |dt: f32| samples(|t| bell.at(t), bell.delay, dt.into());
    let receivers = vec![[20, 11, 15], [4, 4, 4], [13, 18, 26]];
    let shot = |dt: f32, nt: usize| plain_shot([12, 10, 8], pulse(dt), nt, receivers.clone());
    let options = Options { pml: 10, ..Options::default() };
    let fire = |exact_time: bool, record_every: usize| {
        let options = Options { exact_time, ..options };
        fire_with(&model, dt, &Shot { record_every, ..shot(dt, nt) }, options, 2).record
    };
    let fine = fire_with(&model, small, &shot(small, nt * times), options, 2);
    // Sample i of a record is at (i + 1) dt if the wavelet's sample i is at i dt.
    let truth = |every: usize| -> Vec<f32> {
        let of = |trace: usize| fine.trace(trace).iter().copied().skip(times - 1).step_by(every * times);
        (0..receivers.len()).flat_map(of).collect()
    };
    let [with, without] = [true, false].map(|exact_time| relative_l2(&fire(exact_time, 1), &truth(1)));
    let thinned = relative_l2(&fire(true, 5), &truth(5));
    println!(
        "rough medium: {without:.1e} without, {with:.1e} with exact time, {thinned:.1e} of every fifth sample"
    );
    assert!(without > 0.02, "{without:e}");
    assert!(with < 3e-4 && thinned < 1e-3, "{with:e}, {thinned:e}");
}

/// The correction needs steps after the end, which no output contains.
#[test]
fn record_has_the_requested_length() {
    let model = homogeneous([9, 8, 10], [10.0; 3], 2000.0, 1700.0);
    let plain = Shot {
        record_every: 3,
        mute: Some(vec![15]),
        ..plain_shot([4, 4, 4], vec![1.0, 2.0, 1.0], 31, vec![[5, 4, 7]])
    };
    let options = Options { exact_time: true, ..Options::default() };
    let shots = fire_with(&model, 1e-3, &plain, options, 2);
    assert_eq!((shots.record.len(), shots.samples), (11, 11));
    let (before, after) = shots.record.split_at(5);
    assert!(before.iter().all(|v| *v == 0.0) && after.iter().all(|v| *v != 0.0), "{:?}", shots.record);
}

/// No record depends on later samples of its source: neither with exact time, whose correction
/// reads later samples, nor with a monopole, whose rate is a difference. The accepted differences
/// cover float32 and the extrapolation of a caller's own samples. They are about twice the
/// differences at other lengths.
#[test]
fn a_record_is_the_beginning_of_a_longer_one_while_the_source_is_active() {
    let (nt, dt, frequency) = (44, 2e-3, 15.0);
    let model = homogeneous([16, 14, 18], [12.5; 3], 2000.0, 1700.0);
    let kinds = [
        (SourceKind::Pressure, true, 2e-2),
        (SourceKind::Monopole, false, 3e-4),
        (SourceKind::Monopole, true, 3e-4),
    ];
    for (kind, exact_time, guessed) in kinds {
        let options = Options { pml: 10, exact_time, ..Options::default() };
        let record = |shape: Shape, nt: usize, samples: usize| {
            let mut wavelet = Wavelet::new(shape, frequency, dt, nt).unwrap();
            wavelet.samples.truncate(samples);
            let shot = plain_shot([8, 7, 8], wavelet.samples, nt, vec![[8, 7, 11]]);
            fire_with(&model, dt, &Shot { kind: kind.clone(), ..shot }, options, 2).record
        };
        for shape in [Shape::CutRicker, Shape::Ricker, Shape::Gaussian] {
            let longer = record(shape, 2 * nt, usize::MAX);
            let largest = longer[..nt].iter().fold(0.0, |most: f32, v| most.max(v.abs()));
            for (samples, limit) in [(usize::MAX, 3e-4), (nt, guessed)] {
                let record = record(shape, nt, samples);
                let apart = record.iter().zip(&longer).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()));
                let error = apart / largest;
                println!(
                    "{}, {exact_time}, {shape:?}, {} samples: {error:.1e}",
                    kind.name(),
                    samples.min(2 * nt)
                );
                assert!(error < limit, "{}, {exact_time}, {shape:?}, {samples}: {error}", kind.name());
            }
        }
    }
}

/// A built-in wavelet that is cut at its end, with the record or one step after it, is not
/// extrapolated: its last samples are far from zero, and the next are zero. Exact time drops the
/// highest frequencies of the jump, so its records differ.
#[test]
fn a_cut_wavelet_that_ends_with_the_record_has_ended() {
    let (dt, frequency, ends) = (2e-3, 22.7, 44);
    let model = homogeneous([16, 14, 18], [12.5; 3], 2000.0, 1700.0);
    let kinds = [
        (SourceKind::Monopole, false, 1e-6),
        (SourceKind::Monopole, true, 3e-3),
        (SourceKind::Pressure, true, 3e-3),
    ];
    for (kind, exact_time, limit) in kinds {
        let options = Options { pml: 10, exact_time, ..Options::default() };
        let record = |nt: usize| {
            let wavelet = Wavelet::new(Shape::CutRickerTripleIntegral, frequency, dt, nt).unwrap();
            let shot = plain_shot([8, 7, 8], wavelet.samples, nt, vec![[8, 7, 8]]);
            fire_with(&model, dt, &Shot { kind: kind.clone(), ..shot }, options, 2).record
        };
        let longer = record(3 * ends);
        for nt in [ends - 1, ends] {
            let largest = longer[..nt].iter().fold(0.0, |most: f32, v| most.max(v.abs()));
            let apart = record(nt).iter().zip(&longer).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()));
            println!("{}, {exact_time}, {nt} steps: {:.1e}", kind.name(), apart / largest);
            assert!(apart / largest < limit, "{}, {exact_time}, {nt}: {}", kind.name(), apart / largest);
        }
    }
}
