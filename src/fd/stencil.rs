//! The staggered first derivative: four values on each side,
//! `D f at i + 1/2 = 1/h sum over m = 0..3 of c_m (f[i+1+m] - f[i-m])`.

/// Values on each side that the derivative reads. As many outermost layers of a padded grid are
/// never updated.
pub const HALF_WIDTH: usize = 4;

/// Coefficients of the derivative.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Stencil {
    /// Eighth order: more accurate for wavelengths of many cells.
    #[default]
    Taylor,
    /// Least squares of the relative error over all wavelengths of [`SHORTEST`] cells and more (Liu
    /// 2013): more accurate where the shortest wavelength has fewer than five cells.
    Optimised,
}

/// Shortest wavelength in cells that [`Stencil::Optimised`] is made for: 4/7 of the grid's Nyquist
/// wavenumber.
pub const SHORTEST: f64 = 3.5;

/// 1225/1024, -245/3072, 49/5120, -5/7168, to the seven digits of the old kernels. Compared with
/// the exact values they change a record by 2e-6 of it.
const TAYLOR: [f32; HALF_WIDTH] = [1.196289, -0.0797526, 0.009570313, -0.0006975447];

const OPTIMISED: [f32; HALF_WIDTH] = [1.221005, -0.0959772, 0.016103972, -0.0019540945];

impl Stencil {
    pub const ALL: [Stencil; 2] = [Stencil::Taylor, Stencil::Optimised];

    pub fn name(self) -> &'static str {
        if self == Stencil::Taylor { "taylor" } else { "optimised" }
    }

    pub fn coefficients(self) -> [f32; HALF_WIDTH] {
        if self == Stencil::Taylor { TAYLOR } else { OPTIMISED }
    }

    /// Returns the sum of the coefficients' magnitudes, rounded up. Time steps up to `1 / (courant
    /// vmax sqrt(1/dx² + 1/dy² + 1/dz²))` are stable.
    pub fn courant(self) -> f64 {
        // The first is the sum of the exact coefficients.
        if self == Stencil::Taylor { 1.28631 } else { 1.33505 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    /// Minimises the integral of (D(k) / k - 1)² over wavenumbers `k` a cell up to 2 π / SHORTEST.
    #[test]
    fn optimised_coefficients_are_those_of_least_squares() {
        let points = 20_000;
        let mut equations = [[0.0; HALF_WIDTH + 1]; HALF_WIDTH];
        for i in 0..points {
            let k = 2.0 * PI / SHORTEST * (f64::from(i) + 0.5) / f64::from(points);
            let term = |m: usize| 2.0 * ((m as f64 + 0.5) * k).sin() / k;
            for (m, row) in equations.iter_mut().enumerate() {
                (0..HALF_WIDTH).for_each(|n| row[n] += term(m) * term(n));
                row[HALF_WIDTH] += term(m);
            }
        }
        for m in 0..HALF_WIDTH {
            let pivot = equations[m];
            for (_, row) in equations.iter_mut().enumerate().filter(|(n, _)| *n != m) {
                let factor = row[m] / pivot[m];
                row.iter_mut().zip(pivot).for_each(|(to, from)| *to -= factor * from);
            }
        }
        for (m, row) in equations.iter().enumerate() {
            let (found, truth) = (f64::from(OPTIMISED[m]), row[HALF_WIDTH] / row[m]);
            // The equations are ill-conditioned by 1e6, in double precision.
            assert!((found - truth).abs() < 2e-7, "{m}: {found}, should be {truth}");
        }
    }

    #[test]
    fn courant_bounds_the_sum_of_the_coefficients() {
        for stencil in Stencil::ALL {
            let sum: f64 = stencil.coefficients().iter().map(|c| f64::from(c.abs())).sum();
            assert!((0.0..2e-5).contains(&(stencil.courant() - sum)), "{stencil:?}: {sum}");
        }
    }

    /// Compares the errors of both stencils with those that `docs/numerics.md` states.
    #[test]
    fn errors_are_those_of_the_documentation() {
        let error = |stencil: Stencil, cells: f64| {
            let k = 2.0 * PI / cells;
            let sine = |(m, c): (usize, f32)| 2.0 * f64::from(c) * ((m as f64 + 0.5) * k).sin();
            (stencil.coefficients().into_iter().enumerate().map(sine).sum::<f64>() / k - 1.0).abs()
        };
        let worst =
            (0..2000).map(|i| error(Stencil::Optimised, SHORTEST + 0.1 * f64::from(i))).fold(0.0, f64::max);
        assert!((3e-4..3.6e-4).contains(&worst), "{worst:e}");
        for (cells, taylor, optimised) in [
            (3.0, 1.9e-2, 5.2e-3),
            (3.5, 6.9e-3, 3.6e-4),
            (4.0, 2.8e-3, 1.4e-4),
            (5.0, 5.5e-4, 8.1e-5),
            (8.0, 1.5e-5, 4.6e-5),
        ] {
            for (stencil, stated) in [(Stencil::Taylor, taylor), (Stencil::Optimised, optimised)] {
                let found = error(stencil, cells);
                assert!((found / stated - 1.0).abs() < 0.03, "{stencil:?} at {cells} cells: {found:e}");
            }
        }
    }
}
