//! Buffers of one thread: fluxes that the next planes need, too, and the terms of a plane.

use super::equation::OnePassEquation;
use super::rows::{FLUX_PLANES, TAPS};
use crate::fd::storage::Storage;
use crate::fd::tiled::partition::Partition;
use crate::fd::tiled::tiles::ROWS_PER_BLOCK;
use crate::fd::vector::lanes::WIDEST;

/// Places for fluxes along an axis: those that a term reads before its last. New fluxes replace the
/// oldest, once these are read.
pub const PLACES: usize = FLUX_PLANES;

/// Pointers to the parts of a thread's scratch.
pub struct ScratchPointers {
    /// Values from row to row and from plane to plane of the fluxes along y,
    /// `[index % PLACES][column][z]`.
    pub row: usize,
    pub plane: usize,
    pub y: *mut f32,
    /// Terms along y of a few planes, `[plane][column][z]`.
    pub term_y: *mut f32,
    /// Fluxes of a plane along x, `[index % PLACES][z]`, and terms along x of a few rows.
    pub x: *mut f32,
    pub term_x: *mut f32,
    /// Row of fluxes along z, with a vector of zeros before and after it.
    pub fluxes: *mut f32,
    /// Row of increments along z at the ends.
    pub increments: *mut f32,
    /// Rows of the pressures without the source, and of mixing coefficients near it.
    pub without_source: [*mut f32; 2],
    pub adapted: [*mut f32; 2],
    /// Float32 values of 16-bit coefficients, in the rows of a plane and in a few rows. Empty for
    /// float32 coefficients.
    pub b: *mut f32,
    pub kappa: *mut f32,
    pub mixing: [*mut f32; 2],
    pub few: *mut f32,
}

impl ScratchPointers {
    /// Divides a scratch that fits any tile of any tiling. Also returns its length in values.
    #[inline]
    pub fn new<P: OnePassEquation>(
        tiles: &Partition,
        storage: Storage,
        first: *mut f32,
    ) -> (ScratchPointers, usize) {
        let (columns, len) = (tiles.columns, tiles.ends.len);
        // An odd number of lines puts neighbouring rows in different sets of a cache. Rows of
        // expanded numbers have one value more.
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
            without_source: several(P::PRESSURES, row, &mut take),
            adapted: several(P::MIXING, row, &mut take),
            b: take(expanded(columns + TAPS)),
            kappa: take(expanded(columns)),
            mixing: several(P::MIXING, expanded(columns), &mut take),
            few: take(expanded(2 * ROWS_PER_BLOCK + 1)),
        };
        (parts, taken)
    }
}
