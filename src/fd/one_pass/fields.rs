//! Fields of a running shot: the pressures of even and of odd steps and their undamped increments;
//! the PML velocities of even and of odd steps; the split pressures of the absorbing layers.

use super::rows::FLUX_PLANES;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};

/// Fields or their addresses. With one pressure the second of a pair equals the first.
#[derive(Clone, Copy)]
pub struct Fields<T> {
    /// `[pressure][parity of the step]`.
    pub p: [[T; 2]; 2],
    pub d: [T; 2],
    /// `[axis][parity of the step]`. A second one without values means that the first serves all steps.
    pub velocity: [[T; 2]; 3],
    pub split: [T; 3],
}

impl<T: Copy> Fields<T> {
    /// Groups the fields of `pressures` pressures. `all`: the fields in the order of [`lens`].
    pub fn new(pressures: usize, all: &[T]) -> Fields<T> {
        let (fields, layers) = all.split_at(3 * pressures);
        let of = |number: usize| number.min(pressures - 1);
        Fields {
            p: [0, 1].map(|number| [0, 1].map(|from| fields[2 * of(number) + from])),
            d: [0, 1].map(|number| fields[2 * pressures + of(number)]),
            velocity: [0, 2, 4].map(|first| [layers[first], layers[first + 1]]),
            split: [6, 7, 8].map(|number| layers[number]),
        }
    }
}

/// Returns the lengths of the fields of `pressures` pressures.
pub fn lens(layout: &Layout, pressures: usize) -> Vec<usize> {
    let [[x, y, z], split] = layer_lens(layout);
    // No two tiles read a velocity of z, nor one of y unless both ends reach it.
    let is_narrow = (1..FLUX_PLANES).contains(&Zones::new(layout, 1).middle.len());
    in_order(layout, pressures, [[x; 2], [y, if is_narrow { y } else { 0 }], [z, 0]], split)
}

/// Returns the lengths of the velocities and split pressures of x, y, z: `[iy][slot][z]`, `[slot][ix][z]`, `[iy][ix][end]`.
pub fn layer_lens(layout: &Layout) -> [[usize; 3]; 2] {
    let zones = [0, 1, 2].map(|axis| Zones::new(layout, axis));
    let ends = Ends::new(layout, &zones[2]);
    let [nx, ny] = [0, 1].map(|axis| layout.active(axis).len());
    let [plane, both] = [layout.padded[0], 2 * layout.width()];
    let velocity = [
        layout.rows(ny * zones[0].velocities()),
        layout.rows(zones[1].velocities() * plane),
        ny * nx * (ends.pml[0] + ends.pml[1]),
    ];
    let split =
        [layout.rows(ny * both), layout.rows(both * plane), ny * nx * (ends.damped[0] + ends.damped[1])];
    [velocity, split]
}

/// Returns the number of places for PML velocities of a row along z on a GPU.
pub fn gpu_slots(zones: &Zones) -> usize {
    zones.velocities().next_multiple_of(8)
}

/// Returns the lengths of the fields on a GPU. `layout`: that of a GPU.
pub fn gpu_lens(layout: &Layout, pressures: usize) -> Vec<usize> {
    let [x, y, z] = [0, 1, 2].map(|axis| Zones::new(layout, axis));
    let [nx, ny, _] = layout.padded;
    let velocity =
        [layout.rows(ny * x.velocities()), layout.rows(y.velocities() * nx), ny * nx * gpu_slots(&z)];
    in_order(layout, pressures, velocity.map(|len| [len; 2]), layout.split_lens())
}

/// Returns the lengths in the order of [`Fields`].
fn in_order(layout: &Layout, pressures: usize, velocity: [[usize; 2]; 3], split: [usize; 3]) -> Vec<usize> {
    let fields = std::iter::repeat_n(layout.field_len(), 3 * pressures);
    fields.chain(velocity.into_iter().flatten()).chain(split).collect()
}
