//! The time step that is certainly stable.

use super::Acoustic1;
use crate::fd::equation::traits::Equation;
use crate::fd::grid::Grid;
use crate::fd::model::{DensityAt, Model, Property, Values};
use crate::fd::stencil::Stencil;

/// Returns a time step in seconds that is certainly stable, whatever the densities: [`Equation::dt_max`] where they don't
/// jump from cell to cell, else less. In between a shot may be stable or not. `horizontal`: returns the factor on the terms
/// of x and y at a cell's position in the grid.
///
/// Without damping, steps are stable if no eigenvalue of `-rho vp² D-(1/rho D+)` is above `4 / dt²`; all are real, and none
/// is above the largest sum of the magnitudes in a row (Gershgorin's circles). A row is that of a cell, and its
/// derivatives reach 1/rho at four half points on each side.
pub fn dt_sure_with(model: &Model, stencil: Stencil, horizontal: impl Fn(usize) -> f64) -> f64 {
    let most = Acoustic1.dt_max(model, stencil);
    // A constant density scales nothing.
    let Some(Values::Volume(rho)) = model.get(Property::Rho) else { return most };
    let Grid { n: [nx, _, nz], h } = model.grid;
    let weights = stencil.coefficients().map(|c| f64::from(c.abs()));
    let factors = h.map(|h| 2.0 * stencil.courant() / f64::from(h).powi(2));
    let stride = [nz, nz * nx, 1];
    // 1/rho in a row, weighted as the derivatives weigh it.
    let row = |cell: [usize; 3], at: usize, horizontal: f64| -> f64 {
        let along = |axis: usize| {
            let of = |i: usize| f64::from(rho[at - cell[axis] * stride[axis] + i * stride[axis]]);
            let between = |i: usize, next: usize| match model.density_at {
                DensityAt::HalfPoints => 2.0 / (of(i) + of(next)),
                DensityAt::Cells => 1.0 / of(i),
            };
            let (i, last) = (cell[axis], model.grid.n[axis] - 1);
            let after = |m: usize| between((i + m).min(last), (i + m + 1).min(last));
            let before = |m: usize| between(i.saturating_sub(m + 1), i.saturating_sub(m));
            let pair = |m: usize| after(m) + before(m);
            factors[axis] * weights.iter().enumerate().map(|(m, weight)| weight * pair(m)).sum::<f64>()
        };
        horizontal * (along(0) + along(1)) + along(2)
    };
    let lightest = rho.iter().copied().fold(f32::INFINITY, f32::min);
    let no_more = factors.iter().sum::<f64>() * 2.0 * weights.iter().sum::<f64>() / f64::from(lightest);
    let mut largest = 4.0 / most.powi(2);
    for (at, &rho) in rho.iter().enumerate() {
        let kappa = f64::from(rho) * f64::from(model.vp().at(at)).powi(2);
        // Few cells can be the worst.
        let horizontal = horizontal(at);
        if kappa * no_more * horizontal.max(1.0) > largest {
            largest = largest.max(kappa * row([at / nz % nx, at / nz / nx, at % nz], at, horizontal));
        }
    }
    2.0 / largest.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_surely_stable_by_the_densities_around_a_cell() {
        let grid = Grid { n: [3, 4, 20], h: [10.0, 12.0, 8.0] };
        let column = |top: f32, bottom: f32| {
            let of = move |z: usize| if z < 10 { top } else { bottom };
            (0..12).flat_map(|_| (0..20).map(of)).collect::<Vec<_>>()
        };
        let sure_with = |density_at, vp: Vec<f32>, rho: Option<Vec<f32>>| {
            let model = Model::new(grid, vp, rho).unwrap().with_density_at(density_at);
            Stencil::ALL.map(|stencil| Acoustic1.dt_sure(&model, stencil) / Acoustic1.dt_max(&model, stencil))
        };
        let sure = |vp: Vec<f32>, rho: Option<Vec<f32>>| sure_with(DensityAt::HalfPoints, vp, rho);
        // No density, one density, one modulus' worth of contrast: the limit is that of the fastest velocity.
        for (vp, rho) in [
            (column(1500.0, 4000.0), None),
            (column(1500.0, 4000.0), Some(column(2000.0, 2000.0))),
            (column(1500.0, 4000.0), Some(column(2400.0, 2000.0))),
        ] {
            let [taylor, optimised] = sure(vp, rho);
            assert!((taylor - 1.0).abs() < 1e-5 && (optimised - 1.0).abs() < 1e-5, "{taylor} {optimised}");
        }
        // Below the contrast half of the derivative's weights along z meet a density a third as large; at the
        // contrast's half point, which has the largest weight, one of two thirds.
        let inverse = grid.h.map(|h| f64::from(h).powi(-2));
        for density_at in [DensityAt::Cells, DensityAt::HalfPoints] {
            let found = sure_with(density_at, column(1500.0, 4000.0), Some(column(1000.0, 3000.0)));
            for (found, stencil) in found.into_iter().zip(Stencil::ALL) {
                let largest = f64::from(stencil.coefficients()[0]) / stencil.courant();
                let along_z = if density_at == DensityAt::Cells { 2.0 } else { 2.0 - 0.75 * largest };
                let sum = inverse[0] + inverse[1] + along_z * inverse[2];
                let expected = (inverse.iter().sum::<f64>() / sum).sqrt();
                assert!((found - expected).abs() < 1e-5, "{density_at:?}: {found}, should be {expected}");
            }
        }
    }
}
