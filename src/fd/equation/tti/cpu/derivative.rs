//! Staggered derivatives across rows.

use crate::fd::one_pass::rows::{TAPS, derivative};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::Lanes;

/// Loads a vector of a row.
///
/// # Safety
/// As for reading `L::N` values from value `i` of the row on; the processor has the instructions.
#[inline(always)]
pub unsafe fn load<L: Lanes>(row: *const f32, i: usize) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe { L::load(row.wrapping_add(i)) }
}

/// Returns the derivative across rows, between those of taps 3 and 4. The first tap is in `row`, and they are `stride`
/// values apart.
///
/// # Safety
/// As for reading `L::N` values from value `i` of each row on; the processor has the instructions.
#[inline(always)]
pub unsafe fn derivative_across<L: Lanes>(
    c: [L::V; HALF_WIDTH],
    row: *const f32,
    stride: usize,
    i: usize,
) -> L::V {
    let row = row.wrapping_add(i);
    // SAFETY: by the caller's promise.
    unsafe {
        derivative::<L>(
            c,
            &[
                load::<L>(row, 0),
                load::<L>(row, stride),
                load::<L>(row, 2 * stride),
                load::<L>(row, 3 * stride),
                load::<L>(row, 4 * stride),
                load::<L>(row, 5 * stride),
                load::<L>(row, 6 * stride),
                load::<L>(row, 7 * stride),
            ],
        )
    }
}

/// Returns the derivative across the rows of the taps.
///
/// # Safety
/// As of [`derivative_across`].
#[inline(always)]
pub unsafe fn derivative_of<L: Lanes>(c: [L::V; HALF_WIDTH], rows: &[*const f32; TAPS], i: usize) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe {
        derivative::<L>(
            c,
            &[
                load::<L>(rows[0], i),
                load::<L>(rows[1], i),
                load::<L>(rows[2], i),
                load::<L>(rows[3], i),
                load::<L>(rows[4], i),
                load::<L>(rows[5], i),
                load::<L>(rows[6], i),
                load::<L>(rows[7], i),
            ],
        )
    }
}
