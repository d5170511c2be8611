//! Memory layout of the padded grid, and division of a range of rows.

use std::ops::Range;

use crate::backend::cpu::ALIGN;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::WIDEST;

/// Values in a cache line.
const LINE: usize = ALIGN / size_of::<f32>();
/// Values that a GPU fetches at once: each thread of a warp reads one, side by side along z.
const WARP: usize = 32;

/// Layout of a field. Rows along z follow each other in memory, x before y. Along each axis the
/// indices are
///
/// ```text
/// 0 .. 4           never updated
/// 4 .. pml         absorbing layer
/// pml .. pml + n   the user's grid
/// pml + n .. N - 4 absorbing layer
/// N - 4 .. N       never updated
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// The user's cells.
    pub inner: [usize; 3],
    /// All cells.
    pub padded: [usize; 3],
    pub pml: usize,
    /// Values from one row to the next.
    pub pitch: usize,
    /// Values before the first row, so that the first updated cell of each row begins a cache line.
    pub lead: usize,
}

impl Layout {
    /// Makes the layout of a grid of `inner` cells with layers of `pml` cells, on the CPU.
    pub fn new(inner: [usize; 3], pml: usize) -> Self {
        let padded = inner.map(|n| n + 2 * pml);
        let lines = padded[2].div_ceil(LINE);
        // Rows a multiple of 16 lines apart would share a few sets of the first-level cache.
        let lines = if lines.is_multiple_of(16) { lines + 1 } else { lines };
        Layout { inner, padded, pml, pitch: lines * LINE, lead: LINE - HALF_WIDTH }
    }

    /// Returns the layout of the same grid in a GPU's memory.
    pub fn on_gpu(&self) -> Layout {
        Layout { pitch: self.padded[2].next_multiple_of(WARP), lead: WARP - HALF_WIDTH, ..*self }
    }

    pub fn cells(&self) -> usize {
        self.padded.iter().product()
    }

    /// Returns the number of values of a field over the padded grid.
    pub fn field_len(&self) -> usize {
        self.rows(self.padded[0] * self.padded[1])
    }

    /// Returns the number of values of `count` rows. It includes whole vectors of the last row,
    /// from its first updated cell on.
    pub fn rows(&self, count: usize) -> usize {
        self.lead + count * self.pitch + HALF_WIDTH
    }

    /// Returns the position of index 0 of row number `row`.
    #[inline(always)]
    pub fn row(&self, row: usize) -> usize {
        self.lead + row * self.pitch
    }

    #[inline(always)]
    pub fn at(&self, [x, y, z]: [usize; 3]) -> usize {
        self.row(y * self.padded[0] + x) + z
    }

    /// Returns the values from cell to cell along an axis.
    #[inline(always)]
    pub fn stride(&self, axis: usize) -> usize {
        [self.pitch, self.padded[0] * self.pitch, 1][axis]
    }

    /// Returns the indices that are updated.
    #[inline(always)]
    pub fn active(&self, axis: usize) -> Range<usize> {
        HALF_WIDTH..self.padded[axis] - HALF_WIDTH
    }

    /// Returns the number of cells that are updated.
    pub fn updated_cells(&self) -> usize {
        [0, 1, 2].map(|axis| self.active(axis).len()).into_iter().product()
    }

