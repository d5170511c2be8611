//! A coefficient of the medium over the user's grid, continued beyond its edges.

use super::grid::layout::Layout;
use super::host_memory::host_zeros;
use super::model::Values;
use super::storage::{Scale, Storage, check};
use super::vector::lanes::WIDEST;
use crate::backend::cpu::Buffer;
use crate::error::Result;

/// Coefficient field that continues beyond the user's grid with its value at the edge. It has one
/// row for each of the user's columns, or one for all of them, padded along z only. Cells that are
/// never updated are 0.
pub struct EdgeField {
    /// Name in messages.
    pub what: &'static str,
    values: Buffer,
    /// Scale of 16-bit numbers, of which two lie in the place of one float32. Beyond the updated
    /// cells numbers are arbitrary.
    scale: Option<Scale>,
    /// Row steps from column to column along x and y; 0 where all rows are the same.
    step: [usize; 2],
}

/// Part of a row, in the format in which it is stored.
#[derive(Clone, Copy)]
pub enum EdgeRow<'a> {
    Values(&'a [f32]),
    Numbers(&'a [u16], Scale),
}

/// Returns the number of float32 values that `rows` rows take, with a vector after the last.
fn floats(layout: &Layout, rows: usize, storage: Storage) -> usize {
    ((layout.rows(rows) + WIDEST) * storage.bytes()).div_ceil(size_of::<f32>())
}

/// Continues rows along z into the cells that are never updated, and into the gaps between rows.
fn continue_rows<T: Copy>(values: &mut [T], layout: &Layout, rows: usize) {
    let (active, len) = (layout.active(2), values.len());
    for (row, at) in (0..rows).map(|row| (row, layout.row(row))) {
        let (first, last) = (values[at + active.start], values[at + active.end - 1]);
        let end = if row + 1 == rows { len } else { at + layout.pitch };
        values[at..at + active.start].fill(first);
        values[at + active.end..end].fill(last);
    }
}

impl EdgeField {
    /// Makes a field. `value` returns the coefficient of a user's cell by its position in the
    /// model.
    ///
    /// # Errors
    /// Values that 16 bits cannot represent to [`WORST`](super::storage::WORST); no memory.
    pub fn new(
        layout: &Layout,
        storage: Storage,
        what: &'static str,
        value: impl Fn(usize) -> f32,
    ) -> Result<Self> {
        let [nx, ny, nz] = layout.inner;
        let mut values = Buffer::zeroed(floats(layout, nx * ny, storage), what)?;
        let step = [1, nx];
        let cells = (0..nx * ny).flat_map(|column| {
            let first = layout.row(column);
            layout.active(2).map(move |z| (first + z, column * nz + layout.nearest(2, z)))
        });
        if storage == Storage::Float32 {
            let to = &mut values[..];
            cells.for_each(|(at, cell)| to[at] = value(cell));
            return Ok(EdgeField { what, values, scale: None, step });
        }
        let all = (0..nx * ny * nz).map(&value);
        let [low, high] = all.fold([f32::INFINITY, 0.0], |[low, high], v| [v.min(low), v.max(high)]);
        let scale = Scale::new(low, high);
        let numbers = values.halves_mut();
        let mut off = 0.0f64;
        for (at, cell) in cells {
            let value = value(cell);
            numbers[at] = scale.number(value);
            off = off.max((f64::from(scale.value(numbers[at])) / f64::from(value) - 1.0).abs());
        }
        check(what, off)?;
        Ok(EdgeField { what, values, scale: Some(scale), step })
    }

    /// Makes a field whose coefficients `value` computes from `properties` at a position in the
    /// model. The field is uniform if all of these are constant.
    pub fn from_properties(
        layout: &Layout,
        storage: Storage,
        what: &'static str,
        properties: &[&Values],
        value: impl Fn(usize) -> f32,
    ) -> Result<Self> {
        match properties.iter().all(|values| matches!(values, Values::Constant(_))) {
            true => EdgeField::uniform(layout, storage, what, value(0)),
            false => EdgeField::new(layout, storage, what, value),
        }
    }

    /// Makes a uniform field.
    pub fn uniform(layout: &Layout, storage: Storage, what: &'static str, value: f32) -> Result<Self> {
        let mut values = Buffer::zeroed(floats(layout, 1, storage), what)?;
        let scale = match storage {
            Storage::Float32 => {
                values[layout.row(0)..][layout.active(2)].fill(value);
                None
            }
            // The smallest value has the number 0, and the buffer is zero.
            Storage::Bits16 => Some(Scale::new(value, value)),
        };
        Ok(EdgeField { what, values, scale, step: [0, 0] })
    }

    /// Returns the field with the cells that are never updated set to the values at the ends of
    /// their rows.
    pub fn continued_along_z(mut self, layout: &Layout) -> EdgeField {
        let rows = self.rows(layout);
        match self.scale {
            None => continue_rows(&mut self.values, layout, rows),
            Some(_) => continue_rows(self.values.halves_mut(), layout, rows),
        }
        self
    }

    /// Returns true if all rows are the same.
    pub fn is_uniform(&self) -> bool {
        self.step == [0, 0]
    }

    /// Returns the number of rows.
    fn rows(&self, layout: &Layout) -> usize {
        if self.is_uniform() { 1 } else { layout.inner[0] * layout.inner[1] }
    }

    /// Returns the values from column to column along x and y, where rows are `pitch` values apart.
    pub fn steps(&self, pitch: usize) -> [usize; 2] {
        self.step.map(|step| step * pitch)
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> u64 {
        self.values.bytes()
    }

    /// Returns the bytes of a field of `rows` rows.
    #[cfg(test)]
    pub fn bytes_of(layout: &Layout, storage: Storage, rows: usize) -> u64 {
        Buffer::bytes_of(floats(layout, rows, storage))
    }

    /// Returns the number of values of the field in another layout of the same grid.
    pub fn len_in(&self, to: &Layout) -> usize {
        to.rows(self.rows(to))
    }

    /// Returns the rows as stored, two 16-bit numbers in a float32, in another layout of the grid.
    ///
    /// # Errors
    /// [`Error::NoHostMemory`](crate::error::Error::NoHostMemory).
    pub fn on_gpu(&self, from: &Layout, to: &Layout) -> Result<Vec<f32>> {
        let each = if self.scale.is_some() { 2 } else { 1 };
        let mut values = host_zeros(self.len_in(to).div_ceil(each), "coefficients on their way to a GPU")?;
        // In any layout the position of a row and the distance to the next are multiples of 4.
        let len = from.padded[2].div_ceil(each);
        for row in 0..self.rows(from) {
            let to = &mut values[to.row(row) / each..][..len];
            to.copy_from_slice(&self.values[from.row(row) / each..][..len]);
        }
        Ok(values)
    }

    /// Returns the scale of the 16-bit numbers; `None` for float32.
    pub fn scale(&self) -> Option<Scale> {
        self.scale
    }

    /// Returns `len` values at the padded indices (x, y), from index `z` on.
    #[inline(always)]
    pub fn row(&self, layout: &Layout, cell: [usize; 3], len: usize) -> EdgeRow<'_> {
        self.at(self.place(layout, cell), len)
    }

    /// Returns the value of a padded cell.
    pub fn value(&self, layout: &Layout, cell: [usize; 3]) -> f64 {
        self.row(layout, cell, 1).values(&mut Vec::new())[0].into()
    }

    /// Returns the values at the padded indices (x, y) from index `z` on, and all that follow them
    /// in memory, those of other rows too.
    #[inline(always)]
    pub fn onward(&self, layout: &Layout, cell: [usize; 3]) -> EdgeRow<'_> {
        let at = self.place(layout, cell);
        let all = if self.scale.is_some() { self.values.halves().len() } else { self.values.len() };
        self.at(at, all - at)
    }

    #[inline(always)]
    fn place(&self, layout: &Layout, [x, y, z]: [usize; 3]) -> usize {
        let column = |axis: usize, index: usize| layout.nearest(axis, index) * self.step[axis];
        layout.row(column(0, x) + column(1, y)) + z
    }

    #[inline(always)]
    fn at(&self, at: usize, len: usize) -> EdgeRow<'_> {
        match self.scale {
            None => EdgeRow::Values(&self.values[at..][..len]),
            Some(scale) => EdgeRow::Numbers(&self.values.halves()[at..][..len], scale),
        }
    }
}

impl<'a> EdgeRow<'a> {
    /// Returns the values as float32. `buffer` holds them if they have to be computed.
    #[inline(always)]
    pub fn values(self, buffer: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            EdgeRow::Values(values) => values,
            EdgeRow::Numbers(numbers, scale) => {
                buffer.clear();
                buffer.extend(numbers.iter().map(|q| scale.value(*q)));
                buffer
            }
        }
    }
}
