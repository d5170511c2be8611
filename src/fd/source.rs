//! Sources with a unit. `docs/numerics.md` derives them from the wave equation.
//!
//! A step adds to the increment of the pressure
//!
//! ```text
//! monopole    dt² kappa q' / V
//! force       -dt² kappa D-(b f)    f = F / V at one half cell
//! ```
//!
//! with the cell's volume `V` and the step's derivative `D-`. Both become poles: a factor for each
//! cell times one time series.

use super::host_memory::{collected, reserved};
use super::inject::SourceMedium;
use super::stencil::HALF_WIDTH;
use super::survey::{Poles, Shot, SourceKind};
use super::wavelet::Wavelet;
use crate::error::Result;

const WHAT: &str = "the wavelet of a shot";

/// Returns the shot with its source as poles, or `None` if its source has no unit or is poles
/// already. `stencil`: coefficients of the derivative; `h`: cell spacing in m.
pub fn in_poles(
    shot: &Shot,
    dt: f32,
    h: [f32; 3],
    stencil: [f32; HALF_WIDTH],
    medium: &dyn SourceMedium,
) -> Result<Option<Shot>> {
    let axis = match shot.kind {
        SourceKind::Pressure | SourceKind::Poles(_) => return Ok(None),
        SourceKind::Monopole => None,
        SourceKind::ForceX => Some(0),
        SourceKind::ForceY => Some(1),
        SourceKind::ForceZ => Some(2),
    };
    let (dt, h) = (f64::from(dt), h.map(f64::from));
    let volume: f64 = h.iter().product();
    let cell = shot.padded_source(medium.layout().pml);
    let buoyancy = medium.buoyancy(cell, axis.unwrap_or(0));
    let factors: Vec<([usize; 3], f64)> = match axis {
        None => vec![(cell, medium.modulus(cell) / volume)],
        Some(axis) => {
            let pole = |along: usize, c: f32| {
                let mut at = cell;
                at[axis] = along;
                (at, f64::from(c) * medium.modulus(at) * buoyancy / (h[axis] * volume))
            };
            let pair = |(m, &c): (usize, &f32)| [pole(cell[axis] - m, -c), pole(cell[axis] + 1 + m, c)];
            stencil.iter().enumerate().flat_map(pair).collect()
        }
    };
    // The square of the CFL number: with it the values of the series are about as large as the
    // pressure beside the source.
    let courant = dt.powi(2) * medium.modulus(cell) * buoyancy * h.map(|h| h.powi(-2)).iter().sum::<f64>();
    let largest = factors.iter().fold(0.0, |most: f64, (_, factor)| most.max(factor.abs()));
    let scale = medium.increment_factor() * courant / largest;
    let poles = factors.into_iter().map(|(cell, factor)| (cell, (factor * scale) as f32)).collect();
    // dt² F at each step.
    let forces = shot.wavelet.samples.iter().map(move |&sample| dt * dt * f64::from(sample));
    let series: Box<dyn ExactSizeIterator<Item = f64>> =
        if axis.is_some() { Box::new(forces) } else { rates(&shot.wavelet, shot.nt, dt)? };
    let series = series.take(shot.nt).map(|value| (value * largest / courant) as f32);
    let wavelet = Wavelet { samples: collected(series, WHAT)? };
    shot.with_source(SourceKind::Poles(Poles(poles)), wavelet, shot.nt).map(Some)
}

/// Returns `dt² q'` at each step: the difference of the rate half a step after and half a step
/// before, both interpolated to fourth order. The injection begins with step 0. If it lasts `nt`
/// steps and does not end with zero, a cubic extrapolates it.
fn rates(wavelet: &Wavelet, nt: usize, dt: f64) -> Result<Box<dyn ExactSizeIterator<Item = f64>>> {
    let steps = wavelet.samples.len() + 2;
    let mut samples: Vec<f64> = reserved(steps, WHAT)?;
    samples.extend(wavelet.samples.iter().map(|&sample| f64::from(sample)));
    if samples.len() >= nt && samples.last().is_some_and(|last| *last != 0.0) {
        for _ in 0..2 {
            let next = match samples[..] {
                [.., d, c, b, a] => 4.0 * (a + c) - 6.0 * b - d,
                _ => samples.last().copied().unwrap_or(0.0),
            };
            samples.push(next);
        }
    }
    let at = move |i: usize| samples.get(i).copied().unwrap_or(0.0);
    let after = move |n: usize| {
        let before = if n == 0 { 0.0 } else { at(n - 1) };
        (9.0 * (at(n) + at(n + 1)) - before - at(n + 2)) / 16.0
    };
    let rate = move |n: usize| dt * (after(n) - if n == 0 { 0.0 } else { after(n - 1) });
    Ok(Box::new((0..steps).map(rate)))
}
