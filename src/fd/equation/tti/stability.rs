//! Stable time steps.
//!
//! Without layers a step advances `(P, Q)'' = -M D (P, Q)`: `M` is `vp² [[E, S], [S, 1]]` of the cell, and `D` is
//! `-(Lap - div n n·grad)` for `P` and `-div n n·grad` for `Q`. Steps are stable if all eigenvalues of `M D` are real, not
//! negative and below `4 / dt²`.
//!
//! `div n` is minus the transpose of `n·grad`, so both parts of `D` are symmetric and not negative: the second as it is a
//! square, the first as the square is at most that of `grad`, which is at most `-Lap` for each wavenumber. `M` is symmetric,
//! and not negative exactly if epsilon is not below delta. So all eigenvalues are real and not negative, whatever the angles.
//!
//! The parts of `D` add up to `-Lap`, at most `L = sum (2 c / h_a)²` with `courant` as `c`. With a constant `M` of equal
//! diagonals `t`, which is a mean of `t [[1, 1], [1, 1]]` and `t [[1, -1], [-1, 1]]`, no eigenvalue exceeds `t L`. In a
//! homogeneous medium `t = vp² max(E, 1)` suffices: `dt_max`. Else [`dt_sure`] takes the least `t` for which some
//! constant matrix minus `M` has no negative eigenvalue in any cell.
//!
//! **The old operators** have the angles before the derivatives of fluxes, too. These are the transpose of those of pressures
//! if the angles are constant, and all of the above holds. **If the angles vary**, eigenvalues may be complex, and no time step
//! is certainly stable: random angles within 0.2 rad grow without limit, layers that differ by 0.8 rad were sound for 3000
//! steps.

use crate::fd::model::{Model, Property, Values};

/// Halvings of the interval in which the least diagonal is searched: to a thousandth.
const HALVINGS: usize = 10;

/// Returns a time step in seconds that is certainly stable; with the old operators, if the angles are constant.
pub fn dt_sure(model: &Model, courant: f64) -> f64 {
    let all = [Property::Vp, Property::Epsilon, Property::Delta].map(|property| model.or_zero(property));
    let varies = all.iter().any(|values| matches!(values, Values::Volume(_)));
    let cells = if varies { model.grid.cells() } else { 1 };
    let fits = |t: f64| {
        // The off-diagonals that each cell accepts.
        let accepted = (0..cells).map(|cell| {
            let [vp, epsilon, delta] = all.map(|values| f64::from(values.at(cell)));
            let (m, e, s) = (vp * vp, 1.0 + 2.0 * epsilon, (1.0 + 2.0 * delta).sqrt());
            let reach = ((t - m * e).max(0.0) * (t - m).max(0.0)).sqrt();
            [m * s - reach, m * s + reach]
        });
        let [low, high] = accepted.fold([f64::NEG_INFINITY, f64::INFINITY], |[low, high], [from, to]| {
            [low.max(from), high.min(to)]
        });
        low <= high
    };
    let least = f64::from(model.fastest).powi(2);
    // Rounded, so that equal values of all cells leave room.
    if fits(least * (1.0 + 1e-6)) {
        return model.grid.stable_step(courant, f64::from(model.fastest));
    }
    // Twice the largest diagonal fits any cells with zero off the diagonal.
    let (mut low, mut high) = (least, 2.0 * least);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if fits(middle) { high = middle } else { low = middle }
    }
    model.grid.stable_step(courant, high.sqrt())
}
