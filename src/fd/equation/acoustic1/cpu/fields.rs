//! The state of a running shot.

use super::geometry::Geometry;
use crate::backend::cpu::{Buffer, Rows};
use crate::error::Result;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};

pub struct Fields {
    /// Pressure, of even and of odd steps.
    p: [Buffer; 2],
    /// What the undamped terms of the last step added to the pressure.
    d: Buffer,
    /// Velocities that are kept, of even and of odd steps, of the updated planes and rows: `[iy][slot][z]`, `[slot][ix][z]`, `[iy][ix][end]`.
    velocity: [[Buffer; 2]; 3],
    /// Split pressure of the absorbing layers: `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][end]`.
    split: [Buffer; 3],
}

/// The fields as the members of a team share them.
#[derive(Clone, Copy)]
pub struct SharedFields<'a> {
    pub p: [Rows<'a>; 2],
    pub d: Rows<'a>,
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
    /// All zero.
    pub fn new(layout: &Layout, geometry: &Geometry) -> Result<Self> {
        let (velocity, split) = lens(layout, &geometry.partition.zones, &geometry.partition.ends);
        let field = || Buffer::zeroed(layout.field_len(), "a field of a shot");
        let layer = |len| Buffer::zeroed(len, "the absorbing layer of a shot");
        let [x, y, z] = velocity;
        let both = |len| Ok([layer(len)?, layer(len)?]);
        let [px, py, pz] = split;
        Ok(Fields {
            p: [field()?, field()?],
            d: field()?,
            velocity: [both(x)?, both(y)?, both(z)?],
            split: [layer(px)?, layer(py)?, layer(pz)?],
        })
    }

    /// Bytes that [`Fields::new`] allocates.
    pub fn bytes(layout: &Layout) -> u64 {
        let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let (velocity, split) = lens(layout, &zones, &Ends::new(layout, &zones[2]));
        let values =
            3 * layout.field_len() + 2 * velocity.iter().sum::<usize>() + split.iter().sum::<usize>();
        12 * crate::backend::cpu::ALIGN as u64 + 4 * values as u64
    }

    pub fn shared(&mut self) -> SharedFields<'_> {
        SharedFields {
            p: self.p.each_mut().map(Buffer::rows),
            d: self.d.rows(),
            velocity: self.velocity.each_mut().map(|both| both.each_mut().map(Buffer::rows)),
            split: self.split.each_mut().map(Buffer::rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::equation::acoustic1::coefficients::{Acoustic1Material, Coefficients};
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::storage::Storage;

    #[test]
    fn bytes_are_what_is_allocated() {
        for (n, pml) in [([1, 1, 1], 8), ([40, 9, 70], 13)] {
            let grid = Grid { n, h: [10.0; 3] };
            let model = Model::new(grid, vec![2000.0; grid.cells()], None).unwrap();
            let c = Coefficients::new(&model, 1e-3, pml).unwrap();
            let fields = Fields::new(&c.layout, &Geometry::new(&c, 1)).unwrap();
            let Fields { p, d, velocity, split } = &fields;
            let buffers = p.iter().chain([d]).chain(velocity.iter().flatten()).chain(split);
            assert_eq!(buffers.map(Buffer::bytes).sum::<u64>(), Fields::bytes(&c.layout), "{n:?}");
        }
    }

    /// Fields and coefficients, rounded up to whole lines and vectors as they are.
    #[test]
    fn a_cell_takes_at_most_24_bytes_from_300_cubed_on() {
        for n in 300..=1000 {
            let layout = Layout::new(&Grid { n: [n; 3], h: [10.0; 3] }, 20);
            let bytes = |density, storage| {
                let coefficients = Acoustic1Material::bytes(&layout, density, storage);
                (Fields::bytes(&layout) + coefficients) as f64 / layout.cells() as f64
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
