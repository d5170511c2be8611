//! Stable time steps.
//!
//! Without layers a step advances `(P, Q)'' = -M D (P, Q)`: `M` is `vp² [[E, S], [S, 1]]` of the cell, and `D` is
//! `-(R_x- R_x+ + R_y- R_y+)` for `P` and `-R_z- R_z+` for `Q`. Steps are stable if all eigenvalues of `M D` are real, not
//! negative and below `4 / dt²`.
//!
//! **In a homogeneous medium** a wavenumber has the derivatives `s_a exp(i k_a / 2)`, `|s_a| <= 2 c / h_a` with the
//! stencil's `courant` as `c`. The rotation is orthogonal, so `D` is `diag(a², b²)` with `a² + b² = sum s_a²`. The
//! determinant `(E - S²) a² b²` is not negative exactly if epsilon is not below delta. Then no eigenvalue is above the
//! trace `vp² (E a² + b²)`, hence none above `vp² max(E, 1) sum (2 c / h_a)²`: [`dt_max`].
//!
//! **If only the angles are constant**, `R-` is the negative transpose of `R+`, so `D` is symmetric and not negative, and
//! all eigenvalues of `M D` are real. They are no larger with a constant matrix in the place of `M`, if it minus `M` has
//! no negative eigenvalue in any cell. Among those with equal diagonals `t` [`dt_sure`] takes the least `t`. Its
//! eigenvalues are at most `t sum (2 c / h_a)²`, by the trace again.
//!
//! **If the angles vary**, `R-` is no transpose of `R+`, because the angles stand before the derivatives. Eigenvalues may
//! then be complex, and no time step is certainly stable: random angles within 0.2 rad grow without limit, layers that differ
//! by 0.8 rad were sound for 3000 steps. [`dt_sure`] holds for the medium with constant angles.

use crate::fd::model::{Model, Outline, Property, Values};
use crate::fd::stencil::Stencil;

/// Halvings of the interval in which the least diagonal is searched: to a thousandth.
const HALVINGS: usize = 10;

fn step(velocity: f64, model: &Outline, stencil: Stencil) -> f64 {
    let inverse: f64 = model.grid.h.iter().map(|&h| f64::from(h).powi(-2)).sum();
    1.0 / (stencil.courant() * velocity * inverse.sqrt())
}

/// Returns the largest stable time step in seconds in a homogeneous medium as fast as the fastest cell.
pub fn dt_max(model: &Outline, stencil: Stencil) -> f64 {
    step(f64::from(model.fastest), model, stencil)
}

/// Returns a time step in seconds that is certainly stable if the angles are constant.
pub fn dt_sure(model: &Model, stencil: Stencil) -> f64 {
    let zero = Values::Constant(0.0);
    let [epsilon, delta] =
        [Property::Epsilon, Property::Delta].map(|property| model.get(property).unwrap_or(&zero));
    let all = [model.vp(), epsilon, delta];
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
        return dt_max(model, stencil);
    }
    // Twice the largest diagonal fits any cells with zero off the diagonal.
    let (mut low, mut high) = (least, 2.0 * least);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if fits(middle) { high = middle } else { low = middle }
    }
    step(high.sqrt(), model, stencil)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;

    /// Returns both steps as parts of that of a velocity of 2000 m/s.
    fn steps(vp: Values, epsilon: Values, delta: Values) -> [f64; 2] {
        let grid = Grid { n: [1, 1, 2], h: [10.0, 12.0, 8.0] };
        let properties = [(Property::Vp, vp), (Property::Epsilon, epsilon), (Property::Delta, delta)];
        let model = Model::of(grid, properties).unwrap();
        let one = step(2000.0, &model, Stencil::Taylor);
        [dt_max(&model, Stencil::Taylor) / one, dt_sure(&model, Stencil::Taylor) / one]
    }

    #[test]
    fn steps_are_equal_unless_the_anisotropy_jumps() {
        let horizontal = 1.4f64.sqrt().recip();
        for (vp, epsilon, delta, expected) in [
            (Values::from(2000.0), Values::from(0.0), Values::from(0.0), 1.0),
            (vec![1000.0, 2000.0].into(), 0.0.into(), 0.0.into(), 1.0),
            (vec![1000.0, 2000.0].into(), 0.2.into(), 0.1.into(), horizontal),
            (2000.0.into(), (-0.1).into(), (-0.2).into(), 1.0),
        ] {
            let [most, sure] = steps(vp, epsilon, delta);
            assert!((most - expected).abs() < 1e-6 && (sure - expected).abs() < 1e-6, "{most} {sure}");
        }
        // With diagonals t an isotropic cell accepts s from 2 - t to t. At t = 1 + 2 epsilon its neighbour accepts only its own
        // sqrt(1 + 2 delta): 0.77 with 0.2 and -0.2, and the isotropic cell accepts 0.6 to 1.4; 0.32 with 0.1 and -0.45, which
        // is not between 0.8 and 1.2.
        let beside =
            |epsilon, delta| steps(2000.0.into(), vec![0.0, epsilon].into(), vec![0.0, delta].into());
        let [most, sure] = beside(0.2, -0.2);
        assert!((most - horizontal).abs() < 1e-6 && (sure - most).abs() < 1e-6, "{most} {sure}");
        let [most, sure] = beside(0.1, -0.45);
        assert!(sure < 0.99 * most && sure > most / 2f64.sqrt(), "{most} {sure}");
    }
}
