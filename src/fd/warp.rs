//! Moves each frequency of a series of samples to another.
//!
//! The spectrum is needed at frequencies between those of a discrete Fourier transform. The series
//! is divided by the transform of the Kaiser-Bessel window and padded with as many zeros. Its
//! transform is then interpolated with that window (Fessler and Sutton 2003). The error is 1e-9 of
//! the largest sample, all in double precision.

use std::f64::consts::PI;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::host_memory::{collected, filled, reserved};
use crate::error::Result;

/// Neighbours that a value of the spectrum is interpolated from.
const TAPS: usize = 10;
/// Shape of the window: its transform has its first zero where the images of the series begin.
const SHAPE: f64 = 0.75 * PI * TAPS as f64;

/// Names the allocations in errors.
pub const WHAT: &str = "the exact time of a shot";
const ZERO: Complex<f64> = Complex::new(0.0, 0.0);

/// Warp for series of one length.
pub struct Warp {
    len: usize,
    forward: Arc<dyn Fft<f64>>,
    inverse: Arc<dyn Fft<f64>>,
    /// Reciprocal of the window's transform, for each sample.
    weights: Vec<f64>,
    /// Frequencies of the new series from 0 on; higher ones are dropped.
    bins: Vec<Bin>,
}

/// Source of a frequency of the new series: the first tap, weights of the taps, and a phase factor.
struct Bin {
    first: usize,
    taps: [f64; TAPS],
    turn: Complex<f64>,
}

/// Times of the samples of a series, in steps.
#[derive(Clone, Copy)]
pub struct Times {
    pub first: usize,
    pub every: usize,
}

/// Memory of a thread that warps series.
pub struct WarpScratch {
    from: Vec<Complex<f64>>,
    to: Vec<Complex<f64>>,
    fft: Vec<Complex<f64>>,
}

impl Warp {
    /// Prepares warps of series of `len` samples. `source(y)` returns the frequency of the old
    /// series that moves to frequency `y` of the new one. Both are in radians a step and begin at
    /// 0. From the first `y` without a source on, all frequencies are dropped.
    ///
    /// No source may exceed half a period in `every` steps, the time between two samples.
    pub fn new(len: usize, times: Times, source: impl Fn(f64) -> Option<f64>) -> Result<Warp> {
        let period = fast_length(2 * len.max(TAPS));
        let mut planner = FftPlanner::new();
        let middle = len / 2;
        let (first, every) = (times.first as f64, times.every as f64);
        let window = Window::new();
        let weights = (0..len).map(|i| 1.0 / window.transform((i as f64 - middle as f64) / period as f64));
        let bin = |j: usize| {
            let y = 2.0 * PI * j as f64 / (period as f64 * every);
            let x = source(y)?;
            let place = x * every * period as f64 / (2.0 * PI);
            let before = place.floor();
            let taps = std::array::from_fn(|k| window.at(place - before + (TAPS / 2 - 1) as f64 - k as f64));
            let first_tap = before as usize + period - (TAPS / 2 - 1);
            let turn = Complex::cis(y * first - x * (first + every * middle as f64)) / period as f64;
            Some(Bin { first: first_tap % period, taps, turn })
        };
        let mut bins = reserved(period.div_ceil(2), WHAT)?;
        bins.extend((0..period.div_ceil(2)).map_while(bin));
        Ok(Warp {
            len,
            forward: planner.plan_fft_forward(period),
            inverse: planner.plan_fft_inverse(period),
            weights: collected(weights, WHAT)?,
            bins,
        })
    }

    /// Returns the approximate bytes of a warp for series of `len` samples, and those that each of
    /// its threads needs.
    pub fn bytes(len: usize) -> [u64; 2] {
        let period = fast_length(2 * len.max(TAPS));
        let complex = size_of::<Complex<f64>>();
        // All threads: the bins, the weights and the factors of two transforms. Each thread: two
        // spectra, the scratch of a transform, and a series.
        let whole = period / 2 * size_of::<Bin>() + len * size_of::<f64>() + 2 * period * complex;
        [whole, (3 * period + len) * complex].map(|bytes| bytes as u64)
    }

    pub fn scratch(&self) -> Result<WarpScratch> {
        let zeros = |len| filled(len, ZERO, WHAT);
        let period = self.forward.len();
        let scratch_len = self.forward.get_inplace_scratch_len().max(self.inverse.get_inplace_scratch_len());
        Ok(WarpScratch { from: zeros(period)?, to: zeros(period)?, fft: zeros(scratch_len)? })
    }

