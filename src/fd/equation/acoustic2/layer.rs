//! The absorbing layer as a perfectly matched layer.
//!
//! A derivative along an axis that is damped by `d` becomes `1/s d/dx`, `s = 1 + d / (alpha + i omega)` (Roden and Gedney
//! 2000). In time `1/s` is a convolution that a step continues by a factor, so the second derivative becomes `p_xx +
//! psi_x + zeta` (Pasalic and McGarry 2010) with
//!
//! ```text
//! psi  = a psi- + b p_x                   a = exp(-(d + alpha) dt)
//! zeta = a zeta- + b (p_xx + psi_x)       b = (a - 1) d / (d + alpha)
//! ```
//!
//! As `psi_x = (a psi-)_x + b p_xx + b_x p_x`, a step reads the `psi` of the step before at its neighbours, and layers
//! are computed with the rest of the grid. Stored are `phi = a psi`, twice as others read it during a step, and `chi = a
//! zeta`. `alpha` lets fields that are constant in time decay, which rounding would let grow.

use std::ops::Range;

use crate::fd::centred::FIRST;
use crate::fd::grid::layout::Layout;
use crate::fd::model::Outline;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::WIDEST;

/// Reflection in the continuum at normal incidence.
const REFLECTION: f64 = 1e-5;
/// `alpha` times the time in which the fastest wave crosses a layer.
const ALPHA: f64 = 0.3;

/// Values of each index of an axis: `a`, `b`, `r² b_x`, and `r² = (dt/h)²`; 0 outside the axis' zones.
pub const PROFILES: usize = 4;

/// The layers along an axis, for one time step.
pub struct Layers {
    /// The layout of `phi` and `chi`: the grid without the axis' middle.
    pub layout: Layout,
    /// Updated indices with a value in them: a layer and the four cells beside it, along z whole vectors.
    pub zones: [Range<usize>; 2],
    /// The weight of a cell in its second derivative along the axis.
    pub centre: f32,
    pub profiles: [Vec<f32>; PROFILES],
}

impl Layers {
    /// `weights`: those of the second derivative along the axis.
    pub fn new(
        layout: &Layout,
        axis: usize,
        model: &Outline,
        dt: f32,
        weights: &[f32; HALF_WIDTH],
    ) -> Layers {
        let (dt, h, vp) = (f64::from(dt), f64::from(model.grid.h[axis]), f64::from(model.vp_range[1]));
        let (square, crossing) = ((dt / h).powi(2), layout.width() as f64 * h / vp);
        let (most, alpha) = (1.5 * (1.0 / REFLECTION).ln() / crossing, ALPHA / crossing);
        let far = layout.pml + layout.inner[axis];
        let depth = |i: usize| if i < layout.pml { layout.pml - i } else { (i + 1).saturating_sub(far) };
        let factors = |i: usize| {
            let d = most * (depth(i) as f64 / layout.width() as f64).powi(2);
            let a = (-(d + alpha) * dt).exp();
            if d > 0.0 { [a, (a - 1.0) * d / (d + alpha)] } else { [0.0; 2] }
        };
        let (inner, zones) = parts(layout, axis);
        // With room for the whole vectors of a row.
        let mut profiles = [0; PROFILES].map(|_| vec![0.0; layout.padded[axis] + WIDEST]);
        for i in layout.active(axis).filter(|i| zones.iter().any(|zone| zone.contains(i))) {
            let [a, b] = factors(i);
            let pair = |m: usize| f64::from(FIRST[m - 1]) * (factors(i + m)[1] - factors(i - m)[1]);
            let slope = (1..=HALF_WIDTH).map(pair).sum::<f64>();
            for (profile, value) in profiles.iter_mut().zip([a, b, square * slope, square]) {
                profile[i] = value as f32;
            }
        }
        let others: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        Layers { layout: inner, zones, centre: (-2.0 * others) as f32, profiles }
    }

    /// Returns the index in the layers' layout of one in a zone.
    #[inline(always)]
    pub fn slot(&self, index: usize) -> usize {
        let [near, far] = &self.zones;
        if index < near.end { index } else { index - (far.start - near.end) }
    }
}

/// Returns the layout of an axis' layers and their zones.
fn parts(layout: &Layout, axis: usize) -> (Layout, [Range<usize>; 2]) {
    let active = layout.active(axis);
    let len = if axis == 2 { layout.pml.next_multiple_of(WIDEST) } else { layout.pml };
    let Some(middle) = active.len().checked_sub(2 * len) else {
        return (*layout, [active.clone(), active.end..active.end]);
    };
    let mut n = layout.inner;
    n[axis] -= middle;
    let zones = [active.start..active.start + len, active.end - len..active.end];
    (Layout::new(n, layout.pml), zones)
}

/// Returns the lengths of `phi` of even and of odd steps and of `chi`, for x, y and z. `placed`: makes the layout of the
/// device.
pub fn lens(layout: &Layout, placed: impl Fn(&Layout) -> Layout) -> impl Iterator<Item = usize> {
    let len = |axis: usize| placed(&parts(layout, axis).0).field_len();
    [0, 1, 2].map(len).into_iter().flat_map(|len| [len; 3])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours within the half width of a zone's damped cells are neighbours in the layers' layout.
    #[test]
    fn neighbours_of_a_damped_cell_are_beside_it() {
        for (n, pml) in [(1, 8), (9, 8), (30, 13), (70, 20), (200, 37)] {
            let layout = Layout::new([n; 3], pml);
            for axis in 0..3 {
                let (inner, zones) = parts(&layout, axis);
                let [near, far] = &zones;
                let slot = |i: usize| if i < near.end { i } else { i - (far.start - near.end) };
                let all: Vec<_> = near.clone().chain(far.clone()).map(slot).collect();
                assert_eq!(all, inner.active(axis).collect::<Vec<_>>(), "{n}, {pml}");
                let damped = |i: usize| i < pml || i >= pml + n;
                for i in layout.active(axis).filter(|i| damped(*i)) {
                    for tap in (i - HALF_WIDTH..=i + HALF_WIDTH).filter(|i| layout.active(axis).contains(i)) {
                        assert!(near.contains(&tap) || far.contains(&tap), "{n}, {pml}: {tap} beside {i}");
                        assert_eq!(slot(tap) + i, slot(i) + tap, "{n}, {pml}: {tap} beside {i}");
                    }
                }
            }
        }
    }
}
