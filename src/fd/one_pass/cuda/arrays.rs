//! The arrays of a shot on a GPU: each pressure twice, increments, the PML velocities of both steps, split pressures.

use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::time_loop::launch::Address;

/// Returns the number of velocities of a row along z.
pub fn slots(zones: &Zones) -> usize {
    zones.velocities().next_multiple_of(8)
}

/// Returns their lengths with so many pressures. `layout`: that of a GPU.
pub fn lens(layout: &Layout, pressures: usize) -> Vec<usize> {
    let [x, y, z] = [0, 1, 2].map(|axis| Zones::new(layout, axis));
    let [nx, ny, _] = layout.padded;
    let velocity = [layout.rows(ny * x.velocities()), layout.rows(y.velocities() * nx), ny * nx * slots(&z)];
    let fields = std::iter::repeat_n(layout.field_len(), 3 * pressures);
    let twice = velocity.into_iter().flat_map(|len| [len, len]);
    fields.chain(twice).chain(layout.split_lens()).collect()
}

/// Their addresses.
pub struct FieldAddresses {
    /// Of each pressure.
    pub p: [[Address; 2]; 2],
    pub d: [Address; 2],
    pub velocity: [[Address; 2]; 3],
    pub split: [Address; 3],
}

impl FieldAddresses {
    /// `all`: the addresses of arrays of [`lens`].
    pub fn new(pressures: usize, all: &[Address]) -> FieldAddresses {
        let (fields, others) = all.split_at(3 * pressures);
        let of = |number: usize| if number < pressures { number } else { 0 };
        FieldAddresses {
            p: [0, 1].map(|number| [0, 1].map(|from| fields[2 * of(number) + from])),
            d: [0, 1].map(|number| fields[2 * pressures + of(number)]),
            velocity: [0, 2, 4].map(|first| [others[first], others[first + 1]]),
            split: [6, 7, 8].map(|number| others[number]),
        }
    }
}
