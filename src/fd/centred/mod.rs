//! Derivatives on a collocated grid, the second and the first, and the time steps that are stable
//! with the second. The second is `h² D f at i = c_0 f[i] + sum over m = 1..4 of c_m (f[i-m] +
//! f[i+m])`.

#![allow(unsafe_op_in_unsafe_fn, reason = "all of a kernel is unsafe, by its caller's promise")]

pub(crate) mod taps;

use crate::fd::stencil::{HALF_WIDTH, Stencil};

/// First derivative of eighth order, `h D f at i = sum over m = 1..4 of k_m (f[i+m] - f[i-m])`.
pub const FIRST: [f32; HALF_WIDTH] = [0.8, -0.2, 4.0 / 105.0, -1.0 / 280.0];

/// Coefficients of the second derivatives times `(dt/h)²`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// `c_0`, summed over the axes.
    pub centre: f32,
    /// `c_1` to `c_4` of x, y, z.
    pub axes: [[f32; HALF_WIDTH]; 3],
}

impl Weights {
    /// Computes the weights for time steps of `dt` seconds and cells of `h` metres.
    pub fn new(stencil: Stencil, dt: f32, h: [f32; 3]) -> Weights {
        let c = coefficients(stencil);
        let rates = h.map(|h| (f64::from(dt) / f64::from(h)).powi(2));
        let axes: [[f32; HALF_WIDTH]; 3] =
            rates.map(|rate| std::array::from_fn(|m| (c[m + 1] * rate) as f32));
        // The sum of the rounded weights, so that a constant pressure stays constant as exactly as
        // float32 allows.
        let centre = axes.iter().flatten().map(|weight| -2.0 * f64::from(*weight)).sum::<f64>() as f32;
        Weights { centre, axes }
    }
}

/// Returns the coefficients of a stencil, `c_0` first. `c_0 = -2 (c_1 + .. + c_4)`: the derivative
/// of a constant is zero.
pub fn coefficients(stencil: Stencil) -> [f64; HALF_WIDTH + 1] {
    match stencil {
        Stencil::Taylor => [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0],
        Stencil::Optimised => {
            let [c1, c2, c3, c4] = OPTIMISED;
            [-2.0 * (c1 + c2 + c3 + c4), c1, c2, c3, c4]
        }
    }
}

/// `c_1` to `c_4` of the least squares of the relative error over all wavelengths of 3.5 cells and
/// more.
const OPTIMISED: [f64; HALF_WIDTH] = [1.711_074_15, -0.261_705_94, 0.046_488_81, -0.005_179_34];

/// Returns the factor `c` of stable steps: half the square root of the largest magnitude of `h² D`
/// over all wavelengths, which is the sum of the coefficients' magnitudes.
// Let k be the wavenumber of a wave in radians a cell, and w = -(vp dt)² sum over the axes of
// D(k_a) / h_a². Then P+ - (2 - w) P + P- = 0, which stays bounded if 0 <= w <= 4. The signs of
// c_0, c_1, .. alternate. So -D(k) = -c_0 - 2 sum c_m cos(m k) is largest at k = pi, where it is s
// = |c_0| + 2 sum |c_m|. Where vp varies, V L is similar to the symmetric vp L vp, no eigenvalue of
// which exceeds vmax² times that of L. With a sponge of one factor g, P+ - g (2 - w) P + g² P- = 0.
// Its roots are g times those without it.
pub fn courant(stencil: Stencil) -> f64 {
    let [c0, others @ ..] = coefficients(stencil);
    0.5 * (c0.abs() + 2.0 * others.iter().map(|c| c.abs()).sum::<f64>()).sqrt()
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::stencil::SHORTEST;

    /// Returns the relative error of the derivative for a wavelength of `cells` cells.
    fn error(stencil: Stencil, cells: f64) -> f64 {
        let [_, others @ ..] = coefficients(stencil);
        let k = 2.0 * PI / cells;
        let term = |(m, c): (usize, &f64)| 2.0 * c * (1.0 - ((m + 1) as f64 * k).cos());
        others.iter().enumerate().map(term).sum::<f64>() / (k * k) - 1.0
    }

    /// Returns the mean squared error over wavelengths of [`SHORTEST`] cells and more.
    fn squares([c1, c2, c3, c4]: [f64; HALF_WIDTH]) -> f64 {
        let points = 2000;
        let one = |i: i32| {
            let k = 2.0 * PI / SHORTEST * (f64::from(i) + 0.5) / f64::from(points);
            let term = |m: f64, c: f64| 2.0 * c * (1.0 - (m * k).cos()) / (k * k);
            (term(1.0, c1) + term(2.0, c2) + term(3.0, c3) + term(4.0, c4) - 1.0).powi(2)
        };
        (0..points).map(one).sum::<f64>() / f64::from(points)
    }

    #[test]
    fn optimised_coefficients_have_the_least_squares() {
        let best = squares(OPTIMISED);
        for m in 0..HALF_WIDTH {
            for change in [-1e-4, 1e-4] {
                let mut other = OPTIMISED;
                other[m] += change;
                assert!(squares(other) > best, "c_{} {change:+}", m + 1);
            }
        }
        for (cells, taylor, optimised) in
            [(3.5, 1.7e-2, 9.2e-4), (4.0, 6.7e-3, 3.7e-4), (8.0, 4.0e-5, 1.1e-4)]
        {
            for (stencil, stated) in [(Stencil::Taylor, taylor), (Stencil::Optimised, optimised)] {
                let found = error(stencil, cells).abs();
                assert!((found / stated - 1.0).abs() < 0.04, "{stencil:?} at {cells} cells: {found:e}");
            }
        }
    }

    #[test]
    fn largest_stable_step_is_that_of_the_shortest_wave() {
        let grid = Grid { n: [1; 3], h: [10.0, 12.5, 8.0] };
        let inverse: f64 = [0.1f64, 0.08, 0.125].iter().map(|h| h * h).sum();
        for (stencil, of_step) in [(Stencil::Taylor, 0.784_369), (Stencil::Optimised, 0.754_301)] {
            let expected = of_step / (4000.0 * inverse.sqrt());
            assert!(
                (grid.stable_step(courant(stencil), 4000.0) / expected - 1.0).abs() < 2e-6,
                "{stencil:?}"
            );
        }
    }
}
