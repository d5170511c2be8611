//! The state of a running shot.

use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};

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
    let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
    let ends = Ends::new(layout, &zones[2]);
    let [nx, ny] = [0, 1].map(|axis| layout.active(axis).len());
    let [plane, both] = [layout.padded[0], 2 * layout.width()];
    let [x, y] = [layout.rows(ny * zones[0].velocities()), layout.rows(zones[1].velocities() * plane)];
    let split =
        [layout.rows(ny * both), layout.rows(both * plane), ny * nx * (ends.damped[0] + ends.damped[1])];
    [layout.field_len(); INCREMENTS + 1].into_iter().chain([x, x, y, y]).chain(split).collect()
}
