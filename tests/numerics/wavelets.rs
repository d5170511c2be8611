//! Compares source time functions with tables of the old kernel; tests refusals.

use gpusched::fd::wavelet::{Shape, Wavelet};

use testmodels::golden::{count, float, floats, folder, json, list};
use testmodels::norms::ulps;

#[test]
fn samples_are_those_of_the_old_kernel() {
    let tables = folder().join("tables");
    let values = floats(&tables.join("wavelets.bin"));
    let index = json(&tables.join("tables.json"));
    let entries = list(&index["wavelets"]["entries"]);
    assert_eq!(entries.len(), 36);
    let mut worst = 0;
    for entry in entries {
        let (shape, nt) = (Shape::try_from(count(&entry["wtype"]) as i32).unwrap(), count(&entry["nt"]));
        let wavelet = Wavelet::new(shape, float(&entry["fm"]), float(&entry["dt"]), nt).unwrap();
        assert_eq!(wavelet.samples.len(), count(&entry["steps_on"]), "{entry}");
        let from = count(&entry["offset_floats"]);
        let (active, after) = values[from..from + nt].split_at(wavelet.samples.len());
        assert!(after.iter().all(|&v| v == 0.0), "{entry}");
        for (it, (&found, &truth)) in wavelet.samples.iter().zip(active).enumerate() {
            let ulps = ulps(found, truth);
            assert!(ulps <= 2, "{entry}: sample {it} is {found:e}, should be {truth:e}");
            worst = worst.max(ulps);
        }
    }
    println!("wavelets: at most {worst} ulp from the old kernel's");
}

#[test]
fn active_steps_are_those_of_the_old_kernel() {
    let index = json(&folder().join("tables/tables.json"));
    let entries = list(&index["steps_on"]);
    assert_eq!(entries.len(), 144);
    for entry in entries {
        let (fm, dt, steps) = (float(&entry[0]), float(&entry[1]), count(&entry[2]));
        for shape in 1..=6 {
            let wavelet = Wavelet::new(Shape::try_from(shape).unwrap(), fm, dt, 100_000).unwrap();
            assert_eq!(wavelet.samples.len(), steps, "{fm} Hz, {dt} s");
        }
    }
}

/// Exact time computes 24 more steps, and a monopole's rate reads two later samples.
#[test]
fn short_run_has_the_beginning_of_the_wavelet() {
    let whole = Wavelet::new(Shape::CutRicker, 20.0, 0.001, 1000).unwrap();
    let cut = Wavelet::new(Shape::CutRicker, 20.0, 0.001, 7).unwrap();
    assert!((7 + 24 + 2..whole.samples.len()).contains(&cut.samples.len()));
    assert_eq!(cut.samples, whole.samples[..cut.samples.len()]);
}

#[test]
fn every_accepted_frequency_gives_finite_samples() {
    for shape in (1..=6).map(|n| Shape::try_from(n).unwrap()) {
        for f in [1e-6, 1e-3, 1.0, 1e3, 1e9, 1e12] {
            let wavelet = Wavelet::new(shape, f, 0.01 / f, 1000).unwrap();
            assert!(wavelet.samples.iter().all(|v| v.is_finite()), "{shape:?} at {f} Hz");
            assert!(wavelet.samples.iter().any(|&v| v != 0.0), "{shape:?} at {f} Hz");
        }
    }
}

const WHOLE: [Shape; 3] = [Shape::Ricker, Shape::GaussianDerivative, Shape::Gaussian];

/// Wavelets are centred 1.25 periods after the first sample, with unit peak. The spectrum of a
/// Gaussian has no peak above 0, so the test compares that of its second derivative.
#[test]
fn whole_wavelets_begin_and_end_below_1e_5_and_have_their_peak_frequency() {
    for shape in WHOLE {
        for (f, dt) in [(10.0, 0.001f32), (25.0, 0.004), (3.0, 0.0007)] {
            let samples = Wavelet::new(shape, f, dt, 100_000).unwrap().samples;
            let peak = samples.iter().fold(0.0, |most: f32, v| most.max(v.abs()));
            // The peak may lie between two samples.
            assert!((0.9..=1.0).contains(&peak), "{shape:?}, {f} Hz: {peak}");
            let ends = [samples[0], samples[samples.len() - 1]];
            assert!(ends.iter().all(|v| v.abs() < 1e-5 * peak), "{shape:?}, {f} Hz: {ends:?}");
            let (dt, f) = (f64::from(dt), f64::from(f));
            // The centre of the energy.
            let power: f64 = samples.iter().map(|&v| f64::from(v).powi(2)).sum();
            let moment = samples.iter().enumerate().map(|(i, &v)| i as f64 * dt * f64::from(v).powi(2));
            let centre = moment.sum::<f64>() / power;
            assert!((centre - 1.25 / f).abs() < 1e-4 / f, "{shape:?}, {f} Hz: {centre} s");
            let size = |hz: f64| {
                let part = |sample: (usize, &f32)| {
                    let (sin, cos) = (std::f64::consts::TAU * hz * dt * sample.0 as f64).sin_cos();
                    (f64::from(*sample.1) * cos, f64::from(*sample.1) * sin)
                };
                let all =
                    samples.iter().enumerate().map(part).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                all.0.hypot(all.1) * if shape == Shape::Gaussian { hz * hz } else { 1.0 }
            };
            assert!([0.97, 1.03].iter().all(|off| size(f * off) < size(f)), "{shape:?}, {f} Hz");
        }
    }
}

#[test]
fn whole_wavelets_are_derivatives_of_each_other() {
    let of = |shape, f| Wavelet::new(shape, f, 1e-3, 10_000).unwrap().samples;
    let (f, dt) = (8.0f32, 1e-3);
    let (gaussian, ricker) = (of(Shape::Gaussian, f), of(Shape::Ricker, f));
    for (i, near) in gaussian.windows(3).enumerate() {
        let [before, at, after] = [0, 1, 2].map(|i| f64::from(near[i]));
        let second =
            -(after - 2.0 * at + before) / (2.0 * (std::f64::consts::PI * f64::from(f) * dt).powi(2));
        assert!((second - f64::from(ricker[i + 1])).abs() < 2e-3, "{i}: {second}, {}", ricker[i + 1]);
    }
}
