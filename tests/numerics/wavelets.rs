//! Source time functions against tables written by the old kernel, and what is refused.

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

#[test]
fn a_short_run_cuts_the_wavelet() {
    let whole = Wavelet::new(Shape::Ricker, 20.0, 0.001, 1000).unwrap();
    let cut = Wavelet::new(Shape::Ricker, 20.0, 0.001, 7).unwrap();
    assert_eq!(cut.samples, whole.samples[..7]);
}

#[test]
fn what_cannot_be_a_wavelet_is_refused_in_words() {
    let ricker = |f, dt, nt| Wavelet::new(Shape::Ricker, f, dt, nt).unwrap_err().to_string();
    for f in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, -20.0, 1e-30, 1e30] {
        let said = ricker(f, 0.001, 100);
        assert!(said.contains("peak frequency") && said.contains(&format!("{f} Hz")), "{said}");
    }
    for dt in [f32::NAN, f32::INFINITY, 0.0, -0.001, 1e-12, f32::MIN_POSITIVE / 8.0] {
        let said = ricker(20.0, dt, 100);
        assert!(said.starts_with("dt is") && said.contains("at least"), "{said}");
    }
    assert!(ricker(20.0, 0.001, 0).starts_with("nt is 0"));
    for number in [i32::MIN, -1, 0, 7, i32::MAX] {
        let said = Shape::try_from(number).unwrap_err().to_string();
        assert!(said.contains(&number.to_string()) && said.contains("Ricker"), "{said}");
    }
    let own = |samples: &[f32]| Wavelet::from_samples(samples.to_vec());
    assert!(own(&[]).unwrap_err().to_string().contains("number of samples is 0"));
    assert!(own(&[0.0, f32::NAN]).unwrap_err().to_string().contains("sample 1 of the wavelet is NaN"));
    assert!(own(&[f32::INFINITY]).is_err());
    assert_eq!(own(&[1.0, -2.0]).unwrap().samples, [1.0, -2.0]);
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
