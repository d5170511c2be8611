//! The state of a running shot.

use crate::backend::cpu::{ALIGN, Buffer, Rows};
use crate::error::Result;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};
use crate::fd::one_pass::partition::Partition;

pub struct TtiFields {
    /// Pressures P and Q, each of even and of odd steps.
    p: [Buffer; 2],
    q: [Buffer; 2],
    /// Flux along the symmetry axis.
    w: [Buffer; 2],
    /// Increment of the split pressures without damping, of x and y together.
    d: Buffer,
    /// Fluxes of x and y in their axis's PML zones: `[iy][slot][z]`, `[slot][ix][z]`.
    zones: [[Buffer; 2]; 2],
    /// Split pressures in the layers of their axis: `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][end]`.
    split: [Buffer; 3],
}

/// The fields as the members of a team share them.
#[derive(Clone, Copy)]
pub struct SharedTtiFields<'a> {
    pub p: [Rows<'a>; 2],
    pub q: [Rows<'a>; 2],
    pub w: [Rows<'a>; 2],
    pub d: Rows<'a>,
    pub zones: [[Rows<'a>; 2]; 2],
    pub split: [Rows<'a>; 3],
}

/// Returns the values of each of the smaller fields.
fn lens(layout: &Layout, zones: &[Zones; 3], ends: &Ends) -> ([usize; 2], [usize; 3]) {
    let [nx, ny] = [0, 1].map(|axis| layout.active(axis).len());
    let [plane, both] = [layout.padded[0], 2 * layout.width()];
    let fluxes = [layout.rows(ny * zones[0].velocities()), layout.rows(zones[1].velocities() * plane)];
    let split =
        [layout.rows(ny * both), layout.rows(both * plane), ny * nx * (ends.damped[0] + ends.damped[1])];
    (fluxes, split)
}

impl TtiFields {
    /// All zero.
    pub fn new(layout: &Layout, partition: &Partition) -> Result<Self> {
        let (fluxes, split) = lens(layout, &partition.zones, &partition.ends);
        let field = || Buffer::zeroed(layout.field_len(), "a field of a shot");
        let both = || Ok([field()?, field()?]);
        let layer = |len| Buffer::zeroed(len, "the absorbing layer of a shot");
        let flux = |len| Ok([layer(len)?, layer(len)?]);
        let [x, y, z] = split;
        Ok(TtiFields {
            p: both()?,
            q: both()?,
            w: both()?,
            d: field()?,
            zones: [flux(fluxes[0])?, flux(fluxes[1])?],
            split: [layer(x)?, layer(y)?, layer(z)?],
        })
    }

    /// Returns the bytes that [`TtiFields::new`] allocates.
    pub fn bytes(layout: &Layout) -> u64 {
        let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let (fluxes, split) = lens(layout, &zones, &Ends::new(layout, &zones[2]));
        let values = 7 * layout.field_len() + 2 * fluxes.iter().sum::<usize>() + split.iter().sum::<usize>();
        14 * ALIGN as u64 + 4 * values as u64
    }

    pub fn shared(&mut self) -> SharedTtiFields<'_> {
        let TtiFields { p, q, w, d, zones, split } = self;
        SharedTtiFields {
            p: p.each_mut().map(Buffer::rows),
            q: q.each_mut().map(Buffer::rows),
            w: w.each_mut().map(Buffer::rows),
            d: d.rows(),
            zones: zones.each_mut().map(|both| both.each_mut().map(Buffer::rows)),
            split: split.each_mut().map(Buffer::rows),
        }
    }
}

impl<'a> SharedTtiFields<'a> {
    /// Returns all of them, in the order of checkpoints.
    pub fn all(self) -> Vec<Rows<'a>> {
        let SharedTtiFields { p, q, w, d, zones, split } = self;
        [p, q, w].into_iter().flatten().chain([d]).chain(zones.into_iter().flatten()).chain(split).collect()
    }
}
