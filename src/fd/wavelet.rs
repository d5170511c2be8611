//! Source time functions: three shapes that begin and end near zero, six of the old kernels, which
//! are cut, or the caller's samples.
//!
//! The old kernels mix float32 and double in a fixed way and keep time by adding `dt` in float32.
//! So the number of active steps follows from rounding: a peak frequency of 20 Hz and a step of 1
//! ms give 99 steps, not 100. Where the pulse is cut at a value far from zero, one step more or
//! less changes a record by up to a fifth. So every rounding here is the same as theirs.

use super::host_memory::{collected, reserved};
use crate::error::{Error, Result};

#[expect(clippy::approx_constant, reason = "the ten digits of the old kernels")]
const PI: f64 = 3.141592653;

/// Peak frequencies at which no product below leaves the range of float32.
const FREQUENCIES: std::ops::RangeInclusive<f32> = 1e-6..=1e12;

/// Number of steps, 2^24, from which on adding `dt` to a float32 time no longer changes it.
const MAX_ACTIVE: f32 = 16_777_216.0;

/// Shape of a source time function. The whole ones begin and end below 1e-5 of their peak. Those of
/// the old kernels are cut; their numbers are the old argument `wtype`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    #[default]
    Ricker = 7,
    GaussianDerivative = 8,
    /// The frequency is that of its second derivative, a Ricker wavelet.
    Gaussian = 9,
    CutRicker = 1,
    /// Has the width of a Gaussian of twice the frequency.
    CutGaussianDerivative = 2,
    CutGaussian = 3,
    CutRickerIntegral = 4,
    CutRickerDoubleIntegral = 5,
    CutRickerTripleIntegral = 6,
}

impl TryFrom<i32> for Shape {
    type Error = Error;

    /// Returns the shape with this number in the old argument list.
    fn try_from(number: i32) -> Result<Self> {
        use Shape::*;
        let old = [
            CutRicker,
            CutGaussianDerivative,
            CutGaussian,
            CutRickerIntegral,
            CutRickerDoubleIntegral,
            CutRickerTripleIntegral,
        ];
        old.into_iter().find(|shape| *shape as i32 == number).ok_or_else(|| {
            let accepted = "1 Ricker, 2 derivative of a Gaussian, 3 Gaussian, and 4, 5, 6: \
                            a Ricker integrated once, twice, three times";
            Error::argument("the wavelet's number", number, accepted)
        })
    }
}

impl Shape {
    /// Returns the value of a whole shape `periods` after its centre, with a peak of 1; `None` for
    /// the cut ones.
    fn whole(self, periods: f64) -> Option<f64> {
        let x = std::f64::consts::PI * periods;
        match self {
            Shape::Ricker => Some((1.0 - 2.0 * x * x) * (-x * x).exp()),
            Shape::GaussianDerivative => Some(-2.0 * x * (0.5 - 2.0 * x * x).exp()),
            Shape::Gaussian => Some((-x * x).exp()),
            _ => None,
        }
    }

    /// Returns the length in periods of the peak frequency. The centre is in the middle. For a
    /// whole shape both count from the first sample, for a cut one from one step before it.
    pub fn periods(self) -> f64 {
        if self.is_cut() { 2.0 } else { 2.5 }
    }

    /// Returns true if the shape is one of the old kernels: its first sample is at time `dt`, not
    /// 0.
    pub fn is_cut(self) -> bool {
        self.whole(0.0).is_none()
    }

    /// Returns the value at `t` seconds after the pulse's centre, for a peak frequency of `f` Hz.
    /// Which products are float32 and which are double is part of the definition.
    fn at(self, f: f32, t: f32) -> f32 {
        let wide = f64::from;
        // exp(-(pi f t)²), as three of the shapes have it
        let bell = || (wide(-f * f) * PI * PI * wide(t) * wide(t)).exp();
        match self {
            Shape::CutRicker => {
                let x = f * t;
                let q = wide(x * x);
                ((1.0 - 2.0 * PI * PI * q) * (-(PI * PI * q)).exp()) as f32
            }
            Shape::CutGaussianDerivative => {
                let a = (wide(-4.0 * f * f) * PI * PI / 0.1f64.ln()) as f32;
                (-2.0 * PI * PI * wide(t) * wide((-a * t * t).exp())) as f32
            }
            Shape::CutGaussian => {
                let a = (wide(-f * f) * PI * PI / 0.1f64.ln()) as f32;
                (-a * t * t).exp()
            }
            Shape::CutRickerIntegral => -((bell() * wide(t)) as f32),
            Shape::CutRickerDoubleIntegral => {
                let x = (-1.0 / (wide(2.0 * f * f) * PI * PI)) as f32;
                (wide(x) * bell()) as f32
            }
            Shape::CutRickerTripleIntegral => {
                let scale = wide(4.0 * f * f * f) * PI * PI * wide((PI as f32).sqrt());
                (-libm::erf(wide(f) * PI * wide(t)) / scale) as f32
            }
            _ => self.whole(wide(f) * wide(t)).unwrap_or(0.0) as f32,
        }
    }
}

/// Source time function: one sample for each time step, from step 0; nothing is injected after the
/// last. Samples that last as long as the record and do not end with zero are taken to continue
/// after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wavelet {
    pub samples: Vec<f32>,
}

