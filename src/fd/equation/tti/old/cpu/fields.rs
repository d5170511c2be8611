//! The state of a running shot.

use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;
use crate::fd::one_pass::fields::layer_lens;

/// The fields, as the members of a team share them. Pairs are of even and of odd steps.
#[derive(Clone, Copy)]
pub struct OldTtiFields<'a> {
    pub p: [Rows<'a>; 2],
    pub q: [Rows<'a>; 2],
    /// Flux along the symmetry axis.
    pub w: [Rows<'a>; 2],
    /// Increment of the split pressures without damping, of x and y together.
    pub d: Rows<'a>,
    /// Fluxes of x and y in their axis's PML zones: `[iy][slot][z]`, `[slot][ix][z]`.
    pub zones: [[Rows<'a>; 2]; 2],
    /// Split pressures in the layers of their axis: `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][end]`.
    pub split: [Rows<'a>; 3],
}

/// The number of the increments.
pub const INCREMENTS: usize = 6;

impl<'a> OldTtiFields<'a> {
    /// `all`: those of [`lens`].
    pub fn new(all: &[Rows<'a>]) -> OldTtiFields<'a> {
        let both = |first: usize| [all[first], all[first + 1]];
        OldTtiFields {
            p: both(0),
            q: both(2),
            w: both(4),
            d: all[INCREMENTS],
            zones: [both(7), both(9)],
            split: [all[11], all[12], all[13]],
        }
    }
}

/// Returns the lengths of the fields.
pub fn lens(layout: &Layout) -> Vec<usize> {
    let [[x, y, _], split] = layer_lens(layout);
    [layout.field_len(); INCREMENTS + 1].into_iter().chain([x, x, y, y]).chain(split).collect()
}
