//! The state of a running shot.

use super::geometry::Geometry;
use crate::backend::cpu::{Buffer, Rows};
use crate::error::Result;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};

pub struct Fields {
    /// Pressures, each of even and of odd steps.
    p: Vec<[Buffer; 2]>,
    /// Undamped increments of the last step, one for each pressure.
    d: Vec<Buffer>,
    /// PML velocities of even and of odd steps: `[iy][slot][z]`, `[slot][ix][z]`, `[iy][ix][end]`.
    velocity: [[Buffer; 2]; 3],
    /// Split pressure of the absorbing layers: `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][end]`.
    split: [Buffer; 3],
}

/// The fields as the members of a team share them. With one pressure the second of a pair is the first again.
#[derive(Clone, Copy)]
pub struct SharedFields<'a> {
    /// `[pressure][parity of the step]`.
    pub p: [[Rows<'a>; 2]; 2],
    pub d: [Rows<'a>; 2],
    pub velocity: [[Rows<'a>; 2]; 3],
    pub split: [Rows<'a>; 3],
}

fn lens(layout: &Layout, zones: &[Zones; 3], ends: &Ends) -> ([usize; 3], [usize; 3]) {
    let [nx, ny] = [0, 1].map(|axis| layout.active(axis).len());
    let [plane, both] = [layout.padded[0], 2 * layout.width()];
    let velocity = [
        layout.rows(ny * zones[0].velocities()),
        layout.rows(zones[1].velocities() * plane),
        ny * nx * (ends.pml[0] + ends.pml[1]),
    ];
    let split =
        [layout.rows(ny * both), layout.rows(both * plane), ny * nx * (ends.damped[0] + ends.damped[1])];
    (velocity, split)
}

impl Fields {
    /// Allocates fields of zeros.
    pub fn new(layout: &Layout, geometry: &Geometry, pressures: usize) -> Result<Self> {
        let (velocity, split) = lens(layout, &geometry.partition.zones, &geometry.partition.ends);
        let field = || Buffer::zeroed(layout.field_len(), "a field of a shot");
        let layer = |len| Buffer::zeroed(len, "the absorbing layer of a shot");
        let [x, y, z] = velocity;
        let both = |len| Ok([layer(len)?, layer(len)?]);
        let [px, py, pz] = split;
        Ok(Fields {
            p: (0..pressures).map(|_| Ok([field()?, field()?])).collect::<Result<_>>()?,
            d: (0..pressures).map(|_| field()).collect::<Result<_>>()?,
            velocity: [both(x)?, both(y)?, both(z)?],
            split: [layer(px)?, layer(py)?, layer(pz)?],
        })
    }

    /// Returns the bytes that [`Fields::new`] allocates.
    pub fn bytes(layout: &Layout, pressures: usize) -> u64 {
        let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let (velocity, split) = lens(layout, &zones, &Ends::new(layout, &zones[2]));
        let fields = 3 * pressures;
        let values =
            fields * layout.field_len() + 2 * velocity.iter().sum::<usize>() + split.iter().sum::<usize>();
        (fields + 9) as u64 * crate::backend::cpu::ALIGN as u64 + 4 * values as u64
    }

    pub fn shared(&mut self) -> SharedFields<'_> {
        let p: Vec<_> = self.p.iter_mut().map(|both| both.each_mut().map(Buffer::rows)).collect();
        let d: Vec<_> = self.d.iter_mut().map(Buffer::rows).collect();
        let last = p.len() - 1;
        SharedFields {
            p: [p[0], p[last]],
            d: [d[0], d[last]],
            velocity: self.velocity.each_mut().map(|both| both.each_mut().map(Buffer::rows)),
            split: self.split.each_mut().map(Buffer::rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::coefficients::{BulkMaterial, Coefficients};
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::storage::Storage;

    #[test]
    fn bytes_are_what_is_allocated() {
        for (n, pml) in [([1, 1, 1], 8), ([40, 9, 70], 13)] {
            let grid = Grid { n, h: [10.0; 3] };
            let model = Model::new(grid, vec![2000.0; grid.cells()], None).unwrap();
            let c = Coefficients::new(&model, 1e-3, pml).unwrap();
            for pressures in [1, 2] {
                let fields = Fields::new(&c.layout, &Geometry::new(&c, 1), pressures).unwrap();
                let Fields { p, d, velocity, split } = &fields;
                let buffers = p.iter().flatten().chain(d).chain(velocity.iter().flatten()).chain(split);
                let bytes = buffers.map(Buffer::bytes).sum::<u64>();
                assert_eq!(bytes, Fields::bytes(&c.layout, pressures), "{n:?}, {pressures}");
            }
        }
    }

    /// Fields and coefficients, rounded up to whole lines and vectors as they are.
    #[test]
    fn a_cell_takes_at_most_24_bytes_from_300_cubed_on() {
        for n in 300..=1000 {
            let layout = Layout::new(&Grid { n: [n; 3], h: [10.0; 3] }, 20);
            let bytes = |density, storage| {
                let coefficients = BulkMaterial::bytes(&layout, density, storage);
                (Fields::bytes(&layout, 1) + coefficients) as f64 / layout.cells() as f64
            };
            let [medium, uniform] = [true, false].map(|density| bytes(density, Storage::Float32));
            assert!(medium <= 24.0, "{n} cubed: {medium}");
            // One coefficient less, which covers the user's columns.
            let columns = (n as f64 / (n + 40) as f64).powi(2);
            assert!(uniform <= medium - 4.0 * columns + 1e-3, "{n} cubed without density: {uniform}");
            let halved = bytes(true, Storage::Bits16);
            assert!(halved <= medium - 4.0 * columns + 1e-3, "{n} cubed in 16 bits: {halved}");
        }
    }
}
