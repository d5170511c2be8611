//! Prefetches of a sweep. The rows of a tile lie in too many places for the hardware prefetchers. A
//! processor has some tens of cache lines in flight and drops further requests, so each row
//! requests the same few rows ahead.

use super::equation::OnePassEquation;
use super::rows::{FLUX_PLANES, PREFETCHED};
use super::sweep::Sweep;
use crate::fd::edge_field::{EdgeField, EdgeRow};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::tiled::tiles::ROWS_PER_BLOCK;

/// Distance in rows of the prefetches of arrays that are read row after row.
pub const PREFETCH_DISTANCE: usize = 2;
/// Distance in planes from the current one to that whose fluxes along y are computed next.
const NEXT: usize = HALF_WIDTH - 1 + ROWS_PER_BLOCK;
/// Rows beside a tile, on each side, whose pressures its fluxes along x read. They read `b` of
/// [`HALF_WIDTH`] rows.
const BESIDE: usize = FLUX_PLANES;

/// Rows to prefetch while another is computed.
pub struct Prefetch {
    pub p: *const f32,
    pub b: *const f32,
    /// A row of the next plane beside the tile.
    pub beside: *const f32,
}

impl<P: OnePassEquation> Sweep<'_, P> {
    /// Returns the address of a row of coefficients, in their stored format, for a prefetch.
    #[inline(always)]
    pub fn coefficient_row(&self, field: &EdgeField, [x, y]: [usize; 2]) -> *const f32 {
        match field.onward(&self.c.layout, [x, y, self.first]) {
            EdgeRow::Values(values) => values.as_ptr(),
            EdgeRow::Numbers(numbers, _) => numbers.as_ptr().cast(),
        }
    }

    /// Returns the rows that the update at [x, y] is the first to read: increments and kappa, then
    /// the last pressure and the mixing coefficients.
    #[inline(always)]
    pub fn update_rows(&self, [x, y]: [usize; 2]) -> [*const f32; PREFETCHED] {
        let at = self.at(x, y);
        let mut rows = [std::ptr::null(); PREFETCHED];
        rows[0] = self.d[0].wrapping_add(at);
        rows[1] = self.coefficient_row(&self.c.kappa, [x, y]);
        if P::PRESSURES == 2 {
            rows[2] = self.d[1].wrapping_add(at);
            rows[3] = self.old[1].wrapping_add(at);
        }
        for (row, field) in rows[4..].iter_mut().zip(self.step.equation.mixing()) {
            *row = self.coefficient_row(field, [x, y]);
        }
        rows
    }

    /// Returns the rows to prefetch with a row; the row itself where the tile needs no other.
    #[inline(always)]
    pub fn prefetch(&self, [x, y]: [usize; 2]) -> Prefetch {
        let [columns, planes] = &self.tile.sides;
        let end = planes.fluxes().end;
        let p = |x: usize, y: usize| self.old[0].wrapping_add(self.at(x, y));
        let there = |ahead: usize, end: usize| if y + ahead < end { y + ahead } else { y };
        let next = there(1, planes.cells.end);
        let lead = self.c.beside.unwrap_or(0);
        // All rows beside the tile, spread over the tile's rows.
        let (cells, many) = (&columns.cells, 2 * (BESIDE + HALF_WIDTH));
        let nth = (x - cells.start) * many / cells.len();
        let beside = |nth: usize, before: usize| {
            let row = if nth < before {
                (cells.start + nth).saturating_sub(before)
            } else {
                cells.end + nth - before
            };
            row.min(self.c.layout.padded[0] - 1)
        };
        Prefetch {
            p: p(x, there(NEXT + HALF_WIDTH, end + HALF_WIDTH)),
            b: self.coefficient_row(&self.c.b, [x, there(NEXT + lead, end + lead)]),
            beside: match nth.checked_sub(2 * BESIDE) {
                None => p(beside(nth, BESIDE), next),
                Some(nth) => self.coefficient_row(&self.c.b, [beside(nth, HALF_WIDTH), next]),
            },
        }
    }
}
