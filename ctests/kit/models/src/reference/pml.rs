//! The split absorbing layer of the first-order equations.

use super::Reference;
use super::grid::Padded;

/// Factors (A, B) of `f' = B f - A rate` at each index of an axis.
pub type Profile = Vec<[f64; 2]>;

pub struct Pml {
    /// Profiles of each axis: `velocity` at half points, `pressure` at cells.
    pub velocity: [Profile; 3],
    pub pressure: [Profile; 3],
    pub rate: [f64; 3],
}

impl Pml {
    /// `vp`: m/s, over the padded grid.
    pub fn new(reference: &Reference<'_>, grid: &Padded, vp: &[f64]) -> Self {
        let (d, dt) = (grid.margin as f64, f64::from(reference.dt));
        let h = reference.medium.h.map(f64::from);
        let mean = (h[0] + h[1] + h[2]) / 3.0;
        let fastest = reference.medium.vp.iter().zip(&reference.medium.epsilon);
        let fastest = fastest.map(|(&vp, &e)| f64::from(vp) * (1.0 + 2.0 * f64::from(e.max(0.0))).sqrt());
        let fastest = fastest.fold(0.0, f64::max);
        let d0 = h.map(|h| {
            // The old rule takes the cell in the middle of the list, not of the grid.
            let (v, spacing) = match reference.old_rules {
                true => (vp[vp.len() / 2], mean),
                false => (fastest, mean.min(2.0 * h)),
            };
            10.0 * v * 1e5f64.ln() / (2.0 * d * spacing)
        });
        let profiles = |shift| [0, 1, 2].map(|axis| profile(grid.n[axis] as f64, d, shift, dt * d0[axis]));
        Pml { velocity: profiles(0.5), pressure: profiles(0.0), rate: h.map(|h| dt / h) }
    }
}

/// `shift`: distance of the points behind index `i`, in cells.
fn profile(n: f64, d: f64, shift: f64, damping: f64) -> Profile {
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
        let a = 1.0 / (1.0 + g);
        [a, a * (1.0 - g)]
    };
    (0..(n + 2.0 * d) as usize).map(factors).collect()
}
