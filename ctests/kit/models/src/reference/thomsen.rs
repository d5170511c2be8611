//! Anisotropy of the two anisotropic equations.

use super::grid::{Padded, Real};
use super::{PI, Reference};

pub struct Thomsen<R> {
    /// `1 + 2 epsilon`.
    pub horizontal: Vec<R>,
    /// `sqrt(1 + 2 delta)`.
    pub coupling: Vec<R>,
}

impl<R: Real> Thomsen<R> {
    pub fn new(reference: &Reference<'_>, grid: &Padded, source: [usize; 3]) -> Self {
        let [one, two] = [1.0, 2.0].map(R::from);
        let taper = |property| -> Vec<R> {
            let tapered = grid.extend::<R>(property).into_iter().zip(grid.cells()).map(|(value, cell)| {
                let offset = |a: usize| cell[a].abs_diff(source[a] + grid.margin).pow(2);
                let factor = if reference.taper { ball::<R>(offset(0) + offset(1) + offset(2)) } else { 1.0 };
                R::round(factor * value.wide())
            });
            tapered.collect()
        };
        let medium = reference.medium;
        Thomsen {
            horizontal: taper(&medium.epsilon).into_iter().map(|e| one + two * e).collect(),
            coupling: taper(&medium.delta).into_iter().map(|d| (one + two * d).sqrt()).collect(),
        }
    }
}

/// Share of the anisotropy by the squared distance from the source in cells: 0 up to 4 cells, 1 from 15 cells on.
fn ball<R: Real>(square: usize) -> f64 {
    let depth = (R::from(square as f32).sqrt().wide() - 4.0) * 4.0 / 44.0;
    match square {
        0..=16 => 0.0,
        17..=225 => 0.5 * (1.0 - (PI * depth).cos()),
        _ => 1.0,
    }
}