    /// Returns the number of updated cells of the absorbing layer on one side.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.pml - HALF_WIDTH
    }

    /// Returns the user's index from which a padded index takes its medium.
    #[inline(always)]
    pub fn nearest(&self, axis: usize, index: usize) -> usize {
        index.saturating_sub(self.pml).min(self.inner[axis] - 1)
    }

    /// Returns the place of an index in a field that is stored in an axis's two absorbing layers
    /// only: the first layer, then the second. `None` between them.
    #[inline(always)]
    pub fn in_layer(&self, axis: usize, index: usize) -> Option<usize> {
        let far = self.pml + self.inner[axis];
        if index < self.pml {
            Some(index - HALF_WIDTH)
        } else if index < far {
            None
        } else {
            Some(self.width() + index - far)
        }
    }

    /// Returns the row of an index in a field that stores some indices of axis 0 or 1 only.
    /// `place`: its place among these; `places`: their number; `other`: the index along the other
    /// axis.
    #[inline(always)]
    pub fn row_in_zones(&self, axis: usize, place: usize, places: usize, other: usize) -> usize {
        if axis == 0 { (other - HALF_WIDTH) * places + place } else { place * self.padded[0] + other }
    }

    /// Returns the numbers of values of the split pressures, which only the layers of x, y, z
    /// store: `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][layer]`.
    pub fn split_lens(&self) -> [usize; 3] {
        let [nx, ny, _] = self.padded;
        let both = 2 * self.width();
        [self.rows(ny * both), self.rows(both * nx), ny * nx * both]
    }
}

/// Returns the values of an axis's indices as sweeps along it read them: 0 beyond the updated cells,
/// with room for whole vectors.
pub fn with_room(mut values: Vec<f32>) -> Vec<f32> {
    let n = values.len();
    values.truncate(n - HALF_WIDTH);
    values.resize(n + WIDEST, 0.0);
    values
}

/// Divides a range into pieces of about the same length, at most `most`. Pieces begin at multiples
/// of [`HALF_WIDTH`] after the start if `most` is as large, because neighbouring rows are computed
/// together.
pub fn cut(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let unit = most.min(HALF_WIDTH);
    let units = range.len().div_ceil(unit);
    let pieces = units.div_ceil(most / unit);
    let at = move |k: usize| range.start + (units * k / pieces * unit).min(range.len());
    (0..pieces).map(move |k| at(k)..at(k + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_once() {
        for (range, most) in [(4..9, 1), (4..150, 32), (4..150, 7), (4..5, 1000), (9..9, 8)] {
            let pieces: Vec<_> = cut(range.clone(), most).collect();
            assert!(pieces.iter().all(|piece| piece.len() <= most), "{range:?}, {most}: {pieces:?}");
            assert_eq!(pieces.into_iter().flatten().collect::<Vec<_>>(), range.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_layers_are_what_lies_around_the_users_grid() {
        let layout = Layout::new([5, 6, 7], 20);
        assert_eq!(layout.padded, [45, 46, 47]);
        for axis in 0..3 {
            let inside: Vec<_> = layout.active(axis).filter_map(|i| layout.in_layer(axis, i)).collect();
            assert_eq!(inside, (0..32).collect::<Vec<_>>());
            assert_eq!(layout.in_layer(axis, 20), None);
            let last = layout.inner[axis] - 1;
            let nearest =
                [0, 20, 19 + layout.inner[axis], layout.padded[axis] - 1].map(|i| layout.nearest(axis, i));
            assert_eq!(nearest, [0, 0, last, last]);
            assert_eq!(layout.in_layer(axis, 19 + layout.inner[axis]), None);
        }
    }

    #[test]
    fn rows_begin_on_cache_lines_and_fit() {
        for nz in 1..300 {
            let layout = Layout::new([3, 4, nz], 8);
            assert!(layout.pitch >= layout.padded[2] && !(layout.pitch / LINE).is_multiple_of(16));
            assert_eq!(layout.at([1, 2, HALF_WIDTH]) % LINE, 0);
            let [x, y, z] = layout.padded;
            assert!(layout.at([x - 1, y - 1, z - 1]) < layout.field_len());
            let vectors = layout.active(2).len().next_multiple_of(LINE);
            assert!(layout.row(6) + HALF_WIDTH + vectors <= layout.rows(7));
            let gpu = layout.on_gpu();
            assert!(gpu.pitch >= gpu.padded[2] && gpu.pitch.is_multiple_of(WARP));
            assert_eq!(gpu.at([1, 2, HALF_WIDTH]) % WARP, 0);
            assert!(gpu.at([x - 1, y - 1, z - 1]) < gpu.field_len());
        }
    }
}
