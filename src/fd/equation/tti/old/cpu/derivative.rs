//! Staggered derivatives across rows.

use crate::fd::one_pass::rows::derivative;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::Lanes;

/// Loads a vector of a row.
///
/// # Safety
/// As for reading `L::N` values from value `i` of the row on; the processor has the instructions.
#[inline(always)]
pub unsafe fn load<L: Lanes>(row: *const f32, i: usize) -> L::V {
    L::load(row.wrapping_add(i))
}

/// Returns the derivative across rows, between taps 3 and 4.
///
/// # Safety
/// As for reading `L::N` values from each tap on; the processor has the instructions.
#[inline(always)]
pub unsafe fn derivative_across<L: Lanes>(c: [L::V; HALF_WIDTH], tap: impl Fn(usize) -> *const f32) -> L::V {
    derivative::<L>(
        c,
        &[
            L::load(tap(0)),
            L::load(tap(1)),
            L::load(tap(2)),
            L::load(tap(3)),
            L::load(tap(4)),
            L::load(tap(5)),
            L::load(tap(6)),
            L::load(tap(7)),
        ],
    )
}
