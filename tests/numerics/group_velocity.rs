//! Speeds of `vti` and `tti` by direction.

use std::f64::consts::PI;

use gpusched::fd::equation::{Absorber, Equation, by_name, with_absorber};
use gpusched::fd::model::Property;
use gpusched::fd::plan::Options;
use gpusched::fd::survey::{Shot, SourceKind};

use testmodels::dipole::{Bell, samples};
use testmodels::shots::{fire_with, model_for, plain_shot};

const SPEED: f64 = 2000.0;
const EPSILON: f32 = 0.2;
const DELTA: f32 = 0.05;

/// Returns the phase velocity of a wave at an angle to the symmetry axis.
fn phase_velocity(angle: f64) -> f64 {
    let [e, s_squared] = [EPSILON, DELTA].map(|parameter| 1.0 + 2.0 * f64::from(parameter));
    let [across, along] = [angle.sin().powi(2), angle.cos().powi(2)];
    // ω⁴ - ω² vp² (E k_across² + k_along²) + vp⁴ (E - S²) k_across² k_along² = 0
    let sum = e * across + along;
    SPEED * (0.5 * (sum + (sum * sum - 4.0 * (e - s_squared) * across * along).sqrt())).sqrt()
}

/// Returns the speed of a wave front in a direction: it is the envelope of plane waves.
fn group_velocity(angle: f64) -> f64 {
    let away = (-4999..5000).map(|part| 0.49 * PI * f64::from(part) / 5000.0);
    away.map(|away| phase_velocity(angle + away) / away.cos()).fold(f64::INFINITY, f64::min)
}

/// Returns by how many samples `late` is after `early`: the maximum of their correlation, between
/// samples by a parabola.
fn delay(early: &[f32], late: &[f32]) -> f64 {
    let correlation = |lag: usize| -> f64 {
        early.iter().zip(&late[lag..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let all: Vec<_> = (0..late.len()).map(correlation).collect();
    let most = (1..all.len() - 1).max_by(|&a, &b| all[a].total_cmp(&all[b])).unwrap();
    let [before, at, after] = [all[most - 1], all[most], all[most + 1]];
    most as f64 + 0.5 * (before - after) / (before - 2.0 * at + after)
}

/// Returns the largest relative error of the speed in directions of the plane of x and z, in which
/// the axis is tilted. The time from a receiver to one twice as far has no part in the isotropic
/// medium around the source. Exact time leaves the error of space.
fn error(equation: &'static dyn Equation, theta: f64) -> f64 {
    const NEAR: f64 = 27.0;
    let (h, dt, nt) = (10.0f32, 1.5e-3, 280);
    // 14 cells per wavelength at the peak of the rate's spectrum.
    let bell = Bell { frequency: SPEED / 100.0, delay: 0.08 };
    let source = [60, 24, 24];
    let directions = (0..19).map(|part| PI * f64::from(part) / 18.0);
    let offsets: Vec<_> = directions.map(|a| [NEAR * a.cos(), NEAR * a.sin()].map(f64::round)).collect();
    let at = |[x, z]: [f64; 2]| [(60.0 + x) as usize, source[1], (24.0 + z) as usize];
    let receivers = offsets.iter().flat_map(|&[x, z]| [at([x, z]), at([2.0 * x, 2.0 * z])]).collect();
    let model = model_for(equation, [121, 49, 85], [h; 3], |property| {
        match property {
            Property::Vp => SPEED as f32,
            Property::Rho => 1000.0,
            Property::Epsilon => EPSILON,
            Property::Delta => DELTA,
            Property::Theta => theta as f32,
            Property::Phi => 0.0,
        }
        .into()
    });
    let options = Options { equation, pml: 8, exact_time: true, ..Options::default() };
    let wavelet = samples(|t| bell.at(t), bell.delay, dt.into());
    let shot = Shot { kind: SourceKind::Monopole, ..plain_shot(source, wavelet, nt, receivers) };
    let record = fire_with(&model, dt, &shot, options, 2);
    let errors = offsets.iter().enumerate().map(|(number, &[x, z])| {
        let samples = delay(record.trace(2 * number), record.trace(2 * number + 1));
        let speed = f64::from(h) * x.hypot(z) / (samples * f64::from(dt));
        let off = speed / group_velocity(x.atan2(z) - theta) - 1.0;
        off.abs()
    });
    errors.fold(0.0, f64::max)
}

/// The accepted errors cover what the medium around the source and the distance of only two to four
/// wavelengths leave: those of `vti` and of the new operators fall with the wavelength, those of the
/// old ones, which are of first order in the spacing, rise.
#[test]
fn wave_fronts_have_the_exact_group_velocity() {
    let tilted = |absorber| with_absorber(by_name("tti").unwrap(), absorber).unwrap();
    let cases = [
        (by_name("vti").unwrap(), 0.0, 3e-3),
        (tilted(Absorber::Sponge), 0.5, 3e-3),
        (tilted(Absorber::Sponge), 0.9, 3e-3),
        (tilted(Absorber::Pml), 0.9, 1.2e-2),
    ];
    for (equation, theta, accepted) in cases {
        let error = error(equation, theta);
        let absorber = equation.absorber();
        println!("{equation:?}, {absorber:?}, tilt {theta}: speeds differ by up to {error:.1e}");
        assert!(error < accepted, "{equation:?}, {absorber:?}, {theta}: {error:e}");
    }
}
