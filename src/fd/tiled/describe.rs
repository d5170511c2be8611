//! The words for a cell in the message of a shot that has become unstable.

use crate::fd::grid::layout::Layout;

/// Returns the words for a padded cell: the user's cell, metres from cell 0, and its medium.
/// `medium`: returns vp in m/s, the words for other properties and the CFL number of a cell.
pub fn describe_cell(
    layout: &Layout,
    spacing: [f32; 3],
    padded: [usize; 3],
    medium: impl FnOnce([usize; 3]) -> (f64, String, f64),
) -> String {
    let cell: [usize; 3] = std::array::from_fn(|axis| layout.nearest(axis, padded[axis]));
    let inside = cell.map(|index| index + layout.pml);
    let place = if inside == padded { "" } else { "the absorbing layer beside " };
    let [x, y, z] = std::array::from_fn(|axis| cell[axis] as f64 * f64::from(spacing[axis]));
    let (vp, others, cfl) = medium(inside);
    let medium = format!("vp is {} m/s{others} and the CFL number {cfl:.3} (stable: up to 1)", readable(vp));
    format!("{place}cell {cell:?} ({x} m, {y} m, {z} m), where {medium}")
}

/// Formats a value to a tenth, and very small and very large ones as a power of ten.
pub fn readable(value: f64) -> String {
    if (1.0..1e7).contains(&value) { format!("{value:.1}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_values_are_powers_of_ten() {
        let values = [1000.0, 0.1, 1e-38, 9.99e6, 1e30];
        let expected = ["1000.0", "1.000e-1", "1.000e-38", "9990000.0", "1.000e30"];
        assert_eq!(values.map(readable), expected);
    }
}