    /// Warps two real series in place, one as real and one as imaginary part.
    pub fn apply(&self, series: &mut [Complex<f64>], scratch: &mut WarpScratch) {
        let period = self.forward.len();
        let WarpScratch { from, to, fft } = scratch;
        from.fill(ZERO);
        let begin = period - self.len / 2;
        for (i, (value, weight)) in series.iter().zip(&self.weights).enumerate() {
            from[(begin + i) % period] = value * weight;
        }
        self.forward.process_with_scratch(from, fft);
        to.fill(ZERO);
        for (j, bin) in self.bins.iter().enumerate() {
            let mut sums = [ZERO; 2];
            let mut at = bin.first;
            for tap in bin.taps {
                sums[0] += from[at] * tap;
                sums[1] += from[if at == 0 { 0 } else { period - at }] * tap;
                at = if at + 1 == period { 0 } else { at + 1 };
            }
            to[j] = sums[0] * bin.turn;
            if j > 0 {
                to[period - j] = sums[1] * bin.turn.conj();
            }
        }
        self.inverse.process_with_scratch(to, fft);
        for (value, warped) in series.iter_mut().zip(to) {
            *value = *warped;
        }
    }
}

/// Returns a length of at least `least` that is even and quick to transform: 1, 3 or 9 times a
/// power of two.
fn fast_length(least: usize) -> usize {
    let least = least.max(2);
    let length = |odd: usize| odd * least.div_ceil(odd).next_power_of_two().max(2);
    length(1).min(length(3)).min(length(9))
}

/// Kaiser-Bessel window `I0(SHAPE sqrt(1 - (2 z / TAPS)²))`, scaled to a height of 1.
struct Window {
    height: f64,
}

impl Window {
    fn new() -> Window {
        Window { height: bessel(SHAPE) }
    }

    fn at(&self, z: f64) -> f64 {
        let inside = 1.0 - (2.0 * z / TAPS as f64).powi(2);
        if inside < 0.0 { 0.0 } else { bessel(SHAPE * inside.sqrt()) / self.height }
    }

    /// Returns the window's transform at a frequency in cycles a grid point.
    fn transform(&self, cycles: f64) -> f64 {
        let root = (SHAPE.powi(2) - (PI * TAPS as f64 * cycles).powi(2)).sqrt();
        TAPS as f64 * root.sinh() / root / self.height
    }
}

/// Returns the modified Bessel function of order 0, by its series.
fn bessel(x: f64) -> f64 {
    let square = (x / 2.0).powi(2);
    let terms = (1..).scan(1.0, |term, k| {
        *term *= square / f64::from(k * k);
        Some(*term)
    });
    1.0 + terms.take_while(|term| *term > 1e-17).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns two series that are not smooth, as real and imaginary part.
    fn rough(len: usize) -> Vec<Complex<f64>> {
        let at = |i: usize| ((i * i * 37 + 11 * i) % 101) as f64 / 50.0 - 1.0;
        (0..len).map(|i| Complex::new(at(i), 2.0 * at(i + 7))).collect()
    }

    /// Computes the warp by its definition, frequency by frequency.
    fn by_definition(
        series: &[Complex<f64>],
        times: Times,
        source: impl Fn(f64) -> Option<f64>,
    ) -> Vec<Complex<f64>> {
        let period = fast_length(2 * series.len().max(TAPS));
        let time = |i: usize| (times.first + times.every * i) as f64;
        let mut warped = vec![ZERO; series.len()];
        for (j, sign) in (0..period.div_ceil(2)).flat_map(|j| [(j, 1.0), (j, -1.0)]).skip(1) {
            let y = 2.0 * PI * j as f64 / (period * times.every) as f64;
            let Some(x) = source(y) else { break };
            let sum: Complex<f64> =
                series.iter().enumerate().map(|(i, v)| v * Complex::cis(-sign * x * time(i))).sum();
            for (i, to) in warped.iter_mut().enumerate() {
                *to += sum * Complex::cis(sign * y * time(i)) / period as f64;
            }
        }
        warped
    }

    #[test]
    fn frequencies_move_as_the_source_states() {
        for (len, first, every) in [(1, 0, 1), (2, 1, 1), (31, 1, 1), (200, 0, 1), (75, 1, 4)] {
            let times = Times { first, every };
            let source = |y: f64| Some(y * (1.0 - 0.1 * y)).filter(|x| x * (every as f64) < 2.5);
            let series = rough(len);
            let warp = Warp::new(len, times, source).unwrap();
            let mut found = series.clone();
            warp.apply(&mut found, &mut warp.scratch().unwrap());
            for (found, truth) in found.iter().zip(by_definition(&series, times, source)) {
                assert!((found - truth).norm() < 2e-8, "{len}, {every}: {found} and {truth}");
            }
            let bytes = size_of_val(&*warp.weights) + size_of_val(&*warp.bins);
            assert!(bytes as u64 <= Warp::bytes(len)[0], "{len}: {bytes} bytes");
        }
    }

    #[test]
    fn transform_has_a_fast_length() {
        for least in 1..3000 {
            let length = fast_length(least);
            assert!(length >= least && length.is_multiple_of(2) && length < least + least / 3 + 4);
        }
    }
}
