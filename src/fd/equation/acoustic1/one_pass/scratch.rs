//! What one thread computes with: slopes that the next rows and planes need, too.

use super::lanes::WIDEST;
use super::rows::{TAPS, TOGETHER};
use super::zones::Ends;
use crate::backend::cpu::Buffer;
use crate::error::Result;

/// What one thread computes with.
pub struct Scratch {
    values: Buffer,
    columns: usize,
    row: usize,
}

/// Planes of slopes along y: those of the taps of [`TOGETHER`] planes, and those that were done together with the last.
pub const PLANES: usize = TAPS + 2 * TOGETHER;

impl Scratch {
    /// For tiles of at most so many rows along x.
    pub fn new(ends: &Ends, columns: usize) -> Result<Scratch> {
        // An odd number of lines from row to row.
        let row = ((ends.len / WIDEST) | 1) * WIDEST;
        let rows = (2 * PLANES + TOGETHER) * columns + 2 * (columns + TAPS + TOGETHER) + TOGETHER + 1;
        let padded = 3 * TOGETHER * (row + 2 * WIDEST);
        let values = Buffer::zeroed(rows * row + padded, "what a thread of a shot computes with")?;
        Ok(Scratch { values, columns, row })
    }
}

/// The parts of a scratch, each with where it begins.
#[derive(Clone, Copy)]
pub struct Rings {
    /// From row to row, from plane to plane, and from row to row of `slopes`.
    pub row: usize,
    pub plane: usize,
    pub padded: usize,
    /// Slopes along y, eliminated and kept: `[index % PLANES][column][z]`.
    pub y: [*mut f32; 2],
    /// Those along x, from four columns before the tile on: `[index][z]`.
    pub x: [*mut f32; 2],
    /// Terms along y: `[plane of those done together][column][z]`.
    pub along_y: *mut f32,
    /// A row for each of those done together: terms along z, and slopes, these with [`WIDEST`] values that stay 0 before and after.
    pub along_z: *mut f32,
    pub slopes: *mut f32,
    /// Velocities at the ends of such rows, with such values too.
    pub ends: [*mut f32; 2],
    /// A row.
    pub clean: *mut f32,
}

impl Rings {
    pub fn new(scratch: &mut Scratch) -> Rings {
        let Scratch { values, columns, row } = scratch;
        let (columns, row) = (*columns, *row);
        let (plane, padded) = (columns * row, row + 2 * WIDEST);
        let mut next = values.as_mut_ptr();
        let mut take = |len: usize| {
            let begin = next;
            next = next.wrapping_add(len);
            begin
        };
        Rings {
            row,
            plane,
            padded,
            y: [take(PLANES * plane), take(PLANES * plane)],
            x: [take((columns + TAPS + TOGETHER) * row), take((columns + TAPS + TOGETHER) * row)],
            along_y: take(TOGETHER * plane),
            along_z: take(TOGETHER * row),
            clean: take(row),
            slopes: take(TOGETHER * padded).wrapping_add(WIDEST),
            ends: [0, 1].map(|_| take(TOGETHER * padded).wrapping_add(WIDEST)),
        }
    }
}
