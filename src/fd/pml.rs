//! The absorbing layer: a split perfectly matched layer with a quadratic profile.
//!
//! Each split pressure and each velocity is damped along its own axis only. With `d` the damping at
//! a cell, a step is `f' = b f - a dt (…)`, `a = 1/(1 + d dt/2)`, `b = a (1 - d dt/2)`. The choice
//! of float32 and double follows the old kernels to the last bit.

use super::grid::Grid;

/// `a` and `b` for every index of a padded axis; both are 1 where nothing is damped.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub a: Vec<f32>,
    pub b: Vec<f32>,
}

/// The profiles of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiles {
    /// Profile of the velocity, half a cell after its index.
    pub velocity: Profile,
    /// Profile of the pressure, at its index.
    pub pressure: Profile,
}

impl Profiles {
    /// Computes the profiles of an axis of `n` cells with `pml` more on each side. `dt`: time step
    /// in s; `d0`: damping per second at the outer edge.
    pub fn new(n: usize, pml: usize, dt: f32, d0: f32) -> Self {
        let edge = f64::from(dt * d0);
        let width = pml as f64;
        // Depth in the layer as a part of its width, `shift` cells after the index.
        let profile = |shift: f64| {
            let (a, b) = (0..n + 2 * pml)
                .map(|i| {
                    let depth = if i < pml {
                        (width - shift - i as f64) / width
                    } else if i < pml + n {
                        0.0
                    } else {
                        (i as f64 + shift - n as f64 - width) / width
                    };
                    let g = edge * (depth * depth) / 2.0;
                    let a = (1.0 / (1.0 + g)) as f32;
                    (a, (f64::from(a) * (1.0 - g)) as f32)
                })
                .unzip();
            Profile { a, b }
        };
        Profiles { velocity: profile(0.5), pressure: profile(0.0) }
    }
}

/// Largest ratio of the spacing in the formula of [`d0`] to that of the axis. With 3, a layer returns
/// 1.6e-3 of a wave at normal incidence; with 1, the damping of thin layers rises too steeply.
const WIDEST: f64 = 2.0;

/// Returns the damping per second at the outer edge of a layer of `pml` cells along an axis, `10 v
/// ln(10⁵) / (2 L)`. `vp`: the reference velocity `v` in m/s. `L` is `pml` times the mean spacing
/// of the three axes. That is limited to twice the axis's own spacing, except by the old rules.
pub fn d0(vp: f32, pml: usize, h: [f32; 3], axis: usize, old_rules: bool) -> f32 {
    let mean = f64::from(h[0] + h[1] + h[2]) / 3.0;
    let spacing = if old_rules { mean } else { mean.min(WIDEST * f64::from(h[axis])) };
    (10.0 * f64::from(vp) * 100_000f64.ln() / (2.0 * pml as f64 * spacing)) as f32
}

/// Returns the user's cell whose velocity sets the damping by the old rules, instead of the
/// fastest: the middle of the padded grid *as a list of cells*. It depends on the parities of the
/// sizes: with an even `ny` it is a corner of the middle plane. Waves that are much faster are
/// damped too little (oddity B2 of docs/legacy.md).
pub fn reference_cell(grid: &Grid, pml: usize) -> [usize; 3] {
    let [nx, ny, nz] = grid.n.map(|n| n + 2 * pml);
    let middle = ny * nx * nz / 2;
    let padded = [middle / nz % nx, middle / nz / nx, middle % nz];
    std::array::from_fn(|axis| padded[axis].saturating_sub(pml).min(grid.n[axis] - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_those_of_the_old_kernels() {
        let bytes = include_bytes!("../../tests/golden/tables/profiles.bin");
        let table: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        // Entries of `tests/golden/tables`.
        for (n, pml, dt, h, vp, expected, offset) in [
            (30, 20, 0.001, [10.0, 10.0, 10.0], 3000.0, 863.4694, 0),
            (17, 20, 0.0008, [10.0, 12.5, 8.0], 2345.6, 664.0505, 280),
            (21, 40, 0.001, [10.0, 10.0, 10.0], 3000.0, 431.7347, 508),
            (24, 40, 0.0007, [8.0, 10.0, 9.0], 1987.3, 317.77274, 912),
        ] {
            let d = d0(vp, pml, h, 0, true);
            assert_eq!(d, expected, "n {n}");
            let p = Profiles::new(n, pml, dt, d);
            let ours = [p.velocity.a, p.velocity.b, p.pressure.a, p.pressure.b].concat();
            assert_eq!(ours, table[offset..offset + ours.len()], "n {n}");
        }
    }

    #[test]
    fn the_reference_cell_follows_the_parities() {
        let cell = |nx, ny, nz| reference_cell(&Grid { n: [nx, ny, nz], h: [1.0; 3] }, 20);
        assert_eq!(cell(30, 40, 50), [0, 20, 0]);
        assert_eq!(cell(30, 41, 50), [15, 20, 0]);
        assert_eq!(cell(31, 41, 51), [15, 20, 25]);
        assert_eq!(cell(1, 1, 1), [0, 0, 0]);
    }
}
