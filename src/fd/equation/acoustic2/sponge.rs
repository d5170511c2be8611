//! The sponge: factors below 1 in the layer around the user's grid, by which each time level is multiplied twice, once
//! when it is new and once when the next is.
//!
//! A layer of `pml` cells has a sponge of `pml - 4` and four cells without damping inside it.

use crate::fd::grid::layout::Layout;
use crate::fd::stencil::HALF_WIDTH;

/// A factor at the outer edge is 1 minus this.
const STRENGTH: f64 = 0.25;

/// Returns the factor of each padded index of an axis. As in the old kernel, the near sponge is one cell deeper than the far
/// one: its outermost index has the full depth.
pub fn factors(layout: &Layout, axis: usize) -> Vec<f32> {
    let width = layout.width();
    let far = width + 2 * HALF_WIDTH + layout.inner[axis];
    let depth = |i: usize| if i < width { width - i } else { i.saturating_sub(far) };
    let factor = |i: usize| (1.0 - STRENGTH * (depth(i) as f64 / width as f64).powi(2)) as f32;
    (0..layout.padded[axis]).map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_the_old_kernel() {
        let n = [20, 1, 7];
        let layout = Layout::new(n, 54);
        for axis in 0..3 {
            let factors = factors(&layout, axis);
            let depth = |i: usize, n: usize| match i {
                0..50 => (50 - i) as f64 / 50.0,
                i if i >= n + 58 => (i - 58 - n) as f64 / 50.0,
                _ => 0.0,
            };
            let expected: Vec<f32> =
                (0..n[axis] + 108).map(|i| (-0.25 * depth(i, n[axis]).powi(2) + 1.0) as f32).collect();
            assert_eq!(factors, expected);
            assert!(factors[50..n[axis] + 59].iter().all(|g| *g == 1.0));
        }
    }
}
