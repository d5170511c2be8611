//! The dipole in a homogeneous medium against the solution of the wave equation.

use std::f64::consts::{PI, TAU};

use gpusched::fd::equation::{Equation, by_name};
use gpusched::fd::model::Property;
use gpusched::fd::plan::Options;

use testmodels::dipole::{Bell, exact, poles, samples, stepped};
use testmodels::norms::relative_l2;
use testmodels::shots::{fire, fire_with, homogeneous, model_for, plain_shot};

const SPEED: f32 = 2000.0;
const FREQUENCY: f64 = 10.0;

/// 20 cells per wavelength at the peak. The weak reflection from the layer is part of the error.
#[test]
fn a_record_is_the_solution_of_the_wave_equation() {
    let (h, dt, nt) = ([10.0, 12.0, 9.0f32], 0.0015f32, 245);
    let source = [39usize, 37, 40];
    let offsets = [[24, 0, 5], [-20, 12, -8], [0, -20, 16], [6, 5, -24], [0, 0, 26], [-15, -15, -15]];
    // Cut at 0.16 s from its centre, where it is 1e-11 of its peak.
    let bell = Bell { frequency: FREQUENCY, delay: 0.16 };
    let wavelet = samples(|t| bell.at(t), bell.delay, dt.into());

    let receivers = offsets.map(|offset| [0, 1, 2].map(|a| source[a].checked_add_signed(offset[a]).unwrap()));
    let shot = plain_shot(source, wavelet.clone(), nt, receivers.to_vec());
    let record = fire(&homogeneous([78, 74, 82], h, SPEED, 1700.0), dt, &shot).record;

    let (c, dt) = (f64::from(SPEED), f64::from(dt));
    let poles = offsets.map(|offset| poles(offset, h.map(f64::from)));
    let exact = poles.map(|poles| exact(&poles, bell, c, dt, nt)).concat();
    let stepped = poles.map(|poles| stepped(&poles, &wavelet, 5.0 * FREQUENCY, c, dt, nt)).concat();

    let total = relative_l2(&record, &exact);
    let time = relative_l2(&stepped, &exact);
    let space = relative_l2(&record, &stepped);
    println!("analytic: total {total:.1e}, of time {time:.1e}, of space {space:.1e}");
    // The error of second-order time steps, and almost no other.
    assert!((0.005..0.02).contains(&time), "{time:e}");
    assert!(space <= 1e-4, "{space:e}");
    assert!((total - time).abs() <= 1e-4, "{total:e} against {time:e}");
}

/// Returns the second differences of a wavelet. `acoustic2` computes with them what `acoustic1`
/// computes with the wavelet, because its source stays in the pressure.
fn second_differences(wavelet: &[f32]) -> Vec<f32> {
    let padded = [&[0.0; 2], wavelet, &[0.0; 2]].concat();
    let of = |w: &[f32]| f64::from(w[2]) - 2.0 * f64::from(w[1]) + f64::from(w[0]);
    padded.windows(3).map(|w| of(w) as f32).collect()
}

/// Returns the relative error at [`FREQUENCY`], one wavelength away in x and z, with so many cells
/// for a wavelength. The error is that of the component in the middle of a narrow band: in a wide
/// band, frequencies that the coarse grids hardly resolve would hide the order.
fn error_of_space(equation: &'static dyn Equation, cells: usize) -> f64 {
    let (c, wavelength) = (f64::from(SPEED), f64::from(SPEED) / FREQUENCY);
    let (delay, half_width) = (3.0 / FREQUENCY, 2.4 / FREQUENCY);
    let pulse = |t: f64| {
        let cycles = FREQUENCY * (t - delay);
        (TAU * cycles).cos() * (-(PI * cycles / 2.0).powi(2)).exp()
    };
    let h = (wavelength / cells as f64) as f32;
    // Around the middle of 6.5 wavelengths.
    let n = 6 * cells + cells.div_ceil(2);
    let first = (n - cells) / 2;
    let dt = 0.4 * h / SPEED;
    let nt = ((delay + 2f64.sqrt() / FREQUENCY + half_width) / f64::from(dt)) as usize;
    let wavelet = samples(pulse, delay, dt.into());
    let stays = equation.name() == "acoustic2";
    let source = if stays { second_differences(&wavelet) } else { wavelet.clone() };
    let shot = plain_shot([first, n / 2, first], source, nt, vec![[first + cells, n / 2, first + cells]]);
    let model = model_for(equation, [n; 3], [h; 3], |property| match property {
        Property::Vp => SPEED.into(),
        _ => 1700.0.into(),
    });
    // A thin layer suffices, because no reflection arrives in time.
    let thin = Options { equation, pml: 8, ..Options::default() };
    let record = fire_with(&model, dt, &shot, thin, 2).record;

    let poles = poles([cells as isize, 0, cells as isize], [h.into(); 3]);
    let truth = stepped(&poles, &wavelet, 3.0 * FREQUENCY, c, dt.into(), nt);
    let part = |trace: &[f32]| component(trace, FREQUENCY * f64::from(dt));
    let (found, truth) = (part(&record), part(&truth));
    (found.0 - truth.0).hypot(found.1 - truth.1) / truth.0.hypot(truth.1)
}

/// Halves the spacing, from 5 to 10 cells per wavelength. `anisotropy.rs` has such a test of `vti` and
/// `tti`.
#[test]
fn the_order_in_space_is_eight() {
    for equation in ["acoustic1", "acoustic2"] {
        let spacings = [5, 6, 8, 10];
        let errors = spacings.map(|cells| error_of_space(by_name(equation).unwrap(), cells));
        let halved = (errors[0] / errors[3]).log2();
        let shown = errors.map(|error| format!("{error:.2e}")).join(", ");
        println!("space, {equation}: {spacings:?} cells a wavelength: {shown}; order {halved:.2}");
        // Both stencils' dispersion relations give 7.6 along an axis: on the coarse grid the next
        // term reduces the leading one. On the fine grid the seven digits of the coefficients of
        // `acoustic1` have an effect. Sixth order gives 6.
        assert!((7.0..8.4).contains(&halved), "{equation}: {shown}: order {halved}");
    }
}

/// Returns real and imaginary part of a trace's component at `cycles` per sample.
fn component(trace: &[f32], cycles: f64) -> (f64, f64) {
    trace.iter().enumerate().fold((0.0, 0.0), |(re, im), (i, &v)| {
        let (sin, cos) = (TAU * cycles * i as f64).sin_cos();
        (re + f64::from(v) * cos, im - f64::from(v) * sin)
    })
}