impl Wavelet {
    /// Computes a shape of unit amplitude.
    ///
    /// A pulse of the old kernels is centred at `1 / frequency_hz` and lasts twice that. Sample `i`
    /// is taken at the time `(i + 1) dt`, summed in float32. The pulse has as many samples as
    /// steps, and a zero follows a pulse that lasts `nt` steps. Samples that no step of a shot of
    /// `nt` uses may be left out.
    ///
    /// A whole shape is centred at `1.25 / frequency_hz` and lasts twice that. Sample `i` is taken
    /// at `i dt`.
    ///
    /// # Errors
    /// A frequency outside 1e-6 to 1e12 Hz; a `dt` (seconds) that is not positive and finite; `nt`
    /// of 0; a `dt` below 2^-24 of the pulse's length, with which float32 time would stop.
    pub fn new(shape: Shape, frequency_hz: f32, dt: f32, nt: usize) -> Result<Self> {
        if !FREQUENCIES.contains(&frequency_hz) {
            return Err(Error::argument(
                "the wavelet's peak frequency",
                format!("{frequency_hz} Hz"),
                "1e-6 to 1e12 Hz",
            ));
        }
        let delay = (1.0 / f64::from(frequency_hz)) as f32;
        let end = shape.periods() as f32 * delay;
        let least = end / MAX_ACTIVE;
        if !(dt.is_finite() && dt >= least && dt > 0.0) {
            return Err(Error::argument(
                "dt",
                format!("{dt:?} s"),
                format!("finite, and at least {least:?} s for a wavelet of {frequency_hz} Hz"),
            ));
        }
        if nt == 0 {
            return Err(Error::argument("nt", nt, "at least 1 step"));
        }

        // Exact time computes up to twice the steps, and a source with a unit reads two samples
        // ahead.
        let most = nt.saturating_mul(2).saturating_add(64);
        if !shape.is_cut() {
            let (step, length) = (f64::from(frequency_hz) * f64::from(dt), shape.periods());
            // The last sample is not before the end.
            let count = ((length / step).ceil() as usize + 1).min(most);
            let value = |i: usize| shape.whole(i as f64 * step - 0.5 * length).unwrap_or(0.0) as f32;
            return Ok(Wavelet { samples: collected((0..count).map(value), "a wavelet")? });
        }
        // The old kernels' time, summed in float32 (oddity B1 of docs/legacy.md).
        let times = std::iter::successors(Some(dt), |t| Some(t + dt)).take_while(|&t| t <= end).take(most);
        // Rounding may add some steps, and a zero may follow.
        let count = ((1.01 * end / dt) as usize).saturating_add(8).min(most);
        let mut samples = reserved(count, "a wavelet")?;
        samples.extend(times.map(|t| shape.at(frequency_hz, t - delay)));
        if (nt..most).contains(&samples.len()) {
            // The zero says that the pulse does not continue after the record.
            samples.push(0.0);
        }
        Ok(Wavelet { samples })
    }

    /// Makes a source time function of the caller's samples, one for each time step from step 0.
    ///
    /// # Errors
    /// No sample, or one that is not finite.
    pub fn from_samples(samples: Vec<f32>) -> Result<Self> {
        if samples.is_empty() {
            return Err(Error::argument("the wavelet's number of samples", 0, "at least 1"));
        }
        if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
            return Err(Error::argument(
                format!("sample {at} of the wavelet"),
                samples[at],
                "finite numbers",
            ));
        }
        Ok(Wavelet { samples })
    }

    /// Returns a copy. Unlike `clone`, returns an error if the host has too little memory.
    pub fn copied(&self) -> Result<Self> {
        Ok(Wavelet { samples: collected(self.samples.iter().copied(), "a wavelet")? })
    }
}

#[cfg(test)]
mod tests {
    use super::Shape::*;

    #[test]
    fn shapes_are_integrals_of_each_other() {
        let (f, step) = (7.0, 1e-3_f32);
        // The third integral has the right sign, the first two the opposite one.
        for (shape, sign, derivative) in [
            (CutRickerTripleIntegral, 1.0, CutRickerDoubleIntegral),
            (CutRickerDoubleIntegral, -1.0, CutRickerIntegral),
            (CutRickerIntegral, -1.0, CutRicker),
        ] {
            let times = (-100..100).map(|i| i as f32 * step);
            let peak = times.clone().map(|t| derivative.at(f, t).abs()).fold(0.0, f32::max);
            for t in times {
                let slope = (shape.at(f, t + step) - shape.at(f, t - step)) / (2.0 * step);
                assert!((slope - sign * derivative.at(f, t)).abs() < 0.01 * peak, "{shape:?} at {t} s");
            }
        }
        assert_eq!(CutRicker.at(f, 0.0), 1.0);
    }

    #[test]
    fn gaussian_falls_to_a_tenth_and_its_derivative_is_of_twice_the_frequency() {
        use std::f32::consts::{LN_10, PI};
        let width = LN_10 / (PI * 7.0);
        assert!((CutGaussian.at(7.0, width) - 0.1).abs() < 1e-5);
        for t in [-0.05, 0.01, 0.03] {
            let expected = -2.0 * PI * PI * t * CutGaussian.at(14.0, t);
            assert!((CutGaussianDerivative.at(7.0, t) - expected).abs() < 1e-4 * expected.abs());
        }
    }
}
