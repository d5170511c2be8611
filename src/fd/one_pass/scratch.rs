//! The buffers of one thread: fluxes that the next planes need, too, and the terms of a plane.

use std::marker::PhantomData;

use super::geometry::Geometry;
use super::policy::Policy;
use super::rows::{FLUX_PLANES, ROWS_PER_BLOCK, TAPS};
use crate::backend::cpu::Buffer;
use crate::error::Result;
use crate::fd::storage::Storage;
use crate::fd::vector::lanes::WIDEST;

/// Places for fluxes along an axis: of those before its last that a term takes. New ones replace the oldest, once these are read.
pub const PLACES: usize = FLUX_PLANES;

pub struct Scratch<P> {
    values: Buffer,
    columns: usize,
    len: usize,
    storage: Storage,
    policy: PhantomData<P>,
}

/// Pointers to the beginnings of its parts.
#[derive(Clone, Copy)]
pub struct ScratchPointers {
    /// From row to row, and from plane to plane, of the fluxes along y: `[index % PLACES][column][z]`.
    pub row: usize,
    pub plane: usize,
    pub y: *mut f32,
    /// Terms along y of a few planes, `[plane][column][z]`.
    pub term_y: *mut f32,
    /// Fluxes of a plane along x, `[index % PLACES][z]`, and terms along x of a few rows.
    pub x: *mut f32,
    pub term_x: *mut f32,
    /// A row of fluxes along z, with a vector of zeros before and after it.
    pub fluxes: *mut f32,
    /// A row of increments at the ends.
    pub increments: *mut f32,
    /// Rows of the pressures without the source, and of mixing coefficients near it.
    pub clean: [*mut f32; 2],
    pub adapted: [*mut f32; 2],
    /// Only for numbers of 16 bits, what they stand for: in the rows of a plane, and in a few rows.
    pub b: *mut f32,
    pub kappa: *mut f32,
    pub mixing: [*mut f32; 2],
    pub few: *mut f32,
}

impl<P: Policy> Scratch<P> {
    /// For any tile of any tiling.
    pub fn new(geometry: &Geometry, storage: Storage) -> Result<Self> {
        let (columns, ends) = (geometry.partition.columns(), &geometry.partition.ends);
        let len = ScratchPointers::new::<P>(columns, ends.len, storage, std::ptr::null_mut()).1;
        Ok(Scratch {
            values: Buffer::zeroed(len, "what a thread of a shot computes with")?,
            columns,
            len: ends.len,
            storage,
            policy: PhantomData,
        })
    }

    pub fn pointers(&mut self) -> ScratchPointers {
        ScratchPointers::new::<P>(self.columns, self.len, self.storage, self.values.as_mut_ptr()).0
    }
}

impl ScratchPointers {
    /// For so many rows along x of so many values. Also returns the number of values in all.
    fn new<P: Policy>(
        columns: usize,
        len: usize,
        storage: Storage,
        first: *mut f32,
    ) -> (ScratchPointers, usize) {
        // Odd numbers of lines: neighbours in other sets of a cache. Rows of expanded numbers have a value more.
        let expands = storage == Storage::Bits16;
        let row = ((len / WIDEST + usize::from(expands)) | 1) * WIDEST;
        let plane = columns * row;
        let expanded = |rows: usize| if expands { rows * row } else { 0 };
        let several = |count: usize, len: usize, take: &mut dyn FnMut(usize) -> *mut f32| {
            [0, 1].map(|number| if number < count { take(len) } else { std::ptr::null_mut() })
        };
        let mut taken = 0;
        let mut take = |len: usize| {
            taken += len;
            first.wrapping_add(taken - len)
        };
        let parts = ScratchPointers {
            row,
            plane,
            y: take(PLACES * plane),
            term_y: take(ROWS_PER_BLOCK * plane),
            x: take(PLACES * row),
            term_x: take(ROWS_PER_BLOCK * row),
            fluxes: take(row + 2 * WIDEST).wrapping_add(WIDEST),
            increments: take(row),
            clean: several(P::PRESSURES, row, &mut take),
            adapted: several(P::MIXING, row, &mut take),
            b: take(expanded(columns + TAPS)),
            kappa: take(expanded(columns)),
            mixing: several(P::MIXING, expanded(columns), &mut take),
            few: take(expanded(2 * ROWS_PER_BLOCK + 1)),
        };
        (parts, taken)
    }
}

impl<P: Policy> Scratch<P> {
    /// Returns the bytes that [`Scratch::new`] allocates.
    pub fn bytes(geometry: &Geometry, storage: Storage) -> u64 {
        let (columns, len) = (geometry.partition.columns(), geometry.partition.ends.len);
        Buffer::bytes_of(ScratchPointers::new::<P>(columns, len, storage, std::ptr::null_mut()).1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::coefficients::BulkMaterial;
    use super::*;
    use crate::fd::equation::acoustic1::Acoustic1Propagator;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::one_pass::thread_bytes;

    /// Whatever the number of threads by which the tiles are cut.
    #[test]
    fn bytes_are_what_is_allocated() {
        for (n, pml) in [([1, 1, 1], 8), ([40, 9, 70], 13), ([7, 150, 31], 20)] {
            let grid = Grid { n, h: [10.0; 3] };
            let model = Model::new(grid, vec![2000.0; grid.cells()], None).unwrap();
            for storage in Storage::ALL {
                let c = BulkMaterial::new(&model, pml, storage).unwrap().coefficients(1e-3);
                for threads in [1, 2, 7, 64] {
                    let geometry = Geometry::new(&c, threads);
                    let scratch = Scratch::<Acoustic1Propagator>::new(&geometry, storage).unwrap();
                    assert_eq!(
                        scratch.values.bytes(),
                        thread_bytes::<Acoustic1Propagator>(&c, 1),
                        "{n:?}, {storage:?}, {threads}"
                    );
                }
            }
        }
    }
}
