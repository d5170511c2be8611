//! The source: a vertical dipole that only the fluxes of the pressure see.

use std::ops::Range;

use super::tiles::Tile;
use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;

/// Cells from the negative pole down to the positive one.
const APART: usize = 2;
/// How deep under the source's cell each pole is, and its sign.
const POLES: [(usize, f32); 2] = [(0, -1.0), (APART, 1.0)];

/// The two poles, which lie in one row, while their source is in the pressure.
pub struct SourceInjector {
    /// The row's indices along x and y.
    row: [usize; 2],
    /// From the first's index along z to the second's.
    depths: Range<usize>,
    /// Positions in a field, signs, and the pressures without a source.
    cells: [(usize, f32, f32); 2],
}

impl SourceInjector {
    /// `at` is the user's cell of the negative pole.
    pub fn new(layout: &Layout, at: [usize; 3]) -> SourceInjector {
        let [x, y, z] = at.map(|i| i + layout.pml);
        let cells = POLES.map(|(depth, sign)| (layout.at([x, y, z + depth]), sign, 0.0));
        SourceInjector { row: [x, y], depths: z..z + APART + 1, cells }
    }

    /// Puts a step's source into the pressure that the step starts from.
    ///
    /// # Safety
    /// The field has the layout that the poles were made for, and nobody else uses it meanwhile.
    pub unsafe fn put(&mut self, p: Rows<'_>, value: f32) {
        for (at, sign, without) in &mut self.cells {
            // SAFETY: within the field, by its making; alone, by the caller's promise.
            let cell = unsafe { &mut p.write(*at, 1)[0] };
            *without = *cell;
            *cell += *sign * value;
        }
    }

    /// Their cells, if they are in a tile.
    pub fn extent(&self, tile: &Tile) -> Option<[Range<usize>; 3]> {
        let [x, y] = self.row;
        let inside = tile.sides[0].cells.contains(&x) && tile.sides[1].cells.contains(&y);
        inside.then(|| [x..x + 1, y..y + 1, self.depths.clone()])
    }

    /// Whether the poles are in a row.
    #[inline(always)]
    pub fn are_in(&self, row: [usize; 2]) -> bool {
        self.row == row
    }

    /// Puts the pressures without a source in their places in a copy of the row, which begins at a position.
    pub fn restore(&self, begin: usize, row: &mut [f32]) {
        for (at, _, without) in self.cells {
            if let Some(cell) = at.checked_sub(begin).and_then(|i| row.get_mut(i)) {
                *cell = without;
            }
        }
    }
}
