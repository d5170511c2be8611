//! Pointers to the fields, coefficients and scratch of a sweep through a tile.

use std::ops::Range;

use super::coefficients::Coefficients;
use super::equation::{OnePassEquation, OnePassPropagator};
use super::fields::Fields;
use super::rows::Expansion;
use super::scratch::ScratchPointers;
use crate::fd::edge_field::{EdgeField, EdgeRow};
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::equation::TileStep;
use crate::fd::tiled::tiles::Tile;

/// Sweep through a tile. The position of a row is that of its first updated cell.
///
/// # Safety
/// The unsafe methods require that the fields have the layout of the coefficients, and that the
/// scratch fits the tile. Meanwhile no other thread uses the part of the fields that the tile
/// writes, or writes the part that it reads. The processor has the instructions.
pub struct Sweep<'a, P: OnePassEquation> {
    pub step: &'a TileStep<'a, OnePassPropagator<P>>,
    pub c: &'a Coefficients,
    pub tile: &'a Tile,
    pub scratch: ScratchPointers,
    pub old: [*const f32; 2],
    pub new: [*mut f32; 2],
    pub d: [*mut f32; 2],
    pub velocity_old: [*const f32; 3],
    pub velocity_new: [*mut f32; 3],
    pub split: [*mut f32; 3],
    /// First index along z, and values of a row.
    pub first: usize,
    pub len: usize,
}

impl<'a, P: OnePassEquation> Sweep<'a, P> {
    pub fn new(
        step: &'a TileStep<'a, OnePassPropagator<P>>,
        active: &'a ActiveTile,
        scratch: *mut f32,
    ) -> Self {
        let TileStep { equation, partition, from, .. } = *step;
        let c = &*equation.c;
        let fields = Fields::new(P::PRESSURES, step.fields);
        let velocity = fields.velocity.map(|[even, odd]| [even, if odd.values() == 0 { even } else { odd }]);
        Sweep {
            step,
            c,
            tile: &active.tile,
            scratch: ScratchPointers::new::<P>(partition, c.storage, scratch).0,
            old: fields.p.map(|both| both[from].as_ptr().cast_const()),
            new: fields.p.map(|both| both[1 - from].as_ptr()),
            d: fields.d.map(|d| d.as_ptr()),
            velocity_old: velocity.map(|both| both[from].as_ptr().cast_const()),
            velocity_new: velocity.map(|both| both[1 - from].as_ptr()),
            split: fields.split.map(|split| split.as_ptr()),
            first: c.layout.active(2).start,
            len: active.len,
        }
    }

    /// Returns the coefficients of a row. 16-bit numbers are expanded, to the `u`th of the
    /// scratch's few rows.
    pub unsafe fn row(&self, field: &EdgeField, [x, y]: [usize; 2], u: usize) -> *const f32 {
        match field.onward(&self.c.layout, [x, y, self.first]) {
            EdgeRow::Values(values) => values.as_ptr(),
            EdgeRow::Numbers(numbers, scale) => {
                let to = self.scratch.few.wrapping_add(u * self.scratch.row);
                self.step.isa.run(&Expansion { numbers: numbers.as_ptr(), scale, len: self.len, to });
                to
            }
        }
    }

    /// Returns the coefficients of some rows of a plane: a pointer to those of the user's first
    /// row, and values from row to row. 16-bit numbers are expanded, `len` of each row.
    pub unsafe fn rows(
        &self,
        field: &EdgeField,
        y: usize,
        rows: Range<usize>,
        buffer: *mut f32,
        len: usize,
    ) -> (*const f32, usize) {
        let layout = &self.c.layout;
        let step = field.steps(layout.pitch)[0];
        match field.onward(layout, [0, y, self.first]) {
            EdgeRow::Values(values) => (values.as_ptr(), step),
            EdgeRow::Numbers(numbers, scale) => {
                let (begin, end) = (layout.nearest(0, rows.start), layout.nearest(0, rows.end - 1) + 1);
                // If all rows are the same, one is enough.
                let row = if step == 0 { 0 } else { self.scratch.row };
                let end = if step == 0 { begin + 1 } else { end };
                for nth in 0..end - begin {
                    let numbers = numbers.as_ptr().wrapping_add((begin + nth) * step);
                    let to = buffer.wrapping_add(nth * row);
                    self.step.isa.run(&Expansion { numbers, scale, len, to });
                }
                (buffer.wrapping_sub(begin * row), row)
            }
        }
    }

    /// Returns the position of a row of a field.
    #[inline(always)]
    pub fn at(&self, x: usize, y: usize) -> usize {
        self.c.layout.at([x, y, self.first])
    }

    /// Returns the position of row number `row` of an array that stores some planes only.
    #[inline(always)]
    pub fn nth(&self, row: usize) -> usize {
        self.c.layout.row(row) + self.first
    }
}
