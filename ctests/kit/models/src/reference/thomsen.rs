//! Anisotropy of the two anisotropic equations.

use super::grid::Padded;
use super::{PI, Reference};

pub struct Thomsen {
    /// `1 + 2 epsilon`.
    pub horizontal: Vec<f64>,
    /// `sqrt(1 + 2 delta)`.
    pub coupling: Vec<f64>,
}

impl Thomsen {
    pub fn new(reference: &Reference<'_>, grid: &Padded, source: [usize; 3]) -> Self {
        let taper = |property: &[f32], of: fn(f64) -> f64| -> Vec<f64> {
            let tapered = grid.extend(property).into_iter().zip(grid.cells()).map(|(value, cell)| {
                let offset = |a: usize| cell[a].abs_diff(source[a]).pow(2);
                let factor = if reference.taper { ball(offset(0) + offset(1) + offset(2)) } else { 1.0 };
                of(1.0 + 2.0 * factor * value)
            });
            tapered.collect()
        };
        let medium = reference.medium;
        Thomsen { horizontal: taper(&medium.epsilon, |e| e), coupling: taper(&medium.delta, f64::sqrt) }
    }
}

/// Returns the share of the anisotropy by the squared distance from the source in cells: 0 up to 4
/// cells, 1 from 15 cells on.
fn ball(square: usize) -> f64 {
    let depth = ((square as f64).sqrt() - 4.0) * 4.0 / 44.0;
    match square {
        0..=16 => 0.0,
        17..=225 => 0.5 * (1.0 - (PI * depth).cos()),
        _ => 1.0,
    }
}
