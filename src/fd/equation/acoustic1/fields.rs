//! The state of a running shot.

use super::layout::Layout;
use crate::backend::cpu::{Buffer, Rows};
use crate::error::Result;

pub struct Fields {
    /// Pressure.
    p: Buffer,
    /// Particle velocity along x, y, z.
    velocity: [Buffer; 3],
    /// The part of the pressure that the absorbing layers of x, y, z damp, in those layers only:
    /// `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][layer]`.
    part: [Buffer; 3],
}

/// The fields as the members of a team share them.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub p: Rows<'a>,
    pub velocity: [Rows<'a>; 3],
    pub part: [Rows<'a>; 3],
}

/// Lengths of the damped parts of the pressure, in values.
pub fn part_lens(layout: &Layout) -> [usize; 3] {
    let [nx, ny, _] = layout.padded;
    let both = 2 * layout.width();
    [layout.rows(ny * both), layout.rows(both * nx), ny * nx * both]
}

impl Fields {
    /// All zero.
    pub fn new(layout: &Layout) -> Result<Self> {
        let field = || Buffer::zeroed(layout.field_len(), "a field of a shot");
        let [x, y, z] = part_lens(layout);
        let part = |len| Buffer::zeroed(len, "the absorbing layer of a shot");
        Ok(Fields {
            p: field()?,
            velocity: [field()?, field()?, field()?],
            part: [part(x)?, part(y)?, part(z)?],
        })
    }

    /// Bytes that [`Fields::new`] allocates.
    pub fn bytes(layout: &Layout) -> u64 {
        let values = 4 * layout.field_len() + part_lens(layout).iter().sum::<usize>();
        7 * crate::backend::cpu::ALIGN as u64 + 4 * values as u64
    }

    pub fn shared(&mut self) -> Shared<'_> {
        Shared {
            p: self.p.rows(),
            velocity: self.velocity.each_mut().map(Buffer::rows),
            part: self.part.each_mut().map(Buffer::rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;

    #[test]
    fn stated_bytes_are_those_of_the_buffers() {
        let layout = Layout::new(&Grid { n: [9, 14, 21], h: [10.0; 3] }, 5);
        let fields = Fields::new(&layout).unwrap();
        let buffers = [&fields.p].into_iter().chain(&fields.velocity).chain(&fields.part);
        assert_eq!(Fields::bytes(&layout), buffers.map(Buffer::bytes).sum::<u64>());
    }
}
