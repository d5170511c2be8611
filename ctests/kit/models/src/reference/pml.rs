//! The split absorbing layer of the first-order equations.

use super::Reference;
use super::grid::{Padded, Real};

/// Factors (A, B) of `f' = B f - A rate` at each index of an axis.
pub type Profile<R> = Vec<[R; 2]>;

pub struct Pml<R> {
    /// Of each axis: at half points, at cells.
    pub velocity: [Profile<R>; 3],
    pub pressure: [Profile<R>; 3],
    pub rate: [R; 3],
}

impl<R: Real> Pml<R> {
    /// `vp`: over the padded grid.
    pub fn new(reference: &Reference<'_>, grid: &Padded, vp: &[R]) -> Self {
        let (d, dt) = (grid.margin as f64, R::from(reference.dt));
        let h = reference.medium.h.map(R::from);
        let mean = (h[0] + h[1] + h[2]).wide() / 3.0;
        // spec: the cell in the middle of the list, not of the grid
        let d0 = R::round(10.0 * vp[vp.len() / 2].wide() * 1e5f64.ln() / (2.0 * d * mean));
        let damping = (dt * d0).wide();
        let profiles = |shift| grid.n.map(|n| profile(n as f64, d, shift, damping));
        Pml { velocity: profiles(0.5), pressure: profiles(0.0), rate: h.map(|h| dt / h) }
    }
}

/// `shift`: how far behind index `i` the points lie.
fn profile<R: Real>(n: f64, d: f64, shift: f64, damping: f64) -> Profile<R> {
    let factors = |i: usize| {
        let i = i as f64;
        let depth = if i < d {
            (d - shift - i) / d
        } else if i < d + n {
            0.0
        } else {
            (i + shift - n - d) / d
        };
        let g = damping * (depth * depth) / 2.0;
        let a = R::round(1.0 / (1.0 + g));
        [a, R::round(a.wide() * (1.0 - g))]
    };
    (0..(n + 2.0 * d) as usize).map(factors).collect()
}
