//! The time step that is certainly stable.

use crate::fd::grid::Grid;
use crate::fd::model::{DensityAt, Model, Property, Values};
use crate::fd::stencil::Stencil;

/// Returns a time step in seconds that is certainly stable, whatever the densities:
/// `dt_max` where they don't jump from cell to cell, else less. In between a shot may be
/// stable or not. `horizontal`: the factor on the terms of x and y at a cell's position.
///
/// Without damping, steps are stable if no eigenvalue of `-rho vp² D-(1/rho D+)` is above `4 / dt²`; all are real, and none
/// is above the largest sum of the magnitudes in a row (Gershgorin's circles). A row is that of a cell, and its
/// derivatives reach 1/rho at four half points on each side.
pub fn dt_sure_with(model: &Model, stencil: Stencil, horizontal: impl Fn(usize) -> f64) -> f64 {
    let most = model.grid.stable_step(stencil.courant(), f64::from(model.fastest));
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
